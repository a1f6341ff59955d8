// SPDX-License-Identifier: Apache-2.0

//! What the recorder itself loses is said apart from what the transport loses, while it records and afterwards.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use rclrs::*;
use ros_env::{
    diagnostic_msgs::msg::DiagnosticArray,
    std_msgs::msg::String as StringMsg,
    topic_statistics_interfaces::{
        msg::TopicStatistics,
        srv::{GetTopicStatistics, GetTopicStatistics_Request, GetTopicStatistics_Response},
    },
};
use test_support::{preload, wait_for};

use super::{read, whole, Recording};

/// The topic of the events.
const EVENTS: &str = "/topic_monitor/messages_lost";

/// The sums of the values of all events.
type Sums = Arc<Mutex<BTreeMap<String, u64>>>;

/// Adds the values of events, which come at most 10 times per second.
fn add_events(node: &Node, sums: &Sums) -> Subscription<DiagnosticArray> {
    let (sums, last) = (Arc::clone(sums), Mutex::new(f64::NEG_INFINITY));
    node.create_subscription(EVENTS.keep_last(1000), move |event: DiagnosticArray| {
        let stamp = &event.header.stamp;
        let time = f64::from(stamp.sec) + f64::from(stamp.nanosec) / 1e9;
        let before = std::mem::replace(&mut *last.lock().unwrap(), time);
        assert!(time - before > 0.099, "more often than 10 times per second");
        assert!(!event.status.is_empty(), "without a loss");
        for status in event.status {
            assert!(status.name.ends_with("/chatter"), "{}", status.name);
            for pair in status.values {
                if let Ok(number) = pair.value.parse::<u64>() {
                    *sums.lock().unwrap().entry(pair.key).or_default() += number;
                }
            }
        }
    })
    .unwrap()
}

/// Returns the totals of the service.
fn ask(client: &Client<GetTopicStatistics>) -> TopicStatistics {
    let answer = Arc::new(Mutex::new(None));
    let to = Arc::clone(&answer);
    let request = GetTopicStatistics_Request::default();
    let _promise = client
        .call_then(&request, move |response: GetTopicStatistics_Response| {
            *to.lock().unwrap() = Some(response);
        })
        .unwrap();
    wait_for("answer", || answer.lock().unwrap().is_some());
    let response = answer.lock().unwrap().take().unwrap();
    assert_eq!(response.node_name, "/topic_monitor");
    response.topic_statistics.into_iter().find(|statistics| statistics.topic_name == "/chatter").unwrap()
}

fn metric(statistics: &TopicStatistics, name: &str) -> u64 {
    statistics.metrics.iter().find(|metric| metric.metrics_source == name).unwrap().count
}

#[test]
fn a_recorder_held_up_by_a_slow_disk_says_its_own_losses() {
    let Some(library) = preload::library("slow_fsync") else { return };
    // A topic without losses, which has no events.
    let arguments = ["/quiet", "--max-cache-size", "100kB", "--statistics-update-rate", "10"];
    let mut recording = Recording::start_as(&arguments, |monitor| preload::preload(monitor, &library));
    let (node, sums) = (Arc::clone(&recording.talker.node), Sums::default());
    let _events = add_events(&node, &sums);
    let quiet = node.create_publisher::<StringMsg>("quiet".keep_last(10)).unwrap();
    recording.monitor.until("message without losses", |object| {
        quiet.publish(StringMsg::default()).unwrap();
        object["topic"] == "/quiet" && object["total"]["received"].as_u64() > Some(0)
    });
    let client = node.create_client::<GetTopicStatistics>("/topic_monitor/get_topic_statistics").unwrap();
    wait_for("service", || client.service_is_ready().unwrap());
    let sum = |key: &str| sums.lock().unwrap().get(key).copied().unwrap_or_default();

    wait_for("losses in the recorder", || {
        recording.talker.send_many(200, 1000);
        sum("messages_lost_in_recorder") > 0
    });
    let received = recording.received();
    let totals = ask(&client);
    assert_eq!(totals.messages_received, received);
    assert_eq!(totals.messages_lost, 0, "none in the transport");
    let lost = metric(&totals, "messages_lost_in_recorder");
    wait_for("last event", || sum("messages_lost_in_recorder") == lost);
    assert_eq!(sum("messages_lost_in_transport"), 0);

    let line = recording.end("INT");
    assert!(line.contains(&format!("0 lost in the transport, {lost} in the recorder")), "{line}");
    let bag = read(&[recording.file()]);
    assert!(bag.notes.is_empty(), "{:?}", bag.notes);
    let all = bag.recording.whole();
    let whole = all.iter().find(|entry| entry.topic == "/chatter").unwrap();
    let messages = bag.topics.iter().find(|topic| topic.name() == "/chatter").unwrap().messages();
    assert_eq!((whole.messages_lost_in_transport, whole.messages_lost_in_recorder), (Some(0), lost));
    assert_eq!((whole.messages_recorded, whole.messages_recorded + lost), (messages, received));
}

#[test]
fn without_a_loss_there_is_no_event_and_the_service_has_the_totals() {
    let mut recording = Recording::start(&["--statistics-update-rate", "20"]);
    let (node, sums) = (Arc::clone(&recording.talker.node), Sums::default());
    let _events = add_events(&node, &sums);
    let client = node.create_client::<GetTopicStatistics>("/topic_monitor/get_topic_statistics").unwrap();
    wait_for("service", || client.service_is_ready().unwrap());
    recording.talker.send_many(100, 50);
    let received = recording.received();
    wait_for("written", || metric(&ask(&client), "messages_recorded") == received);
    let totals = ask(&client);
    assert_eq!((totals.messages_lost, metric(&totals, "messages_lost_in_recorder")), (0, 0));
    assert!(totals.messages_rate > 0.0 && metric(&totals, "bytes_written") > 100 * 50, "{totals:?}");
    recording.end("INT");
    assert!(sums.lock().unwrap().is_empty(), "{sums:?}");
    assert_eq!(whole(&read(&[recording.file()])).messages_recorded, received);
}

#[test]
fn a_rate_of_zero_means_no_events() {
    for (rate, publishers) in [("0", 0), ("1", 1)] {
        let recording = Recording::start(&["--statistics-update-rate", rate]);
        let node = &recording.talker.node;
        // The recorder's service is created before its publisher of events.
        let client = node.create_client::<GetTopicStatistics>("/topic_monitor/get_topic_statistics").unwrap();
        wait_for("service", || client.service_is_ready().unwrap());
        wait_for("publishers of events", || node.count_publishers(EVENTS).unwrap() == publishers);
    }
}

#[test]
fn its_own_events_are_not_among_all_topics() {
    let recording = Recording::start(&["/**"]);
    let later = recording.talker.node.create_publisher::<StringMsg>("later".keep_last(10)).unwrap();
    // It is found in the graph after the topic of the events.
    for _window in 0..3 {
        recording.monitor.until("windows of the later topic", |object| {
            assert_ne!(object["topic"], EVENTS);
            later.publish(StringMsg::default()).unwrap();
            object["topic"] == "/later"
        });
    }
}
