// SPDX-License-Identifier: Apache-2.0

//! Messages that the network loses, repeats or reorders.

use std::{path::Path, time::Duration};

use super::monitor::Monitor;
use serde_json::Value;
use test_support::{
    domain,
    network::{Conditions, Way},
    of, wait_for, Metric, Program,
};

use super::{
    median, now, on_the_network,
    programs::{Receiver, Sender, WEAK},
    read_statistics, source, two_hosts,
};

/// Reads events until their losses add up to `lost`.
fn read_events(events: &Program, lost: u64) {
    let mut sum = 0;
    while sum < lost {
        let line = events.read(&format!("event of {lost} messages lost, after {sum}"));
        let event: Value = serde_json::from_str(&line).unwrap();
        for entry in event["event"].as_array().unwrap() {
            assert_eq!(entry[0], "/chatter", "{line}");
            sum += entry[1].as_u64().unwrap();
        }
    }
    assert_eq!(sum, lost, "no loss is published twice");
}

#[test]
fn every_report_has_the_exact_number_of_messages_that_the_network_lost() {
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("totals.yaml");
    let weak = ("BEST_EFFORT", "");
    let chatter = source("/receiver", "/chatter");
    let mut sender = Sender::start(&network.talking, domain, &[weak]);
    let mut reader = read_statistics(&network.listening, domain);
    let losses = on_the_network(Program::command("losses.py", &[], domain));
    let mut losses: Program = network.listening.spawn(losses).into();
    let settings = [weak, ("TOTALS_FILE", file.to_str().unwrap())];
    let mut receiver = Receiver::start(&network.listening, domain, &settings);
    let mut monitor = Monitor::start(&network.listening, &["chatter"], domain);
    wait_for("reader of events", || receiver.readers_of_events() == 1);
    reader.read_until("window", |metrics| metrics.iter().any(|metric| metric.source == chatter));

    // Messages that were sent before discovery are no losses. From here on, all messages are received.
    wait_for("first messages", || {
        sender.send(1);
        let monitor_receives = monitor.total().0 > 0;
        monitor_receives && receiver.numbers().received > 0
    });
    let before = sender.send(5);
    wait_for("all messages", || receiver.numbers().last == before);
    let monitor_before = monitor.settled();

    let lossy = Conditions { loss: 0.1, only_messages: true, ..Conditions::default() };
    network.link.set(Way::There, lossy);
    sender.send(1000);
    network.link.set(Way::There, Conditions::default());
    let sent = sender.send(20);
    wait_for("last message", || receiver.numbers().last == sent);

    let (totals, numbers) = (receiver.totals("chatter"), receiver.numbers());
    let link = network.link.counts(Way::There);
    println!("sent {sent}, {totals:?}, {numbers:?}, {link:?}");
    let lost = totals.lost.unwrap();
    assert!((60..140).contains(&lost), "10 % of 1000 messages: {totals:?}");
    assert_eq!(totals.received + lost, sent - numbers.first + 1, "{totals:?}, {numbers:?}");
    assert_eq!(
        (totals.received, totals.received),
        (numbers.received, numbers.distinct),
        "as counted by the callback"
    );
    assert_eq!((totals.out_of_order, totals.publishers), (Some(0), Some(1)));
    let lost_by_monitor = {
        let (received, lost) = monitor.settled();
        println!("monitor: {monitor_before:?} before, {received} received, {lost} lost");
        assert_eq!(monitor_before.1, 0);
        assert_eq!(received + lost, monitor_before.0 + sent - before, "the monitor's own losses");
        lost
    };
    assert_eq!(link.lost_messages, lost + lost_by_monitor, "{link:?}");

    let count =
        |metrics: &[Metric], metric: &str| -> f64 { of(metrics, &chatter, metric).map(Metric::count).sum() };
    reader.read_until("last window", |metrics| {
        count(metrics, "source_to_receive_ms") as u64 >= totals.received
            && count(metrics, "publication_seq_gap") as u64 >= totals.received - 1
    });
    let gaps = reader.windows(&chatter, "publication_seq_gap");
    let missing: f64 =
        gaps.iter().filter(|gap| gap.count() > 0.0).map(|gap| gap.average() * gap.count()).sum();
    assert_eq!(count(&reader.metrics, "source_to_receive_ms") as u64, totals.received);
    assert_eq!(count(&reader.metrics, "publication_seq_gap") as u64, totals.received - 1);
    assert!((missing - lost as f64).abs() < 1e-6, "{missing} of {lost}: {gaps:#?}");

    read_events(&losses, lost);
    let answer: Value = serde_json::from_str(&losses.request("totals /receiver")).unwrap();
    let all = answer["totals"].as_array().unwrap();
    let service = all.iter().find(|entry| entry["topic"] == "/chatter").unwrap();
    assert_eq!((service["received"].as_u64(), service["lost"].as_u64()), (Some(totals.received), Some(lost)));
    receiver.end();
    assert_eq!(in_file(&file, "/chatter"), (totals.received, lost));
}

/// Returns the messages received and lost on a topic, from the file of totals.
fn in_file(file: &Path, topic: &str) -> (u64, u64) {
    let text = std::fs::read_to_string(file).unwrap();
    let document: Value = yaml_serde::from_str(&text).unwrap();
    let topics = document["topics"].as_array().unwrap();
    let totals = topics.iter().find(|entry| entry["topic_name"] == topic).unwrap_or_else(|| panic!("{text}"));
    let total = |what: &str| totals[what].as_u64().unwrap();
    (total("messages_received"), total("messages_lost"))
}

#[test]
fn reliable_messages_are_late_and_not_lost_while_they_are_in_the_publishers_history() {
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut reader = read_statistics(&network.listening, domain);
    // One publisher keeps its last 10 messages: at 100 Hz they are overwritten within 100 ms. The other keeps all
    // messages.
    let chatter = source("/receiver", "/chatter");
    let shallow = [("DEPTH", "10"), ("RATE", "100")];
    let deep = [("ARGUMENTS", "--ros-args -r __ns:=/deep")];
    let mut sender = Sender::start(&network.talking, domain, &shallow);
    let mut deep_sender = Sender::start(&network.talking, domain, &deep);
    let mut receiver = Receiver::start(&network.listening, domain, &[]);
    let mut deep_receiver = Receiver::start(&network.listening, domain, &deep);
    reader.read_until("window", |metrics| metrics.iter().any(|metric| metric.source == chatter));
    sender.run();
    wait_for("first messages", || {
        deep_sender.send(1);
        deep_receiver.numbers().received > 0 && receiver.numbers().received > 0
    });
    let receiving = now();
    // Returns the maximum delay of each window between two times.
    let tail = |metrics: &[Metric], from: i64, to: i64| -> Vec<f64> {
        let windows = of(metrics, &chatter, "source_to_receive_ms");
        let within =
            windows.filter(|window| window.start >= from && window.stop <= to && window.count() > 0.0);
        within.map(Metric::maximum).collect()
    };
    reader.read_until("windows without loss", |metrics| tail(metrics, receiving, i64::MAX).len() >= 3);

    let lossy = Conditions { loss: 0.1, ..Conditions::default() };
    network.link.set(Way::There, lossy);
    network.link.set(Way::Back, lossy);
    let lossy_from = now();
    deep_sender.send(800);
    network.link.set(Way::There, Conditions::default());
    network.link.set(Way::Back, Conditions::default());
    let lossy_to = now();
    let all_deep = deep_sender.send(20);
    let before = tail(&reader.metrics, receiving, lossy_from);
    let shortest = |delays: &[f64]| delays.iter().copied().fold(f64::INFINITY, f64::min);
    // A busy machine also delays messages: windows are read until one of them was not disturbed.
    let is_restored = |after: &[f64]| after.len() >= 3 && shortest(after) < shortest(&before) + 5.0;
    reader.read_until("windows without loss", |metrics| is_restored(&tail(metrics, lossy_to, i64::MAX)));
    let all = sender.stop();

    let check = |receiver: &mut Receiver, sent: u64| {
        wait_for("last message", || receiver.numbers().last == sent);
        let (totals, numbers) = (receiver.totals("chatter"), receiver.numbers());
        println!("sent {sent}: {totals:?}, {numbers:?}");
        assert_eq!(totals.received + totals.lost.unwrap(), sent - numbers.first + 1);
        assert_eq!((numbers.received, numbers.distinct), (totals.received, totals.received));
        assert_eq!((totals.out_of_order, totals.duplicates), (Some(0), Some(0)));
        totals
    };
    assert_eq!(
        check(&mut deep_receiver, all_deep).lost,
        Some(0),
        "no message is overwritten before it is sent again"
    );
    let totals = check(&mut receiver, all);
    let (there, back) = (network.link.counts(Way::There), network.link.counts(Way::Back));
    println!("{there:?}, {back:?}");
    assert!(there.lost_messages > 60 && back.lost_frames > 0, "{there:?}, {back:?}");
    assert!(totals.lost.unwrap() < there.lost_messages / 2, "most are sent again: {totals:?}, {there:?}");

    reader.read_until("last window", |metrics| {
        let windows = of(metrics, &chatter, "source_to_receive_ms");
        windows.map(Metric::count).sum::<f64>() as u64 == totals.received
    });
    let lossy = tail(&reader.metrics, lossy_from, lossy_to);
    let after = tail(&reader.metrics, lossy_to, i64::MAX);
    println!("maxima without loss {before:?}, with it {lossy:?}, after it {after:?}");
    // A message that is sent again is late, and the messages after it wait for it.
    assert!(median(lossy) > shortest(&before) + 10.0);
    assert!(is_restored(&after), "{after:?}");
}

#[test]
fn repeated_and_reordered_messages_are_counted_as_the_subscription_receives_them() {
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut sender = Sender::start(&network.talking, domain, &[]);
    let mut weak = Receiver::start(&network.listening, domain, &WEAK);
    let mut strong = Receiver::start(&network.listening, domain, &[]);
    wait_for("first messages", || {
        sender.send(1);
        weak.numbers().received > 0 && strong.numbers().received > 0
    });
    // Sends 600 messages with these conditions, then 20 without. Returns the totals of both receivers.
    let mut send = |conditions: Conditions| {
        network.link.set(Way::There, Conditions { only_messages: true, ..conditions });
        sender.send(600);
        network.link.set(Way::There, Conditions::default());
        let sent = sender.send(20);
        [&mut weak, &mut strong].map(|receiver| {
            wait_for("last message", || receiver.numbers().last == sent);
            let (totals, numbers) = (receiver.totals("chatter"), receiver.numbers());
            println!("sent {sent}: {totals:?}, {numbers:?}");
            let duplicates = numbers.received - numbers.distinct;
            assert_eq!(
                (totals.received, totals.received - duplicates + totals.lost.unwrap()),
                (numbers.received, sent - numbers.first + 1),
                "each message is received or lost: {totals:?}, {numbers:?}"
            );
            totals
        })
    };

    // RTPS delivers each sequence number only once, with any QoS.
    let [weak, strong] = send(Conditions { duplicates: 0.2, ..Conditions::default() });
    let repeated = network.link.counts(Way::There);
    println!("{repeated:?}");
    assert!(repeated.duplicated_messages > 100, "{repeated:?}");
    for totals in [&weak, &strong] {
        assert_eq!((totals.lost, totals.out_of_order), (Some(0), Some(0)), "{totals:?}");
    }

    // When a later message overtakes a message, best effort drops it, and reliable restores the order.
    let [weak, strong] =
        send(Conditions { held: 0.1, hold: Duration::from_millis(30), ..Conditions::default() });
    let link = network.link.counts(Way::There);
    println!("{link:?}");
    assert_eq!((strong.lost, strong.out_of_order), (Some(0), Some(0)), "{strong:?}");
    assert_eq!(weak.out_of_order, Some(0), "{weak:?}");
    assert!((20..link.held_messages).contains(&weak.lost.unwrap()), "{weak:?}, {link:?}");
}
