// SPDX-License-Identifier: Apache-2.0

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Mutex,
    },
    time::Duration,
};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoMeasuredOptions, Metric, NodeStatistics, SourceKind, SourceName, StatisticsError,
    TopicStatisticsOptions,
};
use test_support::{domain, node, of, wait_for, Program, Reader, Spinning};

use super::{statistics, Windows};

const MS: i64 = 1_000_000;
const PERIOD: i64 = 10 * MS;

/// The log of a program that blocks the executor, in nanoseconds on the timer's clock. It is independent of the
/// library.
#[derive(Default)]
struct Log {
    created: i64,
    /// The start of each callback, and when rcl has scheduled the next one.
    calls: Vec<(i64, i64)>,
    /// The start and end of each block.
    blocks: Vec<(i64, i64)>,
    /// How much longer than asked for a thread that only sleeps has slept at most: what the machine itself delays.
    overslept: i64,
}

/// What is expected of a log.
#[derive(Debug)]
struct Expected {
    /// In milliseconds.
    latest: f64,
    mean: f64,
    skipped: i64,
    count: u64,
}

impl Log {
    fn expected(&self) -> Expected {
        let whole_periods = |time: i64| (time + PERIOD / 2).div_euclid(PERIOD);
        let mut due = self.calls[0].1 - PERIOD * whole_periods(self.calls[0].1 - self.created - PERIOD);
        let (mut lateness, mut skipped) = (vec![], 0);
        for (start, next) in &self.calls {
            lateness.push((start - due) as f64 / 1e6);
            skipped += whole_periods(next - due) - 1;
            due = *next;
        }
        Expected {
            latest: lateness.iter().copied().fold(0.0, f64::max),
            mean: lateness.iter().sum::<f64>() / lateness.len() as f64,
            skipped,
            count: lateness.len() as u64,
        }
    }
}

/// A program that blocks its executor for that time, ten times, beside a measured timer of 100 Hz. Returns its log, and
/// the windows of the timer.
fn blocked_for(milliseconds: i64) -> (Log, Windows) {
    let (executor, node) = node("controller", &[]);
    let statistics = statistics(&node);
    // First: a timer is due a period after its creation.
    let spinning = Spinning::start(executor);
    let log = Arc::new(Mutex::new(Log::default()));
    let to = Arc::clone(&log);
    let timer = statistics
        .create_timer_repeating(Duration::from_nanos(PERIOD as u64), move |timer: &Timer| {
            let start = timer.clock().now().nsec;
            let until_next = match timer.time_until_next_call() {
                Ok(time) => time.as_nanos() as i64,
                // Preempted for longer than a period since rcl called it.
                Err(RclrsError::NegativeDuration(nanoseconds)) => nanoseconds,
                Err(error) => panic!("{error}"),
            };
            to.lock().unwrap().calls.push((start, start + until_next));
        })
        .unwrap();
    log.lock().unwrap().created = timer.clock().now().nsec;
    let windows = Windows::of(timer.watch());
    let (to, measured) = (Arc::clone(&log), Arc::clone(&timer));
    let sleeper = {
        let timer = Arc::clone(&timer);
        std::thread::spawn(move || {
            let mut overslept = 0;
            while !timer.is_canceled().unwrap() {
                let begin = timer.clock().now().nsec;
                std::thread::sleep(Duration::from_nanos(MS as u64));
                overslept = overslept.max(timer.clock().now().nsec - begin - MS);
            }
            overslept
        })
    };
    let blocker = node
        .create_timer_repeating(Duration::from_millis(153), move |timer: &Timer| {
            let mut log = to.lock().unwrap();
            if log.blocks.len() == 10 {
                measured.cancel().unwrap();
                return;
            }
            let begin = timer.clock().now().nsec;
            while timer.clock().now().nsec < begin + milliseconds * MS {
                std::thread::sleep(Duration::from_micros(50));
            }
            log.blocks.push((begin, timer.clock().now().nsec));
        })
        .unwrap();
    wait_for("the end of the timer", || timer.is_canceled().unwrap());
    // A callback may end in the window after the next one.
    windows.wait_for_more(3);
    drop((spinning, blocker));
    let mut log = std::mem::take(&mut *log.lock().unwrap());
    log.overslept = sleeper.join().unwrap();
    (log, windows)
}

/// Lateness is measured to within 0.2 ms of what the program's own log shows, and skipped periods exactly.
#[test]
fn a_blocked_executor_is_the_lateness_of_a_timer_and_its_skipped_periods() {
    const TOLERANCE: f64 = 0.2;
    // A thread may be preempted between the library's reading of the clock and the log's.
    const ATTEMPTS: usize = 6;
    for milliseconds in [1, 10, 55] {
        let mut attempts = vec![];
        let is_right = (0..ATTEMPTS).any(|_| {
            let (log, windows) = blocked_for(milliseconds);
            let expected = log.expected();
            let count = windows.count(Metric::TimerLateness);
            let (latest, skipped) =
                (windows.maximum(Metric::TimerLateness), windows.sum(Metric::SkippedPeriods));
            let mean = windows.sum(Metric::TimerLateness) / count as f64;
            let injected =
                log.blocks.iter().map(|(begin, end)| (end - begin) as f64 / 1e6).fold(0.0, f64::max);
            println!(
                "{milliseconds} ms: {latest:.3} {mean:.3} {skipped} {count}, injected {injected:.3}, \
                 overslept {}, {expected:?}",
                log.overslept
            );
            assert_eq!(windows.count(Metric::CallbackDuration), expected.count);
            // None is known of a call whose thread is preempted between two readings of the clock.
            assert!(count <= expected.count);
            attempts.push(format!("{latest} {mean} {skipped}, injected {injected}, {expected:?}"));
            let is_near = |ours: f64, expected: f64| (ours - expected).abs() < TOLERANCE;
            count == expected.count
                && is_near(latest, expected.latest)
                && is_near(mean, expected.mean)
                && skipped == expected.skipped as f64
                // A block begins at any time of a period, so it delays by up to its length, and skips by that.
                && latest > injected - PERIOD as f64 / 1e6
                && latest < injected + log.overslept as f64 / 1e6 + TOLERANCE
                && skipped >= 10.0 * (milliseconds * MS / PERIOD - 1).max(0) as f64
        });
        assert!(is_right, "{milliseconds} ms: {attempts:#?}");
    }
}

#[test]
fn every_form_of_a_timer_is_measured_and_has_a_name() {
    let (executor, node) = node("controller", &[]);
    let statistics = statistics(&node);
    let worker = node.create_worker(0_u64);
    let calls = Arc::new(AtomicU64::new(0));
    let count = || {
        let calls = Arc::clone(&calls);
        move || {
            calls.fetch_add(1, Ordering::Relaxed);
        }
    };
    let ms = Duration::from_millis;
    let mut watched = vec![];
    macro_rules! measured {
        ($timer:expr) => {
            measured!($timer, watched)
        };
        ($timer:expr, $watched:ident) => {{
            let timer = $timer.unwrap();
            $watched.push((timer.source_name().to_owned(), Windows::of(timer.watch())));
            timer
        }};
    }
    let (one, two, three, four) = (count(), count(), count(), count());
    let _repeating = (
        measured!(statistics.create_timer_repeating(ms(20), count())),
        measured!(statistics.create_timer_repeating(ms(20), move |_: &Timer| one())),
        measured!(statistics.create_timer_repeating(ms(20).system_time(), move |_: Time| two())),
    );
    let _on_worker = (
        measured!(statistics.create_worker_timer_repeating(&worker, ms(20).node_time(), count())),
        measured!(statistics.create_worker_timer_repeating(&worker, ms(20), move |calls: &mut u64| {
            *calls += 1;
            three();
        })),
        measured!(statistics.create_worker_timer_repeating(
            &worker,
            ms(20),
            move |_: &mut u64, _: &WorkerTimer<u64>| four()
        )),
    );
    let _shortest = measured!(statistics.create_timer_repeating(Duration::from_micros(1500), || ()));
    let once = || {
        let mut watched = vec![];
        let start = TopicStatisticsOptions::new().source_name(SourceName::Custom("start".to_owned()));
        let timers = (
            measured!(statistics.create_timer_oneshot(ms(100).topic_statistics(start), count()), watched),
            measured!(statistics.create_timer_oneshot(ms(100), |_: &Timer| ()), watched),
            measured!(
                statistics.create_worker_timer_oneshot(&worker, ms(100), |calls: &mut u64| *calls += 1),
                watched
            ),
        );
        (watched, timers)
    };
    let mut called_once = once();
    let names: Vec<&str> = watched.iter().chain(&called_once.0).map(|(name, _)| &**name).collect();
    let timer = |period: &str| format!("/controller:timer/{period}");
    assert_eq!(names[0], timer("20ms"));
    assert_eq!(
        names[5..],
        [&timer("20ms (6)"), &timer("1.5ms"), "start", &timer("100ms"), &timer("100ms (2)")]
    );

    let mut reader = Reader::start(domain());
    let _spinning = Spinning::start(executor);
    watched.pop();
    for (name, windows) in &watched {
        // Of a call whose thread is preempted between two readings of the clock, no lateness is known.
        let measured = [Metric::TimerPeriod, Metric::TimerLateness, Metric::CallbackShare];
        wait_for("calls", || measured.iter().all(|metric| windows.count(*metric) > 30));
        let period = windows.sum(Metric::TimerPeriod) / windows.count(Metric::TimerPeriod) as f64;
        assert!((15.0..100.0).contains(&period), "{name}: {period} ms");
        assert!(windows.minimum(Metric::TimerLateness) < 20.0, "{name}: not the lateness of the last start");
        // A window may end between the two.
        wait_for("the share of the longest call", || {
            let (share, duration) =
                (windows.maximum(Metric::CallbackShare), windows.maximum(Metric::CallbackDuration));
            (share - 100.0 * duration / 20.0).abs() < 1e-6
        });
    }
    const ATTEMPTS: usize = 6;
    let is_known = (0..ATTEMPTS).any(|attempt| {
        if attempt > 0 {
            called_once = once();
        }
        let latenesses = called_once.0.iter().map(|(name, windows)| {
            wait_for("its call", || windows.count(Metric::CallbackDuration) > 0);
            windows.wait_for_more(1);
            assert_eq!(windows.count(Metric::CallbackDuration), 1, "{name}");
            windows.count(Metric::TimerLateness)
        });
        let latenesses: Vec<u64> = latenesses.collect();
        println!("the latenesses of timers that are called once: {latenesses:?}");
        assert!(latenesses.iter().all(|count| *count <= 1), "{latenesses:?}");
        latenesses == [1; 3]
    });
    assert!(is_known, "the lateness of a timer that is called once");
    assert!(calls.load(Ordering::Relaxed) > 6 * 30);
    reader.read_until("the metrics of a timer", |read| {
        SourceKind::Timer
            .metrics()
            .iter()
            .all(|metric| of(read, &timer("20ms"), metric.name()).any(|window| window.unit == metric.unit()))
    });
}

#[test]
fn a_timer_on_simulated_time_is_late_in_simulated_time_and_a_jump_is_no_lateness() {
    let (executor, node) = node("controller", &["--ros-args", "-p", "use_sim_time:=true"]);
    let statistics: NodeStatistics = statistics(&node);
    let timer = statistics.create_timer_repeating(Duration::from_millis(100).node_time(), || ()).unwrap();
    let windows = Windows::of(timer.watch());
    let mut simulator = Program::start("simulator.py", &["--speed", "4", "--start", "2000"], domain());
    let _spinning = Spinning::start(executor);
    windows.wait_for_more(2);
    assert_eq!(windows.count(Metric::TimerLateness), 0, "simulated time has not begun");
    simulator.send("begin");
    wait_for("calls", || windows.count(Metric::TimerLateness) > 40);
    let period = windows.sum(Metric::TimerPeriod) / windows.count(Metric::TimerPeriod) as f64;
    assert!((20.0..60.0).contains(&period), "100 ms of simulated time are 25 ms: {period}");
    assert_eq!(windows.count(Metric::CallbackShare), 0, "its period has no length in real time");
    for jump in ["500", "-300"] {
        simulator.send(&format!("jump {jump}"));
        let calls = windows.count(Metric::TimerLateness);
        wait_for("calls after a jump", || windows.count(Metric::TimerLateness) > calls + 40);
    }
    // /clock has steps of 40 ms.
    let (latest, skipped) = (windows.maximum(Metric::TimerLateness), windows.maximum(Metric::SkippedPeriods));
    assert!((0.0..50_000.0).contains(&latest) && skipped < 500.0, "{latest} ms, {skipped} periods");
}

#[test]
fn a_callback_that_is_replaced_through_rclrs_ends_the_statistics() {
    let (executor, node) = node("controller", &[]);
    let statistics = statistics(&node);
    let replaces = |timer: &Timer| drop(timer.set_repeating(|| ()));
    let timer = statistics.create_timer_repeating(Duration::from_millis(50), replaces).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("the end of the statistics", || !timer.is_enabled());
}

#[test]
fn a_timer_that_was_canceled_and_reset_was_not_late() {
    let (executor, node) = node("controller", &[]);
    let statistics = statistics(&node);
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    let timer = statistics
        .create_timer_repeating(Duration::from_millis(100), move || {
            count.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    let windows = Windows::of(timer.watch());
    // rclrs 0.8 does not wake for a timer that is reset.
    let _wakes = node.create_timer_repeating(Duration::from_millis(20), || ()).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("calls", || calls.load(Ordering::Relaxed) >= 2);
    timer.cancel().unwrap();
    windows.wait_for_more(3);
    timer.reset().unwrap();
    let before = calls.load(Ordering::Relaxed);
    wait_for("calls", || calls.load(Ordering::Relaxed) >= before + 3);
    windows.wait_for_more(2);
    let latest = windows.maximum(Metric::TimerLateness);
    assert!(latest < 500.0, "it was canceled, and not late: {latest} ms");
}

#[test]
fn a_timer_that_cannot_be_measured_as_asked_is_an_error() {
    let (_executor, node) = node("controller", &[]);
    let statistics = statistics(&node);
    let wrong = TopicStatisticsOptions::new().metrics([Metric::Duration]);
    let error = statistics
        .create_timer_repeating(Duration::from_millis(1).topic_statistics(wrong), || ())
        .unwrap_err();
    assert!(matches!(error, StatisticsError::UnsupportedMetric { kind: SourceKind::Timer, .. }), "{error}");
}
