// SPDX-License-Identifier: Apache-2.0

//! The data of a message. The data are serialized, and may be compressed by rosbag2 (`--compression-mode message`).

use std::io::{self, BufRead, BufReader, Read, Take};

use zstd::{stream::read::Decoder, zstd_safe};

use crate::{bytes::Bytes, decompressed::ZSTD, stamp::Layout};

/// The properties of a message's data that the statistics need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Data {
    /// The size before compression, in bytes. 0 if the size does not fit into 32 bits.
    pub(crate) size: u32,
    /// The header stamp in nanoseconds of Unix time. 0 if the message has no header, or if the stamp cannot be read.
    pub(crate) header: i64,
}

impl Data {
    /// The content of a compressed message is read up to this size, in bytes.
    const MAX_CONTENT: u64 = 1 << 28;

    /// Returns data of this length whose stamp is unknown.
    pub(crate) fn of_length(length: u64) -> Self {
        Self { size: u32::try_from(length).unwrap_or(0), header: 0 }
    }

    /// Reads the beginning of data that are serialized as CDR. `length` is the length of the data in the file. If data
    /// cannot be decompressed, their size is `length`, and they have no stamp.
    pub(crate) fn read(bytes: &mut impl Bytes, length: u64, layout: &Option<Layout>) -> Self {
        let unstamped = Self::of_length(length);
        let Some(left) = length.checked_sub(4) else { return unstamped };
        let Ok(first) = bytes.array() else { return unstamped };
        // Uncompressed data never begin with these bytes, because the first byte of a CDR encapsulation header is 0.
        if first == ZSTD {
            return Self::decompress(bytes.take(left), layout).unwrap_or(unstamped);
        }
        let header = layout.as_ref().and_then(|layout| layout.read(first, bytes)).unwrap_or(0);
        Self { header, ..unstamped }
    }

    /// Decompresses a zstd frame whose first four bytes have already been read.
    fn decompress(mut bytes: Take<&mut impl Bytes>, layout: &Option<Layout>) -> Option<Self> {
        /// The largest header of a zstd frame, in bytes.
        const HEAD: usize = 18;
        const BUFFER: usize = 4096;
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&ZSTD);
        let length = 4 + bytes.limit().min(HEAD as u64 - 4) as usize;
        bytes.fill(&mut head[4..length]).ok()?;
        let head = &head[..length];
        let size = zstd_safe::get_frame_content_size(head).ok()?;
        let frame = BufReader::with_capacity(BUFFER, head.chain(bytes));
        let mut content = Decoder::with_buffer(frame).ok()?.single_frame().take(Self::MAX_CONTENT);
        let stamp = |layout: &Layout| layout.read(content.array().ok()?, &mut content);
        let header = layout.as_ref().and_then(stamp).unwrap_or(0);
        let Some(size) = size else {
            // A frame that was written as a stream does not contain the size of its content, so the content is
            // decompressed to the end.
            io::copy(&mut content, &mut io::sink()).ok()?;
            let size = Self::MAX_CONTENT - content.limit();
            return (content.limit() > 0).then_some(Self { header, ..Self::of_length(size) });
        };
        Some(Self { header, ..Self::of_length(size) })
    }
}

impl<R: BufRead> Bytes for Take<Decoder<'_, R>> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns 1 MB of data with a header stamp.
    fn serialized() -> Vec<u8> {
        let mut data = vec![0, 1, 0, 0];
        data.extend(7_u32.to_le_bytes());
        data.extend(8_u32.to_le_bytes());
        data.resize(1_000_000, 3);
        data
    }

    fn read(data: &[u8]) -> Data {
        Data::read(&mut &*data, data.len() as u64, &Some(Layout::default()))
    }

    #[test]
    fn short_and_damaged_data_have_no_stamp() {
        let whole = Data { size: 1_000_000, header: 7_000_000_008 };
        assert_eq!(read(&serialized()), whole);
        assert_eq!(read(&zstd::encode_all(&*serialized(), 3).unwrap()), whole);
        assert_eq!(read(&[]), Data::default());
        assert_eq!(read(&[0, 1, 0, 0, 1]), Data { size: 5, header: 0 });
        let mut frame = zstd::encode_all(&*serialized(), 3).unwrap();
        assert_eq!(read(&frame[..4]), Data { size: 4, header: 0 });
        frame.truncate(frame.len() / 2);
        assert_eq!(read(&frame).size as usize, frame.len());
        frame[5..].fill(0xff);
        assert_eq!(read(&frame), Data { size: frame.len() as u32, header: 0 });
    }

    #[test]
    fn a_bomb_is_read_up_to_a_bound() {
        let zeros = io::repeat(0).take(Data::MAX_CONTENT + 1);
        let bomb = zstd::encode_all(zeros, 1).unwrap();
        assert_eq!(read(&bomb).size as usize, bomb.len());
    }
}
