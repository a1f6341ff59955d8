// SPDX-License-Identifier: Apache-2.0

//! Losses in events, in the service and in the file: rclpy reads the events and calls the service.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc, Arc, Mutex,
    },
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoMeasuredOptions, MeasuredSubscription, Metric, NodeStatistics, NodeStatisticsOptions, Timestamp,
    TopicStatisticsOptions, Totals,
};
use ros_env::{sensor_msgs::msg::Imu, std_msgs::msg::Int32};
use serde_json::{json, Value};
use test_support::{context, domain, middleware, node, wait_for, Program, Progress, Spinning};

/// Returns options that measure losses.
fn losses() -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().metrics([Metric::PublicationSeqGap])
}

/// The numbers of the first and the last message that were received.
#[derive(Default)]
struct Received {
    first: AtomicU64,
    last: AtomicU64,
}

/// Creates a slow subscription on its own worker. Each callback waits for two more of `count` messages, so that
/// messages are lost.
fn slow(
    node: &Node,
    statistics: &NodeStatistics,
    received: &Arc<Received>,
    count: u64,
) -> MeasuredSubscription<Imu> {
    let (received, progress) = (Arc::clone(received), Progress::of_publisher(node));
    let callback = move |message: Imu| {
        let number = message.linear_acceleration.x as u64;
        let _ = received.first.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
        received.last.store(number, Ordering::Relaxed);
        progress.wait_for(count.min(number + 2));
    };
    statistics.create_worker_subscription(&node.create_worker(()), "imu".keep_last(1), callback).unwrap()
}

/// Publishes a number of messages at 50 Hz, as soon as there are a subscription of `imu` and this number of subscriptions of
/// `number`.
fn publish(count: u64, of_numbers: u32, domain: u32) -> Program {
    let (count, of_numbers) = (count.to_string(), of_numbers.to_string());
    let arguments = ["--count", &count, "--subscribers", "1", "--number-subscribers", &of_numbers];
    Program::start("publisher.py", &arguments, domain)
}

#[derive(Debug)]
struct Event {
    node: String,
    time: f64,
    lost: Vec<(String, u64)>,
}

/// Starts a reader of events. It has found the node's publisher: otherwise it would miss messages published at the
/// node's end.
fn reader(node: &Node, domain: u32) -> Program {
    let reader = Program::start("losses.py", &["--matched"], domain);
    wait_for("reader of the events", || node.count_subscriptions("/events/messages_lost").unwrap() == 1);
    assert_eq!(reader.read("no publisher of events"), "{\"matched\": 1}");
    reader
}

/// Reads events until their losses add up to `lost`.
fn events(reader: &Program, lost: u64) -> Vec<Event> {
    let mut events: Vec<Event> = vec![];
    let sum =
        |events: &[Event]| events.iter().flat_map(|event| &event.lost).map(|(_, lost)| lost).sum::<u64>();
    while sum(&events) < lost {
        let line = reader.read(&format!("event of {lost} messages lost: {events:?}"));
        let json: Value = serde_json::from_str(&line).unwrap();
        if !json["matched"].is_null() {
            continue; // a publisher came or ended; the last event may come after that
        }
        let source_and_count =
            |entry: &Value| (entry[0].as_str().unwrap().to_owned(), entry[1].as_u64().unwrap());
        events.push(Event {
            node: json["node"].as_str().unwrap().to_owned(),
            time: json["time"].as_f64().unwrap(),
            lost: json["event"].as_array().unwrap().iter().map(source_and_count).collect(),
        });
    }
    assert_eq!(sum(&events), lost, "no loss is published twice: {events:?}");
    events
}

#[test]
fn events_report_new_losses_and_the_service_and_the_file_report_totals() {
    if middleware::lacks_sequence_numbers("losses by events, the service and the file") {
        return;
    }
    const COUNT: u64 = 150;
    let domain = domain();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("totals.yaml");
    std::fs::write(&file, "an older file").unwrap();
    let (executor, node) = node("lossy", &[]);
    let losses_and_bytes = losses().metrics([Metric::PublicationSeqGap, Metric::MessageSize]);
    let options = NodeStatisticsOptions::new()
        .topic_statistics(losses_and_bytes)
        .max_event_rate(2.0)
        .topic_statistics_service(true)
        .totals_file(&file);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let received = Arc::new(Received::default());
    let imu = slow(&node, &statistics, &received, COUNT);
    let count = Arc::new(AtomicU64::new(0));
    let number = statistics
        .create_subscription("number".keep_last(1000), {
            let count = Arc::clone(&count);
            move |_: Int32| {
                count.fetch_add(1, Ordering::Relaxed);
            }
        })
        .unwrap();
    let unknown = TopicStatisticsOptions::new().metrics([Metric::MessagePeriod]);
    let of_unknown =
        statistics.create_subscription("unknown".topic_statistics(unknown), |_: Imu| ()).unwrap();
    let spinning = Spinning::start(executor);

    let mut reader = reader(&node, domain);
    let _publisher = publish(COUNT, 2, domain);

    wait_for("last messages", || {
        received.last.load(Ordering::Relaxed) == COUNT && count.load(Ordering::Relaxed) == COUNT
    });
    let totals = imu.totals();
    let lost = totals.lost.unwrap();
    // Messages published before its first received one are not lost for it.
    let first = received.first.load(Ordering::Relaxed);
    assert!(lost > COUNT / 10 && totals.received + lost == COUNT - first + 1, "from {first} on: {totals:?}");
    assert_eq!(number.totals().lost, Some(0));

    let events = events(&reader, lost);
    assert!(events.len() > 2, "3 s of losses, two events per second: {events:?}");
    for event in &events {
        assert_eq!(event.node, "/lossy");
        assert!(
            matches!(&event.lost[..], [(topic, 1..)] if topic == "/imu"),
            "no other topic has losses: {event:?}"
        );
    }
    // The rate of events is at most the option's, over the whole time. The first event may have been late.
    let time = events.last().unwrap().time - events[0].time;
    assert!((events.len() - 1) as f64 <= 2.0 * (time + 0.5), "{events:?}");

    let answer: Value = serde_json::from_str(&reader.request("totals /lossy")).unwrap();
    assert_eq!(answer["node"], "/lossy");
    let totals_of = |source: &str| {
        let all = answer["totals"].as_array().unwrap();
        all.iter()
            .find(|entry| entry["source"] == source)
            .unwrap_or_else(|| panic!("{source}: {answer}"))
            .clone()
    };
    let imu_totals = totals_of("/lossy:/imu");
    assert_eq!(imu_totals["topic"], "/imu");
    assert_eq!(imu_totals["received"].as_u64(), Some(totals.received));
    assert_eq!((imu_totals["lost"].as_u64(), imu_totals["out_of_order"].as_u64()), (totals.lost, Some(0)));
    assert!(totals.bytes.is_some_and(|bytes| bytes > 300 * totals.received), "{totals:?}");
    assert_eq!(imu_totals["bytes"].as_u64(), totals.bytes);
    assert_eq!(imu_totals["rate"].as_f64(), Some(totals.rate()));
    assert_eq!(imu_totals["first"].as_i64(), totals.first_message.map(Timestamp::as_nanoseconds));
    assert_eq!(imu_totals["last"].as_i64(), totals.last_message.map(Timestamp::as_nanoseconds));
    assert_eq!(totals_of("/lossy:/number")["received"].as_u64(), Some(COUNT));
    let unknown = totals_of("/lossy:/unknown");
    assert!(unknown["bytes"].is_null(), "not measured: {unknown}");
    assert!(unknown["lost"].is_null() && unknown["rate"].is_null(), "not known: {unknown}");

    // The service and the file also contain the subscriptions that have ended.
    drop((imu, number));
    let answer: Value = serde_json::from_str(&reader.request("totals /lossy")).unwrap();
    assert_eq!(answer["totals"].as_array().unwrap().len(), 3, "{answer}");
    drop((of_unknown, statistics));
    // On a busy machine the file is written later.
    let mut text = String::new();
    wait_for("the file of totals", || {
        text = std::fs::read_to_string(&file).unwrap();
        text != "an older file"
    });
    let document: Value = yaml_serde::from_str(&text).unwrap();
    assert_eq!((document["version"].as_u64(), document["node_name"].as_str()), (Some(1), Some("/lossy")));
    let topics = document["topics"].as_array().unwrap();
    let totals_in_file = |topic: &str| {
        topics.iter().find(|entry| entry["topic_name"] == topic).unwrap_or_else(|| panic!("{text}"))
    };
    assert_eq!(totals_in_file("/imu")["messages_lost"].as_u64(), totals.lost, "{text}");
    assert_eq!(totals_in_file("/imu")["bytes_received"].as_u64(), totals.bytes, "{text}");
    assert_eq!(totals_in_file("/imu")["messages_received"].as_u64(), Some(totals.received), "{text}");
    assert_eq!(totals_in_file("/number")["messages_received"].as_u64(), Some(COUNT), "{text}");
    assert!(totals_in_file("/unknown")["messages_lost"].is_null(), "{text}");
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "no temporary file is left: {files:?}");
    drop(spinning);
}

#[test]
fn pending_losses_are_published_at_the_end_even_of_a_subscription_that_has_ended() {
    if middleware::lacks_sequence_numbers("losses of a subscription that has ended") {
        return;
    }
    // The publisher ends 100 ms after the event: on a busy machine the reader may miss it.
    assert!((0..3).any(|_| receives_losses_at_the_end()), "no event");
}

/// Returns whether a reader has received the losses of a subscription that has ended.
fn receives_losses_at_the_end() -> bool {
    const COUNT: u64 = 60;
    let domain = domain();
    let (executor, node) = node("seldom", &[]);
    // One event in 1000 s. The first check is at the start and finds no losses.
    let options = NodeStatisticsOptions::new().topic_statistics(losses()).max_event_rate(0.001);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let received = Arc::new(Received::default());
    let imu = slow(&node, &statistics, &received, COUNT);
    let _spinning = Spinning::start(executor);
    let reader = reader(&node, domain);
    let _publisher = publish(COUNT, 1, domain);

    wait_for("last message", || received.last.load(Ordering::Relaxed) == COUNT);
    let Totals { lost: Some(lost @ 1..), .. } = imu.totals() else { panic!("{:?}", imu.totals()) };
    drop(imu);
    drop(statistics);
    let (ended, mut event) = (Instant::now(), None);
    wait_for("event", || {
        event = reader.try_read().filter(|line| line.contains("event"));
        event.is_some() || ended.elapsed() > Duration::from_secs(5)
    });
    let Some(event) = event else { return false };
    let event: Value = serde_json::from_str(&event).unwrap();
    assert_eq!(event["event"], json!([["/imu", lost]]));
    true
}

#[test]
fn losses_are_published_and_the_service_answers_while_a_callback_blocks_the_executor() {
    if middleware::lacks_sequence_numbers("losses while a callback blocks the executor") {
        return;
    }
    const COUNT: u64 = 60;
    let domain = domain();
    let (executor, node) = node("blocked", &[]);
    let options = NodeStatisticsOptions::new().topic_statistics(losses()).topic_statistics_service(true);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let received = Arc::new(Received::default());
    let imu = slow(&node, &statistics, &received, COUNT);
    let (release, released) = mpsc::channel::<()>();
    let (released, called) = (Mutex::new(released), Arc::new(AtomicU64::new(0)));
    let _blocking = node.create_subscription("number", {
        let called = Arc::clone(&called);
        move |_: Int32| {
            called.fetch_add(1, Ordering::Relaxed);
            let _end_of_test = released.lock().unwrap().recv();
        }
    });
    let _spinning = Spinning::start(executor);
    let mut reader = reader(&node, domain);
    let _publisher = publish(COUNT, 2, domain);

    wait_for("last message", || received.last.load(Ordering::Relaxed) == COUNT);
    let lost = imu.totals().lost.unwrap();
    events(&reader, lost);
    let answer: Value = serde_json::from_str(&reader.request("totals /blocked")).unwrap();
    assert_eq!(answer["totals"][0]["lost"].as_u64(), Some(lost), "{answer}");
    assert_eq!(called.load(Ordering::Relaxed), 1, "the callback blocks since the first message");
    drop(release);
}

#[test]
fn no_events_are_published_if_losses_are_not_measured_or_the_event_rate_is_0() {
    let executor = context(domain(), &[]).create_basic_executor();
    let publishers = |node: &Node| node.count_publishers("/events/messages_lost").unwrap();

    let node = executor.create_node("silent").unwrap();
    let statistics = NodeStatistics::new(&node).unwrap();
    let _imu = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let options = NodeStatisticsOptions::new().topic_statistics(losses()).max_event_rate(0.0);
    let mute = NodeStatistics::with_options(&executor.create_node("mute").unwrap(), options).unwrap();
    let _mute = mute.create_subscription("imu", |_: Imu| ()).unwrap();
    assert_eq!(publishers(&node), 0);

    let _gaps = statistics.create_subscription("imu".topic_statistics(losses()), |_: Imu| ()).unwrap();
    let _more = statistics.create_subscription("imu".topic_statistics(losses()), |_: Imu| ()).unwrap();
    wait_for("publisher, once losses are measured", || publishers(&node) > 0);
    assert_eq!(publishers(&node), 1, "one publisher for the node");
}
