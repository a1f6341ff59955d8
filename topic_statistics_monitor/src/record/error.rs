// SPDX-License-Identifier: Apache-2.0

//! Why something cannot be recorded.

use std::{io, path::PathBuf};

use topic_statistics_observe::format::name;

/// Why a recording cannot start or go on, or a topic cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file exists, or cannot be created.
    #[error("{} cannot be created: {source}", name(&path.display().to_string()))]
    Create {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The disk has no room. The file was completed with the room that was reserved for its end.
    #[error("the recording has ended because the disk is full; {summary}")]
    DiskFull {
        /// What was recorded.
        summary: String,
    },
    /// Something else prevents writing. The file is not complete.
    #[error("the recording has ended because its file cannot be written: {reason}; {summary}")]
    Write {
        /// Why.
        reason: String,
        /// What was recorded.
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
        /// The type.
        message_type: String,
        /// Why.
        reason: String,
    },
    /// More topics than a recording can have.
    #[error("more than {limit} topics cannot be recorded")]
    TooManyTopics {
        /// How many it can have.
        limit: usize,
    },
}
