// SPDX-License-Identifier: Apache-2.0

//! The data of a message. The data are serialized, and may be compressed by rosbag2 (`--compression-mode message`).

use std::io::{self, BufRead, BufReader, Read};

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

/// The position of the header stamp in serialized data. `None` if there is no header, or the position is unknown.
pub(crate) type HeaderLayout = Option<Layout>;

impl Data {
    /// Reads the beginning of data that are serialized as CDR. `length` is the length of the data in the file. If data
    /// cannot be decompressed, their size is `length`, and they have no stamp.
    pub(crate) fn read(bytes: &mut impl Bytes, length: u64, layout: &HeaderLayout) -> Self {
        let size = u32::try_from(length).unwrap_or(0);
        let Some(left) = length.checked_sub(4) else { return Self { size, header: 0 } };
        let Ok(first) = bytes.array() else { return Self { size, header: 0 } };
        let mut begun = Begun { first, at: 0, rest: bytes, left };
        // Uncompressed data never begin with these bytes, because the first byte of a CDR encapsulation header is 0.
        if first == ZSTD {
            return Self::decompress(begun, layout).unwrap_or(Self { size, header: 0 });
        }
        Self { size, header: header(&mut begun, layout) }
    }

    fn decompress(begun: Begun<'_, impl Bytes>, layout: &HeaderLayout) -> Option<Self> {
        /// The size of the read buffer, in bytes. The header of a zstd frame fits into it.
        const BUFFER: usize = 4096;
        let mut reader = BufReader::with_capacity(BUFFER, begun);
        let size = zstd_safe::get_frame_content_size(reader.fill_buf().ok()?).ok()?;
        let decoder = Decoder::with_buffer(reader).ok()?.single_frame();
        let mut content = Content { decoder, read: 0 };
        let header = header(&mut content, layout);
        // A frame that was written as a stream does not contain the size of its content.
        let size = size.or_else(|| content.size().ok())?;
        Some(Self { size: u32::try_from(size).unwrap_or(0), header })
    }
}

fn header(bytes: &mut impl Bytes, layout: &HeaderLayout) -> i64 {
    layout.as_ref().and_then(|layout| layout.read(bytes)).unwrap_or(0)
}

/// A source of bytes whose first four bytes were already read, and can be read again.
struct Begun<'a, B> {
    first: [u8; 4],
    /// How many of the first four bytes were read again.
    at: usize,
    rest: &'a mut B,
    /// The number of bytes after the first four bytes that are not read yet.
    left: u64,
}

impl<B> Begun<'_, B> {
    /// Copies the first four bytes, without the bytes that were already read again. Returns the number of copied bytes.
    fn of_first(&mut self, bytes: &mut [u8]) -> usize {
        let count = bytes.len().min(self.first.len() - self.at);
        bytes[..count].copy_from_slice(&self.first[self.at..self.at + count]);
        self.at += count;
        count
    }
}

impl<B: Bytes> Bytes for Begun<'_, B> {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let count = self.of_first(bytes);
        if count < bytes.len() {
            self.rest.fill(&mut bytes[count..])?;
        }
        Ok(())
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        let of_first = count.min((self.first.len() - self.at) as u64);
        self.at += of_first as usize;
        self.rest.skip(count - of_first)
    }
}

/// The zstd decoder needs `Read`.
impl<B: Bytes> Read for Begun<'_, B> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let of_first = self.of_first(bytes);
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - of_first);
        self.rest.fill(&mut bytes[of_first..of_first + count])?;
        self.left -= count as u64;
        Ok(of_first + count)
    }
}

/// The decompressed content of a zstd frame.
struct Content<R> {
    decoder: R,
    read: u64,
}

impl<R: Read> Content<R> {
    /// The largest content that is read, in bytes.
    const MAX: u64 = 1 << 28;

    /// Reads the rest of the content. Returns the size of the whole content, or an error if it is too large or damaged.
    fn size(mut self) -> io::Result<u64> {
        let left = Self::MAX.saturating_sub(self.read);
        match io::copy(&mut (&mut self.decoder).take(left), &mut io::sink())? {
            count if count < left => Ok(self.read + count),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl<R: Read> Bytes for Content<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.decoder.read_exact(bytes)?;
        self.read += bytes.len() as u64;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        if count > Self::MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let skipped = io::copy(&mut (&mut self.decoder).take(count), &mut io::sink())?;
        self.read += skipped;
        if skipped == count {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

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
        let zeros = io::repeat(0).take(Content::<&[u8]>::MAX + 1);
        let bomb = zstd::encode_all(zeros, 1).unwrap();
        assert_eq!(read(&bomb).size as usize, bomb.len());
    }
}
