// SPDX-License-Identifier: Apache-2.0

//! Expectations on a real topic: the reports to the node, its watchers and readers of `/diagnostics`, and the number of
//! windows until then.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{
    health::{Cause, Expectations, Health, Level},
    watch, AgeSource, IntoMeasuredOptions, Metric, NodeStatistics, NodeStatisticsOptions, SourceName,
    StatisticsError, TopicStatisticsOptions, WindowStatistics,
};
use ros_env::{sensor_msgs::msg::Imu, statistics_msgs::msg::MetricsMessage, std_msgs::msg::String as Text};
use serde_json::{json, Value};
use test_support::{context, domain, node, on_each, wait_for, Metric as Window, Program, Spinning};

const WINDOW: Duration = Duration::from_millis(200);
/// Four and a half windows: five.
const FIRST_WITHIN: Duration = Duration::from_millis(900);
/// Three periods of 30 Hz: less than a window, unless that is short because the window before it ended late.
const SILENCE: Duration = Duration::from_millis(100);

fn options() -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().publish_period(WINDOW)
}

fn expect(warn_unless: &str, error_unless: &str) -> Expectations {
    Expectations::new().warn_unless(warn_unless.parse().unwrap()).error_unless(error_unless.parse().unwrap())
}

/// The changes of a subscription's health, and the windows that the node publishes: none of these is missed, however
/// late it is read.
struct Watched {
    /// Start and stop, in nanoseconds since the epoch, and whether it has messages.
    windows: Arc<Mutex<Vec<(i64, i64, bool)>>>,
    _statistics: Subscription<MetricsMessage>,
    changes: Arc<Mutex<Vec<Health>>>,
    /// The changes that were waited for.
    seen: usize,
}

impl Watched {
    fn new(node: &Node, health: watch::Receiver<Health>) -> Self {
        let windows: Arc<Mutex<Vec<_>>> = Arc::default();
        let to = Arc::clone(&windows);
        let collect_windows = move |message: MetricsMessage| {
            if message.metrics_source == "message_age" {
                let window = Window::from(message);
                to.lock().unwrap().push((window.start, window.stop, window.count() > 0.0));
            }
        };
        let _statistics = node.create_subscription("/statistics".keep_last(2000), collect_windows).unwrap();
        let changes: Arc<Mutex<Vec<_>>> = Arc::default();
        let to = Arc::clone(&changes);
        on_each(health, move |health| to.lock().unwrap().push(health));
        Self { windows, _statistics, changes, seen: 0 }
    }

    /// Waits for a change to that level for that reason. Every change on the way to it has to keep the rules.
    fn wait_for(&mut self, level: Level, cause: &str) -> Health {
        let mut found = None;
        wait_for(&format!("{level} because of {cause}"), || {
            // Not locked meanwhile: the thread that publishes the windows waits for that.
            let changes = self.changes.lock().unwrap().clone();
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
        let stop = health.window.unwrap().stop.as_nanoseconds();
        wait_for("the window", || self.windows.lock().unwrap().last().is_some_and(|window| window.1 >= stop));
        let windows = self.windows.lock().unwrap();
        // (A step of the system clock, which hosts of tests have now and then, leaves a small gap.)
        let is_next =
            |pair: &[(i64, i64, bool)]| (pair[1].0 - pair[0].1).abs() < WINDOW.as_nanos() as i64 / 2;
        assert!(windows.windows(2).all(is_next), "no window is missed: {windows:?}");
        // The times of the level are on the present clock.
        let since = health.since.unwrap().as_nanoseconds();
        let is_counted = |window: &&(i64, i64, bool)| window.0 >= since - 1_000_000 && window.1 <= stop;
        let counted: Vec<_> = windows.iter().filter(is_counted).collect();
        let until = |limit: Duration| {
            let is_early = |window: &&&(i64, i64, bool)| window.1 - since < limit.as_nanos() as i64;
            counted.iter().filter(is_early).count() + 1
        };
        let (promised, may_be_empty) = match &health.cause {
            Cause::Condition { .. } => (2, false),
            Cause::AsExpected => (3, false),
            Cause::MessagesAgain => (1, true),
            Cause::Silence => (until(SILENCE), true),
            Cause::NoMessageYet => (until(FIRST_WITHIN), true),
            other => panic!("{other:?}"),
        };
        // A short window without a message is evidence of a rate, and may be none of anything else.
        let with_messages = counted.iter().filter(|window| window.2).count();
        let is_kept = counted.len() == promised || !may_be_empty && with_messages == promised;
        assert!(is_kept, "{promised} windows until {}: {health}; {windows:?}", health.level);
    }
}

/// The rclpy process that reads `/diagnostics`.
struct Diagnostics {
    reader: Program,
    last: Value,
}

impl Diagnostics {
    /// Waits for a status with this in its message, or in what is failing. Returns it.
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
                            && [&status["message"], &status["values"]["failing"]]
                                .iter()
                                .any(|text| text.as_str().is_some_and(|text| text.contains(message)))
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
    let domain = domain();
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
    let Cause::Condition { condition, value: rate, .. } = &health.cause else { panic!("{health:?}") };
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
    let health = watched.wait_for(Level::Warn, "expected below 100");
    let Cause::Condition { condition, value: age, .. } = &health.cause else { panic!("{health:?}") };
    assert!(condition.to_string() == "age<100ms" && *age >= 500.0, "{health:?}");
    diagnostics.wait_for(NAME, Level::Warn, "ms, expected below 100, since");
    publisher.send("age 0");
    watched.wait_for(Level::Ok, "as expected");

    publisher.send("burst 20");
    watched.wait_for(Level::Warn, "lost");
    // The messages that are left may wait for the callback for too long, which is then the first cause.
    let status = diagnostics.wait_for(NAME, Level::Warn, "lost=0 (");
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

/// Creates a node with these ROS arguments.
fn configured(arguments: &[&str]) -> (Executor, Node) {
    node("configured", &[&["--ros-args"], arguments].concat())
}

#[test]
fn an_operator_sets_conditions_while_the_node_runs_and_a_wrong_one_changes_nothing() {
    let (executor, node) = configured(&["-p", "topic_statistics.warn_unless:=['/imu: lost=0 age.p50<50ms']"]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let other = statistics.create_subscription("other", |_: Imu| ()).unwrap();
    let stopwatch = statistics.create_stopwatch("call");
    let _spinning = Spinning::start(executor);
    let publisher = Program::start("unhealthy.py", &[], domain());
    wait_for("windows", || imu.latest().is_some_and(|window| window.count > 0) && other.latest().is_some());
    let metrics = |window: Option<Arc<WindowStatistics>>| -> Vec<Metric> {
        window.unwrap().metrics.iter().map(|(metric, _)| *metric).collect()
    };
    let default = [Metric::MessageAge, Metric::MessagePeriod];
    assert_eq!(metrics(other.latest()), default, "only what a condition needs is measured in addition");
    assert_eq!(metrics(imu.latest()), [&default[..], &[Metric::PublicationSeqGap]].concat());
    wait_for("a distribution", || imu.latest().unwrap().distribution(Metric::MessageAge).is_some());
    assert!(other.latest().unwrap().distribution(Metric::MessageAge).is_none());

    let mut operator = Program::start("parameters.py", &["/configured"], domain());
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
    wait_for("as before", || imu.health().borrow().level == Level::Ok);
    let (accepted, why) = set("error_unless", json!(["/imu: rate>=1000", "call: duration.max<1ms"]));
    assert!(accepted, "{why}");
    wait_for("an error", || imu.health().borrow().level == Level::Error);
    assert!(imu.health().borrow().to_string().contains("expected at least 1000, since"));
    wait_for("an error of the stopwatch", || {
        stopwatch.time(|| thread::sleep(Duration::from_millis(5)));
        stopwatch.health().borrow().level == Level::Error
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
        let (_executor, node) = configured(&arguments);
        let error = NodeStatistics::new(&node).err().unwrap();
        assert!(matches!(&error, StatisticsError::InvalidParameter { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(node.count_publishers("/diagnostics").unwrap(), 0, "nothing is created");
    }
    let (executor, node) = configured(&[]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let expected =
        |conditions: &str| options().expect(Expectations::new().error_unless(conditions.parse().unwrap()));
    for (conditions, reason) in [("lost=0", "does not know what is lost"), ("age<5", "it has publish_period")]
    {
        let error =
            statistics.create_publisher::<Imu>("out".topic_statistics(expected(conditions))).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(node.count_publishers("/diagnostics").unwrap(), 0, "off unless something is expected");
    let publisher = statistics
        .create_publisher::<Imu>("out".topic_statistics(expected("rate>=5 message_size<100")))
        .unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("an error: an Imu has 324 bytes and more", || {
        publisher.publish(Imu::default()).unwrap();
        publisher.health().borrow().to_string().starts_with("message_size 3")
    });
    wait_for("silence", || publisher.health().borrow().level == Level::Stale);
    assert_eq!(node.count_publishers("/diagnostics").unwrap(), 1);
}

/// A topic that is OK from its first message on has no change: whoever watches it has its health all the same.
#[test]
fn the_present_health_is_there_before_any_change() {
    let (_executor, node) = configured(&[]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let expected = options().expect(Expectations::new().warn_unless("rate>=1".parse().unwrap()));
    let publisher = statistics.create_publisher::<Imu>("out".topic_statistics(expected)).unwrap();
    let mut early = publisher.health();
    assert_eq!((early.borrow().window, &early.borrow().cause), (None, &Cause::NoMessageYet));
    wait_for("an empty window, as before a subscription is found", || early.borrow().window.is_some());
    assert_eq!((early.borrow().level, &early.borrow().cause), (Level::Ok, &Cause::NoMessageYet));
    wait_for("messages as expected", || {
        publisher.publish(Imu::default()).unwrap();
        early.borrow().cause == Cause::AsExpected
    });
    assert_eq!(early.borrow().level, Level::Ok);
    let mut late = publisher.health();
    wait_for("later windows", || {
        publisher.publish(Imu::default()).unwrap();
        late = publisher.health();
        let lasting = late.borrow().lasting;
        lasting > 5 * WINDOW
    });
    assert_eq!((late.borrow().level, &late.borrow().cause), (Level::Ok, &Cause::AsExpected));
    assert!(!early.has_changed().unwrap(), "nobody is woken by what is the same");
    wait_for("silence", || early.has_changed().unwrap() && early.borrow_and_update().level == Level::Stale);
}

#[test]
fn a_condition_finds_a_publisher_by_its_topic_whatever_its_source_is_called() {
    let (_executor, node) = configured(&[
        "-p",
        "topic_statistics.warn_unless:=['out: rate>=1e6', '/by_node: rate>=1e6', 'custom: rate>=1e6']",
    ]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let _listens = statistics.create_subscription("custom", |_: Text| ()).unwrap();
    let create = |topic: &str, name: SourceName| {
        statistics.create_publisher::<Text>(topic.topic_statistics(options().source_name(name))).unwrap()
    };
    let publishers = [
        create("out", SourceName::NodeAndTopic),
        create("by_node", SourceName::Node),
        create("custom", SourceName::Custom("text".to_owned())),
    ];
    wait_for("a warning of each", || {
        publishers.iter().for_each(|publisher| publisher.publish(Text::default()).unwrap());
        publishers.iter().all(|publisher| publisher.health().borrow().level == Level::Warn)
    });
}

#[test]
fn a_topic_holds_for_its_entry_and_a_condition_applies_to_what_measures_it() {
    let (executor, node) = configured(&["-p", "topic_statistics.warn_unless:=['/imu: rate>=0.1 age<10s']"]);
    let statistics = NodeStatistics::with_options(&node, options()).unwrap();
    let imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let chatter = statistics.create_subscription("chatter", |_: Text| ()).unwrap();
    let unstamped = statistics.create_subscription("unstamped", |_: Imu| ()).unwrap();
    let publisher = statistics.create_publisher::<Imu>("imu").unwrap();
    let text = statistics.create_publisher::<Text>("chatter").unwrap();
    let without_stamps = node.create_publisher::<Imu>("unstamped").unwrap();
    let _spinning = Spinning::start(executor);
    let publish = |is_stamped: bool| {
        let mut message = Imu::default();
        if is_stamped {
            let now = node.get_clock().now().nsec;
            message.header.stamp.sec = (now / 1_000_000_000) as i32;
        }
        publisher.publish(message).unwrap();
        text.publish(Text::default()).unwrap();
        without_stamps.publish(Imu::default()).unwrap();
    };
    let levels = || [imu.health(), publisher.health()].map(|health| health.borrow().level);
    let mut windows = imu.watch();
    let mut count = 0;
    wait_for("ten windows in which nothing is wrong", || {
        publish(true);
        assert!(levels().iter().all(|level| matches!(level, Level::Ok)), "{:?}", levels());
        if windows.has_changed().unwrap() {
            let has_age = windows.borrow_and_update().as_ref().is_some_and(|window| window.count > 0);
            count += u32::from(has_age);
        }
        count >= 10
    });
    // The others have no expectations: the type of one has no age, and the topic of the whole entry is not the other's.
    for other in [chatter.health(), unstamped.health()] {
        assert_eq!(other.borrow().cause, Cause::NoMessageYet);
    }

    // A publisher that does not set its stamps is a fault.
    wait_for("a warning", || {
        publish(false);
        imu.health().borrow().to_string().contains("because the header stamps are not set")
    });
    assert_eq!(levels(), [Level::Warn, Level::Ok]);

    // A type without a header has no age.
    let expected = TopicStatisticsOptions::new().expect(expect("age<5", "rate>=1"));
    let error =
        statistics.create_subscription("other".topic_statistics(expected.clone()), |_: Text| ()).unwrap_err();
    assert!(matches!(&error, StatisticsError::InvalidExpectation { .. }), "{error:?}");
    assert!(error.to_string().contains("std_msgs/msg/String has no header stamp"), "{error}");
    let text = || "std_msgs/msg/String".try_into().unwrap();
    let dynamic = "other".topic_statistics(expected.clone());
    let error = statistics.create_dynamic_subscription(text(), dynamic, |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("std_msgs/msg/String has no header stamp"), "{error}");
    let from_source = expected.age_source(AgeSource::SourceTimestamp);
    statistics.create_subscription("other".topic_statistics(from_source), |_: Text| ()).unwrap();
}
