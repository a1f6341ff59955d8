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
    let Some(network) = two_hosts() else { return };
    let domain = domain(0);
    let mut reader = read_statistics(&network.listening, domain);
    let _receiver = Receiver::start(&network.listening, domain, &[]);
    let _talker = start(&network.talking, TALKER, "-p rate:=50.0", domain);

    let imu = source("/receiver", "/imu");

    // The median of the windows' averages: on a busy machine there is a window in which a process did not run.
    let mut averages = |way: Way, milliseconds: u64| {
        let delay = Duration::from_millis(milliseconds);
        network.link.set(way, Conditions { delay, ..Conditions::default() });
        let set = now() + delay.as_nanos() as i64;
        let windows = |metrics: &[Metric], metric: &str| -> Vec<f64> {
            let is_after = |window: &&Metric| window.start > set && window.count() > 0.0;
            of(metrics, &imu, metric).filter(is_after).map(Metric::average).collect()
        };
        let metrics = ["header_to_source_ms", "source_to_receive_ms", "header_to_callback_ms"];
        reader.read_until("windows", |read| metrics.iter().all(|of| windows(read, of).len() >= WINDOWS));
        let averages = metrics.map(|metric| median(windows(&reader.metrics, metric)));
        println!("{way:?} delayed by {milliseconds} ms: {metrics:?} {averages:?}");
        averages
    };
    let without = averages(Way::There, 0);
    let moved = |of: [f64; 3]| [0, 1, 2].map(|metric| of[metric] - without[metric]);
    let [_, network_delay, _] = moved(averages(Way::Back, 120));
    assert!(network_delay.abs() < 3.0, "acknowledgements alone are late: {network_delay}");
    averages(Way::Back, 0);
    for delay in [5, 40, 120] {
        let [driver, network_delay, whole] = moved(averages(Way::There, delay));
        assert!(driver.abs() < 3.0, "the driver is not late: {driver}");
        assert!((network_delay - delay as f64).abs() < 3.0, "{delay} ms: {network_delay}");
        assert!((whole - delay as f64).abs() < 3.0, "{delay} ms: {whole}");
    }
    let counts = network.link.counts(Way::There);
    assert!(counts.messages > 1000 && counts.lost_frames == 0 && counts.overflow == 0, "{counts:?}");
}
