// SPDX-License-Identifier: Apache-2.0

//! `--record`: writes the watched messages to MCAP files, with the sequence number and the publisher that the
//! middleware reported for each message. With `--last`, the `black_box` writes messages only after a trigger.
//!
//! ```text
//!  callback of a topic ──▶ topic ──▶ queue ──▶ writer (a thread) ──▶ file
//!                            │                    │
//!                            └─────▶ totals ◀─────┴──▶ reports   events, service
//! ```
//!
//! A callback serializes its message, and never waits for the writer. If the queue is full, the message is counted as
//! lost in the recorder. Messages missing in a publisher's sequence numbers are counted as lost in the transport.

mod black_box;
mod definition;
mod file;
mod metadata;
mod options;
mod queue;
mod reports;
mod serialize;
#[cfg(feature = "interfaces")]
mod service;
mod topic;
mod totals;
mod writer;

pub use options::Options;
pub use reports::events_topic;
pub use topic::{RecordedTopic, Recording};

use std::{io, path::PathBuf, sync::Arc, thread::JoinHandle};

use rclrs::{ClockType, Node};
use topic_statistics_core::health::Change;
use topic_statistics_observe::format::name;

use black_box::BlackBox;
use reports::Reports;
use writer::Writer;

pub struct Recorder {
    pub recording: Arc<Recording>,
    writer: Option<JoinHandle<Result<String, RecordError>>>,
    /// `None` without `--last`.
    black_box: Option<Arc<BlackBox>>,
    _service: Option<black_box::Service>,
    _reports: Reports,
}

impl Recorder {
    /// Starts the writer. Without the black box, creates the first file; returns an error if the file exists or cannot
    /// be created.
    pub fn start(node: &Node, options: Options) -> Result<Self, RecordError> {
        // With the black box, the queue is smaller, because the ring of the last messages needs most of the memory.
        let most = if options.black_box.last.is_some() { Options::MAX_CACHE } else { u64::MAX };
        let max_cache = options.max_cache_size.unwrap_or(Options::MAX_CACHE).min(most);
        let clock = Some(node.get_clock()).filter(|clock| matches!(clock.clock_type(), ClockType::RosTime));
        let recording = Arc::new(Recording::new(max_cache, clock));
        let update_rate = options.statistics_update_rate;
        let thread = std::thread::Builder::new().name("recorder".to_owned());
        let (writer, black_box) = match options.black_box.last {
            None => {
                let writer = Writer::new(options, Arc::clone(&recording))?;
                (thread.spawn(move || writer.run()), None)
            }
            Some(last) => {
                let black_box = Arc::new(BlackBox::new(&options, last)?);
                let writer = black_box::Writer::new(options, Arc::clone(&black_box), Arc::clone(&recording))?;
                (thread.spawn(move || writer.run()), Some(black_box))
            }
        };
        let writer = Some(writer.map_err(RecordError::Thread)?);
        let reports = Reports::start(node, &recording, update_rate)?;
        let service = black_box.as_ref().and_then(|black_box| black_box.serve(node));
        Ok(Self { recording, writer, black_box, _service: service, _reports: reports })
    }

    pub fn judged(&self, changes: &[(String, Change)]) {
        if let Some(black_box) = &self.black_box {
            black_box.judged(changes);
        }
    }

    pub fn status(&self) -> Option<String> {
        self.black_box.as_ref()?.status()
    }

    /// Writes the waiting messages and the end of the file. Returns a line that describes what was recorded. Errors if
    /// not all messages could be written. If the disk became full, the files are valid up to that time.
    pub fn finish(mut self) -> Result<String, RecordError> {
        self.recording.close();
        let outcome = self.writer.take().map(JoinHandle::join).and_then(Result::ok);
        outcome.ok_or(RecordError::WriterPanicked)?
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{} cannot be created: {source}", name(&path.display().to_string()))]
    Create { path: PathBuf, source: io::Error },
    /// The disk is full. The file is complete, because the disk space for the end of the file was reserved.
    #[error("the recording has ended because the disk is full; {summary}")]
    DiskFull { summary: String },
    /// The file cannot be written, for another reason than a full disk. The file is incomplete: its end (with the
    /// index) is missing.
    #[error("the recording has ended because its file cannot be written: {reason}; {summary}")]
    Write { reason: String, summary: String },
    #[error("the writer of the recording panicked")]
    WriterPanicked,
    #[error("the recorder cannot be started: {0}")]
    Thread(io::Error),
    /// The events or the service of the recorder cannot be created.
    #[error("the reports of the recorder cannot be created: {0}")]
    Reports(#[from] rclrs::RclrsError),
    #[error("{} cannot be recorded: the library of its type cannot be loaded: {reason}", name(message_type))]
    TypeSupport { message_type: String, reason: String },
    #[error("more than {limit} topics cannot be recorded")]
    TooManyTopics { limit: usize },
}
