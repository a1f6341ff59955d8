// SPDX-License-Identifier: Apache-2.0

//! Live and bag agree.

use std::{
    ops::ControlFlow,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rclrs::*;
use ros_env::sensor_msgs::msg::Imu;
use serde_json::Value;
use test_support::{domain, middleware, Spinning};
use topic_statistics_bag::{Bag, ReadOptions, TopicWindow, Visitor};
use topic_statistics_core::{Metric, Summary, Timestamp, WindowStatistics};

use crate::run::Json;

const S: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

fn wait_until(time: i64) {
    std::thread::sleep(Duration::from_nanos((time - now()).max(0) as u64));
}

/// The windows of a bag.
#[derive(Default)]
struct Windows(Vec<WindowStatistics>);

impl Visitor for Windows {
    fn window(&mut self, window: &TopicWindow<'_>) -> ControlFlow<()> {
        self.0.push(window.statistics.clone());
        ControlFlow::Continue(())
    }
}

/// Publishes a message with a stamp 3 ms ago.
fn publish(publisher: &Publisher<Imu>) {
    let (mut message, stamp) = (Imu::default(), now() - 3 * MS);
    (message.header.stamp.sec, message.header.stamp.nanosec) = ((stamp / S) as i32, (stamp % S) as u32);
    publisher.publish(message).unwrap();
}

fn assert_equal(live: &Value, bag: &Summary, what: &str) {
    let figures = [
        ("mean", bag.average),
        ("min", bag.minimum),
        ("max", bag.maximum),
        ("std_dev", bag.standard_deviation),
        ("count", bag.sample_count as f64),
    ];
    for (name, of_bag) in figures {
        let of_live = live[name].as_f64().unwrap_or(f64::NAN);
        let is_same = of_live.is_nan() && of_bag.is_nan() || (of_live - of_bag).abs() <= 1e-9;
        assert!(is_same, "{what} {name}: live {of_live}, bag {of_bag}; {live}");
    }
}

#[test]
fn each_window_of_the_bag_has_the_figures_that_were_seen_live() {
    let what = "a recording with the figures seen live";
    if middleware::lacks_sequence_numbers(what) || middleware::lacks_reception_timestamps(what) {
        return;
    }
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let file = directory.path().join("imu.mcap");
    let arguments = ["/imu", "--record", file.to_str().unwrap(), "--compression", "zstd"];
    let mut monitor = Json::with_period("1", &arguments, domain);
    let executor = test_support::context(domain, &[]).create_basic_executor();
    let node = executor.create_node("talker").unwrap();
    let publisher = node.create_publisher::<Imu>("imu".keep_last(1000)).unwrap();
    let _spinning = Spinning::start(executor);

    // Until the first window, whose start is that of all others.
    let is_found = Arc::new(AtomicBool::new(false));
    let first_messages = std::thread::spawn({
        let (publisher, is_found) = (Arc::clone(&publisher), Arc::clone(&is_found));
        move || {
            while !is_found.load(Ordering::Relaxed) {
                publish(&publisher);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let first = monitor.until("window", |object| object["received"].as_u64() > Some(0));
    is_found.store(true, Ordering::Relaxed);
    first_messages.join().unwrap();
    let origin = first["window_start"].as_i64().unwrap();
    let start = (now() - origin) / S + 1;
    let mut quiet = vec![];
    for window in start..start + 5 {
        let edge = origin + window * S;
        wait_until(edge + 300 * MS);
        for _ in 0..20 {
            publish(&publisher);
            std::thread::sleep(Duration::from_millis(10));
        }
        // A busy machine can be so late that messages come near the edge of a window.
        if now() < edge + 750 * MS {
            quiet.push(edge);
        }
    }
    let last = origin + (start + 5) * S;
    let mut live = vec![];
    loop {
        let object = monitor.until("window", |object| object["window_stop"].is_i64());
        let stop = object["window_stop"].as_i64().unwrap();
        live.push(object);
        if stop > last {
            break;
        }
    }
    monitor.signal("INT");
    monitor.until_error("recorded ");
    assert_eq!(monitor.end(), Some(0));

    let mut windows = Windows::default();
    let options = ReadOptions::new().origin(Timestamp::from_nanoseconds(origin));
    let read = Bag::open([&file]).unwrap().read(&options, &mut windows).unwrap();
    assert!(read.notes.is_empty(), "{:?}", read.notes);
    let mut compared = 0;
    for edge in quiet {
        let near = |start: i64| (start - edge).abs() < 200 * MS;
        let live = live.iter().find(|of| near(of["window_start"].as_i64().unwrap()));
        let bag = windows.0.iter().find(|of| near(of.window.start.as_nanoseconds()));
        let (Some(live), Some(bag)) = (live, bag) else { continue };
        compare(live, bag, &format!("window {}", (edge - origin) / S));
        compared += 1;
    }
    assert!(compared > 0, "the machine is too busy for every window");
}

/// Asserts that a window has the same figures live and in the bag.
fn compare(live: &Value, bag: &WindowStatistics, what: &str) {
    assert_eq!((live["received"].as_u64(), bag.count), (Some(20), 20), "{what}");
    assert_eq!(live["lost"], 0, "{what}");
    assert_eq!(bag.totals.unwrap().lost, Some(0), "{what}");
    let of = |metric: Metric| bag.get(metric).unwrap();
    for metric in
        [Metric::SourceToReceive, Metric::HeaderToSource, Metric::PublicationSeqGap, Metric::MessageSize]
    {
        let what = format!("{what} {}", metric.name());
        assert_equal(&live["metrics"][metric.name()], of(metric), &what);
        assert_eq!(of(metric).sample_count, 20, "{what}");
    }
    // Live, an age ends at the callback, and a period is between two callbacks; a bag has no callback.
    let mean = |metric: &str| live["metrics"][metric]["mean"].as_f64().unwrap();
    let age = mean("message_age") - mean("receive_to_callback_ms");
    assert!((age - of(Metric::MessageAge).average).abs() <= 1e-9, "{what}: {age}, {live}");
    let to_callback = live["metrics"]["receive_to_callback_ms"]["max"].as_f64().unwrap();
    let periods = 20.0 * (mean("message_period") - of(Metric::MessagePeriod).average);
    assert!(periods.abs() <= to_callback + 100.0, "{what}: {periods}, {to_callback}");
}
