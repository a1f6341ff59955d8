// SPDX-License-Identifier: Apache-2.0

//! Losses in events, in the service and in the file: rclpy reads the events and calls the service.

use std::sync::{
    atomic::{AtomicU64, Ordering},
    mpsc::{self, Receiver},
    Arc, Mutex,
};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoMeasuredOptions, Metric, NodeStatistics, NodeStatisticsOptions, Timestamp, TopicStatisticsOptions,
};
use ros_env::{sensor_msgs::msg::Imu, std_msgs::msg::Int32};
use serde_json::Value;
use test_support::{context, domain, middleware, node, wait_for, Program, Spinning};

use crate::support::{every, imu, wait_for_subscriptions};

/// Returns a callback that counts, and waits at its first message until the test lets it go on.
fn waiting<T: 'static>() -> (impl Fn(T) + Send + Sync + 'static, Arc<AtomicU64>, mpsc::Sender<()>) {
    let (release, released) = mpsc::channel();
    let released: Mutex<Receiver<()>> = Mutex::new(released);
    let called = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&called);
    let callback = move |_: T| {
        if counts.fetch_add(1, Ordering::Relaxed) == 0 {
            let _end_of_test = released.lock().unwrap().recv();
        }
    };
    (callback, called, release)
}

#[test]
fn events_have_new_losses_and_the_service_and_the_file_have_totals() {
    if middleware::lacks_sequence_numbers("losses by events, the service and the file") {
        return;
    }
    const COUNT: u64 = 150;
    let domain = domain();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("totals.yaml");
    std::fs::write(&file, "an older file").unwrap();
    let (executor, node) = node("lossy", &[]);
    let options = NodeStatisticsOptions::new()
        .topic_statistics(every(100).metrics([Metric::PublicationSeqGap, Metric::MessageSize]))
        .max_event_rate(100.0)
        .topic_statistics_service(true)
        .totals_file(&file);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let unmeasured = TopicStatisticsOptions::new().metrics([Metric::MessagePeriod]);
    let unknown =
        statistics.create_subscription("unknown".topic_statistics(unmeasured), |_: Imu| ()).unwrap();
    let event_publishers = || node.count_publishers("/events/messages_lost").unwrap();
    assert_eq!(event_publishers(), 0, "no losses are measured");
    let (slow, called, release) = waiting::<Imu>();
    let lossy =
        statistics.create_worker_subscription(&node.create_worker(()), "imu".keep_last(1), slow).unwrap();
    let number = node.create_worker(());
    let number =
        statistics.create_worker_subscription(&number, "number".keep_last(1000), |_: Int32| ()).unwrap();
    wait_for("publisher of events", || event_publishers() > 0);
    assert_eq!(event_publishers(), 1, "one for the node");
    let (blocks, blocked, unblock) = waiting::<Int32>();
    let _blocking = node.create_subscription("block", blocks).unwrap();
    let blocking = node.create_publisher::<Int32>("block").unwrap();
    let spinning = Spinning::start(executor);
    let mut reader = Program::start("losses.py", &["--matched"], domain);
    assert_eq!(reader.read("no publisher of events"), "{\"matched\": 1}");

    // All reports work while a callback blocks the node's executor.
    wait_for_subscriptions(&blocking, 1);
    blocking.publish(Int32::default()).unwrap();
    wait_for("the callback that blocks", || blocked.load(Ordering::Relaxed) == 1);
    let sender = context(domain, &[]).create_basic_executor();
    let sender = sender.create_node("sender").unwrap();
    let create = || {
        let publisher = sender.create_publisher::<Imu>("imu".keep_last(1000)).unwrap();
        wait_for_subscriptions(&publisher, 1);
        publisher
    };
    let (imus, numbers) = (create(), sender.create_publisher::<Int32>("number".keep_last(1000)).unwrap());
    wait_for_subscriptions(&numbers, 1);
    // The first message waits in its callback, and the queue has room for one more.
    imus.publish(imu(Default::default())).unwrap();
    wait_for("the first message", || called.load(Ordering::Relaxed) == 1);
    for _ in 1..COUNT {
        imus.publish(imu(Default::default())).unwrap();
        numbers.publish(Int32::default()).unwrap();
    }
    wait_for("all numbers", || number.totals().received == COUNT - 1);
    release.send(()).unwrap();
    wait_for("the last message", || {
        let totals = lossy.totals();
        totals.received + totals.lost.unwrap() == COUNT
    });
    drop(imus);
    create().publish(imu(Default::default())).unwrap();
    wait_for("the message of a publisher that restarted", || lossy.totals().publishers == Some(2));
    let totals = lossy.totals();
    let lost = totals.lost.unwrap();
    assert_eq!((totals.received + lost, totals.out_of_order), (COUNT + 1, Some(0)), "it is no loss");
    assert_eq!(totals.received, called.load(Ordering::Relaxed));
    assert!(lost > COUNT / 2, "{totals:?}");
    assert_eq!(number.totals().lost, Some(0));

    let mut sum = 0;
    while sum < lost {
        let line: Value = serde_json::from_str(&reader.read("event")).unwrap();
        assert_eq!((&line["node"], &line["event"][0][0]), (&"/lossy".into(), &"/imu".into()), "{line}");
        assert_eq!(line["event"].as_array().unwrap().len(), 1, "no other topic has losses: {line}");
        sum += line["event"][0][1].as_u64().unwrap();
    }
    assert_eq!(sum, lost, "no loss is published twice");

    let mut ask = || -> Value { serde_json::from_str(&reader.request("totals /lossy")).unwrap() };
    let answer = ask();
    assert_eq!(answer["node"], "/lossy");
    let of = |source: &str| {
        let all = answer["totals"].as_array().unwrap();
        all.iter().find(|entry| entry["source"] == source).unwrap_or_else(|| panic!("{answer}")).clone()
    };
    let answered = of("/lossy:/imu");
    let nanoseconds = |time: Option<Timestamp>| time.map(Timestamp::as_nanoseconds);
    assert_eq!(answered["topic"], "/imu");
    assert_eq!(answered["received"].as_u64(), Some(totals.received));
    assert_eq!((answered["lost"].as_u64(), answered["out_of_order"].as_u64()), (totals.lost, Some(0)));
    assert!(totals.bytes.is_some_and(|bytes| bytes > 300 * totals.received), "{totals:?}");
    assert_eq!(answered["bytes"].as_u64(), totals.bytes);
    assert_eq!(answered["rate"].as_f64(), Some(totals.rate()));
    assert_eq!(answered["first"].as_i64(), nanoseconds(totals.first_message));
    assert_eq!(answered["last"].as_i64(), nanoseconds(totals.last_message));
    assert_eq!(of("/lossy:/number")["received"].as_u64(), Some(COUNT - 1));
    let not_measured = of("/lossy:/unknown");
    assert!(["bytes", "lost", "rate"].iter().all(|figure| not_measured[figure].is_null()), "{not_measured}");
    assert_eq!(blocked.load(Ordering::Relaxed), 1, "the executor was blocked all the time");

    // The service and the file also have the subscriptions that have ended.
    drop((lossy, number));
    assert_eq!(ask()["totals"].as_array().unwrap().len(), 3);
    drop((unknown, statistics, unblock, spinning));
    let mut text = String::new();
    wait_for("the file of totals", || {
        text = std::fs::read_to_string(&file).unwrap();
        text != "an older file"
    });
    let document: Value = yaml_serde::from_str(&text).unwrap();
    assert_eq!((document["version"].as_u64(), document["node_name"].as_str()), (Some(1), Some("/lossy")));
    let in_file = |topic: &str, figure: &str| {
        let topics = document["topics"].as_array().unwrap();
        topics.iter().find(|entry| entry["topic_name"] == topic).unwrap()[figure].as_u64()
    };
    let figures =
        ["messages_received", "messages_lost", "bytes_received"].map(|figure| in_file("/imu", figure));
    assert_eq!(figures, [Some(totals.received), totals.lost, totals.bytes], "{text}");
    assert_eq!(in_file("/number", "messages_received"), Some(COUNT - 1), "{text}");
    assert_eq!(in_file("/unknown", "messages_lost"), None, "{text}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
}
