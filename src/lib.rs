// SPDX-License-Identifier: Apache-2.0

//! Topic Statistics for ROS 2 nodes written in Rust: how old and how regular the messages are that a node receives,
//! published once per window on `/statistics`, as rclcpp does it for C++ nodes.
//!
//! A node opts in per subscription: [`NodeStatistics::create_subscription`] takes the place of
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
//! `ros2 topic echo /statistics` then shows, once a second for each subscription, two `statistics_msgs/msg/MetricsMessage`:
//!
//! | `metrics_source` | `unit` | a sample is | NaN when |
//! |---|---|---|---|
//! | `message_age` | ms | ROS time at the start of the callback, less the message's `header.stamp` | the type has no `std_msgs/Header header`, or the stamp is zero |
//! | `message_period` | ms | the time between the starts of two callbacks of one window, on the monotonic clock | fewer than two messages came in the window |
//!
//! Each has the window's average (data type 1), maximum (3), minimum (2), sample count (5) and standard deviation (4), in
//! rclcpp's order. Every window is published, silent ones too, with NaN and a sample count of 0. A [`Metric`] more tells
//! where a delay arose, what was lost, or how long a topic has been silent: [`TopicStatisticsOptions`] asks for it.
//!
//! Periods, durations and the windows' lengths are on the monotonic clock, so that no step of the system clock spoils them. With
//! `use_sim_time` ages are on simulated time. After a jump of simulated time, or a step of the system clock, messages that are
//! stamped before it have no age.
//!
//! [`NodeStatistics`] measures publishers too ([`create_publisher`](NodeStatistics::create_publisher)), and any code
//! ([`timer`](NodeStatistics::timer), [`counter`](NodeStatistics::counter)). [`NodeStatisticsOptions`] has what else a node tells: a
//! table in its log, and what its subscriptions lost, as an event, by a service, and in a file.
//!
//! A node reads its own statistics by [`latest`](StatsSubscriptionState::latest),
//! [`watch`](StatsSubscriptionState::watch) and [`totals`](StatsSubscriptionState::totals).
//!
//! # The way of a message
//!
//! ```text
//! DDS -> rclrs take -> instrumented callback -> collectors -> (schedule) window -> MetricsMessage -> /statistics
//! ```
//!
//! `callback` wraps what a node's author wrote, for every form that rclrs takes; `probe` reads what there is to read of a
//! message, finds by `stamp` where its type keeps the header stamp, and goes by `middleware` for what the rest means; `recorder` is
//! what it records into, by `contended` without ever waiting, on the times of `clock`; [`collector`] is arithmetic only. `schedule`
//! ends the windows, on a thread of its own, and puts them in the `outbox`; a [`window`] is what both sides of it speak of, and
//! `message` turns it into a `MetricsMessage`. `node` is where a node's author begins, `subscription` what they get. `measured` is what a subscription has
//! in common with a `publisher`, a `timer` and a `counter`; `losses`, `service`, `totals_file` and `table` tell of it elsewhere
//! than on `/statistics`.

#![warn(missing_docs)]

mod callback;
mod clock;
pub mod collector;
mod compatibility;
mod contended;
mod counter;
mod dynamic;
mod error;
mod escape;
mod host;
mod losses;
mod measured;
mod message;
mod middleware;
mod node;
mod options;
mod outbox;
mod parameters;
mod probe;
mod publisher;
mod recorder;
mod schedule;
mod service;
mod simulated_time;
mod stamp;
mod subscription;
mod table;
mod timer;
mod totals;
mod totals_file;
pub mod window;

pub use callback::{
    InstrumentAsyncCallback, InstrumentCallback, InstrumentWorkerCallback, MessageForm, WithPayload,
};
pub use collector::FirstPeriod;
pub use compatibility::{Incompatibility, IncompatiblePublisher};
pub use counter::StatsCounter;
/// The channels by which finished windows are watched, of the tokio version that this library has.
pub use tokio::sync::watch;

pub use error::StatisticsError;
pub use escape::Escaped;
pub use node::NodeStatistics;
pub use options::{
    AgeSource, IntoStatsSubscriptionOptions, NodeStatisticsOptions, SourceName, StatsSubscriptionOptions,
    TopicStatisticsOptions, TopicStatisticsState,
};
pub use publisher::{StatsLoanedMessage, StatsPublisher, StatsPublisherState};
pub use subscription::{StatsSubscription, StatsSubscriptionState};
pub use timer::{StatsTimer, TimerGuard};
pub use totals::{PublisherTotals, TopicTotals, Totals};
pub use window::{MessageTimes, Metric, Summary, UnknownMetric, Window, WindowStatistics};

/// The examples are compiled, so that they work when pasted.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/losses.md")]
struct ReadmeExamples;
