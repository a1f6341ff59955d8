// SPDX-License-Identifier: Apache-2.0

//! Reads MCAP files.
//!
//! A file is read record by record, and chunks are decompressed as streams, so the use of memory does not depend on the
//! lengths that the file claims. A message is used only if its whole chunk matches the checksum and the times of the
//! chunk. The summary at the end of a complete file says which chunks can be skipped, and where the next chunk is after
//! damaged bytes. Without a summary, the reader searches the file for the next chunk.

mod chunk;
mod input;
mod summary;

use std::{
    collections::HashMap,
    io::{self, Read, Seek},
    ops::ControlFlow,
};

use mcap::{
    records::{op, Record},
    McapResult,
};
use topic_statistics_observe::recorded::OFFERED_QOS;

use crate::{
    bytes::Bytes,
    channel_metadata::Publisher,
    error::NoteKind,
    feed::{Channel, ChannelDefinition, Feed},
    message::Message,
    recording::RecordingInfo,
    stamp::HeaderStamp,
};
use input::{head, Input, HEAD, MAGIC};
use summary::Summary;

/// Reads a file into the feed. After an error, the feed has the messages before the error.
pub(crate) fn read<R: Read + Seek>(file: R, feed: &mut Feed<'_>) -> io::Result<ControlFlow<()>> {
    let mut input = Input::new(file)?;
    let mut definitions = Definitions::default();
    let mut summary = Summary::default();
    summary.read(&mut input, |kind, body, summary| match kind {
        op::CHUNK_INDEX => {
            if let Ok(Record::ChunkIndex(index)) = mcap::parse_record(kind, body) {
                let mut channels = index.message_index_offsets.keys();
                let is_wanted = index.message_index_offsets.is_empty()
                    || channels.any(|id| definitions.get(*id).is_none_or(|channel| channel.is_some()));
                summary.add_chunk(index.chunk_start_offset, is_wanted);
            }
        }
        op::STATISTICS => {
            if let Ok(Record::Statistics(statistics)) = mcap::parse_record(kind, body) {
                summary.messages = Some(statistics.message_count);
                summary.channels = Some(statistics.channel_count);
            }
        }
        // If a writer leaves the schemas out of the summary, the channel is ignored here, because a chunk defines the
        // channel and its schema later.
        op::CHANNEL if !definitions.has_schema_of(body) => {}
        _ => {
            // A damaged definition is ignored here. The damage is reported when the record is read outside the summary.
            let _damaged = definitions.define(kind, body, feed);
        }
    })?;
    if summary.is_damaged {
        feed.note(NoteKind::Summary);
    }
    summary.has_definitions =
        summary.channels.is_some_and(|channels| definitions.count() >= channels as usize);
    let counts = Counts::default();
    let state = State { feed, definitions, pending: vec![], counts };
    let mut reader = Reader { input, summary, state };
    let flow = reader.run()?;
    let Counts { unknown_channel, invalid_time, found, has_skipped } = reader.state.counts;
    let summary = reader.summary.messages;
    if unknown_channel > 0 {
        feed.note(NoteKind::UnknownChannel { messages: unknown_channel });
    }
    if invalid_time > 0 {
        feed.note(NoteKind::InvalidTime { messages: invalid_time });
    }
    if let Some(summary) = summary.filter(|summary| *summary != found && !has_skipped && flow.is_continue()) {
        feed.note(NoteKind::Count { summary, found });
    }
    Ok(flow)
}

/// Returns the first and the last log time of a file. `None` if the file has no message. If the file has no summary,
/// the first time is also returned as the last time.
pub(crate) fn times<R: Read + Seek>(file: R) -> io::Result<Option<(i64, i64)>> {
    /// The largest number of records that are read to find the first message or chunk.
    const RECORDS: usize = 1 << 17;
    let mut input = Input::new(file)?;
    let (mut summary, mut first, mut last) = (Summary::default(), None, None);
    summary.read(&mut input, |kind, body, _| {
        if let (op::STATISTICS, Ok(Record::Statistics(statistics))) = (kind, mcap::parse_record(kind, body)) {
            let has_times = statistics.message_count > 0;
            first = has_times.then_some(statistics.message_start_time);
            last = has_times.then_some(statistics.message_end_time);
        }
    })?;
    input.seek(MAGIC)?;
    for _ in 0..RECORDS {
        if first.is_some() || input.left() < HEAD {
            break;
        }
        let (kind, length) = head(&input.until(u64::MAX).array()?);
        let end = input.position().saturating_add(length);
        let place = match kind {
            op::CHUNK => 0,
            op::MESSAGE => 6, // the time follows the channel (2 bytes) and the sequence number (4 bytes)
            _ => {
                if end > input.len() {
                    break;
                }
                input.seek(end)?;
                continue;
            }
        };
        let mut record = input.until(end);
        let time = record.skip(place).and_then(|()| record.array());
        first = time.ok().map(u64::from_le_bytes);
        break;
    }
    let valid = |time: u64| i64::try_from(time).ok();
    let first = first.and_then(valid);
    Ok(first.map(|first| (first, last.and_then(valid).unwrap_or(first))))
}

#[derive(Default)]
struct Definitions {
    schemas: HashMap<u16, Schema>,
    /// The channels by identifier. The outer `None`: the channel is not defined. The inner `None`: its topic is not
    /// read.
    channels: Vec<Option<Option<Channel>>>,
}

struct Schema {
    name: String,
    encoding: String,
    stamp: HeaderStamp,
}

/// The identifier of the schema or the channel that a record has defined.
enum Defined {
    Schema(u16),
    Channel(u16),
}

impl Definitions {
    /// The largest number of schemas. The types of further schemas are unknown.
    const MAX_SCHEMAS: usize = 4096;

    /// Returns a channel. The outer `None`: the channel is not defined. The inner `None`: its topic is not read.
    fn get(&self, id: u16) -> Option<&Option<Channel>> {
        self.channels.get(usize::from(id))?.as_ref()
    }

    /// Returns the number of channels that are defined.
    fn count(&self) -> usize {
        self.channels.iter().flatten().count()
    }

    /// Returns whether the schema of a channel is already defined, or the channel has no schema.
    fn has_schema_of(&self, body: &[u8]) -> bool {
        let Ok(Record::Channel(channel)) = mcap::parse_record(op::CHANNEL, body) else { return true };
        channel.schema_id == 0 || self.schemas.contains_key(&channel.schema_id)
    }

    /// Adds the definition in a record. Ignores records of other kinds, and identifiers that are already defined,
    /// because a repeated definition has the same content.
    fn define(&mut self, kind: u8, body: &[u8], feed: &mut Feed<'_>) -> McapResult<Option<Defined>> {
        match mcap::parse_record(kind, body)? {
            Record::Schema { header, data } => {
                if self.schemas.contains_key(&header.id) || self.schemas.len() >= Self::MAX_SCHEMAS {
                    return Ok(None);
                }
                let text = String::from_utf8_lossy(&data);
                let stamp = HeaderStamp::find(&header.name, &header.encoding, &text);
                let schema = Schema { name: header.name, encoding: header.encoding, stamp };
                self.schemas.insert(header.id, schema);
                Ok(Some(Defined::Schema(header.id)))
            }
            Record::Channel(channel) => {
                let place = usize::from(channel.id);
                if self.channels.len() <= place {
                    self.channels.resize(place + 1, None);
                }
                if self.channels[place].is_some() {
                    return Ok(None);
                }
                let schema = self.schemas.get(&channel.schema_id);
                let definition = ChannelDefinition {
                    topic: &channel.topic,
                    message_type: schema.map(|schema| &*schema.name),
                    encoding: schema.map_or("", |schema| &schema.encoding),
                    stamp: schema.map_or(HeaderStamp::Unknown, |schema| schema.stamp.clone()),
                    is_cdr: channel.message_encoding == "cdr",
                    publisher: Publisher::of_metadata(&channel.metadata),
                    offered_qos: channel.metadata.get(OFFERED_QOS).map_or("", |qos| &**qos),
                };
                self.channels[place] = Some(feed.add_channel(definition));
                Ok(Some(Defined::Channel(channel.id)))
            }
            _ => Ok(None),
        }
    }

    fn forget(&mut self, defined: &Defined) {
        match defined {
            Defined::Schema(id) => drop(self.schemas.remove(id)),
            Defined::Channel(id) => self.channels[usize::from(*id)] = None,
        }
    }
}

struct State<'a, 's> {
    feed: &'a mut Feed<'s>,
    definitions: Definitions,
    /// The messages of the current chunk, which wait until the chunk is verified.
    pending: Vec<Message>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    unknown_channel: u64,
    invalid_time: u64,
    /// The number of valid messages, including messages of topics that are not read.
    found: u64,
    /// Whether a chunk was skipped because it has no message to read.
    has_skipped: bool,
}

struct Reader<'a, 's, R> {
    input: Input<R>,
    summary: Summary,
    state: State<'a, 's>,
}

struct ReadMessage {
    log: u64,
    /// The message. `None` if its topic is not read, or if the message cannot be used.
    message: Option<Message>,
}

impl State<'_, '_> {
    /// The largest definition that is read, in bytes. The definitions of the largest types have about 100 kB.
    const MAX_DEFINITION: u64 = 16 << 20;

    fn message(&mut self, bytes: &mut impl Bytes, length: u64) -> io::Result<ReadMessage> {
        // Most messages are already in the read buffer, and reading them from this buffer is faster.
        let body = usize::try_from(length).ok().and_then(|length| bytes.buffered().get(..length));
        match body {
            Some(mut body) => {
                let read = self.message_of(&mut body, length)?;
                bytes.skip(length)?;
                Ok(read)
            }
            None => self.message_of(bytes, length),
        }
    }

    fn message_of(&mut self, bytes: &mut impl Bytes, length: u64) -> io::Result<ReadMessage> {
        const FIELDS: u64 = 22;
        let mut bytes = bytes.take(length);
        let [c0, c1, s0, s1, s2, s3, times @ ..] = bytes.array::<{ FIELDS as usize }>()?;
        let time = |at: usize| {
            let mut time = [0; 8];
            time.copy_from_slice(&times[at..at + 8]);
            u64::from_le_bytes(time)
        };
        let (log, publish) = (time(0), time(8));
        let Ok(log_time) = i64::try_from(log) else {
            self.counts.invalid_time += 1;
            bytes.skip(bytes.limit())?;
            return Ok(ReadMessage { log, message: None });
        };
        let channel = self.definitions.get(u16::from_le_bytes([c0, c1]));
        self.counts.unknown_channel += u64::from(channel.is_none());
        let message = channel.and_then(Option::as_ref).map(|channel| {
            let data = channel.data(&mut bytes, length - FIELDS);
            Message {
                channel: channel.key,
                sequence: u32::from_le_bytes([s0, s1, s2, s3]),
                size: data.size,
                log: log_time,
                publish: Message::publish_time(publish, log_time),
                header: data.header,
            }
        });
        bytes.skip(bytes.limit())?;
        Ok(ReadMessage { log, message })
    }

    /// Accepts a valid message.
    fn deliver(&mut self, read: &ReadMessage) -> ControlFlow<()> {
        self.counts.found += 1;
        if let Some(message) = read.message {
            return self.feed.add_message(message);
        }
        i64::try_from(read.log).into_iter().for_each(|log| self.feed.see(log));
        ControlFlow::Continue(())
    }
}

impl<R: Read + Seek> Reader<'_, '_, R> {
    /// The number of bytes between two reports of the progress.
    const PROGRESS: u64 = 1 << 19;

    fn run(&mut self) -> io::Result<ControlFlow<()>> {
        let mut reported = 0;
        self.input.seek(MAGIC)?;
        while self.input.left() >= HEAD {
            let at = self.input.position();
            if at.saturating_sub(reported) >= Self::PROGRESS {
                reported = at;
                if self.state.feed.progress(at).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            let (kind, length) = head(&self.input.until(u64::MAX).array()?);
            // A length that is larger than any file comes from damage. Such a length does not show how many bytes are
            // missing.
            let is_record = kind != 0 && length <= i64::MAX as u64;
            if matches!(kind, op::DATA_END | op::FOOTER) {
                if !self.summary.is_complete {
                    self.state.feed.note(NoteKind::Unfinished);
                }
                return Ok(ControlFlow::Continue(()));
            }
            let end = (at + HEAD).saturating_add(length);
            let is_cut = end > self.input.len();
            if !is_record || is_cut || self.summary.has_chunk_between(at, end) {
                if let Some(next) = self.find_chunk(at)? {
                    self.state.feed.miss(None);
                    self.state.feed.note(NoteKind::Skipped { from: at, to: next });
                    self.input.seek(next)?;
                    continue;
                }
                if !is_record {
                    self.state.feed.miss(None);
                    self.state.feed.note(NoteKind::Skipped { from: at, to: self.input.len() });
                    return Ok(ControlFlow::Continue(()));
                }
                self.input.seek(at + HEAD)?;
            }
            let flow = self.record(kind, at, end)?;
            if is_cut {
                self.state.feed.miss(None);
                self.state.feed.note(NoteKind::CutOff { at, missing: end - self.input.len() });
                return Ok(flow);
            }
            if flow.is_break() {
                return Ok(flow);
            }
            self.input.seek(end)?;
        }
        match self.input.left() {
            0 => self.state.feed.note(NoteKind::Unfinished),
            left => {
                self.state.feed.note(NoteKind::CutOff { at: self.input.position(), missing: HEAD - left })
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads the body of a record. The file may end within the record.
    fn record(&mut self, kind: u8, at: u64, end: u64) -> io::Result<ControlFlow<()>> {
        let length = end - (at + HEAD);
        match kind {
            op::CHUNK => return Ok(self.chunk(at, end)),
            _ if end > self.input.len() => {}
            op::MESSAGE => {
                // An error in a message affects only this record.
                match self.state.message(&mut self.input.until(end), length) {
                    Ok(read) => return Ok(self.state.deliver(&read)),
                    Err(_) => {
                        self.state.feed.miss(None);
                        self.state.feed.note(NoteKind::Record { at });
                    }
                }
            }
            op::SCHEMA | op::CHANNEL if length > State::MAX_DEFINITION => {
                self.state.feed.note(NoteKind::TooLarge { at, size: length, limit: State::MAX_DEFINITION });
            }
            op::SCHEMA | op::CHANNEL => {
                let mut body = vec![0; length as usize];
                self.input.until(end).fill(&mut body)?;
                let State { definitions, feed, .. } = &mut self.state;
                if definitions.define(kind, &body, feed).is_err() {
                    self.state.feed.note(NoteKind::Record { at });
                }
            }
            op::METADATA if length <= RecordingInfo::MAX_RECORD => {
                let mut body = vec![0; length as usize];
                self.input.until(end).fill(&mut body)?;
                if let Ok(Record::Metadata(record)) = mcap::parse_record(kind, &body) {
                    let Feed { recording, path, .. } = &mut *self.state.feed;
                    recording.add_metadata(path, &record.name, &record.metadata);
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }
}
