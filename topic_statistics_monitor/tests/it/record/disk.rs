// SPDX-License-Identifier: Apache-2.0

//! A test with a slow disk: losses in the recorder and losses in the transport are reported separately.

use std::{
    collections::BTreeMap,
    sync::{mpsc, Arc, Mutex},
};

use rclrs::*;
use ros_env::{
    diagnostic_msgs::msg::DiagnosticArray,
    std_msgs::msg::String as StringMsg,
    topic_statistics_interfaces::srv::{
        GetTopicStatistics, GetTopicStatistics_Request, GetTopicStatistics_Response,
    },
};
use test_support::{preload, wait_for, LIMIT};

use super::{read, whole, Recording, Talker};

#[test]
fn a_slow_disk_loses_messages_in_the_recorder_only() {
    let Some(library) = preload::library("slow_fsync") else { return };
    // The monitor records all topics except its own events. The topic `/quiet` loses no message, so it has no events.
    let arguments = ["/**", "--max-cache-size", "100kB", "--statistics-update-rate", "10"];
    let mut recording = Recording::start(&arguments, |monitor| preload::preload(monitor, &library));
    let talker = Talker::new();
    let quiet = talker.node.create_publisher::<StringMsg>("quiet".keep_last(10)).unwrap();
    let sums = Arc::new(Mutex::new(BTreeMap::<String, u64>::new()));
    let to = Arc::clone(&sums);
    let add = move |event: DiagnosticArray| {
        for status in event.status {
            assert!(status.name.ends_with("/chatter"), "{}", status.name);
            for pair in status.values {
                let number = pair.value.parse::<u64>().unwrap_or(0);
                *to.lock().unwrap().entry(pair.key).or_default() += number;
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
    assert!(sums.lock().unwrap().is_empty(), "an event was published without a loss: {sums:?}");

    wait_for("losses in the recorder", || {
        talker.send(200, 1000);
        sum("messages_lost_in_recorder") > 0
    });
    let received = recording.received();
    let (sender, answer) = mpsc::channel();
    let take = move |response: GetTopicStatistics_Response| sender.send(response).unwrap();
    let _promise = client.call_then(&GetTopicStatistics_Request::default(), take).unwrap();
    let answer = answer.recv_timeout(LIMIT).unwrap();
    assert_eq!(answer.node_name, "/topic_monitor");
    let totals = answer.topic_statistics.iter().find(|topic| topic.topic_name == "/chatter").unwrap();
    assert_eq!((totals.messages_received, totals.messages_lost), (received, 0), "no loss in the transport");
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
