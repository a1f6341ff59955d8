// SPDX-License-Identifier: Apache-2.0

//! A slow disk: what the recorder itself loses is said apart from what the transport loses.

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

use super::{read, whole, Recording, Talker};

/// Returns the totals of the service.
fn ask(client: &Client<GetTopicStatistics>) -> TopicStatistics {
    let answer = Arc::new(Mutex::new(None));
    let to = Arc::clone(&answer);
    let take = move |response: GetTopicStatistics_Response| *to.lock().unwrap() = Some(response);
    let _promise = client.call_then(&GetTopicStatistics_Request::default(), take).unwrap();
    wait_for("answer", || answer.lock().unwrap().is_some());
    let response = answer.lock().unwrap().take().unwrap();
    assert_eq!(response.node_name, "/topic_monitor");
    response.topic_statistics.into_iter().find(|statistics| statistics.topic_name == "/chatter").unwrap()
}

#[test]
fn a_slow_disk_loses_messages_in_the_recorder_only() {
    let Some(library) = preload::library("slow_fsync") else { return };
    // All topics: its own events are not among them, and `/quiet`, which loses nothing, has none.
    let arguments = ["/**", "--max-cache-size", "100kB", "--statistics-update-rate", "10"];
    let mut recording = Recording::start(&arguments, |monitor| preload::preload(monitor, &library));
    let talker = Talker::new();
    let quiet = talker.node.create_publisher::<StringMsg>("quiet".keep_last(10)).unwrap();
    let (sums, last) = (Arc::new(Mutex::new(BTreeMap::<String, u64>::new())), Mutex::new(f64::NEG_INFINITY));
    let add = {
        let sums = Arc::clone(&sums);
        move |event: DiagnosticArray| {
            let stamp = &event.header.stamp;
            let time = f64::from(stamp.sec) + f64::from(stamp.nanosec) / 1e9;
            let before = std::mem::replace(&mut *last.lock().unwrap(), time);
            assert!(time - before > 0.09, "more often than 10 times per second");
            for status in event.status {
                assert!(status.name.ends_with("/chatter"), "{}", status.name);
                for pair in status.values {
                    let number = pair.value.parse::<u64>().unwrap_or(0);
                    *sums.lock().unwrap().entry(pair.key).or_default() += number;
                }
            }
        }
    };
    let events = "/topic_monitor/messages_lost".keep_last(1000);
    let _events = talker.node.create_subscription(events, add).unwrap();
    let sum = |key: &str| sums.lock().unwrap().get(key).copied().unwrap_or_default();
    let name = "/topic_monitor/get_topic_statistics";
    let client = talker.node.create_client::<GetTopicStatistics>(name).unwrap();
    wait_for("service", || client.service_is_ready().unwrap());
    talker.reach(&recording);
    recording.monitor.until("message without losses", |object| {
        assert_ne!(object["topic"], "/topic_monitor/messages_lost");
        quiet.publish(StringMsg::default()).unwrap();
        object["topic"] == "/quiet" && object["total"]["received"].as_u64() > Some(0)
    });
    assert!(sums.lock().unwrap().is_empty(), "no event without a loss: {sums:?}");

    wait_for("losses in the recorder", || {
        talker.send(200, 1000);
        sum("messages_lost_in_recorder") > 0
    });
    let received = recording.received();
    let totals = ask(&client);
    assert_eq!((totals.messages_received, totals.messages_lost), (received, 0), "none in the transport");
    let mut counted =
        totals.metrics.iter().filter(|metric| metric.metrics_source == "messages_lost_in_recorder");
    let lost = counted.next().unwrap().count;
    wait_for("last event", || sum("messages_lost_in_recorder") == lost);
    assert_eq!(sum("messages_lost_in_transport"), 0);

    let line = recording.end("INT");
    assert!(line.contains(&format!("0 lost in the transport, {lost} in the recorder")), "{line}");
    let bag = read(&[recording.file()]);
    assert!(bag.notes.is_empty(), "{:?}", bag.notes);
    let whole = whole(&bag);
    assert_eq!((whole.messages_lost_in_transport, whole.messages_lost_in_recorder), (Some(0), lost));
    assert_eq!(whole.messages_recorded + lost, received);
}
