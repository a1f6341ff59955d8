// SPDX-License-Identifier: Apache-2.0

//! Decompresses files that rosbag2 has compressed as a whole (`--compression-mode file`).
//!
//! The content is written to a temporary file, because SQLite and the index of an MCAP file need random access.

use std::{
    fs::File,
    io::{self, BufReader, Read, Write},
    path::Path,
};

use tempfile::{NamedTempFile, TempPath};
use zstd::stream::read::Decoder;

/// The first bytes of data that are compressed with zstd.
pub(crate) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The content of a compressed file, in a temporary file. Dropping this value deletes the temporary file.
pub(crate) struct Decompressed {
    pub(crate) path: TempPath,
    pub(crate) size: u64,
    /// The reason why a part of the content is missing. `None` if the content is complete.
    pub(crate) fault: Option<String>,
    /// Whether the compressed file ends before the end of the zstd frame.
    pub(crate) is_cut: bool,
}

impl Decompressed {
    /// The limit on the size of the content of small files, in bytes.
    const MAX_SIZE: u64 = 1 << 28;
    /// The limit on the content of larger files, as a multiple of the size of the compressed file. Sensor data do not
    /// compress to a hundredth of their size.
    const MAX_RATIO: u64 = 100;

    /// Decompresses a file. With `is_unlimited`, there is no limit on the size of the content.
    pub(crate) fn open(path: &Path, is_unlimited: bool) -> io::Result<Self> {
        let file = File::open(path)?;
        let limit = file.metadata()?.len().saturating_mul(Self::MAX_RATIO).max(Self::MAX_SIZE);
        Self::decompress(file, if is_unlimited { u64::MAX } else { limit })
    }

    fn decompress(file: impl Read, limit: u64) -> io::Result<Self> {
        let mut content = NamedTempFile::new()?;
        let mut decoder = Decoder::new(file)?;
        let (mut size, mut fault, mut is_cut) = (0, None, false);
        let mut bytes = vec![0; 1 << 17];
        while fault.is_none() {
            match decoder.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) if size + count as u64 > limit => {
                    fault = Some(format!("there are more than {limit} bytes: `--unpack-all` reads them"));
                }
                Ok(count) => {
                    content.write_all(&bytes[..count])?;
                    size += count as u64;
                }
                Err(error) => {
                    is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
                    fault = Some(error.to_string());
                }
            }
        }
        Ok(Self { path: content.into_temp_path(), size, fault, is_cut })
    }
}

/// Returns the first bytes of the content of a compressed file, at most `limit` bytes.
pub(crate) fn first_bytes(file: File, limit: u64) -> Vec<u8> {
    let mut first = vec![];
    if let Ok(decoder) = Decoder::with_buffer(BufReader::new(file)) {
        // If the data are damaged, the bytes before the damage are returned.
        let _damaged = decoder.take(limit).read_to_end(&mut first);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_is_decompressed_up_to_the_limit() {
        let bomb = zstd::encode_all(io::repeat(0).take(10_000_000), 1).unwrap();
        let decompressed = Decompressed::decompress(&*bomb, 1_000_000).unwrap();
        assert!((800_000..=1_000_000).contains(&decompressed.size), "{}", decompressed.size);
        assert_eq!(decompressed.path.metadata().unwrap().len(), decompressed.size);
        assert_eq!(
            decompressed.fault.as_deref(),
            Some("there are more than 1000000 bytes: `--unpack-all` reads them")
        );
        let whole = Decompressed::decompress(&*bomb, 10_000_000).unwrap();
        assert_eq!((whole.size, whole.fault), (10_000_000, None));
    }
}
