// SPDX-License-Identifier: Apache-2.0

//! Topic statistics of recordings: reads ROS 2 bags without ROS, and yields what a live subscription yields, window by
//! window. Every figure is of the collectors of [`topic_statistics_core`].
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use topic_statistics_bag::{Bag, ReadOptions, TopicWindow, Visitor};
//!
//! struct Print;
//!
//! impl Visitor for Print {
//!     fn window(&mut self, window: &TopicWindow<'_>) -> ControlFlow<()> {
//!         println!("{} {:.1} Hz", window.topic.name(), window.statistics.rate());
//!         ControlFlow::Continue(())
//!     }
//! }
//!
//! let bag = Bag::open(["drive.mcap"])?;
//! let statistics = bag.read(&ReadOptions::new(), &mut Print)?;
//! for topic in &statistics.topics {
//!     println!("{}: {} messages, {:?} lost", topic.name(), topic.messages(), topic.totals().lost);
//! }
//! for note in &statistics.notes {
//!     eprintln!("{note}");
//! }
//! # Ok::<(), topic_statistics_bag::BagError>(())
//! ```
//!
//! The modules follow the way of the data:
//!
//! ```text
//!  bag ──▶ mcap, sqlite ──▶ session ──▶ order ──▶ topic (the core's recorder) ──▶ Visitor
//!              │  stamp: the header stamps          └──▶ BagStatistics
//! ```
//!
//! What is not known is `None` or NaN, never 0: losses without [proof], delays without a publish time, ages without a
//! header that can be found. Names are as the bag has them: write them by [`topic_statistics_core::Escaped`].
//!
//! Memory has bounds, whatever a file says: topics, publishers, messages that wait, records, and the content of chunks.

mod bag;
mod bytes;
pub mod compare;
mod data;
mod decompressed;
mod error;
mod gaps;
mod mcap;
mod message;
mod metadata;
mod options;
mod order;
pub mod proof;
mod qos;
mod recording;
mod runs;
mod session;
mod sqlite;
mod stamp;
mod topic;

pub use bag::{Bag, BagFile, BagStatistics, Format};
pub use error::{BagError, ChunkFault, Note, NoteKind};
pub use options::{BagClock, BagTime, ReadOptions, UnknownClock};
pub use recording::{FileTotals, RecordedTopic, RecordingInfo};
pub use session::{Progress, TopicWindow, Visitor};
pub use topic::{BagPublisher, Stamps, Topic, METRICS};
