// SPDX-License-Identifier: Apache-2.0

//! The code that runs with every message, publication and timed scope.
//!
//! | module | contains |
//! |---|---|
//! | [`code`] | the collectors of stopwatches and counters |
//! | `waiting` | what waits and what is waited for: [`requests`] of a service, [`calls`] of a client, [`goals`] of an action, [`timer_calls`], [`executions`] of an executor |
//! | `topics` | the [`recorder`] of a subscription, [`publications`] of a publisher, [`hops`] from one to the other; what a [`middleware`] reports with a message ([`transport`]) |
//! | `sources` | a [`source`] of statistics as the schedule sees it, its [name](source_name) and [`options`]; [`windowed`], a collector behind a switch and a lock |
//! | `locks` | the lock that a message never waits for, the lock that loses no sample, and their queue |
//! | `clocks` | the monotonic [`clock`] with the offset of system time, [`simulated_time`], stamps that a step makes doubtful, the [`host`] |
//!
//! A module imports only from modules that are later in this list: code, waiting, topics, sources, locks, clocks. Other
//! modules of the core, and programs, use the files by their names in this module.
//!
//! The way of a message:
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
pub use waiting::{calls, delays, executions, goals, requests, timer_calls, timer_schedule};
