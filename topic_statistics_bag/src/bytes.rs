// SPDX-License-Identifier: Apache-2.0

//! A trait for bytes that are read forward, from a file, from memory or from a decoder.

use std::io::{self, Read};

/// A source of bytes that are read forward only.
pub(crate) trait Bytes {
    /// Reads bytes until `bytes` is full. Returns an error if there are too few bytes.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()>;

    /// Skips `count` bytes. Returns an error if there are too few bytes.
    fn skip(&mut self, count: u64) -> io::Result<()>;

    /// Returns the next bytes that are already in memory.
    fn buffered(&self) -> &[u8] {
        &[]
    }

    /// Reads a fixed number of bytes.
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]>
    where
        Self: Sized,
    {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }
}

/// The next bytes of another source, up to a limit. Reading beyond the limit is an error.
pub(crate) struct Limited<'a, B> {
    bytes: &'a mut B,
    left: u64,
}

impl<'a, B: Bytes> Limited<'a, B> {
    pub(crate) fn new(bytes: &'a mut B, left: u64) -> Self {
        Self { bytes, left }
    }

    /// Skips the remaining bytes up to the limit.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.bytes.skip(self.left)
    }

    fn take(&mut self, count: u64) -> io::Result<()> {
        self.left = self.left.checked_sub(count).ok_or(io::ErrorKind::InvalidData)?;
        Ok(())
    }
}

impl<B: Bytes> Bytes for Limited<'_, B> {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.take(bytes.len() as u64)?;
        self.bytes.fill(bytes)
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        self.take(count)?;
        self.bytes.skip(count)
    }
}

/// Bytes in memory.
impl Bytes for &[u8] {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact(bytes)
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        let skipped = usize::try_from(count).ok().and_then(|count| self.get(count..));
        *self = skipped.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(())
    }
}
