// SPDX-License-Identifier: Apache-2.0

//! Topic Statistics for ROS 2 nodes written in Rust: the age and the period of the messages that a node receives, published once per
//! window on `/statistics`, as rclcpp does for C++ nodes.
//!
//! A node opts in per subscription: call [`NodeStatistics::create_subscription`] instead of
//! [`create_subscription`](rclrs::NodeState::create_subscription).
//!
//! ```
//! use rclrs::*;
//! use rclrs_topic_statistics::NodeStatistics;
//! use ros_env::sensor_msgs::msg::Imu;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut executor = Context::default_from_env()?.create_basic_executor();
//! let node = executor.create_node("imu_listener")?;
//!
//! let statistics = NodeStatistics::new(&node)?; // one publisher, one thread, for the whole node
//! let imu = statistics.create_subscription("imu".keep_last(10), |message: Imu| {
//!     println!("{:?}", message.angular_velocity);
//! })?;
//! assert_eq!(imu.topic_name(), "/imu");
//!
//! # let spin = SpinOptions::default().timeout(std::time::Duration::from_millis(10));
//! # let _errors = executor.spin(spin);
//! # return Ok(());
//! executor.spin(SpinOptions::default()).first_error()?;
//! # Ok(())
//! # }
//! ```
//!
//! `ros2 topic echo /statistics` then shows, once per second for each subscription, two `statistics_msgs/msg/MetricsMessage`:
//!
//! | `metrics_source` | `unit` | a sample is | NaN if |
//! |---|---|---|---|
//! | `message_age` | ms | ROS time at the start of the callback less the message's `header.stamp` | the type has no `std_msgs/Header header`, or the stamp is zero |
//! | `message_period` | ms | the time between the starts of two callbacks in one window, on the monotonic clock | the window had fewer than two messages |
//!
//! Each message has the window's average (data type 1), maximum (3), minimum (2), sample count (5) and standard deviation (4), in
//! rclcpp's order. Every window is published, silent ones too, with NaN and a sample count of 0. More [`Metric`]s measure where a delay
//! arose, losses, and silence; enable them by [`TopicStatisticsOptions`].
//!
//! Periods, durations and the lengths of windows are measured on the monotonic clock. Steps of the system clock do not change them.
//! With `use_sim_time`, ages are in simulated time. After a jump of simulated time, or a step of the system clock, messages that
//! were stamped before it have no age.
//!
//! [`NodeStatistics`] also measures publishers ([`create_publisher`](NodeStatistics::create_publisher)) and any code
//! ([`timer`](NodeStatistics::timer), [`counter`](NodeStatistics::counter)). [`NodeStatisticsOptions`] enable further reports: a table
//! in the node's log, events of lost messages, a service and a file with the totals.
//!
//! A node reads its own statistics by [`latest`](StatsSubscriptionState::latest), [`watch`](StatsSubscriptionState::watch) and
//! [`totals`](StatsSubscriptionState::totals).
//!
//! # Features
//!
//! - `totals_file`: `NodeStatisticsOptions::totals_file`, which writes the messages received and lost to a YAML file when a node
//!   ends. Off by default, because it needs serde and a YAML library.
//! - `use_ros_shim`: builds without ROS, from stubs of its interfaces, as the feature of the same name of rclrs does. For
//!   documentation and `cargo check` only: the result does not link.
//!
//! # The way of a message
//!
//! ```text
//! DDS -> rclrs take -> instrumented callback -> collectors -> window -> /statistics, events, service, log, file
//!                      `-- measure ---------'   collector     schedule   report
//! ```
//!
//! `node` is where a node's author starts, with `options` and `error`. `measure` runs with every message, publication and timed
//! scope. [`collector`] is arithmetic only. `schedule` ends the windows, on a thread of its own. `report` has one file for each way
//! out. `window`, `totals` and `transport` are the values that these stages share; [`condition`] reads conditions on them, and [`health`]
//! judges by these; `graph` finds publishers that cannot serve a subscription. A module imports only from modules that are later in this
//! list: node, schedule, report, measure, options, health, collector, condition, graph, the values.

pub mod collector;
pub mod condition;
mod error;
mod escape;
mod graph;
pub mod health;
mod interfaces;
mod measure;
mod node;
mod options;
mod report;
mod schedule;
mod sync;
mod totals;
mod transport;
mod window;

pub use collector::FirstPeriod;
pub use error::StatisticsError;
pub use escape::Escaped;
pub use graph::{Incompatibility, IncompatiblePublisher};
pub use measure::{
    callback::{
        InstrumentAsyncCallback, InstrumentCallback, InstrumentWorkerCallback, MessageForm, WithPayload,
    },
    counter::StatsCounter,
    publisher::{StatsLoanedMessage, StatsPublisher, StatsPublisherState},
    subscription::{StatsSubscription, StatsSubscriptionState},
    timer::{StatsTimer, TimerGuard},
};
pub use node::NodeStatistics;
pub use options::{
    AgeSource, IntoStatsSubscriptionOptions, NodeStatisticsOptions, SourceName, StatsSubscriptionOptions,
    TopicStatisticsOptions, TopicStatisticsState,
};
/// The `watch` channels of tokio, in the version that [`StatsSubscriptionState::watch`] uses.
pub use tokio::sync::watch;
pub use totals::{PublisherTotals, TopicTotals, Totals};
pub use window::{MessageTimes, Metric, Summary, UnknownMetric, Window, WindowStatistics};

/// The examples of the documentation are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/code.md")]
#[doc = include_str!("../docs/distributions.md")]
#[doc = include_str!("../docs/errors.md")]
#[doc = include_str!("../docs/health.md")]
#[doc = include_str!("../docs/losses.md")]
#[doc = include_str!("../docs/options.md")]
#[doc = include_str!("../docs/own_statistics.md")]
#[doc = include_str!("../docs/rclcpp.md")]
#[doc = include_str!("../docs/signals.md")]
#[cfg_attr(feature = "totals_file", doc = include_str!("../docs/totals_file.md"))]
struct DocumentedExamples;
