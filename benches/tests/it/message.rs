// SPDX-License-Identifier: Apache-2.0

//! The cost of a message in the library without a node: memory and instructions, which are the same on every machine.

use std::{hint::black_box, process::Command};

use benchmarks::{message, InstrumentedCallback, Metric, RecorderOptions};
use ros_env::sensor_msgs::msg::rmw;

use crate::counting::{allocations, bytes};

/// Returns a value, and the number of bytes that its creation has allocated.
fn weigh<T>(create: impl Fn() -> T) -> (T, i64) {
    let before = bytes();
    // `black_box` prevents the compiler from removing an allocation that nothing uses.
    let created = black_box(create());
    (created, bytes() - before)
}

#[test]
fn a_message_allocates_nothing_and_a_distribution_has_at_most_1500_bytes() {
    // `cargo xtask bench --soak` sets `MESSAGES` to a larger number.
    let messages = std::env::var("MESSAGES").map_or(1_000_000, |messages| messages.parse().unwrap());
    let (message, mut info) = message();
    let measured = |metrics: &[Metric], distributions: bool| {
        let options = RecorderOptions::new().metrics(metrics.iter().copied());
        InstrumentedCallback::<rmw::Imu>::with_type(&options, distributions)
    };
    drop(measured(&[], false)); // the first recorder of a process allocates more
    for (metrics, distributions) in
        [(&[Metric::MessageAge, Metric::MessagePeriod][..], 2), (Metric::OF_SUBSCRIPTIONS, 10)]
    {
        let (plain, without) = weigh(|| measured(metrics, false));
        let (with_distributions, with) = weigh(|| measured(metrics, true));
        let each = (with - without) / distributions;
        println!("bytes_per_distribution={each}");
        assert!((1200..=1500).contains(&each), "{with} bytes with {distributions}, {without} without");
        for measured in [plain, with_distributions] {
            measured.message(&message, &info);
            let before = (allocations(), bytes());
            for _ in 1..messages {
                info.publication_sequence_number += 1;
                measured.message(&message, &info);
            }
            assert_eq!((allocations(), bytes()), before);
            let window = measured.end_window().unwrap();
            assert_eq!(window.get(Metric::MessagePeriod).unwrap().sample_count, messages - 1);
            assert!(window.distribution(Metric::MessageAge).is_none_or(|ages| ages.count() == messages));
        }
    }
}

/// The program whose instructions valgrind counts. The environment variable `MESSAGES` is the number of messages.
#[test]
#[ignore = "is run by the test below"]
fn messages_for_valgrind() {
    let count: u64 = std::env::var("MESSAGES").unwrap().parse().unwrap();
    let measured = InstrumentedCallback::new(&RecorderOptions::new());
    let (message, info) = message();
    let mut now = 1_790_000_000_000_000_000;
    for _ in 0..count {
        now += 200_000;
        measured.message_at(&message, &info, now);
    }
    assert_eq!(measured.end_window().unwrap().get(Metric::MessagePeriod).unwrap().sample_count, count - 1);
}

/// Returns the number of instructions of a process that records this number of messages; `None` if there is no
/// valgrind.
fn instructions(messages: u64) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--test-threads=1", "message::messages_for_valgrind"])
        .env("MESSAGES", messages.to_string())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
    let collected = text.lines().find_map(|line| line.split("Collected : ").nth(1));
    Some(collected.unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap())
}

#[test]
fn a_message_without_the_clock_needs_at_most_120_instructions() {
    const MESSAGES: u64 = 100_000;
    let (Some(once), Some(twice)) = (instructions(MESSAGES), instructions(2 * MESSAGES)) else {
        println!("instructions_per_message=NA");
        test_support::skip("counting instructions", "there is no valgrind");
        return;
    };
    let per_message = (twice - once) as f64 / MESSAGES as f64;
    println!("instructions_per_message={per_message:.0}");
    if cfg!(debug_assertions) && std::env::var_os("IS_OPTIMISED").is_none() {
        eprintln!("not asserted: {per_message:.0} instructions per message (this is no release build)");
    } else {
        assert!((80.0..=120.0).contains(&per_message), "{per_message} instructions; 118 with Rust 1.95");
    }
}
