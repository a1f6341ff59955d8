// SPDX-License-Identifier: Apache-2.0

//! Errors of a recording.

use std::{io, path::PathBuf};

use topic_statistics_observe::format::name;

/// Why a recording cannot start or continue, or why a topic cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file exists, or cannot be created.
    #[error("{} cannot be created: {source}", name(&path.display().to_string()))]
    Create {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The disk is full. The file has its end, because the disk space for the end was reserved.
    #[error("the recording has ended because the disk is full; {summary}")]
    DiskFull {
        /// A description of the recorded messages.
        summary: String,
    },
    /// The file cannot be written for another reason. The file has no end.
    #[error("the recording has ended because its file cannot be written: {reason}; {summary}")]
    Write {
        /// Why the file cannot be written.
        reason: String,
        /// A description of the recorded messages.
        summary: String,
    },
    /// The writer's thread panicked.
    #[error("the writer of the recording panicked")]
    WriterPanicked,
    /// A thread cannot be started.
    #[error("the recorder cannot be started: {0}")]
    Thread(io::Error),
    /// The events or the service cannot be created.
    #[error("the reports of the recorder cannot be created: {0}")]
    Reports(#[from] rclrs::RclrsError),
    /// The type support of a type cannot be loaded.
    #[error("{} cannot be recorded: the library of its type cannot be loaded: {reason}", name(message_type))]
    TypeSupport {
        /// The name of the message type.
        message_type: String,
        /// Why the type support cannot be loaded.
        reason: String,
    },
    /// The recording has the maximum number of topics.
    #[error("more than {limit} topics cannot be recorded")]
    TooManyTopics {
        /// The maximum number of topics.
        limit: usize,
    },
}
