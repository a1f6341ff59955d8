//! Delays of the network.

use std::time::Duration;

use super::{
    common::{domain, of, Metric},
    network::{Conditions, Way},
    now,
    programs::Receiver,
    read_statistics, source, start, two_hosts, TALKER,
};

#[test]
fn a_delay_of_the_network_is_in_source_to_receive_and_not_the_drivers() {
    const WINDOWS: usize = 6;
    const MOST_WINDOWS: usize = 40;
    const TOLERANCE: f64 = 3.0;
    const DRIVER: &str = "header_to_source_ms";
    const METRICS: [&str; 5] =
        [DRIVER, "source_to_receive_ms", "source_to_callback_ms", "header_to_callback_ms", "message_age"];
    let Some(network) = two_hosts() else { return };
    let domain = domain(0);
    let mut reader = read_statistics(&network.listening, domain);
    let _receiver = Receiver::start(&network.listening, domain, &[]);
    // Its driver is late by 50 ms.
    let _talker = start(&network.talking, TALKER, "-p rate:=50.0 -p stamp_age:=0.05", domain);
    let imu = source("/receiver", "/imu");
    // The windows' averages, of each metric, with a delay. What else runs on this machine makes some of them longer, and
    // none shorter: the least is the one to look at, and there are more windows where the first ones were disturbed.
    let mut measure = |way: Way, milliseconds: u64, expected: [f64; METRICS.len()]| {
        let delay = Duration::from_millis(milliseconds);
        network.link.set(way, Conditions { delay, ..Conditions::default() });
        let set = now() + delay.as_nanos() as i64;
        let averages = |read: &[Metric]| {
            METRICS.map(|metric| -> Vec<f64> {
                let is_after = |window: &&Metric| window.start > set && window.count() > 0.0;
                of(read, &imu, metric).filter(is_after).map(Metric::average).collect()
            })
        };
        let least = |averages: &[Vec<f64>; METRICS.len()]| {
            averages.each_ref().map(|of| of.iter().copied().fold(f64::INFINITY, f64::min))
        };
        reader.read_until("windows", |read| {
            let averages = averages(read);
            let windows = averages.each_ref().map(Vec::len).into_iter().min().unwrap_or_default();
            let is_long =
                least(&averages).iter().zip(expected).any(|(of, expected)| of - expected > TOLERANCE);
            windows >= if is_long { MOST_WINDOWS } else { WINDOWS }
        });
        let averages = averages(&reader.metrics);
        for (metric, averages) in METRICS.iter().zip(&averages) {
            println!("{way:?} delayed by {milliseconds} ms: {metric} {averages:.3?}");
        }
        least(&averages)
    };
    let without = measure(Way::There, 0, [f64::INFINITY; METRICS.len()]);
    let [driver, network_delay, ..] = without;
    assert!((50.0..60.0).contains(&driver) && (0.0..10.0).contains(&network_delay), "{without:?}");
    let mut check = |way: Way, milliseconds: u64, moved: u64| {
        let expected: [f64; METRICS.len()] = std::array::from_fn(|index| match METRICS[index] {
            DRIVER => without[index],
            _ => without[index] + moved as f64,
        });
        let averages = measure(way, milliseconds, expected);
        for (metric, (average, expected)) in METRICS.iter().zip(averages.iter().zip(expected)) {
            assert!(
                (average - expected).abs() < TOLERANCE,
                "{metric}: {average}, not {expected}: {way:?} {milliseconds} ms"
            );
        }
    };
    // Acknowledgements that are late delay no message.
    check(Way::Back, 120, 0);
    check(Way::Back, 0, 0);
    for delay in [5, 40, 120] {
        check(Way::There, delay, delay);
    }
    let counts = network.link.counts(Way::There);
    assert!(counts.messages > 1000 && counts.lost_frames == 0 && counts.overflow == 0, "{counts:?}");
}
