// SPDX-License-Identifier: Apache-2.0

//! Robots with nodes of the same names on one network.

use super::monitor::Monitor;
use std::collections::BTreeSet;
use test_support::{domain, of, program, Metric};

use super::{median, read_statistics, source, start, two_hosts};

#[test]
fn namespaces_distinguish_two_robots_whose_nodes_have_the_same_names() {
    const WINDOWS: usize = 4;
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut reader = read_statistics(&network.listening, domain);
    let mut monitor = Monitor::start(&network.listening, &["--from-statistics"], domain);
    // Each robot is a host with its own imu. Both subscribe to the chatter of the first.
    let metrics = "-p metrics:=[message_period,source_to_receive_ms]";
    let listener = |robot: &str| format!("-r __ns:={robot} -r chatter:=/chatter {metrics}");
    let _processes = [
        start(&network.talking, program("listener"), &listener("/r1"), domain),
        start(&network.listening, program("listener"), &listener("/r2"), domain),
        start(&network.talking, program("talker"), "-r __ns:=/r1 -r chatter:=/chatter -p rate:=20.0", domain),
        start(&network.listening, program("talker"), "-r __ns:=/r2 -p rate:=50.0", domain),
    ];
    let expected = [
        (source("/r1/listener", "/chatter"), 20.0),
        (source("/r1/listener", "/r1/imu"), 20.0),
        (source("/r2/listener", "/chatter"), 20.0),
        (source("/r2/listener", "/r2/imu"), 50.0),
    ];
    let periods = |metrics: &[Metric], source: &str| -> Vec<Metric> {
        of(metrics, source, "message_period").filter(|window| window.count() > 0.0).cloned().collect()
    };
    reader.read_until("windows", |metrics| {
        expected.iter().all(|(source, _)| periods(metrics, source).len() >= WINDOWS)
    });
    let sources: BTreeSet<_> = reader.metrics.iter().map(|metric| metric.source.as_str()).collect();
    println!("{sources:?}");
    assert_eq!(sources, expected.iter().map(|(source, _)| source.as_str()).collect());
    for (source, rate) in &expected {
        let windows = reader.windows(source, "message_period");
        for (window, next) in windows.iter().zip(&windows[1..]) {
            assert_eq!(next.start, window.stop, "the windows are those of one node: {windows:#?}");
        }
        let period = median(periods(&reader.metrics, source).iter().map(Metric::average).collect());
        // The bounds distinguish the two robots, also on a busy machine.
        assert!((0.65..1.5).contains(&(period * rate / 1000.0)), "{source} with a period of {period}");
    }
    for (source, rate) in &expected {
        monitor.wait(&format!("{source} with {rate} Hz"), |object| {
            let seen = object["rate"].as_f64().unwrap_or_default();
            object["topic"] == source.as_str() && (0.65..1.5).contains(&(seen / rate))
        });
    }
}
