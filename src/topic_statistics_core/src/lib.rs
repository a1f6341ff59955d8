// SPDX-License-Identifier: Apache-2.0

//! The core of [`rclrs_topic_statistics`](https://docs.rs/rclrs_topic_statistics), without ROS: everything from a
//! sample to a finished window, and whether the window is as expected.
//!
//! Any program that has messages can use this crate: a client library, a reader of recordings, a simulator. The crate
//! depends on no message type and no middleware. The times, the facts that a middleware reports with a message, and the
//! outputs are plain values and small traits: [`record::clock::Clock`], [`record::transport::Delivered`],
//! [`record::source::Endpoint`], [`schedule::outbox::PublishWindows`], [`schedule::losses::PublishLosses`],
//! [`schedule::scheduler::Reports`].
//!
//! ```text
//! message -> record -> collector -> schedule -> window -> the outputs of a program
//! ```
//!
//! | module | contains |
//! |---|---|
//! | [`metric`], [`metric_set`], [`source_kind`] | values: the metrics, and which metrics a kind of source can measure |
//! | [`summary`], [`distributions`], [`totals`], [`window`] | values: what a window measured, and the messages received and lost |
//! | [`executor`] | values: what the threads of an executor ran in a window |
//! | [`timestamp`] | values: points in time, and steps of a clock |
//! | [`collector`] | arithmetic: samples go in, summaries come out |
//! | [`condition`], [`health`] | conditions on the values of a window, as text; whether a source is as expected |
//! | `expectation_file`, `pattern`, `input` | with the features of these names: a file with the expectations of topics, by names and patterns |
//! | [`record`] | the code that runs with every message, publication and timed scope |
//! | [`schedule`] | when windows end, and which windows wait to be published: a state machine and its thread |
//! | [`header_stamp`] | which field of a message is the header stamp, and what its bytes mean |
//! | [`escape`], [`incompatible`] | names from the network without control characters; publishers that cannot serve a subscription |
//!
//! A module imports only from modules that are later in this list: schedule, record, expectation_file, health, condition, window, totals,
//! distributions, collector, metric_set, metric, source_kind, executor, incompatible, escape, timestamp, summary, mutex,
//! sync, pattern, input.
//!
//! The API of this crate can change with each version. The author of a node needs only `rclrs_topic_statistics`.

/// Implements `Debug` for types that have no fields to show.
macro_rules! opaque_debug {
    ($($name:ident $(<$parameter:ident: $bound:path>)?),+ $(,)?) => {$(
        impl$(<$parameter: $bound>)? std::fmt::Debug for $name$(<$parameter>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+};
}

pub mod collector;
pub mod condition;
pub mod distributions;
pub mod escape;
pub mod executor;
#[cfg(feature = "expectation_file")]
pub mod expectation_file;
pub mod header_stamp;
pub mod health;
pub mod incompatible;
#[doc(hidden)] // for the programs of this project
#[cfg(feature = "expectation_file")]
pub mod input;
pub mod metric;
pub mod metric_set;
#[cfg(all(test, topic_statistics_loom))]
mod model;
pub mod mutex;
#[cfg(feature = "patterns")]
pub mod pattern;
pub mod record;
pub mod schedule;
pub mod source_kind;
pub mod summary;
#[cfg(not(all(test, topic_statistics_loom)))]
mod sync;
#[cfg(all(test, topic_statistics_loom))]
#[path = "sync_loom.rs"]
mod sync;
pub mod timestamp;
pub mod totals;
pub mod window;

pub use escape::Escaped;
pub use executor::{
    CallbackKind, CallbackWait, ExecutorCallback, ExecutorThread, ExecutorWindow, LongestCallback,
};
pub use incompatible::{Incompatibility, IncompatiblePublisher};
pub use metric::{Metric, UnknownMetric};
pub use record::options::StatisticsState;
pub use record::recorder::AgeSource;
pub use source_kind::SourceKind;
pub use summary::Summary;
pub use timestamp::{ClockStep, Timestamp};
pub use totals::{PublisherTotals, TopicTotals, Totals};
pub use window::{MessageTimes, Window, WindowStatistics};
