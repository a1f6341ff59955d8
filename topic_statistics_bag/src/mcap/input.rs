// SPDX-License-Identifier: Apache-2.0

//! Reads the bytes of a file or of a chunk. In a file, skipped bytes are usually not read at all.

use std::io::{self, BufReader, Read, Seek, SeekFrom, Take};

use crate::bytes::Bytes;

/// The length of the magic bytes at the start and at the end of a file.
pub(super) const MAGIC: u64 = 8;
/// The length of a record's header, which has the kind of the record and the length of its body.
pub(super) const HEAD: u64 = 9;

/// Returns the kind of a record, and the length of its body.
pub(super) fn head(bytes: &[u8; HEAD as usize]) -> (u8, u64) {
    let [kind, length @ ..] = bytes;
    (*kind, u64::from_le_bytes(*length))
}

/// A file, up to the length that the file has when it is opened. Bytes that are added later are not read.
pub(super) struct Input<R> {
    reader: BufReader<R>,
    position: u64,
    len: u64,
}

impl<R: Read + Seek> Input<R> {
    /// The size of the read buffer, in bytes. After a skip, the whole buffer is filled again. With a buffer larger than
    /// an image message, nothing would be saved by skipping such messages.
    const BUFFER: usize = 32 * 1024;

    pub(super) fn new(mut file: R) -> io::Result<Self> {
        let len = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Self { reader: BufReader::with_capacity(Self::BUFFER, file), position: 0, len })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes up to the end of the file.
    pub(super) fn left(&self) -> u64 {
        self.len.saturating_sub(self.position)
    }

    pub(super) fn seek(&mut self, to: u64) -> io::Result<()> {
        match i64::try_from(i128::from(to) - i128::from(self.position)) {
            Ok(by) => self.reader.seek_relative(by)?,
            Err(_) => {
                self.reader.seek(SeekFrom::Start(to))?;
            }
        }
        self.position = to;
        Ok(())
    }

    /// Returns the bytes from the current position to `end`, which is an offset in the file.
    pub(super) fn until(&mut self, end: u64) -> Take<&mut Self> {
        let left = end.min(self.len).saturating_sub(self.position);
        self.take(left)
    }
}

impl<R: Read + Seek> Read for Input<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(bytes)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl<R: Read + Seek> Bytes for Input<R> {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        self.seek(self.position + count)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn buffered(&self) -> &[u8] {
        self.reader.buffer()
    }
}

/// The content of a chunk, with its checksum. The content ends after the length that the header of the chunk says, even
/// if the decoder returns more bytes.
pub(super) struct Summed<R> {
    pub(super) inner: R,
    /// The number of remaining bytes, according to the header of the chunk.
    pub(super) left: u64,
    pub(super) sum: crc32fast::Hasher,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        let read = self.inner.read(&mut bytes[..most])?;
        self.left -= read as u64;
        self.sum.update(&bytes[..read]);
        Ok(read)
    }
}
