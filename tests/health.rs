// SPDX-License-Identifier: Apache-2.0

//! Expectations on a real topic: what the node, its watchers and readers of `/diagnostics` are told, and after how many windows.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{
    health::{Cause, Expectations, Health, Level},
    watch, IntoStatsSubscriptionOptions, Metric, NodeStatistics, NodeStatisticsOptions, StatisticsError,
    TopicStatisticsOptions, WindowStatistics,
};
use ros_env::{builtin_interfaces::msg::Time, sensor_msgs::msg::Imu, statistics_msgs::msg::MetricsMessage};
use serde_json::{json, Value};
use test_support::{context, domain, wait_for, Program, Spinning};

const WINDOW: Duration = Duration::from_millis(200);
/// Four and a half windows: five.
const FIRST_WITHIN: Duration = Duration::from_millis(900);

fn options() -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().publish_period(WINDOW)
}

fn expect(warn_unless: &str, error_unless: &str) -> Expectations {
    Expectations::new().warn_unless(warn_unless.parse().unwrap()).error_unless(error_unless.parse().unwrap())
}

/// The changes of a subscription's health, and the windows that the node publishes: none of these is missed, however late it is read.
struct Watched {
    /// Start and stop, in nanoseconds since the epoch.
    windows: Arc<Mutex<Vec<(i64, i64)>>>,
    _statistics: Subscription<MetricsMessage>,
    changes: Arc<Mutex<Vec<Health>>>,
    /// The changes that were waited for.
    seen: usize,
}

/// Collects what a channel receives, until it closes.
fn collect<T: Clone + Send + Sync + 'static>(mut from: watch::Receiver<T>) -> Arc<Mutex<Vec<T>>> {
    let collected = Arc::new(Mutex::new(vec![]));
    let to = Arc::clone(&collected);
    thread::spawn(move || loop {
        match from.has_changed() {
            Ok(true) => to.lock().unwrap().push(from.borrow_and_update().clone()),
            Ok(false) => thread::sleep(Duration::from_millis(2)),
            Err(_) => return,
        }
    });
    collected
}

impl Watched {
    fn new(node: &Node, health: watch::Receiver<Health>) -> Self {
        let windows: Arc<Mutex<Vec<_>>> = Arc::default();
        let to = Arc::clone(&windows);
        let nanoseconds = |time: Time| i64::from(time.sec) * 1_000_000_000 + i64::from(time.nanosec);
        let collect_windows = move |message: MetricsMessage| {
            if message.metrics_source == "message_age" {
                to.lock()
                    .unwrap()
                    .push((nanoseconds(message.window_start), nanoseconds(message.window_stop)));
            }
        };
        let _statistics = node.create_subscription("/statistics".keep_last(2000), collect_windows).unwrap();
        Self { windows, _statistics, changes: collect(health), seen: 0 }
    }

    /// Waits for a change to that level for that reason. Every change on the way to it has to keep the rules.
    fn wait_for(&mut self, level: Level, cause: &str) -> Health {
        let mut found = None;
        wait_for(&format!("{level} because of {cause}"), || {
            let changes = self.changes.lock().unwrap();
            let mut before = self.seen.checked_sub(1).map_or(Level::Ok, |last| changes[last].level);
            for health in &changes[self.seen..] {
                self.seen += 1;
                self.check(before, health);
                before = health.level;
                if health.level == level && health.to_string().contains(cause) {
                    found = Some(health.clone());
                    return true;
                }
            }
            false
        });
        found.unwrap()
    }

    /// Asserts how many windows it took.
    fn check(&self, before: Level, health: &Health) {
        let is_worse = matches!((before, health.level), (Level::Ok, _) | (Level::Warn, Level::Error));
        if !is_worse && matches!(health.cause, Cause::Condition { .. }) {
            return; // the condition may have failed since before
        }
        let stop = health.window.unwrap().stop;
        wait_for("the window", || self.windows.lock().unwrap().last().is_some_and(|window| window.1 >= stop));
        let windows = self.windows.lock().unwrap();
        // (A step of the system clock, which hosts of tests have now and then, leaves a small gap.)
        let is_next = |pair: &[(i64, i64)]| (pair[1].0 - pair[0].1).abs() < WINDOW.as_nanos() as i64 / 2;
        assert!(windows.windows(2).all(is_next), "no window is missed: {windows:?}");
        // The times of the level are those of the clock as it is now.
        let counted = |window: &&(i64, i64)| window.0 >= health.since - 1_000_000 && window.1 <= stop;
        let took = windows.iter().filter(counted).count();
        let promised = match (&health.cause, health.level) {
            (Cause::Condition { .. }, _) => 2,
            (Cause::AsExpected, _) => 3,
            (Cause::Silence | Cause::MessagesAgain, _) => 1, // 3/30 s are less than a window
            (Cause::NoMessageYet, _) => {
                let first = windows[0].0;
                windows.iter().take_while(|window| window.1 - first < FIRST_WITHIN.as_nanos() as i64).count()
                    + 1
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(took, promised, "windows until {}: {health}; {windows:?}", health.level);
    }
}

/// The rclpy process that reads `/diagnostics`.
struct Diagnostics {
    reader: Program,
    last: Value,
}

impl Diagnostics {
    /// Waits for a status. Returns it.
    fn wait_for(&mut self, name: &str, level: Level, message: &str) -> Value {
        let mut found = None;
        wait_for(&format!("{name} with {level} and {message:?} instead of {:#}", self.last.clone()), || {
            while let Some(line) = self.reader.try_read() {
                self.last = serde_json::from_str(&line).unwrap();
                let statuses = self.last["status"].as_array().unwrap();
                found = statuses
                    .iter()
                    .find(|status| {
                        status["name"] == name
                            && status["level"] == level as u8
                            && status["message"].as_str().unwrap().contains(message)
                    })
                    .cloned();
                if found.is_some() {
                    return true;
                }
            }
            false
        });
        found.unwrap()
    }
}

#[test]
fn a_reader_of_diagnostics_is_told_what_is_wrong_after_as_many_windows_as_promised() {
    let domain = domain(0);
    let executor = context(domain, &[]).create_basic_executor();
    let node = executor.create_node(NodeOptions::new("listener").namespace("/r1")).unwrap();
    let node_options = NodeStatisticsOptions::new().topic_statistics(options()).hardware_id("imu_7");
    let statistics = NodeStatistics::with_options(&node, node_options).unwrap();
    let expected = expect("rate>=70 age<100ms lost=0", "rate>=30").first_message_within(FIRST_WITHIN);
    let imu = statistics
        .create_subscription("/imu".keep_last(1).topic_statistics(options().expect(expected)), |_: Imu| {
            // A burst is longer than the queue of one message.
            thread::sleep(Duration::from_millis(1));
        })
        .unwrap();
    let mut watched = Watched::new(&node, imu.health());
    let mut diagnostics =
        Diagnostics { reader: Program::start("diagnostics.py", &[], domain), last: json!(null) };
    let _spinning = Spinning::start(executor);
    const NAME: &str = "listener: /imu";

    // A late start.
    watched.wait_for(Level::Stale, "no message yet");
    let status = diagnostics.wait_for(NAME, Level::Stale, "no message yet, since");
    assert_eq!(status["hardware_id"], "imu_7");
    let mut publisher = Program::start("unhealthy.py", &[], domain);
    watched.wait_for(Level::Warn, "messages again");
    watched.wait_for(Level::Ok, "as expected");
    let status = diagnostics.wait_for(NAME, Level::Ok, "as expected, since");
    let value = |status: &Value, key: &str| -> f64 {
        status["values"][key].as_str().unwrap_or_else(|| panic!("{key}: {status:#}")).parse().unwrap()
    };
    let rate = value(&status, "Actual frequency (Hz)");
    assert!(rate > 0.0 && rate == value(&status, "frame_rate_node"), "{status:#}");
    assert_eq!(value(&status, "Minimum acceptable frequency (Hz)"), 70.0);
    assert_eq!(value(&status, "Latest acceptable timestamp delay:"), 0.1);
    assert!((0.0..100.0).contains(&value(&status, "message_age.average")), "{status:#}");
    assert_eq!(status["values"]["warn_unless"], "rate>=70 age<100ms lost=0");
    assert_eq!(status["values"]["failing"], Value::Null);

    // The rate falls to half, and further, and recovers.
    publisher.send("rate 50");
    let health = watched.wait_for(Level::Warn, "expected at least 70");
    let Cause::Condition { condition, value: rate } = &health.cause else { panic!("{health:?}") };
    assert_eq!((condition.to_string().as_str(), condition.lower_limit()), ("rate>=70", Some(70.0)));
    assert!((0.0..70.0).contains(rate), "{rate}");
    let status = diagnostics.wait_for(NAME, Level::Warn, "Hz, expected at least 70, since");
    assert!(status["values"]["failing"].as_str().unwrap().starts_with("rate>=70 ("), "{status:#}");
    publisher.send("rate 15");
    watched.wait_for(Level::Error, "expected at least 30");
    diagnostics.wait_for(NAME, Level::Error, "Hz, expected at least 30, since");
    publisher.send("rate 100");
    watched.wait_for(Level::Ok, "as expected");
    diagnostics.wait_for(NAME, Level::Ok, "as expected");

    publisher.send("age 0.5");
    watched.wait_for(Level::Warn, "age 50");
    diagnostics.wait_for(NAME, Level::Warn, "ms, expected below 100, since");
    publisher.send("age 0");
    watched.wait_for(Level::Ok, "as expected");

    publisher.send("burst 20");
    watched.wait_for(Level::Warn, "lost");
    let status = diagnostics.wait_for(NAME, Level::Warn, "expected 0, since");
    assert!(value(&status, "total_dropped_frames") > 0.0, "{status:#}");
    publisher.send("burst 1");
    watched.wait_for(Level::Ok, "as expected");

    // The publisher dies and returns.
    publisher.end();
    watched.wait_for(Level::Stale, "no message any more");
    diagnostics.wait_for(NAME, Level::Stale, "no message any more, since");
    let publisher = Program::start("unhealthy.py", &[], domain);
    watched.wait_for(Level::Warn, "messages again");
    watched.wait_for(Level::Ok, "as expected");
    diagnostics.wait_for(NAME, Level::Ok, "as expected");
    publisher.end();
}

/// Starts a node with these ROS arguments.
fn node(number: u32, arguments: &[&str]) -> (Executor, Node) {
    let arguments = [&["--ros-args"], arguments].concat();
    let executor = context(domain(number), &arguments).create_basic_executor();
    let node = executor.create_node("configured").unwrap();
    (executor, node)
}

#[test]
fn an_operator_sets_conditions_while_the_node_runs_and_a_wrong_one_changes_nothing() {
    let (executor, node) = node(1, &["-p", "topic_statistics.warn_unless:=['/imu: lost=0 age.p50<50ms']"]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let other = statistics.create_subscription("other", |_: Imu| ()).unwrap();
    let timer = statistics.timer("call");
    let _spinning = Spinning::start(executor);
    let publisher = Program::start("unhealthy.py", &[], domain(1));
    wait_for("windows", || imu.latest().is_some_and(|window| window.count > 0) && other.latest().is_some());
    let metrics = |window: Option<Arc<WindowStatistics>>| -> Vec<Metric> {
        window.unwrap().metrics.iter().map(|(metric, _)| *metric).collect()
    };
    let default = [Metric::MessageAge, Metric::MessagePeriod];
    assert_eq!(metrics(other.latest()), default, "only what a condition needs is measured in addition");
    assert_eq!(metrics(imu.latest()), [&default[..], &[Metric::PublicationSeqGap]].concat());
    wait_for("a distribution", || imu.latest().unwrap().distribution(Metric::MessageAge).is_some());
    assert!(other.latest().unwrap().distribution(Metric::MessageAge).is_none());

    let mut operator = Program::start("parameters.py", &["/configured"], domain(1));
    let mut set = |name: &str, value: Value| -> (bool, String) {
        let answer = operator.request(&json!(["set", format!("topic_statistics.{name}"), value]).to_string());
        serde_json::from_str(&answer).unwrap()
    };
    for (value, reason) in [
        (
            json!(["rate>=90", "age<fast"]),
            "\"age\" needs a number, such as 90 or 0.5, not \"fast\" (character 5 of \"age<fast\")",
        ),
        (json!(["publishers=1"]), "a node does not count the publishers"),
        (json!(["publish_period<5"]), "a subscription does not measure publish_period"),
        (json!(["lost=0"]), "/configured:/other does not measure publication_seq_gap"),
    ] {
        let (accepted, why) = set("warn_unless", value.clone());
        assert!(!accepted && why.contains(reason), "{value}: {why}");
    }
    assert_eq!(imu.health().borrow().level, Level::Ok);
    let (accepted, why) = set("error_unless", json!(["/imu: rate>=1000", "call: duration.max<1ms"]));
    assert!(accepted, "{why}");
    wait_for("an error", || imu.health().borrow().level == Level::Error);
    assert!(imu.health().borrow().to_string().contains("expected at least 1000, since"));
    wait_for("an error of the timer", || {
        timer.time(|| thread::sleep(Duration::from_millis(5)));
        timer.health().borrow().level == Level::Error
    });
    let (accepted, why) = set("error_unless", json!([""]));
    assert!(accepted, "{why}");
    wait_for("no error", || imu.health().borrow().level != Level::Error);
    assert_eq!(other.health().borrow().cause, Cause::NoMessageYet, "nothing is expected of it");
    publisher.end();
}

#[test]
fn a_wrong_condition_at_the_start_is_an_error_and_a_publisher_can_have_its_own() {
    for (arguments, reason) in [
        (["-p", "topic_statistics.warn_unless:=['rate>=fast']"], "(character 7 of \"rate>=fast\")"),
        (["-p", "topic_statistics.error_unless:=rate>=90"], "it has to be a list of strings"),
    ] {
        let (_executor, node) = node(2, &arguments);
        let error = NodeStatistics::new(&node).err().unwrap();
        assert!(matches!(&error, StatisticsError::InvalidParameter { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(node.count_publishers("/diagnostics").unwrap(), 0, "nothing is created");
    }
    let (executor, node) = node(2, &[]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let expected =
        |conditions: &str| options().expect(Expectations::new().error_unless(conditions.parse().unwrap()));
    for (conditions, reason) in [("lost=0", "does not know what is lost"), ("age<5", "it has publish_period")]
    {
        let error = statistics.create_publisher_with_options::<Imu>("out", expected(conditions)).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(node.count_publishers("/diagnostics").unwrap(), 0, "off unless something is expected");
    let publisher =
        statistics.create_publisher_with_options::<Imu>("out", expected("rate>=5 message_size<100")).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("an error: an Imu has 324 bytes and more", || {
        publisher.publish(Imu::default()).unwrap();
        publisher.health().borrow().to_string().starts_with("message_size 3")
    });
    wait_for("silence", || publisher.health().borrow().level == Level::Stale);
    assert_eq!(node.count_publishers("/diagnostics").unwrap(), 1);
}
