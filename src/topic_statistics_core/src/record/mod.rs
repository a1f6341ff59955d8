// SPDX-License-Identifier: Apache-2.0

//! The code that runs with every message, publication and timed scope.
//!
//! | module | contains |
//! |---|---|
//! | [`code`] | the collectors of stopwatches and counters |
//! | `waiting` | waiting times and durations: [`requests`] of a service, [`calls`] of a client, [`goals`] of an action, [`timer_calls`], [`executions`] of an executor |
//! | `topics` | the [`recorder`] of a subscription, [`publications`] of a publisher, [`hops`] from an input topic to an output topic, what a [`middleware`] reports with a message ([`transport`]) |
//! | `sources` | a [`source`] of statistics with the interface that the scheduler needs, its [name](source_name) and [`options`]; [`windowed`], a collector that can be enabled and that has a lock |
//! | `locks` | the lock that never makes a message wait, the lock that loses no sample, and their queue |
//! | `clocks` | the monotonic [`clock`] with the offset of system time, [`simulated_time`], a filter for stamps from before a clock step, the [`host`] |
//!
//! A module imports only from modules that are later in this list: code, waiting, topics, sources, locks, clocks. Other
//! modules of the core, and programs, use the names that this module re-exports.
//!
//! The path of a message:
//!
//! ```text
//! a taken message -> transport::TransportInfo -> Recorder::record -> CountingLock -> collectors
//! any other sample ----------------------------> Windowed::record -> WaitingLock  -> Collector::accept
//! the schedule ---------------> Source -> WindowedCollector::end_window -> WindowStatistics
//! ```

pub(crate) mod clocks;
pub mod code;
pub(crate) mod locks;
pub(crate) mod sources;
pub(crate) mod topics;
pub(crate) mod waiting;

#[cfg(test)]
pub(crate) use clocks::test_clock;
pub use clocks::{clock, host, simulated_time};
pub use sources::{options, source, source_name, windowed};
pub use topics::{cause, hops, middleware, publications, publisher_hops, recorder, transport};
pub use waiting::{calls, delays, executions, goals, measurements, requests, timer_calls, timer_schedule};
