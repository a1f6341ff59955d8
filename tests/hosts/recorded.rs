// SPDX-License-Identifier: Apache-2.0

//! A recording proves what the network has lost.

use std::{path::Path, process::Command};

use serde_json::Value;
use test_support::{
    domain,
    network::{Conditions, Way},
    program, wait_for,
};

use super::{monitor::Monitor, programs::Sender, two_hosts};

#[test]
fn a_bag_proves_exactly_what_the_network_lost() {
    let Some(network) = two_hosts() else { return };
    let (domain, directory) = (domain(), tempfile::tempdir().unwrap());
    let file = directory.path().join("run.mcap");
    let mut sender = Sender::start(&network.talking, domain, &[("BEST_EFFORT", "")]);
    let arguments = ["/chatter", "--record", file.to_str().unwrap()];
    let mut monitor = Monitor::start(&network.listening, &arguments, domain);

    // Messages that were sent before discovery are no losses. From here on, all messages are received.
    let mut before = 0;
    wait_for("first messages", || {
        before = sender.send(1);
        monitor.total().0 > 0
    });
    before = sender.send(5).max(before);
    let (received_before, lost_before) = monitor.settled();
    assert_eq!(lost_before, 0);

    let lossy = Conditions { loss: 0.1, only_messages: true, ..Conditions::default() };
    network.link.set(Way::There, lossy);
    sender.send(1000);
    network.link.set(Way::There, Conditions::default());
    let sent = sender.send(20);
    let link = network.link.counts(Way::There);
    let (received, _) = monitor.settled();
    monitor.end();

    let lost = received_before + (sent - before) - received;
    println!("sent {sent}, recorded {received}, lost {lost}; {link:?}");
    assert!((60..140).contains(&lost), "10 % of 1000 messages: {lost}");
    assert_eq!(link.lost_messages, lost, "{link:?}");
    let bag = of_bag(&file);
    let count = |what: &str| bag[what].as_u64();
    assert_eq!((count("received"), count("lost")), (Some(received), Some(lost)), "{bag:#}");
    let info = Command::new(program("bag_statistics")).arg(&file).arg("--info").output().unwrap();
    let info = String::from_utf8(info.stdout).unwrap();
    let totals = format!("Messages: {received} | Lost in transport: {lost} | Lost in recorder: 0 |");
    assert!(info.contains(&totals), "{totals}: {info}");
}

/// Returns the figures of `/chatter` over a bag.
fn of_bag(file: &Path) -> Value {
    let output = Command::new(program("bag_statistics")).arg(file).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let overall = |object: &Value| object["topic"] == "/chatter" && object["recording"].is_object();
    objects.into_iter().find(overall).unwrap()["recording"].clone()
}
