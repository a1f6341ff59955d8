// SPDX-License-Identifier: Apache-2.0

//! The cost of a message in the library, without a node: memory and instructions, which are the same on every machine.

use std::{
    hint::black_box,
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

use benchmarks::{collector::Distribution, InstrumentedCallback, Metric, RecorderOptions};
use rclrs::*;
use ros_env::sensor_msgs::msg::rmw;

use crate::ONE_AT_A_TIME;

fn options() -> RecorderOptions {
    RecorderOptions::new()
}

/// Returns a message, and the middleware's report with it.
fn message() -> (rmw::Imu, MessageInfo) {
    let mut message = rmw::Imu::default();
    message.header.stamp.sec = 1_790_000_000;
    let info = MessageInfo {
        source_timestamp: Some(UNIX_EPOCH + Duration::from_secs(1_790_000_000)),
        received_timestamp: Some(UNIX_EPOCH + Duration::from_secs(1_790_000_001)),
        publication_sequence_number: 1,
        reception_sequence_number: u64::MAX,
        publisher_gid: PublisherGid { data: Default::default(), implementation_identifier: std::ptr::null() },
    };
    (message, info)
}

/// Returns how many bytes a value takes: the median of 21, because the test harness allocates and frees a few strings
/// meanwhile.
fn bytes_of<T>(create: impl Fn() -> T) -> usize {
    let bytes = || dhat::HeapStats::get().curr_bytes;
    let mut all = std::array::from_fn::<_, 21, _>(|_| {
        let before = bytes();
        // Otherwise the compiler removes an allocation that nobody uses.
        let created = black_box(create());
        let after = bytes();
        drop(created);
        after.saturating_sub(before)
    });
    all.sort_unstable();
    all[all.len() / 2]
}

#[test]
fn memory_is_constant_over_a_million_messages() {
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    let bytes = || dhat::HeapStats::get().curr_bytes;
    for options in [options(), options().metrics(Metric::OF_SUBSCRIPTIONS)] {
        let measured = InstrumentedCallback::new(&options);
        let (message, mut info) = message();
        measured.message(&message, &info);
        let before = bytes();
        for _ in 0..1_000_000 {
            info.publication_sequence_number += 1;
            measured.message(&message, &info);
        }
        // The test harness allocates a few strings meanwhile. One byte per message would be a million bytes.
        assert!(bytes() < before + 100_000, "{before} bytes before, {} after", bytes());
        assert_eq!(
            measured.end_window().unwrap().get(Metric::MessagePeriod).unwrap().sample_count,
            1_000_000
        );
    }
}

#[test]
fn a_distribution_costs_at_most_1500_bytes_and_no_allocation_per_sample() {
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    let bytes = bytes_of(|| Box::new(Distribution::default()));
    let mut distribution = Box::new(Distribution::default());
    let created = dhat::HeapStats::get();
    let mut sample = 1e-3;
    for number in 0..1_000_000 {
        // Both signs, over nine orders of magnitude.
        sample = if sample < 1e6 { sample * 1.1 } else { 1e-3 };
        assert!(distribution.accept(if number % 3 == 0 { -sample } else { sample }));
    }
    let minute = black_box(distribution.clone());
    assert!(distribution.merge(&minute) && distribution.quantile(0.99).is_finite());
    let allocations = dhat::HeapStats::get().total_blocks - created.total_blocks;
    println!("bytes_per_distribution={bytes}");
    assert!((1200..=1500).contains(&bytes), "{bytes} bytes");
    // The clone is one; the test harness allocates a few strings meanwhile.
    assert!((1..100).contains(&allocations), "{allocations} allocations");
}

#[test]
fn a_message_with_distributions_allocates_nothing_and_a_window_1500_bytes_a_metric() {
    let _one = ONE_AT_A_TIME.lock();
    let _profiler = dhat::Profiler::builder().testing().build();
    let (message, mut info) = message();
    drop(InstrumentedCallback::<rmw::Imu>::of(&options(), false)); // what is allocated once
    for (metrics, distributions) in
        [(&[Metric::MessageAge, Metric::MessagePeriod][..], 2), (Metric::OF_SUBSCRIPTIONS, 10)]
    {
        let measured = |distributions: bool| {
            InstrumentedCallback::<rmw::Imu>::of(&options().metrics(metrics), distributions)
        };
        let bytes = |distributions| bytes_of(|| measured(distributions));
        let (with, without) = (bytes(true), bytes(false));
        let measured = measured(true);
        let each = with.saturating_sub(without) / distributions;
        println!("bytes_per_window_distribution={each}");
        assert!(
            (1200..=1500).contains(&each),
            "{with} bytes with {distributions} distributions, {without} without"
        );
        measured.message(&message, &info);
        let before = dhat::HeapStats::get().total_blocks;
        for _ in 0..100_000 {
            info.publication_sequence_number += 1;
            measured.message(&message, &info);
        }
        let allocations = dhat::HeapStats::get().total_blocks - before;
        assert!(allocations < 100, "{allocations} allocations"); // of the test harness
        let window = measured.end_window().unwrap();
        assert_eq!(window.distribution(Metric::MessageAge).unwrap().count(), 100_001);
    }
}

/// Takes a second in a release build, and a minute in others.
#[test]
#[ignore = "is run by `cargo xtask bench --soak`"]
fn soak_of_a_hundred_million_messages() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let (windows, messages) = (50, 1_000_000);
    let before = dhat::HeapStats::get().curr_bytes;
    for options in [options(), options().metrics(Metric::OF_SUBSCRIPTIONS)] {
        let measured = InstrumentedCallback::new(&options);
        let (message, mut info) = message();
        let mut now = 1_790_000_000_000_000_000;
        for _ in 0..windows {
            for _ in 0..messages {
                now += 200_000;
                info.publication_sequence_number += 1;
                measured.message_at(&message, &info, now);
            }
            let window = measured.end_window().unwrap();
            let period = window.get(Metric::MessagePeriod).unwrap();
            assert_eq!((period.sample_count, period.average), (messages - 1, 0.2));
            assert_eq!(window.get(Metric::MessageAge).unwrap().sample_count, messages);
            let lost = window.get(Metric::PublicationSeqGap).map(|gaps| gaps.maximum);
            assert!(lost.is_none_or(|lost| lost == 0.0), "{lost:?}");
        }
    }
    let after = dhat::HeapStats::get().curr_bytes;
    assert!(after < before + 100_000, "{before} bytes before, {after} after");
}

/// The program whose instructions valgrind counts. The environment variable `MESSAGES` is the number of messages.
#[test]
#[ignore = "is run by the test below"]
fn messages_for_valgrind() {
    let count: u64 = std::env::var("MESSAGES").unwrap().parse().unwrap();
    let measured = InstrumentedCallback::new(&options());
    let (message, info) = message();
    let mut now = 1_790_000_000_000_000_000;
    for _ in 0..count {
        now += 200_000;
        measured.message_at(&message, &info, now);
    }
    assert_eq!(measured.end_window().unwrap().get(Metric::MessagePeriod).unwrap().sample_count, count - 1);
}

/// Returns the instructions of a test process with a number of messages. `None` if there is no valgrind.
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
fn a_message_costs_120_instructions_at_most_without_the_clock() {
    const MESSAGES: u64 = 100_000;
    let _one = ONE_AT_A_TIME.lock(); // to start processes allocates
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
