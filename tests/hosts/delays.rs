// SPDX-License-Identifier: Apache-2.0

//! Network delays, measured by the library and by the preloaded library in a process of rclpy.

use std::{ops::Range, time::Duration};

use test_support::{
    domain,
    network::{Conditions, Way},
    program, windows_of, Metric, Process, Program,
};

use super::{command, now, on_the_network, preload, program::Receiver, read_statistics, two_hosts};

/// The injected delay of the network. The stamps are ten seconds old: this is the delay of the driver.
const DELAY: Duration = Duration::from_secs(1);
const NONE: Range<f64> = -250.0..500.0;
const SECOND: Range<f64> = 500.0..5000.0;
const DRIVER: Range<f64> = 5000.0..50_000.0;

/// The expected range of each metric in ms, in three phases of the test: no delay, frames to the listening host are
/// delayed, and frames from the listening host are delayed.
const METRICS: [(&str, &str, [Range<f64>; 3]); 11] = [
    ("/r1/receiver:/imu", "header_to_source_ms", [DRIVER; 3]),
    ("/r1/receiver:/imu", "source_to_receive_ms", [NONE, SECOND, NONE]),
    ("/r1/receiver:/imu", "source_to_callback_ms", [NONE, SECOND, NONE]),
    ("/r1/receiver:/imu", "receive_to_callback_ms", [NONE; 3]),
    // A node on the talking host. Only the namespace distinguishes it from the node above.
    ("/r2/receiver:/imu", "source_to_callback_ms", [NONE; 3]),
    ("/subscriber:/imu", "header_to_source_ms", [DRIVER; 3]),
    ("/subscriber:/imu", "source_to_receive_ms", [NONE, SECOND, NONE]),
    ("/talker:/imu", "publish_duration_ms", [NONE; 3]),
    ("/r1/receiver:/r1/serve", "source_to_callback_ms", [NONE, SECOND, NONE]),
    ("/r2/receiver:/r1/serve", "source_to_receive_ms", [NONE, NONE, SECOND]),
    ("/r2/receiver:/r1/serve", "round_trip_ms", [NONE, SECOND, SECOND]),
];

#[test]
fn each_delay_appears_only_in_its_own_metric() {
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut reader = read_statistics(&network.listening, domain);
    let server = ("ARGUMENTS", "--ros-args -r __ns:=/r1 -r imu:=/imu");
    let caller = [("ARGUMENTS", "--ros-args -r __ns:=/r2 -r imu:=/imu"), ("SERVICE", "/r1/serve")];
    let _receivers = [
        Receiver::start(&network.listening, domain, &[server]),
        Receiver::start(&network.talking, domain, &caller),
    ];
    let subscriber = preload(on_the_network(Program::command("subscriber.py", &[], domain)));
    let _subscriber: Program = network.listening.spawn(subscriber).into();
    let arguments = ["--ros-args", "-p", "rate:=20.0", "-p", "stamp_age:=10.0"];
    let talker = preload(command(program("talker"), &arguments, domain));
    let _talker: Process = network.talking.spawn(talker).into();

    let is_measured = |window: &&Metric| window.count() > 0.0;
    reader.read_until("windows", |read| {
        METRICS
            .iter()
            .all(|(source, metric, _)| windows_of(read, source, metric).any(|window| is_measured(&window)))
    });
    for (phase, delays) in [[0, 0], [1, 0], [0, 1]].into_iter().enumerate() {
        for (way, delay) in [Way::There, Way::Back].into_iter().zip(delays) {
            network.link.set(way, Conditions { delay: delay * DELAY, ..Conditions::default() });
        }
        // Messages and calls that were under way when the delay was set are ignored: they have the old delay.
        let set = now() + 3 * phase.min(1) as i64 * DELAY.as_nanos() as i64;
        let is_after = |window: &&Metric| window.start > set && is_measured(window);
        reader.read_until("windows with a delay", |read| {
            METRICS
                .iter()
                .all(|(source, metric, _)| windows_of(read, source, metric).filter(is_after).count() >= 2)
        });
        for (source, metric, expected) in &METRICS {
            for window in windows_of(&reader.metrics, source, metric).filter(is_after) {
                assert!(expected[phase].contains(&window.average()), "{delays:?} s: {window:?}");
            }
        }
    }
    let counts = network.link.counts(Way::There);
    assert_eq!((counts.lost_frames, counts.overflow), (0, 0), "{counts:?}");
}
