// SPDX-License-Identifier: Apache-2.0

//! Topic Statistics for ROS 2 nodes written in Rust: the age and the period of the messages that a node receives,
//! published once per window on `/statistics`, as rclcpp does for C++ nodes.
//!
//! Statistics are enabled per subscription: call [`NodeStatistics::create_subscription`] instead of
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
//! `ros2 topic echo /statistics` then shows, once per second for each subscription, two
//! `statistics_msgs/msg/MetricsMessage`:
//!
//! | `metrics_source` | `unit` | a sample is | NaN if |
//! |---|---|---|---|
//! | `message_age` | ms | ROS time at the start of the callback less the message's `header.stamp` | the type has no `std_msgs/Header header`, or the stamp is zero |
//! | `message_period` | ms | the time between the starts of two callbacks in one window, on the monotonic clock | the window had fewer than two messages |
//!
//! Each message has the window's average (data type 1), maximum (3), minimum (2), sample count (5) and standard
//! deviation (4), in rclcpp's order. Every window is published. In a window without messages, the sample count is 0,
//! and the other values are NaN. Other [`Metric`]s measure where a message was delayed, lost messages, and silence (no
//! message arrives). [`StatisticsOptions`] enable these metrics.
//!
//! Periods, durations and the lengths of windows are measured on the monotonic clock, so steps of the system clock do
//! not change these values. With `use_sim_time`, ages are in simulated time. After a jump of simulated time, or a step
//! of the system clock, messages with a stamp from before the jump or step have no age.
//!
//! [`NodeStatistics`] also measures publishers ([`create_publisher`](NodeStatistics::create_publisher)) and any code
//! ([`create_stopwatch`](NodeStatistics::create_stopwatch), [`create_counter`](NodeStatistics::create_counter)). A
//! [`StatsExecutor`] measures the callbacks that the executor and its workers run. It also finds which callbacks delay
//! which other callbacks. [`NodeStatisticsOptions`] enable further reports: a table in the node's log, events of lost
//! messages, a service and a file with the totals.
//!
//! A node reads its own statistics through the [`SourceStatistics`] that each handle returns.
//!
//! # Guides
//!
//! How to build: [in a colcon workspace][colcon], or [in your own cargo project][own_cargo_project]. Then:
//!
//! | page | purpose |
//! |---|---|
//! | [Statistics][statistics] | what appears on `/statistics`: fields, metrics, windows, NaN, clocks |
//! | [Distributions][distributions] | percentiles, their error, why to merge and not to average |
//! | [Options][options] | options of a node, a subscription and a publisher; ROS parameters |
//! | [What is late?][late] | from a symptom to its cause: delays, silence |
//! | [What waits?][waiting] | the executor: busy threads, long callbacks, what waits for them |
//! | [Losses][losses] | lost messages: the metric, the event and the service |
//! | [Publishers, stopwatches and counters][code] | how to measure publishers and any code |
//! | [A node's own statistics][own_statistics] | how a node reads its statistics and acts on them |
//! | [Health][health] | what to expect of a topic; `/diagnostics` |
//! | [Errors and warnings][errors] | what each message means, and what to do |
//! | [All pages][docs] | also: signals, the file of totals, the comparison with rclcpp, measurements |
//!
//! [code]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/code.md
//! [colcon]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/colcon.md
//! [distributions]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/distributions.md
//! [errors]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/errors.md
//! [health]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/health.md
//! [late]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/late.md
//! [losses]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/losses.md
//! [options]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/options.md
//! [own_cargo_project]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/own_cargo_project.md
//! [own_statistics]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/own_statistics.md
//! [statistics]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/statistics.md
//! [waiting]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/waiting.md
//! [docs]: https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/README.md
//!
//! # Features
//!
//! - `interfaces`: publishes distributions and events of lost messages, and provides a service with the totals. This
//!   feature is off by default, because it needs the interface package `topic_statistics_interfaces`, which no
//!   distribution of ROS 2 contains. Percentiles need no feature if the node reads them itself, if health conditions
//!   contain them, or if they are written to the log.
//! - `totals_file`: `NodeStatisticsOptions::totals_file` writes the numbers of messages received and lost to a YAML
//!   file when a node ends. This feature is off by default, because it needs a library for temporary files.
//! - `expectation_file`: `NodeStatisticsOptions::expectation_file` compares the node's topics with the expectations in
//!   a YAML file. topic_monitor, bag_statistics and preloaded nodes also read such files. This feature is off by
//!   default, because it needs a YAML parser.
//! - `use_ros_shim`: builds without ROS, from stubs of the ROS interfaces, like the rclrs feature of the same name. Use
//!   this feature only for documentation and `cargo check`: the result does not link.
//!
//! # The way of a message
//!
//! ```text
//! DDS -> rclrs take -> instrumented callback -> collectors -> window -> /statistics, events, service, log, file
//!                      `-- measure ---------'   collector     schedule   report
//! ```
//!
//! The public API starts in `node`, with `options` and `error`. The code in `measure` runs for every message and
//! publication, and reads the values that the statistics need from each message. The package `topic_statistics_core`,
//! which does not depend on ROS, collects the samples, ends the windows on a separate thread (`schedule`), and compares
//! finished windows with conditions (health). `report` has one file for each output. `transport` reads what a
//! middleware reports with a message; `graph` finds publishers that cannot serve a subscription. `executor` is an
//! executor for rclrs. A module imports only from modules that are later in this list: testing, node, report, executor,
//! measure, options, error, graph, transport, interfaces, the core.

#![cfg_attr(docsrs, feature(doc_cfg))] // docs.rs shows which feature an item needs

mod error;
mod executor;
mod graph;
mod interfaces;
mod measure;
mod node;
mod options;
mod report;
#[cfg(has_testing)] // the published crate does not contain this module
#[doc(hidden)]
pub mod testing;
mod transport;

pub use error::StatisticsError;
pub use executor::StatsExecutor;
pub use measure::{
    action_client::{
        StatsActionClient, StatsActionClientState, StatsFeedbackClient, StatsGoalClient,
        StatsGoalClientStream, StatsRequestedGoalClient, StatsResultClient,
    },
    action_server::{
        StatsAcceptedGoal, StatsActionServer, StatsActionServerState, StatsBeginAcceptedGoal,
        StatsCancellingGoal, StatsExecutingGoal, StatsFeedbackPublisher, StatsRequestedGoal,
    },
    callback::{
        InstrumentAsyncCallback, InstrumentCallback, InstrumentWorkerCallback, MessageForm, WithPayload,
    },
    client::{StatsClient, StatsClientState},
    counter::Counter,
    handle::SourceStatistics,
    publisher::{
        StatsDynamicPublisher, StatsDynamicPublisherState, StatsLoanedMessage, StatsPublisher,
        StatsPublisherState,
    },
    service::{StatsService, StatsServiceState, StatsWorkerService},
    stopwatch::{Stopwatch, StopwatchGuard},
    subscription::{StatsSubscription, StatsSubscriptionState, StatsWorkerSubscription},
    timer::{StatsTimer, StatsTimerState, StatsWorkerTimer},
};
pub use node::NodeStatistics;
pub use options::{
    IntoStatsOptions, NodeStatisticsOptions, SourceName, StatisticsOptions, StatsOptions, WithStatistics,
};
/// The `watch` channels of tokio, in the version that [`SourceStatistics::watch`] uses.
pub use tokio::sync::watch;
pub use topic_statistics_core::{
    collector::{Distribution, FirstPeriod},
    AgeSource, CallbackKind, CallbackWait, ClockStep, ExecutorCallback, ExecutorThread, ExecutorWindow,
    Incompatibility, IncompatiblePublisher, LongestCallback, MessageTimes, Metric, PublisherTotals,
    SourceKind, StatisticsState, Summary, Timestamp, TopicTotals, Totals, UnknownMetric, Window,
    WindowStatistics,
};

/// The conditions that a source is expected to meet, and whether the source meets these conditions.
///
/// [`StatisticsOptions::expect`] sets the [`Expectations`](health::Expectations), with
/// [`Conditions`](health::Conditions) as text: `rate=90..110 age.p99<50ms`. [`SourceStatistics::health`] returns the
/// [`Health`](health::Health). `docs/health.md` has the grammar and the rules; `topic_statistics_core` compares the
/// windows with the conditions.
///
/// ```
/// use rclrs_topic_statistics::health::{Conditions, Expectations};
///
/// let conditions: Conditions = "rate=90..110 age.p99<50ms".parse()?;
/// let expectations = Expectations::new().warn_unless(conditions);
/// # Ok::<(), rclrs_topic_statistics::health::ConditionError>(())
/// ```
pub mod health {
    pub use topic_statistics_core::{
        condition::{Condition, ConditionError, Conditions},
        health::{Cause, Expectations, Health, Level, Missing, Silence},
    };
    #[cfg(feature = "expectation_file")]
    pub use topic_statistics_core::{
        expectation_file::{ExpectationFile, FileError},
        pattern::Namespace,
    };
}

/// Compiles the examples of these documentation pages as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/code.md")]
#[doc = include_str!("../docs/distributions.md")]
#[doc = include_str!("../docs/errors.md")]
#[doc = include_str!("../docs/health.md")]
#[doc = include_str!("../docs/options.md")]
#[doc = include_str!("../docs/own_statistics.md")]
#[doc = include_str!("../docs/rclcpp.md")]
#[doc = include_str!("../docs/signals.md")]
#[doc = include_str!("../docs/waiting.md")]
#[cfg_attr(feature = "interfaces", doc = include_str!("../docs/losses.md"))]
#[cfg_attr(feature = "totals_file", doc = include_str!("../docs/totals_file.md"))]
struct DocumentedExamples;

#[cfg(test)]
mod tests {
    use super::{Metric, SourceKind};

    const KINDS: [(&str, &[SourceKind]); 10] = [
        ("subscriptions", &[SourceKind::Subscription]),
        ("publishers", &[SourceKind::Publisher]),
        ("stopwatches", &[SourceKind::Stopwatch]),
        ("counters", &[SourceKind::Counter]),
        ("executors", &[SourceKind::Executor]),
        ("services", &[SourceKind::Service]),
        ("clients", &[SourceKind::Client]),
        ("timers", &[SourceKind::Timer]),
        ("action servers and clients", &[SourceKind::ActionServer, SourceKind::ActionClient]),
        ("hops, of preloaded nodes", &[SourceKind::Hop]),
    ];

    /// Returns the table rows of all metrics. The rows are grouped by kind of source. A metric that several kinds
    /// measure is in the group of the first of these kinds. The last group has the metrics that no node measures.
    fn table() -> String {
        let (mut table, mut written) = (String::new(), vec![]);
        let row = |metric: Metric| {
            let of = |kind: SourceKind| kind.measures(metric);
            let end = match (of(SourceKind::ActionServer), of(SourceKind::ActionClient)) {
                (true, false) => "of servers: ",
                (false, true) => "of clients: ",
                _ => "",
            };
            let [name, unit, help, high] = [metric.name(), metric.unit(), metric.help(), metric.high()];
            let is_one = !metric.has_distribution() && metric != Metric::Busy;
            let once = if is_one { "; one value per window" } else { "" };
            format!("| `{name}` | {unit} | {end}{help}{once} | {high} | {} |\n", metric.when_nan())
        };
        for (name, kinds) in KINDS {
            let of_kinds = |metric: &&Metric| kinds.iter().any(|kind| kind.measures(**metric));
            let (known, new): (Vec<Metric>, Vec<Metric>) =
                Metric::ALL.iter().filter(of_kinds).partition(|metric| written.contains(*metric));
            let known: Vec<_> = known.iter().map(|metric| format!("`{metric}`")).collect();
            let also = if known.is_empty() { String::new() } else { format!("also {}", known.join(", ")) };
            table += &format!("| **{name}** | | {also} | | |\n");
            table.extend(new.iter().map(|metric| row(*metric)));
            written.extend(new);
        }
        table += "| **[`topic_monitor --services`](topic_monitor.md#services-and-actions)** | | | | |\n";
        table
            .extend(Metric::ALL.iter().filter(|metric| !written.contains(metric)).map(|metric| row(*metric)));
        table
    }

    /// With the environment variable `BLESS=1`, this test writes the table into `docs/statistics.md`.
    #[test]
    fn docs_have_the_table_of_metrics() {
        const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/statistics.md");
        const HEAD: &str =
            "| `metrics_source` | unit | one sample | a high value means | no sample |\n|---|---|---|---|---|\n";
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (before, rows) = page.split_once(HEAD).expect(HEAD);
        let (rows, after) = rows.split_once("\n\n").unwrap();
        let table = table();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(PAGE, format!("{before}{HEAD}{table}\n{after}")).unwrap();
        } else {
            assert_eq!(format!("{rows}\n"), table, "BLESS=1 writes the table of docs/statistics.md");
        }
    }
}
