// SPDX-License-Identifier: Apache-2.0

//! Bytes that are read forward only, from a file, from memory or from a decoder.

use std::io::{self, BufRead, BufReader, Read, Take};

pub(crate) trait Bytes: Read {
    /// Skips `count` bytes. Returns an error if there are too few bytes.
    fn skip(&mut self, count: u64) -> io::Result<()>
    where
        Self: Sized,
    {
        match io::copy(&mut self.take(count), &mut io::sink())? {
            skipped if skipped == count => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Reads bytes until `bytes` is full. Returns an error if there are too few bytes.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact(bytes)
    }

    /// Returns the next bytes that are already in memory.
    fn buffered(&self) -> &[u8] {
        &[]
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }
}

impl Bytes for &[u8] {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        let skipped = usize::try_from(count).ok().and_then(|count| self.get(count..));
        *self = skipped.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(())
    }
}

impl<R: Read> Bytes for BufReader<R> {
    fn skip(&mut self, mut count: u64) -> io::Result<()> {
        while count > 0 {
            let length = self.fill_buf()?.len();
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let skipped = usize::try_from(count).unwrap_or(usize::MAX).min(length);
            self.consume(skipped);
            count -= skipped as u64;
        }
        Ok(())
    }

    fn buffered(&self) -> &[u8] {
        self.buffer()
    }
}

/// The next bytes of another source, up to a limit.
impl<B: Bytes> Bytes for Take<&mut B> {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        let left = self.limit().checked_sub(count).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.get_mut().skip(count)?;
        self.set_limit(left);
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let left = self.limit().checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.get_mut().fill(bytes)?;
        self.set_limit(left);
        Ok(())
    }

    fn buffered(&self) -> &[u8] {
        let bytes = self.get_ref().buffered();
        &bytes[..usize::try_from(self.limit()).unwrap_or(usize::MAX).min(bytes.len())]
    }
}
