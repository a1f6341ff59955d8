// SPDX-License-Identifier: Apache-2.0

//! Bytes that are read forward, wherever they are.

use std::io::{self, Read};

/// Bytes that are read forward.
pub(crate) trait Bytes {
    /// Reads bytes until these are filled. Errors if there are fewer.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()>;

    /// Skips that many bytes. Errors if there are fewer.
    fn skip(&mut self, count: u64) -> io::Result<()>;

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

/// The first bytes of something. Reading beyond them is an error.
pub(crate) struct Limited<'a, B> {
    bytes: &'a mut B,
    left: u64,
}

impl<'a, B: Bytes> Limited<'a, B> {
    pub(crate) fn new(bytes: &'a mut B, left: u64) -> Self {
        Self { bytes, left }
    }

    /// Skips what is left.
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
