// SPDX-License-Identifier: Apache-2.0

//! The summary at the end of a complete MCAP file.

use std::{
    collections::BTreeMap,
    io::{self, Read, Seek},
};

use mcap::records::op;

use super::input::{head, Input, HEAD, MAGIC};
use crate::bytes::Bytes;

#[derive(Default)]
pub(super) struct Summary {
    /// Whether the file ends with a footer, because its recorder has closed the file.
    pub(super) is_complete: bool,
    /// Whether the summary is damaged, for example because it does not match its checksum.
    pub(super) is_damaged: bool,
    /// The number of messages in the file. `None` if the summary does not contain this number.
    pub(super) messages: Option<u64>,
    /// The number of channels in the file. `None` if the summary does not contain this number.
    pub(super) channels: Option<u32>,
    /// Whether the summary defines all channels of the file. If not, a chunk can define a channel of a later chunk.
    pub(super) has_definitions: bool,
    /// The offsets of the chunks, and whether a chunk can have messages of a topic that is read.
    chunks: BTreeMap<u64, bool>,
}

impl Summary {
    /// The largest number of chunks that are stored. This number of chunks holds about a terabyte.
    const MAX_CHUNKS: usize = 1 << 20;
    /// The largest record in a summary that is read, in bytes.
    const MAX_RECORD: u64 = 16 << 20;

    /// Reads the footer and the summary of a file. Calls `accept` with the kind and the body of each record.
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
        let mut end = input.until(u64::MAX);
        let (kind, length) = head(&end.array()?);
        let start = u64::from_le_bytes(end.array()?);
        end.skip(8)?; // the start of the summary offsets
        let sum = u32::from_le_bytes(end.array()?);
        if (kind, length) != (op::FOOTER, FOOTER) || end.array::<8>()?[..] != *mcap::MAGIC {
            return Ok(());
        }
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
            self.channels = None;
        }
        Ok(())
    }

    /// Reads the records from `start` to `end`. Returns whether the last record ends exactly at `end`.
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

    pub(super) fn add_chunk(&mut self, at: u64, is_wanted: bool) {
        if self.chunks.len() < Self::MAX_CHUNKS {
            *self.chunks.entry(at).or_default() |= is_wanted;
        }
    }

    /// Returns whether the chunk at `at` can have messages of topics that are read, or is not in the index.
    pub(super) fn wants_chunk(&self, at: u64) -> bool {
        self.chunks.get(&at).is_none_or(|is_wanted| *is_wanted)
    }

    /// Returns the offset of the first chunk after `at`.
    pub(super) fn chunk_behind(&self, at: u64) -> Option<u64> {
        self.chunks.range(at.saturating_add(1)..).next().map(|(chunk, _)| *chunk)
    }

    /// Returns whether a chunk starts between `at` and `end`, both exclusive.
    pub(super) fn has_chunk_between(&self, at: u64, end: u64) -> bool {
        self.chunk_behind(at).is_some_and(|chunk| chunk < end)
    }

    pub(super) fn has_chunks(&self) -> bool {
        !self.chunks.is_empty()
    }
}

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
