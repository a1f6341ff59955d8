// SPDX-License-Identifier: Apache-2.0

//! Topic statistics of recordings. This crate reads ROS 2 bags without ROS, and computes the same statistics as for a
//! live subscription, for one window after another. The collectors of [`topic_statistics_core`] compute all figures.
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
//! let bag = Bag::open(["drive/"])?;
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
//! The modules process the data in this order, on two threads. Visitors are called on the thread of the caller:
//!
//! ```text
//!  reader:  bag ──▶ mcap, sqlite ──▶ feed ──▶ order ──▶ events
//!                       └── stamp: the header stamps
//!  caller:  events ──▶ session ──▶ topic (the core's recorder) ──▶ Visitor
//!                                    └──▶ BagStatistics
//! ```
//!
//! A figure that is not known is `None` or NaN, never 0. Names are exactly as in the bag, so escape names with
//! [`topic_statistics_core::Escaped`] before you print them. The use of memory is limited even for malicious files.

mod bag;
mod bytes;
pub mod channel_metadata;
pub mod compare;
mod data;
mod decompressed;
mod error;
mod feed;
mod gaps;
mod mcap;
mod message;
mod metadata;
mod options;
mod order;
mod qos;
mod recording;
mod runs;
mod session;
mod sqlite;
mod stamp;
mod topic;

pub use bag::{Bag, BagFile, BagStatistics, Format};
pub use error::{BagError, ChunkFault, Note, NoteKind};
pub use feed::Progress;
pub use options::{BagClock, BagTime, ReadOptions};
pub use recording::{FileTotals, RecordedTopic, RecordingInfo};
pub use session::{TopicWindow, Visitor};
pub use topic::{BagPublisher, Stamps, Topic, METRICS};
