// SPDX-License-Identifier: Apache-2.0

//! Hops in real rclpy nodes: the time from a message to the publication in the message's callback.

use std::collections::BTreeSet;

use test_support::{domain, wait_for, windows_of, Program, Reader};

use crate::{count, extremes, settle, start};

const METRIC: &str = "input_to_output_ms";
const HOPS: [&str; 2] = ["/first:/imu:/a", "/second:/a:/b"];

#[test]
fn callbacks_of_rclpy_make_hops_and_timers_none() {
    let options = [("PERIOD", "0.1"), ("METRICS", METRIC)];
    let mut reader = Reader::start_with_depth(domain(), 1000);
    let mut source = Program::start("chain.py", &["source", "/imu"], domain());
    let mut number = Program::start("chain.py", &["other", "/number"], domain());
    let others = ["--timed", "/timed", "--stored", "/number"];
    let first =
        start("chain.py", &[&["first", "/imu", "/a", "--threads", "4"], &others[..]].concat(), &options);
    let second = [&["second", "/a", "/b", "--delay", "0.2"], &others[..]].concat();
    let mut second = start("chain.py", &second, &options);
    wait_for("hops", || {
        // The test publishes a message only if no message waits at the second node, whose callback takes 200 ms. A hop
        // begins at the source timestamp of the message, so a hop would include this wait.
        if second.request("received") == second.request("count") {
            source.request("publish 1");
        }
        reader.read_received();
        HOPS.iter().all(|hop| windows_of(&reader.metrics, hop, METRIC).next().is_some())
    });
    let hops = HOPS.map(|hop| (hop, METRIC));
    let mut settled = || {
        settle(&mut reader, &hops);
        HOPS.map(|hop| count(&reader.metrics, hop, METRIC))
    };
    // The threads of the first node may change the order of the messages, so the message sent last may not arrive last
    // at the second node.
    let last = source.request("last");
    let (mut before, mut published) = (settled(), String::new());
    wait_for("the last message", || {
        let counts = (std::mem::replace(&mut before, settled()), second.request("count"));
        let is_quiet = counts == (before, published.clone()) && second.request("last") == last;
        published = counts.1;
        is_quiet
    });
    number.request("publish 5");
    source.request("publish 5");
    let expected = (published.parse::<u64>().unwrap() + 5).to_string();
    wait_for("the last messages", || second.request("count") == expected);
    assert_eq!(settled(), before.map(|count| count + 5.0));
    let (least, greatest) = extremes(&reader.metrics, HOPS[1], METRIC);
    let shortest = extremes(&reader.metrics, HOPS[0], METRIC).0;
    assert!(least >= 200.0 && greatest < 10_000.0 && shortest > 0.0, "{least} to {greatest}, {shortest}");
    let found: BTreeSet<&str> = reader
        .metrics
        .iter()
        .filter(|metric| metric.metric == METRIC)
        .map(|metric| &*metric.source)
        .collect();
    assert_eq!(found, HOPS.into());
    drop(first);
}
