// SPDX-License-Identifier: Apache-2.0

//! The summary at the end of a complete file.

use std::io::{self, Read, Seek};

use mcap::records::op;

use super::{
    head::{head, HEAD, MAGIC},
    input::Input,
};
use crate::bytes::Bytes;

/// What the end of a file says.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Whether the file has an end.
    pub(super) is_complete: bool,
    /// Whether there is a summary, and it is not as its checksum says.
    pub(super) is_damaged: bool,
    /// The number of messages.
    pub(super) messages: Option<u64>,
    /// The chunks in the order of their places.
    chunks: Vec<Chunk>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Chunk {
    at: u64,
    /// Whether it has a topic that is read.
    is_wanted: bool,
}

impl Summary {
    /// How many chunks are known. They hold a terabyte.
    const MAX_CHUNKS: usize = 1 << 20;
    /// The largest record of a summary that is read, in bytes.
    const MAX_RECORD: u64 = 16 << 20;

    /// Reads the end of a file. `accept` is called with each record of the summary: its kind and its body.
    pub(super) fn read<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
        mut accept: impl FnMut(u8, &[u8], &mut Self),
    ) -> io::Result<()> {
        const FOOTER: u64 = 20;
        let Some(footer) = input.len().checked_sub(HEAD + FOOTER + MAGIC).filter(|at| *at >= MAGIC) else {
            return Ok(());
        };
        input.seek(footer)?;
        let end: [u8; (HEAD + FOOTER + MAGIC) as usize] = input.until(u64::MAX).array()?;
        let (start, sum) = match &end {
            [op::FOOTER, 20, 0, 0, 0, 0, 0, 0, 0, fields @ ..]
                if fields[FOOTER as usize..] == *mcap::MAGIC =>
            {
                let mut start = [0; 8];
                start.copy_from_slice(&fields[..8]);
                (
                    u64::from_le_bytes(start),
                    u32::from_le_bytes([fields[16], fields[17], fields[18], fields[19]]),
                )
            }
            _ => return Ok(()),
        };
        self.is_complete = true;
        if start == 0 {
            return Ok(());
        }
        self.is_damaged = !(MAGIC..=footer).contains(&start)
            || sum != 0 && checksum(input, start, footer + HEAD + FOOTER - 4)? != sum
            || !self.records(input, start, footer, &mut accept)?;
        if self.is_damaged {
            self.chunks.clear();
            self.messages = None;
        }
        self.chunks.sort_unstable();
        Ok(())
    }

    /// Reads records from `start` to `end`. Returns whether they fill this space.
    fn records<R: Read + Seek>(
        &mut self,
        input: &mut Input<R>,
        start: u64,
        end: u64,
        accept: &mut impl FnMut(u8, &[u8], &mut Self),
    ) -> io::Result<bool> {
        let mut body = vec![];
        input.seek(start)?;
        while input.position() < end {
            if end - input.position() < HEAD {
                return Ok(false);
            }
            let (kind, length) = head(&input.until(end).array()?);
            if length > end - input.position() {
                return Ok(false);
            }
            let next = input.position() + length;
            if length <= Self::MAX_RECORD {
                body.resize(length as usize, 0);
                input.until(next).fill(&mut body)?;
                accept(kind, &body, self);
            }
            input.seek(next)?;
        }
        Ok(true)
    }

    /// Adds a chunk of the index.
    pub(super) fn add_chunk(&mut self, at: u64, is_wanted: bool) {
        if self.chunks.len() < Self::MAX_CHUNKS {
            self.chunks.push(Chunk { at, is_wanted });
        }
    }

    /// Returns whether a chunk has topics that are read, or is not in the index.
    pub(super) fn wants_chunk(&self, at: u64) -> bool {
        let place = self.chunks.partition_point(|chunk| chunk.at < at);
        self.chunks.get(place).is_none_or(|chunk| chunk.at != at || chunk.is_wanted)
    }

    /// Returns the first chunk behind a place.
    pub(super) fn chunk_behind(&self, at: u64) -> Option<u64> {
        self.chunks.get(self.chunks.partition_point(|chunk| chunk.at <= at)).map(|chunk| chunk.at)
    }

    /// Returns whether a chunk starts between two places.
    pub(super) fn has_chunk_between(&self, at: u64, end: u64) -> bool {
        self.chunk_behind(at).is_some_and(|chunk| chunk < end)
    }

    /// Returns whether the index has chunks.
    pub(super) fn has_chunks(&self) -> bool {
        !self.chunks.is_empty()
    }
}

/// Returns the checksum of the bytes from `start` to `end`.
fn checksum<R: Read + Seek>(input: &mut Input<R>, start: u64, end: u64) -> io::Result<u32> {
    let mut sum = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    input.seek(start)?;
    while input.position() < end {
        let length = (end - input.position()).min(buffer.len() as u64) as usize;
        input.until(end).fill(&mut buffer[..length])?;
        sum.update(&buffer[..length]);
    }
    Ok(sum.finalize())
}
