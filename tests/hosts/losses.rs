// SPDX-License-Identifier: Apache-2.0

//! Messages that the network loses, repeats or reorders.

use std::{path::PathBuf, process::Command, time::Duration};

use saphyr::{LoadableYamlNode, Yaml};
use serde_json::Value;
use test_support::{
    domain,
    network::{Conditions, Way},
    on_the_network, preload, program, wait_for, windows_of, Metric, Program,
};

use super::{
    lossy,
    monitor::Monitor,
    program::{Receiver, Sender},
    read_statistics, two_hosts,
};

/// Reads the events of the receiver until their losses add up to `lost`.
fn read_events(events: &Program, lost: u64) {
    let mut sum = 0;
    while sum < lost {
        let line = events.read(&format!("event of {lost} messages lost, after {sum}"));
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["node"] == "/receiver" {
            let entries = event["event"].as_array().unwrap();
            sum += entries.iter().map(|entry| entry[1].as_u64().unwrap()).sum::<u64>();
        }
    }
    assert_eq!(sum, lost, "each loss is published once");
}

/// Returns the figures of `/chatter` in a bag, from `bag_statistics`.
fn read_bag(files: &[PathBuf]) -> Value {
    let output = Command::new(program("bag_statistics")).args(files).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut chatter = objects.filter(|object| object["topic"] == "/chatter");
    chatter.find(|object| object["recording"].is_object()).unwrap()["recording"].clone()
}

#[test]
fn every_report_has_the_exact_number_of_lost_messages() {
    const SENDERS: [&str; 2] = ["sender", "other"];
    const CHATTER: &str = "/receiver:/chatter";
    let Some(network) = two_hosts() else { return };
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let [file, bag] = ["totals.yaml", "run.mcap"].map(|name| directory.path().join(name));
    let weak = ("BEST_EFFORT", "");
    let mut senders = SENDERS.map(|name| Sender::start(&network.talking, domain, name, &[weak]));
    let mut reader = read_statistics(&network.listening, domain);
    let losses = on_the_network(Program::command("losses.py", &[], domain));
    let mut losses: Program = network.listening.spawn(losses).into();
    // In this process, the library and the preloaded library measure the same messages. The library publishes on a
    // topic other than /statistics, so the reader reads only windows of the preloaded library.
    let library = preload::statistics();
    let settings = [
        weak,
        ("TOTALS_FILE", file.to_str().unwrap()),
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("TOPIC_STATISTICS_METRICS", "all"),
        ("ARGUMENTS", "--ros-args -r /statistics:=/own_statistics"),
    ];
    let mut receiver = Receiver::start(&network.listening, domain, &settings);
    let record = ["/chatter", "--record", bag.to_str().unwrap(), "--split", "--max-size", "20kB"];
    let mut monitor = Monitor::start(&network.listening, &record, domain);
    wait_for("reader of events", || receiver.report().readers_of_events == 1);
    reader.read_until("window", |metrics| metrics.iter().any(|metric| metric.source == CHATTER));

    // Messages that were sent before discovery do not count as losses. After this wait, all messages are received.
    wait_for("first messages", || {
        let _sent = senders.each_mut().map(|sender| sender.send(1));
        monitor.senders() == 2 && receiver.report().publishers == Some(2)
    });
    let before = senders.each_mut().map(|sender| sender.send(5));
    let by_sender = |sent: [u64; 2]| [(SENDERS[0], sent[0]), (SENDERS[1], sent[1])];
    receiver.settled(by_sender(before));
    let monitor_before = monitor.settled();
    assert_eq!(monitor_before.1, 0, "no message is lost without reason");

    network.link.set(Way::There, lossy());
    senders[1].send("run");
    senders[0].send(600);
    senders[1].send("stop");
    network.link.set(Way::There, Conditions::default());
    let sent = senders.each_mut().map(|sender| sender.send(20));
    let (totals, link) = (receiver.settled(by_sender(sent)), network.link.counts(Way::There));
    let lost = totals.lost.unwrap();
    assert!(lost > 10, "10 % of more than 600 messages");
    assert_eq!((totals.out_of_order, totals.publishers), (Some(0), Some(2)));
    let (monitor_received, monitor_lost) = monitor.settled();
    let sent_to_monitor = sent.iter().sum::<u64>() - before.iter().sum::<u64>();
    assert_eq!(monitor_received + monitor_lost, monitor_before.0 + sent_to_monitor);
    assert_eq!(link.lost_messages, lost + monitor_lost);

    // Returns the number of samples of the preloaded library, and the sum of these samples. The first message of each
    // publisher has no sample of `publication_seq_gap`.
    let sum = |metrics: &[Metric], metric: &str| {
        let windows = windows_of(metrics, CHATTER, metric).filter(|window| window.count() > 0.0);
        windows.fold([0, 0], |[count, sum], window| {
            [count + window.count() as u64, sum + (window.count() * window.average()).round() as u64]
        })
    };
    reader.read_until("last window", |metrics| {
        sum(metrics, "source_to_receive_ms")[0] >= totals.received
            && sum(metrics, "publication_seq_gap")[0] >= totals.received - 2
    });
    assert_eq!(sum(&reader.metrics, "source_to_receive_ms")[0], totals.received);
    assert_eq!(sum(&reader.metrics, "publication_seq_gap"), [totals.received - 2, lost]);

    read_events(&losses, lost);
    let answer: Value = serde_json::from_str(&losses.request("totals /receiver")).unwrap();
    let topics = answer["totals"].as_array().unwrap();
    let topic = topics.iter().find(|topic| topic["topic"] == "/chatter").unwrap();
    let counts = ["received", "lost"].map(|count| topic[count].as_u64().unwrap());
    assert_eq!(counts, [totals.received, lost]);
    receiver.0.end();
    let text = std::fs::read_to_string(&file).unwrap();
    let file = &Yaml::load_from_str(&text).unwrap()[0];
    let mut topics = file["topics"].as_sequence().unwrap().iter();
    let topic = topics.find(|topic| topic["topic_name"].as_str() == Some("/chatter")).unwrap();
    let counts =
        ["messages_received", "messages_lost"].map(|count| topic[count].as_integer().unwrap() as u64);
    assert_eq!(counts, [totals.received, lost]);

    monitor.end();
    let files = (0..).map(|number| directory.path().join(format!("run_{number}.mcap")));
    let files: Vec<PathBuf> = files.take_while(|file| file.exists()).collect();
    let recorded = read_bag(&files);
    let in_bag = ["received", "lost"].map(|count| recorded[count].as_u64().unwrap());
    assert_eq!(in_bag, [monitor_received, monitor_lost], "{recorded:#}");
    assert!(files.len() > 1);
}

#[test]
fn repeated_and_reordered_messages_are_counted_as_received() {
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut sender = Sender::start(&network.talking, domain, "sender", &[]);
    let mut weak = Receiver::start(&network.listening, domain, &[("BEST_EFFORT", "")]);
    let mut strong = Receiver::start(&network.listening, domain, &[]);
    wait_for("first messages", || {
        sender.send(1);
        [&mut weak, &mut strong].into_iter().all(|receiver| receiver.report().received > 0)
    });
    // Sends messages while the network has these conditions, and then some more messages while the network has no such
    // conditions. Returns the totals of both receivers.
    let mut send = |conditions: Conditions| {
        network.link.set(Way::There, Conditions { only_messages: true, ..conditions });
        sender.send(600);
        network.link.set(Way::There, Conditions::default());
        let sent = sender.send(20);
        [&mut weak, &mut strong].map(|receiver| {
            let totals = receiver.settled([("sender", sent)]);
            assert_eq!(totals.out_of_order, Some(0), "{totals:?}");
            totals
        })
    };

    // A duplicate is not counted: RTPS delivers each sequence number only once, with any QoS.
    let [weak, strong] = send(Conditions { duplicates: 0.2, ..Conditions::default() });
    assert!(network.link.counts(Way::There).duplicated_messages > 20);
    assert_eq!([weak.lost, strong.lost], [Some(0); 2]);
    // If a message overtakes another one, best effort drops the overtaken message, and reliable restores the order.
    let [weak, strong] =
        send(Conditions { reordered: 0.1, extra_delay: Duration::from_millis(200), ..Conditions::default() });
    let reordered = network.link.counts(Way::There).reordered_messages;
    assert_eq!(strong.lost, Some(0));
    assert!((1..reordered).contains(&weak.lost.unwrap()), "{weak:?}, {reordered} reordered");
}
