// SPDX-License-Identifier: Apache-2.0

//! A recording proves what the network has lost.

use std::{path::PathBuf, process::Command};

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
    let split = ["--split", "--max-size", "20kB"];
    let mut sender = Sender::start(&network.talking, domain, &[("BEST_EFFORT", "")]);
    let arguments = [&["/chatter", "--record", file.to_str().unwrap()][..], &split].concat();
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
    let files: Vec<PathBuf> = (0..)
        .map(|number| directory.path().join(format!("run_{number}.mcap")))
        .take_while(|file| file.exists())
        .collect();
    assert!(files.len() > 3, "{files:?}");
    let bag = of_bag(&files);
    let count = |what: &str| bag[what].as_u64();
    assert_eq!((count("received"), count("lost")), (Some(received), Some(lost)), "{bag:#}");

    let info = run(&files, "--info");
    let number = |line: &str, what: &str| -> u64 {
        line.split(what).nth(1).unwrap().split(" |").next().unwrap().parse().unwrap()
    };
    let topics: Vec<&str> = info.lines().filter(|line| line.contains("Lost in transport: ")).collect();
    let (whole, of_files) = topics.split_last().unwrap();
    let all = |line: &str| {
        ["Messages: ", "Lost in transport: ", "Lost in recorder: "].map(|label| number(line, label))
    };
    assert_eq!(all(whole), [received, lost, 0], "{info}");
    let sums = of_files
        .iter()
        .map(|line| all(line))
        .fold([0; 3], |sum, counts| [0, 1, 2].map(|at| sum[at] + counts[at]));
    assert_eq!((of_files.len(), sums), (files.len(), all(whole)), "of each file: {info}");
}

/// Returns what `bag_statistics` prints.
fn run(files: &[PathBuf], argument: &str) -> String {
    let output = Command::new(program("bag_statistics")).args(files).arg(argument).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the figures of `/chatter` over a bag.
fn of_bag(files: &[PathBuf]) -> Value {
    let text = run(files, "--json");
    let mut objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let overall = |object: &Value| object["topic"] == "/chatter" && object["recording"].is_object();
    objects.find(overall).unwrap()["recording"].clone()
}
