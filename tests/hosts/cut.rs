// SPDX-License-Identifier: Apache-2.0

//! A network that is cut for a while.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use test_support::{domain, Program};

use super::{now, program, read_statistics, two_hosts};

#[test]
fn the_history_of_windows_outlasts_a_short_cut() {
    let Some(network) = two_hosts() else { return };
    let domain = domain();
    let mut counting: Program = network.talking.spawn(program::command("counting", domain, &[])).into();
    let mut reader = read_statistics(&network.listening, domain);
    let mut publishers = |more: &str| program::request(&mut counting, more)["publishers"].clone();
    // At the ninth metric, a publisher with a deeper history replaces the first one. The reader discovers this new
    // publisher.
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
        // This duration is the fault under test.
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
