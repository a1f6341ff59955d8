// SPDX-License-Identifier: Apache-2.0

//! Reads chunks. A chunk is a group of records that is usually compressed, with a checksum.

use std::{
    io::{self, BufRead, BufReader, Read, Seek},
    ops::ControlFlow,
};

use mcap::records::op;

use super::{
    input::{head, Input, Summed, HEAD},
    Defined, Reader, State,
};
use crate::{
    bytes::Bytes,
    error::{ChunkFault, NoteKind},
};

/// The header of a chunk: the fields before its records.
struct ChunkHead {
    /// The log times of the earliest and the latest message.
    start: u64,
    end: u64,
    /// The length of the records after decompression, in bytes.
    size: u64,
    /// The checksum of the decompressed records. 0 means that there is no checksum.
    sum: u32,
    compression: Vec<u8>,
    /// The length of the records in the file, in bytes.
    length: u64,
}

impl ChunkHead {
    /// The length of the header without the name of the compression algorithm, in bytes.
    const FIELDS: u64 = 40;
    /// The longest name of a compression algorithm, in bytes.
    const MAX_COMPRESSION: u32 = 64;

    fn read(bytes: &mut impl Bytes) -> Option<Self> {
        let mut time = || bytes.array().map(u64::from_le_bytes).ok();
        let (start, end, size) = (time()?, time()?, time()?);
        let sum = u32::from_le_bytes(bytes.array().ok()?);
        let length = u32::from_le_bytes(bytes.array().ok()?);
        if length > Self::MAX_COMPRESSION || start > end {
            return None;
        }
        let mut compression = vec![0; length as usize];
        bytes.fill(&mut compression).ok()?;
        let length = u64::from_le_bytes(bytes.array().ok()?);
        Some(Self { start, end, size, sum, compression, length })
    }

    /// Returns the length of the whole body of the chunk.
    fn body(&self) -> Option<u64> {
        (Self::FIELDS + self.compression.len() as u64).checked_add(self.length)
    }
}

/// Information about a chunk: the number and the times of messages that are not read because their topics are not
/// selected, and the definitions in the chunk.
#[derive(Default)]
struct Others {
    /// The number of messages that are not read.
    count: u64,
    /// The earliest and the latest log time of the messages that are not read.
    times: Option<(u64, u64)>,
    /// The schemas and channels that the chunk has defined.
    defined: Vec<Defined>,
}

impl<R: Read + Seek> Reader<'_, '_, R> {
    /// The largest content of a compressed chunk that is read, in bytes. Recorders write chunks of only a few
    /// megabytes.
    const MAX_CONTENT: u64 = 1 << 30;

    /// Reads a chunk that starts at `at` and ends at `end`. `end` may be after the end of the file.
    pub(super) fn chunk(&mut self, at: u64, end: u64) -> ControlFlow<()> {
        let is_cut = end > self.input.len();
        let body = end - (at + HEAD);
        let mut times = None;
        let fault = match ChunkHead::read(&mut self.input.until(end)) {
            None if is_cut => return ControlFlow::Continue(()),
            Some(chunk) if chunk.body() == Some(body) => {
                times = i64::try_from(chunk.start).ok().zip(i64::try_from(chunk.end).ok());
                self.state.feed.recording.add_compression(&chunk.compression);
                if let Some((first, last)) = self.skipped(at, &chunk) {
                    self.state.feed.see(first);
                    self.state.feed.see(last);
                    self.state.counts.has_skipped = true;
                    return ControlFlow::Continue(());
                }
                match self.content(&chunk, end, is_cut) {
                    Ok(flow) => return flow,
                    Err(fault) => fault,
                }
            }
            _ => ChunkFault::Content,
        };
        self.state.feed.miss(times);
        self.state.feed.note(NoteKind::Chunk { at, length: body + HEAD, fault });
        ControlFlow::Continue(())
    }

    /// If the chunk has no message to read, and no definition that only a chunk has, and so can be skipped, returns its
    /// first and its last log time.
    fn skipped(&self, at: u64, chunk: &ChunkHead) -> Option<(i64, i64)> {
        let (start, end) = (i64::try_from(chunk.start).ok()?, i64::try_from(chunk.end).ok()?);
        let is_wanted = self.summary.wants_chunk(at) && self.state.feed.wants_times(start, end);
        (self.summary.has_definitions && !is_wanted).then_some((start, end))
    }

    /// Reads the content of a chunk. Its messages are accepted only if the whole content is valid. If the file ends
    /// within the chunk, the messages before the end of the file are accepted.
    fn content(&mut self, chunk: &ChunkHead, end: u64, is_cut: bool) -> Result<ControlFlow<()>, ChunkFault> {
        let Self { input, state, summary } = self;
        state.pending.clear();
        let mut others = Others::default();
        let is_large = chunk.size > Self::MAX_CONTENT;
        let result = match &*chunk.compression {
            b"" if chunk.size != chunk.length => Err(ChunkFault::Content),
            // The checksum cannot be verified here, because the payloads are skipped.
            b"" if summary.has_chunks() && !state.feed.options.verify => {
                state.records(&mut input.until(end), chunk, &mut others)
            }
            b"" => state.summed(input.until(end), chunk, &mut others),
            b"zstd" | b"lz4" if is_large => Err(ChunkFault::Compression),
            b"zstd" => match zstd::stream::read::Decoder::new(input.until(end)) {
                Ok(decoder) => state.summed(decoder, chunk, &mut others),
                Err(_) => Err(ChunkFault::Compression),
            },
            b"lz4" => state.summed(lz4_flex::frame::FrameDecoder::new(input.until(end)), chunk, &mut others),
            other => Err(ChunkFault::UnknownCompression(String::from_utf8_lossy(other).into_owned())),
        };
        match result {
            Err(fault) if !is_cut => {
                others.defined.iter().for_each(|defined| state.definitions.forget(defined));
                Err(fault)
            }
            _ => Ok(state.accept_pending(&others)),
        }
    }

    /// Returns the offset of the next chunk after `at`. Without an index, searches for bytes that look like a chunk.
    pub(super) fn find_chunk(&mut self, at: u64) -> io::Result<Option<u64>> {
        if self.summary.has_chunks() {
            return Ok(self.summary.chunk_behind(at).filter(|chunk| *chunk < self.input.len()));
        }
        find_chunk(&mut self.input, at + 1)
    }
}

impl State<'_, '_> {
    /// The largest number of messages that wait until the checksum of their chunk is verified.
    const MAX_PENDING: usize = 1 << 20;

    /// Reads the records of a chunk, and verifies their checksum.
    fn summed(&mut self, bytes: impl Read, chunk: &ChunkHead, others: &mut Others) -> Result<(), ChunkFault> {
        const BUFFER: usize = 64 * 1024;
        let summed = Summed { inner: bytes, left: chunk.size, sum: crc32fast::Hasher::new() };
        let mut content = BufReader::with_capacity(BUFFER, summed);
        self.records(&mut content, chunk, others)?;
        // Reads the end of the content, because the decoder verifies its own checksum there.
        content.fill_buf().map_err(|_| ChunkFault::Compression)?;
        let sum = content.into_inner().sum.finalize();
        match chunk.sum == 0 || chunk.sum == sum {
            true => Ok(()),
            false => Err(ChunkFault::Checksum),
        }
    }

    fn records<B: Bytes>(
        &mut self,
        bytes: &mut B,
        chunk: &ChunkHead,
        others: &mut Others,
    ) -> Result<(), ChunkFault> {
        let is_plain = chunk.compression.is_empty();
        let fault = |_| if is_plain { ChunkFault::Content } else { ChunkFault::Compression };
        let mut left = chunk.size;
        while left > 0 {
            left = left.checked_sub(HEAD).ok_or(ChunkFault::Content)?;
            let (kind, length) = head(&bytes.array().map_err(fault)?);
            left = left.checked_sub(length).ok_or(ChunkFault::Content)?;
            match kind {
                0 => return Err(ChunkFault::Content),
                op::MESSAGE => {
                    let read = self.message(bytes, length).map_err(fault)?;
                    if !(chunk.start..=chunk.end).contains(&read.log) {
                        return Err(ChunkFault::Content);
                    }
                    match read.message {
                        Some(message) => self.pending.push(message),
                        None => {
                            others.count += 1;
                            let (first, last) = others.times.unwrap_or((read.log, read.log));
                            others.times = Some((first.min(read.log), last.max(read.log)));
                        }
                    }
                    if self.pending.len() >= Self::MAX_PENDING {
                        // These messages are accepted before the checksum is verified. A `Break` can be ignored here:
                        // if the session has ended, a later call returns `Break` again.
                        let _flow = self.accept_pending(&Others::default());
                    }
                }
                op::SCHEMA | op::CHANNEL if length <= Self::MAX_DEFINITION => {
                    let mut body = vec![0; length as usize];
                    bytes.fill(&mut body).map_err(fault)?;
                    let Self { definitions, feed, .. } = self;
                    match definitions.define(kind, &body, feed) {
                        Ok(defined) => others.defined.extend(defined),
                        Err(_) => return Err(ChunkFault::Content),
                    }
                }
                _ => bytes.skip(length).map_err(fault)?,
            }
        }
        Ok(())
    }

    /// Accepts the messages of a chunk that waited for the checksum, and the times of the messages that are not read.
    fn accept_pending(&mut self, others: &Others) -> ControlFlow<()> {
        let (first, last) = others.times.unzip();
        for time in [first, last].into_iter().flatten().filter_map(|time| i64::try_from(time).ok()) {
            self.feed.see(time);
        }
        self.counts.found += others.count + self.pending.len() as u64;
        self.pending.drain(..).try_for_each(|message| self.feed.add_message(message))
    }
}

/// Searches for a chunk from an offset on. A chunk is recognized as a record whose length fields match each other;
/// other bytes are very unlikely to match by chance.
fn find_chunk<R: Read + Seek>(input: &mut Input<R>, from: u64) -> io::Result<Option<u64>> {
    /// The length of a chunk's header with the longest name of a known compression algorithm, in bytes.
    const LOOKS: usize = 53;
    let mut window = vec![0; 1 << 16];
    let mut at = from;
    while at < input.len() {
        input.seek(at)?;
        let length = input.left().min(window.len() as u64) as usize;
        input.until(u64::MAX).fill(&mut window[..length])?;
        let bytes = &window[..length];
        if let Some(place) =
            (0..length).find(|place| bytes[*place] == op::CHUNK && looks_like_chunk(&bytes[*place..]))
        {
            return Ok(Some(at + place as u64));
        }
        match length > LOOKS {
            true => at += (length - LOOKS) as u64,
            false => break,
        }
    }
    Ok(None)
}

fn looks_like_chunk(mut bytes: &[u8]) -> bool {
    let Ok(first) = bytes.array() else { return false };
    let (_, length) = head(&first);
    ChunkHead::read(&mut bytes).is_some_and(|chunk| {
        chunk.body() == Some(length) && matches!(&*chunk.compression, b"" | b"zstd" | b"lz4")
    })
}
