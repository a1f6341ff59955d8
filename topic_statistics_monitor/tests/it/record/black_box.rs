// SPDX-License-Identifier: Apache-2.0

//! A test of `--last`: an ERROR triggers a file with exactly the messages before and after the ERROR.

use std::{fs, path::PathBuf, sync::mpsc};

use rclrs::*;
use ros_env::{
    std_msgs::msg::String as StringMsg,
    std_srvs::srv::{Trigger, Trigger_Request, Trigger_Response},
};
use test_support::{wait_for, LIMIT};
use topic_statistics_bag::BagStatistics;

use super::{read, whole, Recording, Talker};

fn messages(bag: &BagStatistics, topic: &str) -> u64 {
    bag.topics.iter().find(|other| other.name() == topic).map_or(0, |topic| topic.messages())
}

#[test]
fn an_error_writes_what_was_before_and_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let expect = directory.path().join("expect.yaml");
    fs::write(&expect, "topics: {/chatter: {silence: error, stale_after: 1}, /map: {}}").unwrap();
    let talker = Talker::new();
    let map = talker.node.create_publisher::<StringMsg>("map".keep_last(1).transient_local()).unwrap();
    map.publish(StringMsg::default()).unwrap();
    let arguments = ["/map", "--last", "600s", "--after", "8s", "--on", "error"];
    let mut recording = Recording::start(&arguments, |monitor| {
        monitor.arg("--expect").arg(&expect);
    });
    recording.monitor.until_of("/map", |object| object["total"]["received"] == 1);
    talker.reach(&recording);
    talker.send(300, 100);
    let line = recording.monitor.until_error("/chatter is ERROR");
    assert!(line.contains("no message any more") && line.contains(": writing "), "{line}");
    talker.send(50, 100);
    // The silence after these messages also becomes an ERROR. This second ERROR belongs to the same file.
    recording.monitor.until_error("added to the file");
    recording.monitor.until_error("wrote ");
    let received = recording.received();
    // A trigger within a minute after the first file began waits. Its file is written at the end of the program.
    recording.monitor.process.signal("USR1");
    recording.monitor.until_error("SIGUSR1: a file begins in ");
    // The service is another trigger.
    let service = talker.node.create_client::<Trigger>("/topic_monitor/write_recording").unwrap();
    wait_for("service", || service.service_is_ready().unwrap());
    let (sender, answer) = mpsc::channel();
    let take = move |response: Trigger_Response| sender.send(response).unwrap();
    let _promise = service.call_then(&Trigger_Request::default(), take).unwrap();
    let answer = answer.recv_timeout(LIMIT).unwrap();
    assert!(answer.success && answer.message.contains(": a file begins in "), "{answer:?}");
    assert!(recording.monitor.until_error("service call: ").ends_with(&answer.message), "{answer:?}");
    talker.send(20, 100);
    let all = recording.received();
    assert_eq!(all, received + 20);
    assert_eq!(recording.monitor.end("INT"), Some(1), "/chatter is ERROR at the end");
    recording.monitor.until_error("wrote 2 files; 0 lost in the transport, 0 in the recorder");

    let entries = fs::read_dir(recording.directory.path()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let bags: Vec<_> = files.iter().map(|file| read(std::slice::from_ref(file))).collect();
    let counts: Vec<_> = bags.iter().map(|bag| (messages(bag, "/chatter"), messages(bag, "/map"))).collect();
    assert_eq!(counts, [(received, 1), (all, 1)]);
    for (bag, expected) in bags.iter().zip([received, all]) {
        assert!(bag.notes.is_empty(), "{:?}", bag.notes);
        let totals = whole(bag);
        assert_eq!((totals.messages_recorded, totals.messages_lost_in_recorder), (expected, 0));
    }
    let bytes = fs::read(&files[0]).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    for part in ["topic_statistics:trigger", "level_before", "no message any more, since", "window_stop"] {
        assert!(text.contains(part), "{part}");
    }
}
