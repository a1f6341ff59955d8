// SPDX-License-Identifier: Apache-2.0

//! A network that is cut for a while.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use test_support::{domain, wait_for, windows_of, Metric, Program};

use super::{
    monitor::Monitor,
    now,
    program::{self, Receiver, Sender},
    read_statistics, two_hosts,
};

#[test]
fn a_cut_shows_as_silence_then_a_gap_then_normal_windows() {
    const SILENCE: &str = "time_since_last_message_ms";
    const DELAY: &str = "source_to_receive_ms";
    const WEAK: [(&str, &str); 2] = [("BEST_EFFORT", ""), ("ARGUMENTS", "--ros-args -r __node:=weak")];
    let sources = ["/weak:/chatter", "/receiver:/chatter"];
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut reader = read_statistics(&network.listening, domain);
    let mut receivers =
        [&WEAK[..], &[]].map(|settings| Receiver::start(&network.listening, domain, settings));
    let mut monitor = Monitor::start(&network.listening, &["chatter"], domain);
    let mut sender = Sender::start(&network.talking, domain, "sender", &[]);
    sender.send("run");
    let all = |read: &[Metric], is: &dyn Fn(&Metric) -> bool, metric: &str| {
        sources.iter().all(|source| windows_of(read, source, metric).any(is))
    };
    reader.read_until("windows", |read| all(read, &|window| window.count() > 5.0, DELAY));
    monitor.wait("messages", |topic| topic["rate"].as_f64() > Some(5.0));

    network.link.cut(true);
    reader.read_until("silence", |read| all(read, &|window| window.average() > 3000.0, SILENCE));
    monitor.wait("silence", |topic| topic["state"] == "stale" && topic["rate"] == 0.0);
    network.link.cut(false);
    let restored = now();
    let is_normal = |window: &Metric| {
        window.start > restored && window.count() > 5.0 && (-250.0..500.0).contains(&window.maximum())
    };
    reader.read_until("normal windows", |read| all(read, &is_normal, DELAY));
    monitor.wait("normal windows", |topic| topic["state"] == "good" && topic["rate"].as_f64() > Some(5.0));
    let sent = sender.send("stop");

    for (receiver, source) in receivers.iter_mut().zip(sources) {
        let totals = receiver.settled([("sender", sent)]);
        let lost = totals.lost.unwrap();
        assert_eq!(totals.publishers, Some(1), "{totals:?}");
        // The windows in which the subscription received no message.
        let silent = windows_of(&reader.metrics, source, SILENCE).filter(|window| window.average() > 1000.0);
        let silent: Vec<_> = silent.collect();
        assert!(silent.len() >= 4, "{silent:#?}");
        for pair in silent.windows(2) {
            let grown = pair[1].average() - pair[0].average();
            assert!((250.0..2500.0).contains(&grown), "half a second per window: {pair:#?}");
        }
        for metric in ["message_period", DELAY, "publication_seq_gap"] {
            let is_silent = |window: &&Metric| silent.iter().any(|silent| silent.start == window.start);
            let mut windows = windows_of(&reader.metrics, source, metric).filter(is_silent);
            assert!(windows.all(|window| window.count() == 0.0 && window.average().is_nan()));
        }
        let largest = |metric: &str| {
            windows_of(&reader.metrics, source, metric).map(Metric::maximum).fold(0.0, f64::max)
        };
        let (gap, delay) = (largest("publication_seq_gap") as u64, largest(DELAY));
        // A reliable publisher keeps the messages that it sent during the cut, and repeats them.
        let is_right =
            if source == sources[0] { lost > 50 && gap == lost } else { lost == 0 && delay > 1000.0 };
        assert!(is_right, "{source}: {totals:?}, a gap of {gap}, {delay} ms");
    }
}

#[test]
fn a_publisher_restarted_during_a_cut_counts_as_a_new_one() {
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut receiver = Receiver::start(&network.listening, domain, &[]);
    let mut monitor = Monitor::start(&network.listening, &["chatter"], domain);
    let mut first = Sender::start(&network.talking, domain, "first", &[]);
    wait_for("messages", || {
        first.send(1);
        receiver.report().received > 0 && monitor.total().0 > 0
    });
    receiver.settled([("first", first.send(1))]);

    network.link.cut(true);
    drop(first);
    let mut second = Sender::start(&network.talking, domain, "second", &[]);
    second.send(50);
    network.link.cut(false);
    wait_for("messages of the second", || {
        second.send(1);
        receiver.report().publishers == Some(2) && monitor.senders() == 2
    });
    let totals = receiver.report();
    assert_eq!((totals.lost, totals.out_of_order, totals.publishers), (Some(0), Some(0), Some(2)));
    let total = &monitor.last()["total"];
    assert_eq!((&total["lost"], &total["out_of_order"]), (&0.into(), &0.into()), "{total}");
}

#[test]
fn the_history_of_windows_outlasts_a_short_cut() {
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut counting: Program = network.talking.spawn(program::command("counting", domain, &[])).into();
    let mut reader = read_statistics(&network.listening, domain);
    let mut publishers = |more: &str| program::request(&mut counting, more)["publishers"].clone();
    // With the ninth metric, a publisher with a deeper history replaces the first publisher. The reader has to discover
    // the new publisher.
    for (more, counters, cut) in [("8", 8, 1), ("12", 20, 4)] {
        publishers(more);
        let begun = now();
        let mut read_two_windows = |start: i64| {
            reader.read_until("windows", |read| {
                let mut starts: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
                for window in read.iter().filter(|window| window.start > start) {
                    starts.entry(&window.source).or_default().insert(window.start);
                }
                starts.len() == counters && starts.values().all(|starts| starts.len() >= 2)
            });
        };
        read_two_windows(begun);
        network.link.cut(true);
        std::thread::sleep(Duration::from_secs(cut));
        network.link.cut(false);
        read_two_windows(now());
        for number in 0..counters {
            let windows = reader.windows(&format!("/counting:number_{number}"), "frequency_hz");
            let windows: Vec<_> = windows.iter().filter(|window| window.start > begun).collect();
            assert!(windows.len() as u64 > 2 * cut, "{windows:#?}");
            for pair in windows.windows(2) {
                assert_eq!(pair[0].stop, pair[1].start, "counter {number}, cut for {cut} s: {windows:#?}");
            }
        }
    }
    assert_eq!(publishers("0"), 1, "the first one has gone");
}
