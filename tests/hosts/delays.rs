//! Delays of the network.

use std::time::Duration;

use super::{
    common::{domain, of, Metric},
    median,
    network::{Conditions, Way},
    now,
    programs::Receiver,
    read_statistics, source, start, two_hosts, TALKER,
};

#[test]
fn a_delay_of_the_network_is_in_source_to_receive_and_not_the_drivers() {
    const WINDOWS: usize = 6;
    const DRIVER: &str = "header_to_source_ms";
    const METRICS: [&str; 5] =
        [DRIVER, "source_to_receive_ms", "source_to_callback_ms", "header_to_callback_ms", "message_age"];
    let Some(network) = two_hosts() else { return };
    let domain = domain(0);
    let mut reader = read_statistics(&network.listening, domain);
    let _receiver = Receiver::start(&network.listening, domain, &[]);
    let _talker = start(&network.talking, TALKER, "-p rate:=50.0", domain);
    let imu = source("/receiver", "/imu");
    // The median of the windows' averages: on a busy machine there is a window in which a process did not run.
    let mut measure = |way: Way, milliseconds: u64| {
        let delay = Duration::from_millis(milliseconds);
        network.link.set(way, Conditions { delay, ..Conditions::default() });
        let set = now() + delay.as_nanos() as i64;
        let windows = |metrics: &[Metric], metric: &str| -> Vec<f64> {
            let is_after = |window: &&Metric| window.start > set && window.count() > 0.0;
            of(metrics, &imu, metric).filter(is_after).map(Metric::average).collect()
        };
        reader.read_until("windows", |read| METRICS.iter().all(|of| windows(read, of).len() >= WINDOWS));
        let averages = METRICS.map(|metric| median(windows(&reader.metrics, metric)));
        println!("{way:?} delayed by {milliseconds} ms: {METRICS:?} {averages:?}");
        averages
    };
    let without = measure(Way::There, 0);
    let mut check = |way: Way, milliseconds: u64, expected: u64| {
        let averages = measure(way, milliseconds);
        for (index, metric) in METRICS.into_iter().enumerate() {
            let moved = averages[index] - without[index];
            let expected = if metric == DRIVER { 0 } else { expected } as f64;
            assert!((moved - expected).abs() < 3.0, "{metric} by {moved}: {way:?} {milliseconds} ms");
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
