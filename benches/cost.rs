// SPDX-License-Identifier: Apache-2.0

//! Benchmarks of the cost per message and per window. The group `floor` has the smallest possible costs: a reading of
//! the clock, which each message needs, and an empty call under an uncontended lock.

use std::{
    collections::HashMap,
    hint::black_box,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use benchmarks::{
    clock,
    collector::{AgeCollector, Distribution, PeriodCollector, SequenceTracker, SummaryCollector},
    counter, message, messages, stopwatch, InstrumentedCallback, JudgedSubscriptions, Metric,
    RecorderOptions,
};
use criterion::{criterion_group, criterion_main, Criterion};
use rclrs::{Context, CreateBasicExecutor};
use ros_env::geometry_msgs::msg::rmw::Twist;
use topic_statistics_core::{
    record::{
        clock::{monotonic, HostClock},
        executions::{Executions, ExecutorNames, ThreadRecorder},
        source::WindowedCollector,
        windowed::Windowed,
    },
    CallbackKind, ExecutorCallback,
};

const NOW: i64 = 1_790_000_000_000_000_000;
const PERIOD: i64 = 200_000;

/// The number of samples in a window.
const WINDOW: usize = 1000;

/// Returns the ages of the messages of 8 windows, in ms. Most ages are around 1 ms, one message in ten is older by up
/// to a second, and some ages are negative.
fn samples() -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut sample = || {
        let usual = 0.5 + random.f64();
        match random.u32(0..100) {
            0 => -usual,
            1..=10 => usual * 10_f64.powf(3.0 * random.f64()),
            _ => usual,
        }
    };
    (0..8 * WINDOW).map(|_| sample()).collect()
}

fn floors(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("floor");
    group.bench_function("clock", |bencher| bencher.iter(clock));
    let lock = Mutex::new(0_u64);
    group.bench_function("std_mutex", |bencher| bencher.iter(|| *black_box(&lock).lock().unwrap() += 1));
    // A message takes at least as long as this: a lock that needs one locked instruction, and a clock reading under
    // this lock.
    let lock = spin::Mutex::<i64>::new(0);
    group.bench_function("spin_mutex", |bencher| bencher.iter(|| *black_box(&lock).lock() += 1));
    group
        .bench_function("clock_in_spin_mutex", |bencher| bencher.iter(|| *black_box(&lock).lock() = clock()));
    group.finish();
}

fn collectors(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("collector");
    // Windows have 1000 samples. The distribution of each window begins without a known range of values, so it has to
    // find the range.
    let samples = samples();
    let mut samples = samples.iter().copied().enumerate().cycle();
    group.bench_function("summary", |bencher| {
        let mut summary = SummaryCollector::default();
        bencher.iter(|| {
            let (number, sample) = samples.next().unwrap();
            if number % WINDOW == 0 {
                black_box(summary.take());
            }
            summary.accept(black_box(sample))
        });
    });
    group.bench_function("summary_with_distribution", |bencher| {
        let (mut summary, mut distribution) = (SummaryCollector::default(), Distribution::default());
        bencher.iter(|| {
            let (number, sample) = samples.next().unwrap();
            if number % WINDOW == 0 {
                black_box((summary.take(), distribution.take()));
            }
            let sample = black_box(sample);
            summary.accept(sample) && distribution.accept(sample)
        });
    });
    let mut distribution = Distribution::default();
    samples.by_ref().take(WINDOW).for_each(|(_, sample)| assert!(distribution.accept(sample)));
    group.bench_function("quantile", |bencher| bencher.iter(|| black_box(&distribution).quantile(0.99)));
    group.bench_function("merge", |bencher| {
        let mut minute = Distribution::default();
        bencher.iter(|| minute.merge(black_box(&distribution)))
    });
    group.bench_function("age_and_period", |bencher| {
        let (mut age, mut period) = (AgeCollector::default(), PeriodCollector::default());
        let mut now = NOW;
        bencher.iter(|| {
            now += PERIOD;
            age.accept(black_box(now - 2_000_000), now);
            period.accept(black_box(now));
        });
        black_box((age.take(), period.take()));
    });
    for publishers in [1, 64] {
        group.bench_function(format!("sequence_of_{publishers}_publishers"), |bencher| {
            let mut tracker = SequenceTracker::default();
            let mut message = 0_u64;
            bencher.iter(|| {
                message += 1;
                let gid = [(message % publishers) as u8; 16];
                tracker.accept(black_box(gid), message / publishers, message as i64)
            });
        });
    }
    group.finish();
}

fn messages_and_windows(criterion: &mut Criterion) {
    let default = RecorderOptions::new();
    let all = RecorderOptions::new().metrics(Metric::OF_SUBSCRIPTIONS);
    for (name, options) in [("default", default), ("all_metrics", all)] {
        let mut group = criterion.benchmark_group(name);
        let (message, mut info) = message();
        let measured = InstrumentedCallback::new(&options);
        group.bench_function("record", |bencher| {
            let mut now = NOW;
            bencher.iter(|| {
                now += PERIOD;
                info.publication_sequence_number += 1;
                measured.message_at(black_box(&message), black_box(&info), now);
            });
        });
        group.bench_function("record_with_clock", |bencher| {
            bencher.iter(|| {
                info.publication_sequence_number += 1;
                measured.message(black_box(&message), black_box(&info));
            });
        });
        group.bench_function("end_window", |bencher| {
            bencher.iter(|| {
                measured.message(black_box(&message), black_box(&info));
                measured.end_window()
            });
        });
        let window = measured.end_window().unwrap();
        group.bench_function("build_messages", |bencher| bencher.iter(|| messages(black_box(&window))));
        group.finish();
    }
}

/// The cost of measuring a message's size, for a type of fixed size and for a type with a string.
fn sizes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("size");
    let (imu, mut info) = message();
    let twist = Twist::default();
    for (name, sizes) in [("without", &[][..]), ("with", &[Metric::MessageSize])] {
        let metrics = [Metric::MessageAge, Metric::MessagePeriod].into_iter().chain(sizes.iter().copied());
        let options = RecorderOptions::new().metrics(metrics);
        macro_rules! record {
            ($type:literal, $measured:expr, $message:expr) => {
                let measured = $measured;
                group.bench_function(format!("{}_{name}", $type), |bencher| {
                    let mut now = NOW;
                    bencher.iter(|| {
                        now += PERIOD;
                        info.publication_sequence_number += 1;
                        measured.message_at(black_box($message), black_box(&info), now);
                    });
                });
            };
        }
        record!("fixed", InstrumentedCallback::<Twist>::with_type(&options, false), &twist);
        record!("string", InstrumentedCallback::new(&options), &imu);
    }
    group.finish();
}

fn code(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("code");
    let (stopwatch, counter) = (stopwatch(), counter());
    group.bench_function("stopwatch", |bencher| bencher.iter(|| drop(black_box(&stopwatch).start())));
    group.bench_function("counter", |bencher| bencher.iter(|| black_box(&counter).increment()));
    // A timed scope reads the monotonic clock at its start and at its end, so it cannot cost less than this.
    group.bench_function("two_monotonic_clocks", |bencher| bencher.iter(|| Instant::now().elapsed()));
    group.finish();
}

/// The cost of measuring a callback; the callback itself is empty.
fn executor(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("executor");
    let names = ExecutorNames::default();
    let executions = Arc::new(Windowed::new(Executions::new(names.clone())));
    let thread = ThreadRecorder::new(Arc::clone(&executions), &names, "spin");
    let timer = names.id(ExecutorCallback::new(CallbackKind::Timer, "10ms"));
    // To measure a callback, the executor looks up the callback by the address of the rclrs primitive to which it
    // belongs.
    let known: HashMap<usize, _> = (0..100).map(|address| (address * 64, timer)).collect();
    let run = |ready| black_box(&thread).run(known[&black_box(640)], ready, || black_box(()));
    group.bench_function("disabled", |bencher| bencher.iter(|| run(None)));
    executions.enable(&HostClock);
    group.bench_function("callback", |bencher| bencher.iter(|| run(None)));
    // To measure a timer, the executor also reads when the next call is due.
    let executor = Context::default().create_basic_executor();
    let node = executor.create_node("bench_executor").unwrap();
    let scheduled = node.create_timer_repeating(Duration::from_secs(3600), || ()).unwrap();
    group.bench_function("timer", |bencher| {
        bencher.iter(|| {
            let left = black_box(scheduled.time_until_next_call()).unwrap();
            // The next call of this timer is due in the future, so the recorder counts no waiting time.
            run(Some(monotonic() + left.as_nanos() as i64))
        });
    });
    group.finish();
}

/// The cost of a window of 1000 subscriptions with two conditions each, and of their health on `/diagnostics`.
fn health(criterion: &mut Criterion) {
    const SUBSCRIPTIONS: usize = 1000;
    let mut group = criterion.benchmark_group("health");
    let (message, info) = message();
    let measured = InstrumentedCallback::new(&RecorderOptions::new());
    let window = |messages| {
        (0..messages).for_each(|_| measured.message(black_box(&message), black_box(&info)));
        let mut window = measured.end_window().unwrap();
        window.length = Duration::from_secs(1);
        window
    };
    for (name, messages, conditions) in [
        // One window is enough to decide whether both conditions are met.
        ("judge_1000", 100, "rate=90..110 age<1e12"),
        // One window is not enough to decide about either condition, so the judge looks back over 100 windows.
        ("judge_1000_undecided", 1, "rate>=1 period<=1000"),
    ] {
        let mut judged = JudgedSubscriptions::new(SUBSCRIPTIONS, conditions);
        let window = window(messages);
        (0..200).for_each(|_| judged.judge(&window));
        group.bench_function(name, |bencher| bencher.iter(|| judged.judge(black_box(&window))));
    }
    let mut judged = JudgedSubscriptions::new(SUBSCRIPTIONS, "rate=90..110 age<1e12");
    let window = window(100);
    (0..5).for_each(|_| judged.judge(&window));
    let mut now = Instant::now();
    group.bench_function("statuses_1000", |bencher| {
        bencher.iter(|| {
            now += Duration::from_secs(2);
            assert_eq!(judged.statuses(now), SUBSCRIPTIONS);
        });
    });
    group.finish();
}

criterion_group!(benches, floors, collectors, messages_and_windows, sizes, code, executor, health);
criterion_main!(benches);
