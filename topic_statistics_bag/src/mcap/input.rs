// SPDX-License-Identifier: Apache-2.0

//! Reads the bytes of a file or of a chunk. Bytes that are not needed are skipped. In a file, skipped bytes are usually
//! not read at all.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use crate::bytes::Bytes;

/// A file, up to the length that the file has when it is opened. Bytes that are added later are not read.
pub(crate) struct Input<R> {
    reader: BufReader<R>,
    position: u64,
    len: u64,
}

impl<R: Read + Seek> Input<R> {
    /// The size of the read buffer, in bytes. After a skip, the whole buffer is filled again, so the buffer is smaller
    /// than an image.
    const BUFFER: usize = 32 * 1024;

    pub(crate) fn new(mut file: R) -> io::Result<Self> {
        let len = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Self { reader: BufReader::with_capacity(Self::BUFFER, file), position: 0, len })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes up to the end of the file.
    pub(crate) fn left(&self) -> u64 {
        self.len.saturating_sub(self.position)
    }

    pub(crate) fn seek(&mut self, to: u64) -> io::Result<()> {
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
    pub(crate) fn until(&mut self, end: u64) -> Span<'_, R> {
        Span { end: end.min(self.len), input: self }
    }
}

/// The bytes of a file up to an offset.
pub(crate) struct Span<'a, R> {
    input: &'a mut Input<R>,
    end: u64,
}

impl<R: Read + Seek> Span<'_, R> {
    fn left(&self) -> u64 {
        self.end.saturating_sub(self.input.position)
    }
}

impl<R: Read + Seek> Bytes for Span<'_, R> {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        if bytes.len() as u64 > self.left() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.input.reader.read_exact(bytes)?;
        self.input.position += bytes.len() as u64;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        if count > self.left() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.input.seek(self.input.position + count)
    }

    fn buffered(&self) -> &[u8] {
        let bytes = self.input.reader.buffer();
        let length = usize::try_from(self.left()).unwrap_or(usize::MAX).min(bytes.len());
        &bytes[..length]
    }
}

/// The decoders for zstd and lz4 need `Read`.
impl<R: Read + Seek> Read for Span<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left()).unwrap_or(usize::MAX).min(bytes.len());
        let read = self.input.reader.read(&mut bytes[..most])?;
        self.input.position += read as u64;
        Ok(read)
    }
}

/// The decompressed content of a chunk, with its checksum. The content ends at the length that the header of the chunk
/// says, even if the decoder returns more bytes.
pub(crate) struct Content<R> {
    reader: BufReader<Summed<R>>,
}

struct Summed<R> {
    inner: R,
    /// The number of remaining bytes, according to the header of the chunk.
    left: u64,
    sum: crc32fast::Hasher,
}

impl<R: Read> Content<R> {
    const BUFFER: usize = 64 * 1024;

    pub(crate) fn new(inner: R, size: u64) -> Self {
        let summed = Summed { inner, left: size, sum: crc32fast::Hasher::new() };
        Self { reader: BufReader::with_capacity(Self::BUFFER, summed) }
    }

    /// Reads the rest of the content. Returns the checksum of the whole content.
    pub(crate) fn checksum(mut self) -> io::Result<u32> {
        loop {
            let length = self.reader.fill_buf()?.len();
            if length == 0 {
                break;
            }
            self.reader.consume(length);
        }
        let summed = self.reader.into_inner();
        if summed.left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(summed.sum.finalize())
    }
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

impl<R: Read> Bytes for Content<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(bytes)
    }

    fn skip(&mut self, mut count: u64) -> io::Result<()> {
        while count > 0 {
            let length = self.reader.fill_buf()?.len();
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let skipped = usize::try_from(count).unwrap_or(usize::MAX).min(length);
            self.reader.consume(skipped);
            count -= skipped as u64;
        }
        Ok(())
    }

    fn buffered(&self) -> &[u8] {
        self.reader.buffer()
    }
}
