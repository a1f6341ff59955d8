// SPDX-License-Identifier: Apache-2.0

//! Delays of the network, as the library measures them, and the preloaded library in a process of rclpy.

use std::time::Duration;

use test_support::{
    domain,
    network::{Conditions, Way},
    of, program, Metric, Process, Program,
};

use super::{
    command, median, now, on_the_network, preloaded::preload, programs::Receiver, read_statistics, two_hosts,
};

/// The metrics of the test: the delay of the driver, the delay of the network, and those that contain both.
const METRICS: [&str; 5] = [
    "header_to_source_ms",
    "source_to_receive_ms",
    "source_to_callback_ms",
    "header_to_callback_ms",
    "message_age",
];

/// A value of each metric, in milliseconds.
type Figures = [f64; METRICS.len()];

/// The subscriptions: of a node with the library, and of a preloaded one.
const SOURCES: [&str; 2] = ["/receiver:/imu", "/subscriber:/imu"];

/// The smallest number of half-second windows for which each delay is measured.
const WINDOWS: usize = 6;
/// The largest number of windows.
const MOST_WINDOWS: usize = 40;

/// The tolerance of a measured delay, in milliseconds.
const TOLERANCE: f64 = 3.0;

/// The delay of the driver, in milliseconds.
const DRIVER_DELAY: f64 = 50.0;

#[test]
fn a_delay_of_the_network_raises_source_to_receive_and_not_header_to_source() {
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut reader = read_statistics(&network.listening, domain);
    let _receiver = Receiver::start(&network.listening, domain, &[]);
    let mut subscriber = on_the_network(Program::command("subscriber.py", &[], domain));
    preload(&mut subscriber);
    let _subscriber: Program = network.listening.spawn(subscriber).into();
    let stamp_age = format!("stamp_age:={}", DRIVER_DELAY / 1000.0);
    let talker = ["--ros-args", "-p", "rate:=50.0", "-p", &stamp_age];
    let mut talker = command(program("talker"), &talker, domain);
    preload(&mut talker);
    let _talker: Process = network.talking.spawn(talker).into();
    // Measures the smallest window average of each metric with a delay. Other programs on this machine can make
    // averages longer, but not shorter. More windows are measured while averages are longer than `limits`.
    let mut measure = |way: Way, milliseconds: u64, limits: [Figures; SOURCES.len()]| {
        let delay = Duration::from_millis(milliseconds);
        network.link.set(way, Conditions { delay, ..Conditions::default() });
        let set = now() + delay.as_nanos() as i64;
        let after = |read: &[Metric], source: &str, metric: &str| -> Vec<f64> {
            let is_after = |window: &&Metric| window.start > set && window.count() > 0.0;
            of(read, source, metric).filter(is_after).map(Metric::average).collect()
        };
        let averages =
            |read: &[Metric]| SOURCES.map(|source| METRICS.map(|metric| after(read, source, metric)));
        let least = |figures: Vec<f64>| figures.into_iter().fold(f64::INFINITY, f64::min);
        // The network is no part of a publication.
        let published = |read: &[Metric], metric: &str| after(read, "/talker:/imu", metric);
        reader.read_until("windows", |read| {
            let averages = averages(read);
            let windows = averages.iter().flatten().map(Vec::len).min().unwrap_or_default();
            let windows = windows.min(published(read, "publish_period").len());
            let limits = limits.iter().flatten();
            let is_disturbed =
                averages.into_iter().flatten().zip(limits).any(|(averages, limit)| least(averages) > *limit);
            windows >= if is_disturbed { MOST_WINDOWS } else { WINDOWS }
        });
        let averages = averages(&reader.metrics);
        println!("{way:?} delayed by {milliseconds} ms: {averages:.3?}");
        let publisher = |metric: &str| published(&reader.metrics, metric);
        let (periods, duration) = (publisher("publish_period"), least(publisher("publish_duration_ms")));
        // A talker that is held up once makes the average of one window longer.
        let period = median(periods.clone());
        println!("published every {period:.3} ms, in {duration:.3} ms");
        assert!((period - 20.0).abs() < 1.0 && duration < 5.0, "{period} ms, {duration} ms: {periods:?}");
        averages.map(|source| source.map(least))
    };
    // A delay of acknowledgements delays no message.
    let limits = [DRIVER_DELAY + 1.0, 1.0, 2.0, DRIVER_DELAY + 2.0, DRIVER_DELAY + 2.0];
    let without = [(Way::There, 0), (Way::Back, 120), (Way::Back, 0)]
        .map(|(way, delay)| measure(way, delay, [limits; SOURCES.len()]));
    let least = |source: usize, metric: usize| {
        without.iter().map(|measured| measured[source][metric]).fold(f64::INFINITY, f64::min)
    };
    let base: [Figures; SOURCES.len()] =
        std::array::from_fn(|source| std::array::from_fn(|metric| least(source, metric)));
    println!("without a delay {base:.3?}");
    let is_near = |measured: &[Figures], expected: &[Figures]| {
        let pairs = measured.iter().flatten().zip(expected.iter().flatten());
        pairs.into_iter().all(|(measured, expected)| (measured - expected).abs() < TOLERANCE)
    };
    for [header_to_source, source_to_receive, ..] in base {
        assert!((DRIVER_DELAY..DRIVER_DELAY + 5.0).contains(&header_to_source), "{base:?}");
        assert!((0.0..5.0).contains(&source_to_receive), "{base:?}");
    }
    assert!(is_near(&without[1], &base), "{without:?}");
    for delay in [5, 40, 120] {
        let expected = base.map(|base| {
            let mut expected = base.map(|average| average + delay as f64);
            expected[0] = base[0]; // the delay of the driver
            expected
        });
        let measured =
            measure(Way::There, delay, expected.map(|source| source.map(|average| average + TOLERANCE)));
        assert!(is_near(&measured, &expected), "{delay} ms: {measured:?}; expected {expected:?}");
    }
    let counts = network.link.counts(Way::There);
    assert!(counts.messages > 1000 && counts.lost_frames == 0 && counts.overflow == 0, "{counts:?}");
}
