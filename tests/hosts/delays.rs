// SPDX-License-Identifier: Apache-2.0

//! Delays of the network.

use std::time::Duration;

use test_support::{
    domain,
    network::{Conditions, Way},
    of, program, Metric,
};

use super::{now, programs::Receiver, read_statistics, source, start, two_hosts};

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
    let talker = format!("-p rate:=50.0 -p stamp_age:={}", DRIVER_DELAY / 1000.0);
    let _talker = start(&network.talking, program("talker"), &talker, domain);
    let imu = source("/receiver", "/imu");
    // Measures the smallest window average of each metric with a delay. Other programs on this machine can make
    // averages longer, but not shorter. More windows are measured while averages are longer than `limits`.
    let mut measure = |way: Way, milliseconds: u64, limits: Figures| -> Figures {
        let delay = Duration::from_millis(milliseconds);
        network.link.set(way, Conditions { delay, ..Conditions::default() });
        let set = now() + delay.as_nanos() as i64;
        let averages = |read: &[Metric]| {
            METRICS.map(|metric| -> Vec<f64> {
                let is_after = |window: &&Metric| window.start > set && window.count() > 0.0;
                of(read, &imu, metric).filter(is_after).map(Metric::average).collect()
            })
        };
        let least = |averages: &[Vec<f64>; METRICS.len()]| -> Figures {
            averages.each_ref().map(|of| of.iter().copied().fold(f64::INFINITY, f64::min))
        };
        reader.read_until("windows", |read| {
            let averages = averages(read);
            let windows = averages.each_ref().map(Vec::len).into_iter().min().unwrap_or_default();
            let is_disturbed = least(&averages).iter().zip(limits).any(|(least, limit)| *least > limit);
            windows >= if is_disturbed { MOST_WINDOWS } else { WINDOWS }
        });
        let averages = averages(&reader.metrics);
        for (metric, averages) in METRICS.iter().zip(&averages) {
            println!("{way:?} delayed by {milliseconds} ms: {metric} {averages:.3?}");
        }
        least(&averages)
    };
    // A delay of acknowledgements delays no message.
    let limits = [DRIVER_DELAY + 1.0, 1.0, 2.0, DRIVER_DELAY + 2.0, DRIVER_DELAY + 2.0];
    let without =
        [(Way::There, 0), (Way::Back, 120), (Way::Back, 0)].map(|(way, of)| measure(way, of, limits));
    let base: Figures =
        std::array::from_fn(|of| without.iter().map(|figures| figures[of]).fold(f64::INFINITY, f64::min));
    println!("without a delay {base:.3?}");
    assert!(
        (DRIVER_DELAY..DRIVER_DELAY + 5.0).contains(&base[0]) && (0.0..5.0).contains(&base[1]),
        "{base:?}"
    );
    assert!(without[1].iter().zip(base).all(|(with, without)| with - without < TOLERANCE), "{without:?}");
    for delay in [5, 40, 120] {
        let mut expected = base.map(|of| of + delay as f64);
        expected[0] = base[0]; // the delay of the driver
        let measured = measure(Way::There, delay, expected.map(|of| of + TOLERANCE));
        let is_near = |(measured, expected): (&f64, f64)| (measured - expected).abs() < TOLERANCE;
        assert!(
            measured.iter().zip(expected).all(is_near),
            "{delay} ms: {measured:?}; expected {expected:?}"
        );
    }
    let counts = network.link.counts(Way::There);
    assert!(counts.messages > 1000 && counts.lost_frames == 0 && counts.overflow == 0, "{counts:?}");
}
