// SPDX-License-Identifier: Apache-2.0

//! Live and bag agree: `topic_monitor --json --record`, and `bag_statistics --json` on its file.
//!
//! A bag has the times at which messages were received, and a subscription measures at the callback. So
//!
//! - the bag is read in the very windows of the live run, by `--origin` and `--window`;
//! - a window is compared if its messages are the same: no message was received before an edge of it and called back
//!   behind it. The bag has the first time, and the delay in between is at most the live window's longest one;
//! - all figures without a callback are equal. Ages, periods and silence differ by that delay. For a message that is
//!   alone in its window, and for sums of many, the delay is known exactly, so these figures are compared, too. For
//!   the minimum, maximum and standard deviation of many, the bounds of the delay are known.

use std::{
    collections::BTreeSet,
    process::Command,
    sync::{
        atomic::{AtomicBool, AtomicI64, Ordering},
        Arc,
    },
    thread::sleep,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rclrs::*;
use ros_env::{sensor_msgs::msg::Imu, std_msgs::msg::String as StringMsg};
use serde_json::Value;
use test_support::{domain, middleware, program, Spinning};

use crate::run::{text, Json};

const S: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;

/// `/imu`: many messages in a window. `/slow`: one. `/burst`: two publishers, more messages at once than wait for the
/// callback, and no header.
const TOPICS: [&str; 3] = ["/imu", "/slow", "/burst"];

/// How many windows are compared.
const WINDOWS: usize = 10;

/// Fields that are read when the line is written, behind the end of the window. At the end they are compared.
const READ_LATER: [&str; 6] = ["state", "nodes", "publishers", "senders", "since_last_message", "total"];

/// Metrics of a callback, which no bag has.
const OF_CALLBACK: [&str; 4] =
    ["clock_offset_ms", "header_to_callback_ms", "receive_to_callback_ms", "source_to_callback_ms"];

/// Metrics up to a callback, which in a bag are up to the reception.
const UP_TO_CALLBACK: [&str; 3] = ["message_age", "message_period", "time_since_last_message_ms"];

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// What publishes.
struct Talker {
    imu: Publisher<Imu>,
    slow: Publisher<Imu>,
    bursts: [Publisher<StringMsg>; 2],
    _spinning: Spinning,
}

impl Talker {
    fn new(domain: u32) -> Self {
        let executor = test_support::context(domain, &[]).create_basic_executor();
        let node = executor.create_node("talker").unwrap();
        let burst = || node.create_publisher("burst".keep_last(1000)).unwrap();
        Self {
            imu: node.create_publisher("imu".keep_last(1000)).unwrap(),
            slow: node.create_publisher("slow".keep_last(1000)).unwrap(),
            bursts: [burst(), burst()],
            _spinning: Spinning::start(executor),
        }
    }

    /// Publishes a message with a stamp 3 ms ago.
    fn stamped(publisher: &Publisher<Imu>) {
        let (mut message, stamp) = (Imu::default(), now() - 3 * MS);
        (message.header.stamp.sec, message.header.stamp.nanosec) = ((stamp / S) as i32, (stamp % S) as u32);
        publisher.publish(message).unwrap();
    }

    fn burst(&self, number: usize, messages: usize) {
        for length in 0..messages {
            self.bursts[number % 2].publish(StringMsg { data: "x".repeat(length * length) }).unwrap();
        }
    }

    /// Publishes a few messages, so that no topic has its first one in a window that is compared.
    fn warm_up(&self, round: usize) {
        Self::stamped(&self.imu);
        if round.is_multiple_of(4) {
            Self::stamped(&self.slow);
            self.burst(0, 1);
            self.burst(1, 1);
        }
        sleep(Duration::from_millis(50));
    }

    /// Publishes for half a second.
    fn talk(&self) {
        for number in 0..40 {
            Self::stamped(&self.imu);
            if number == 20 {
                Self::stamped(&self.slow);
            }
            if number % 10 == 5 {
                self.burst(number / 10, 60);
            }
            sleep(Duration::from_millis([4, 17, 9][number % 3]));
        }
    }
}

/// Publishes in the middle of each window, until it is ended. `edge`: an edge of the windows; 0 before it is known.
fn publish(talker: &Talker, edge: &AtomicI64, is_ended: &AtomicBool) {
    let mut round = 0;
    while edge.load(Ordering::Relaxed) == 0 {
        talker.warm_up(round);
        round += 1;
    }
    let edge = edge.load(Ordering::Relaxed);
    while !is_ended.load(Ordering::Relaxed) {
        let next = edge + ((now() - edge) / S + 1) * S + 250 * MS;
        sleep(Duration::from_nanos((next - now()).max(0) as u64));
        talker.talk();
    }
}

fn number(object: &Value, figure: &str) -> f64 {
    object[figure].as_f64().unwrap_or(f64::NAN)
}

#[track_caller]
fn assert_equal(live: f64, bag: f64, what: &str) {
    assert!(live.is_nan() && bag.is_nan() || (live - bag).abs() <= 1e-9, "{what}: live {live}, bag {bag}");
}

#[track_caller]
fn assert_within(value: f64, low: f64, high: f64, what: &str) {
    assert!(value >= low - 1e-9 && value <= high + 1e-9, "{what}: {value} is not in {low}..{high}");
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

/// A topic of the run.
struct Watched<'a> {
    topic: &'a str,
    /// The windows that were seen live.
    live: Vec<&'a Value>,
    /// The times at which the messages of the bag were received.
    times: Vec<i64>,
}

impl Watched<'_> {
    fn start(&self, window: usize) -> i64 {
        self.live[window]["window_start"].as_i64().unwrap()
    }

    fn stop(&self, window: usize) -> i64 {
        self.live[window]["window_stop"].as_i64().unwrap()
    }

    /// Returns the longest delay from reception to callback in a window, in nanoseconds. NaN without a message.
    fn delay(&self, window: usize) -> f64 {
        number(&self.live[window]["metrics"]["receive_to_callback_ms"], "max") * MS as f64
    }

    /// Returns whether no message was received from `from`, minus a delay, to `to`.
    fn is_quiet(&self, from: i64, delay: f64, to: i64) -> bool {
        let from = from - delay.ceil() as i64 - 1;
        !self.times.iter().any(|time| (from..to).contains(time))
    }

    /// Returns whether no message was received before the start of a window and called back behind it.
    fn has_clear_start(&self, window: usize) -> bool {
        // What was called back late is in the first window with a message.
        let later = (window..self.live.len()).map(|later| self.delay(later)).find(|delay| !delay.is_nan());
        self.is_quiet(self.start(window), later.unwrap_or(0.0), self.start(window))
    }

    /// Returns whether a window has the same messages in the bag, and all its figures are known: both its edges are
    /// clear, and the windows before and after it were taken.
    fn is_same(&self, window: usize) -> bool {
        let follows = |window: usize| self.start(window) == self.stop(window - 1);
        let is_between =
            window + 1 < self.live.len() && follows(window + 1) && (window == 0 || follows(window));
        is_between && self.has_clear_start(window) && self.has_clear_start(window + 1)
    }

    /// Returns whether the last minute up to a window has the same messages in the bag, whose first whole window starts
    /// at `start`.
    fn is_same_minute(&self, window: usize, start: i64) -> bool {
        let (of_live, delay) =
            (self.start(0), (0..=window).map(|index| self.delay(index)).fold(0.0, f64::max));
        let follow = (0..window).all(|index| self.stop(index) == self.start(index + 1));
        let is_short = self.stop(window) - of_live.min(start) < 55 * S;
        follow && is_short && self.is_quiet(of_live.min(start), delay, of_live.max(start))
    }
}

/// Compares all figures of a window that both have. `before`: the delay of the last message before the window, in ms.
/// Returns the delay of the last message in the window, in ms.
fn compare(live: &Value, bag: &Value, before: Option<f64>, what: &str) -> f64 {
    assert_eq!(keys(live), keys(bag), "{what}");
    for key in keys(bag) {
        match key {
            key if READ_LATER.contains(&key) => {}
            "metrics" | "last_minute" => {}
            "qos" => assert!(bag[key].is_null(), "the monitor's own"),
            "rate" | "bandwidth" => {
                assert_equal(number(live, key), number(bag, key), &format!("{what} {key}"))
            }
            _ => assert_eq!(live[key], bag[key], "{what} {key}"),
        }
    }
    let (live, bag) = (&live["metrics"], &bag["metrics"]);
    let of_callback = BTreeSet::from(OF_CALLBACK);
    assert_eq!(&keys(live) - &of_callback, keys(bag), "{what}");
    for metric in keys(bag) {
        let (live, bag, what) = (&live[metric], &bag[metric], format!("{what} {metric}"));
        assert_eq!((&live["unit"], &live["count"]), (&bag["unit"], &bag["count"]), "{what}");
        if !UP_TO_CALLBACK.contains(&metric) {
            for figure in ["mean", "min", "max", "std_dev"] {
                assert_equal(number(live, figure), number(bag, figure), &format!("{what} {figure}"));
            }
        }
    }
    let delays = &live["receive_to_callback_ms"];
    let (low, high) = (number(delays, "min"), number(delays, "max"));
    let count = number(delays, "count");

    let (of_live, of_bag) = (&live["time_since_last_message_ms"], &bag["time_since_last_message_ms"]);
    let last = number(of_bag, "mean") - number(of_live, "mean");
    match before {
        _ if count > 0.0 => assert_within(last, low, high, what),
        Some(before) => assert_equal(last, before, what),
        None => {}
    }

    let (of_live, of_bag) = (&live["message_age"], &bag["message_age"]);
    if number(of_live, "count") > 0.0 {
        let what = format!("{what} age");
        assert_eq!(number(of_live, "count"), count, "{what}");
        assert_equal(number(of_live, "mean") - number(delays, "mean"), number(of_bag, "mean"), &what);
        for figure in ["min", "max"] {
            assert_within(number(of_live, figure) - number(of_bag, figure), low, high, &what);
        }
        assert_deviation(of_live, of_bag, number(delays, "std_dev"), &what);
    }

    let (of_live, of_bag) = (&live["message_period"], &bag["message_period"]);
    let periods = number(of_live, "count");
    if let Some(before) = before.filter(|_| periods > 0.0) {
        let what = format!("{what} period");
        let sum = periods * (number(of_live, "mean") - number(of_bag, "mean"));
        assert_equal(sum / periods, (last - before) / periods, &what);
        let most = high.max(before) - low.min(before);
        for figure in ["min", "max"] {
            assert_within(number(of_live, figure) - number(of_bag, figure), -most, most, &what);
        }
        assert_deviation(of_live, of_bag, most, &what);
    }
    last
}

/// Asserts that standard deviations differ at most by that of the difference of the samples.
fn assert_deviation(live: &Value, bag: &Value, most: f64, what: &str) {
    let difference = number(live, "std_dev") - number(bag, "std_dev");
    if number(live, "count") > 1.0 {
        assert_within(difference, -most, most, what);
    } else {
        assert!(live["std_dev"].is_null() && bag["std_dev"].is_null(), "{what}");
    }
}

/// Compares the distributions of the last minute.
fn compare_minute(live: &Value, bag: &Value, what: &str) {
    let of_callback = BTreeSet::from(OF_CALLBACK);
    assert_eq!(&keys(live) - &of_callback, keys(bag), "{what}");
    for metric in keys(bag).into_iter().filter(|metric| !UP_TO_CALLBACK.contains(metric)) {
        for figure in keys(&bag[metric]).into_iter().filter(|figure| *figure != "unit") {
            let what = format!("{what} last minute {metric} {figure}");
            assert_equal(number(&live[metric], figure), number(&bag[metric], figure), &what);
        }
    }
}

/// Compares what is counted over the run.
fn compare_totals(live: &Value, bag: &Value, topic: &str) {
    for count in ["received", "lost", "out_of_order"] {
        assert_eq!(live["total"][count], bag[count], "{topic} {count}");
    }
    assert_eq!(live["publishers"], bag["publishers"], "{topic}");
    let nodes = |object: &Value| object["nodes"].as_array().unwrap().to_vec();
    assert!(nodes(bag).iter().all(|node| nodes(live).contains(node)), "{topic}");
    let (senders, of_bag) = (live["senders"].as_array().unwrap(), bag["senders"].as_array().unwrap());
    assert_eq!(senders.len(), of_bag.len(), "{topic}");
    for sender in senders {
        let same = of_bag.iter().find(|other| other["gid"] == sender["gid"]).unwrap();
        for key in ["node", "received", "lost", "out_of_order"] {
            assert_eq!(sender[key], same[key], "{topic} {sender}");
        }
        // At the callback, and at the reception.
        let late = sender["last_message"].as_i64().unwrap() - same["last_message"].as_i64().unwrap();
        assert!((0..10 * S).contains(&late), "{topic}: {late}");
    }
}

#[test]
fn every_figure_of_every_window_of_the_bag_is_the_one_that_was_seen_live() {
    let what = "a recording with the figures seen live";
    if middleware::lacks_sequence_numbers(what) || middleware::lacks_reception_timestamps(what) {
        return;
    }
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let file = directory.path().join("run.mcap");
    let arguments = ["--record", file.to_str().unwrap(), "--compression", "zstd", "--depth", "3"];
    let talker = Talker::new(domain);
    let edge = Arc::new(AtomicI64::new(0));
    let is_ended = Arc::new(AtomicBool::new(false));
    let mut monitor = Json::with_period("1", &[&TOPICS[..], &arguments].concat(), domain);
    // A recording names the node of a publisher if the graph has it when the first message arrives.
    for topic in TOPICS {
        let is_known =
            |nodes: &Value| nodes.as_array().is_some_and(|nodes| nodes.contains(&"/talker".into()));
        monitor
            .until("node of the publishers", |object| object["topic"] == topic && is_known(&object["nodes"]));
    }
    let publishing = std::thread::spawn({
        let (edge, is_ended) = (Arc::clone(&edge), Arc::clone(&is_ended));
        move || {
            publish(&talker, &edge, &is_ended);
            talker // The graph has its publishers up to the end.
        }
    });

    let mut objects: Vec<Value> = vec![];
    let is_window = |object: &Value| object["window_stop"].is_i64();
    let read = |objects: &mut Vec<Value>| objects.push(monitor.until("window", is_window));
    let count =
        |objects: &[Value], topic: &str| objects.iter().filter(|object| object["topic"] == topic).count();
    while !TOPICS.iter().all(|topic| count(&objects, topic) > 0) {
        read(&mut objects);
    }
    edge.store(objects.last().unwrap()["window_stop"].as_i64().unwrap(), Ordering::Relaxed);
    let lost = |object: &Value| object["lost"].as_u64().unwrap_or(0);
    while count(&objects, "/imu") < WINDOWS + 2
        || objects.iter().filter(|object| lost(object) > 0).count() < 4
    {
        read(&mut objects);
        assert!(count(&objects, "/imu") < 10 * WINDOWS, "no losses");
    }
    is_ended.store(true, Ordering::Relaxed);
    let _talker = publishing.join().unwrap();
    let is_last = |objects: &[Value], topic: &str| {
        let mut last = objects.iter().rev().filter(|object| object["topic"] == topic);
        last.next().is_some_and(|object| object["received"] == 0)
    };
    while !TOPICS.iter().all(|topic| is_last(&objects, topic)) {
        read(&mut objects);
    }
    monitor.signal("INT");
    let line = monitor.until_error("recorded ");
    assert_eq!(monitor.end(), Some(0));
    assert!(line.contains(", 0 in the recorder"), "{line}");

    let bytes = std::fs::read(&file).unwrap();
    let messages: Vec<_> = mcap::MessageStream::new(&bytes).unwrap().map(Result::unwrap).collect();
    // Whose windows start where, is told to the program.
    let bag = |arguments: &[&str]| -> Vec<Value> {
        let mut command = Command::new(program("bag_statistics"));
        let output = command.arg(&file).arg("--json").args(arguments).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (mut minutes, mut are_late, mut losses) = (0, true, 0);
    for topic in TOPICS {
        let of_topic = messages.iter().filter(|message| message.channel.topic == topic);
        let times: Vec<i64> = of_topic.map(|message| message.log_time as i64).collect();
        let is_ordered = times.is_sorted();
        let live = objects.iter().filter(|object| object["topic"] == topic).collect();
        let watched = Watched { topic, live, times };
        let (mut compared, mut delay) = (0, None);
        for (window, live) in watched.live.iter().enumerate() {
            let before = std::mem::take(&mut delay);
            let (start, length) = (watched.start(window), watched.stop(window) - watched.start(window));
            let length = format!("{}.{:09}", length / S, length % S);
            let bag = bag(&["--topics", topic, "--origin", &start.to_string(), "--window", &length]);
            let windows: Vec<_> = bag.iter().filter(|object| is_window(object)).collect();
            let same = windows.iter().find(|object| object["window_start"] == start);
            let Some(same) = same.filter(|_| watched.is_same(window)) else { continue };
            let what = format!("{topic} window {window}");
            // Of two publishers, messages can be called back in another order than they were received.
            delay = Some(compare(live, same, before, &what)).filter(|_| is_ordered);
            compared += 1;
            losses += lost(same);
            let first = windows[0]["window_start"].as_i64().unwrap();
            if watched.is_same_minute(window, first) {
                compare_minute(&live["last_minute"], &same["last_minute"], &what);
                minutes += 1;
            }
        }
        let all = watched.live.len();
        println!("{}: {compared} of {all} windows have the same messages, and equal figures", watched.topic);
        assert!(compared >= 3, "the machine is too busy for {} of {all} windows", all - compared);
        are_late &= watched.times[0] > watched.start(0);
        let recording =
            bag(&["--topics", topic]).into_iter().find(|object| object["recording"].is_object()).unwrap();
        compare_totals(watched.live[all - 1], &recording["recording"], topic);
    }
    println!("last minutes with the same messages: {minutes}; losses in the windows: {losses}");
    assert!(losses > 0);
    assert!(minutes > 0 || are_late, "no last minute has the same messages");
}
