// SPDX-License-Identifier: Apache-2.0

//! Errors of a recording.

use std::{io, path::PathBuf};

use topic_statistics_observe::format::name;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{} cannot be created: {source}", name(&path.display().to_string()))]
    Create { path: PathBuf, source: io::Error },
    /// The disk is full. The file has its end, because the disk space for the end was reserved.
    #[error("the recording has ended because the disk is full; {summary}")]
    DiskFull { summary: String },
    /// The file cannot be written for another reason. The file has no end.
    #[error("the recording has ended because its file cannot be written: {reason}; {summary}")]
    Write { reason: String, summary: String },
    #[error("the writer of the recording panicked")]
    WriterPanicked,
    #[error("the recorder cannot be started: {0}")]
    Thread(io::Error),
    /// The events or the service cannot be created.
    #[error("the reports of the recorder cannot be created: {0}")]
    Reports(#[from] rclrs::RclrsError),
    #[error("{} cannot be recorded: the library of its type cannot be loaded: {reason}", name(message_type))]
    TypeSupport { message_type: String, reason: String },
    #[error("more than {limit} topics cannot be recorded")]
    TooManyTopics { limit: usize },
}
