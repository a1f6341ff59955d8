// SPDX-License-Identifier: Apache-2.0

//! Stopwatches and counters around any code.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    Metric, NodeStatistics, Stopwatch, Summary, TopicStatisticsOptions, TopicStatisticsState,
};
use test_support::{collect, domain, node, of, wait_for, Reader};

/// Creates statistics of a node whose executor does not spin: stopwatches and counters need no executor.
fn statistics(window: Duration) -> (Executor, Node, NodeStatistics) {
    let (executor, node) = node("bridge", &[]);
    let options = TopicStatisticsOptions::new().publish_period(window);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    (executor, node, statistics)
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const TICK: Duration = Duration::from_millis(5);

/// Returns the durations that the stopwatches have recorded until the end of the window.
fn recorded<const COUNT: usize>(
    statistics: &NodeStatistics,
    stopwatches: [&Stopwatch; COUNT],
) -> [Summary; COUNT] {
    let windows = stopwatches.map(|stopwatch| collect(stopwatch.watch()));
    statistics.set_publish_period(Duration::from_millis(500)).unwrap();
    wait_for("window", || windows.iter().all(|windows| !windows.lock().unwrap().is_empty()));
    statistics.set_publish_period(DAY).unwrap();
    windows.map(|windows| *windows.lock().unwrap()[0].get(Metric::Duration).unwrap())
}

#[test]
fn a_guard_records_on_return_error_and_panic_and_not_when_it_is_discarded() {
    let (_executor, _node, statistics) = statistics(DAY);
    let stopwatch = statistics.create_stopwatch("call");
    let early = |fail: bool| -> Result<(), String> {
        let _running = stopwatch.start();
        std::thread::sleep(TICK);
        if fail {
            Err("the call failed")?;
        }
        Ok(())
    };
    early(false).unwrap();
    early(true).unwrap_err();
    let unwinding = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _running = stopwatch.start();
        std::thread::sleep(TICK);
        panic!("the panic of the call");
    }));
    assert!(unwinding.is_err());
    assert_eq!(stopwatch.time(|| std::thread::sleep(TICK)), ());
    stopwatch.start().discard();

    let [summary] = recorded(&statistics, [&stopwatch]);
    assert_eq!(summary.sample_count, 4, "{summary:?}");
    assert!((5.0..1000.0).contains(&summary.minimum), "{summary:?}");
}

/// The guard is the thread's own: it does not borrow the stopwatch, whose scope may end first.
#[test]
fn a_duration_can_end_on_another_thread() {
    let (_executor, _node, statistics) = statistics(DAY);
    let stopwatch = statistics.create_stopwatch("call");
    let started = Instant::now();
    let running = stopwatch.start();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(TICK);
        drop(running);
    });
    thread.join().unwrap();
    let elapsed = started.elapsed().as_secs_f64() * 1e3;
    let [summary] = recorded(&statistics, [&stopwatch]);
    assert_eq!(summary.sample_count, 1);
    assert!((5.0..=elapsed).contains(&summary.minimum), "{summary:?} of {elapsed}");

    let running = stopwatch.start();
    let watched = stopwatch.watch();
    drop(stopwatch);
    // The thread of the statistics may have them for a moment yet.
    wait_for("end of the statistics, which a guard does not keep", || watched.has_changed().is_err());
    drop(running);
}

#[test]
fn timed_scopes_may_be_nested_and_may_overlap_on_any_thread() {
    let (_executor, _node, statistics) = statistics(DAY);
    let (outer, inner) = (statistics.create_stopwatch("outer"), statistics.create_stopwatch("inner"));
    outer.time(|| {
        for _ in 0..3 {
            inner.time(|| std::thread::sleep(TICK));
        }
    });
    let [outside, inside] = recorded(&statistics, [&outer, &inner]);
    assert_eq!((outside.sample_count, inside.sample_count), (1, 3));
    assert!(outside.minimum >= 3.0 * inside.minimum, "{outside:?} {inside:?}");

    std::thread::scope(|scope| {
        for _ in 0..4 {
            let stopwatch = statistics.create_stopwatch("outer"); // the same one
            scope.spawn(move || (0..1000).for_each(|_| drop(stopwatch.start())));
        }
        // A guard may end on another thread.
        let running = outer.start();
        scope.spawn(move || drop(running));
    });
    assert_eq!(recorded(&statistics, [&outer])[0].sample_count, 4001);
}

#[test]
fn a_future_is_timed_from_its_first_poll_until_it_is_complete_or_dropped() {
    let (mut executor, node, statistics) = statistics(DAY);
    let stopwatch = statistics.create_stopwatch("get_image");
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let (polled, is_polled) = tokio::sync::oneshot::channel();
    let future = stopwatch.instrument(async move {
        polled.send(()).unwrap();
        receiver.await.unwrap()
    });
    std::thread::sleep(4 * TICK); // before it is polled
    let answered = node.commands().run(future);
    std::thread::spawn(move || {
        is_polled.blocking_recv().unwrap();
        std::thread::sleep(TICK);
        sender.send(()).unwrap();
    });
    let spin = SpinOptions::default().until_promise_resolved(answered).timeout(test_support::LIMIT);
    assert!(executor.spin(spin).is_empty());
    drop(stopwatch.instrument(async {})); // never polled

    let [summary] = recorded(&statistics, [&stopwatch]);
    assert_eq!(summary.sample_count, 1, "{summary:?}");
    assert!(summary.minimum >= 5.0, "{summary:?}");
}

#[test]
fn stopwatches_counters_and_vectors_of_them_are_published() {
    let domain = domain();
    let (_executor, _node, statistics) = statistics(Duration::from_millis(500));
    let lidars = statistics.create_stopwatches("get_lidar_data", ["front", "rear"]);
    let cameras = statistics.create_counters("frames", 0..3);
    let idle = statistics.create_stopwatch("idle");
    let mut reader = Reader::start(domain);
    let stop = Arc::new(Mutex::new(false));
    let working = std::thread::spawn({
        let (stop, lidars, cameras) = (Arc::clone(&stop), lidars.clone(), cameras.clone());
        move || {
            while !*stop.lock().unwrap() {
                let _running = lidars[1].start();
                cameras[0].increment();
                cameras[2].add(10);
                std::thread::sleep(TICK);
            }
        }
    });
    let silent = idle.source_name().to_owned();
    // From the third window on, the first one with enough: the thread may be held for a window.
    let full = |metrics: &[test_support::Metric], source: &str, metric: &str, least: f64| {
        of(metrics, source, metric).skip(2).find(|window| window.count() > least).cloned()
    };
    let (mut rear, mut frames, mut tens) = (None, None, None);
    reader.read_until("four windows", |metrics| {
        rear = full(metrics, "/bridge:get_lidar_data/rear", "duration_ms", 2.0);
        frames = full(metrics, "/bridge:frames/0", "frequency_hz", 2.0);
        tens = full(metrics, "/bridge:frames/2", "frequency_hz", 20.0);
        of(metrics, &silent, "duration_ms").count() >= 4
            && [&rear, &frames, &tens].iter().all(|window| window.is_some())
    });
    *stop.lock().unwrap() = true;
    working.join().unwrap();

    let last = |source: &str, metric: &str| {
        let windows = reader.windows(source, metric);
        windows.get(2).unwrap_or_else(|| panic!("{source} {metric}: {:#?}", reader.metrics)).clone()
    };
    let (rear, frames, tens) = (rear.unwrap(), frames.unwrap(), tens.unwrap());
    assert_eq!(rear.unit, "ms");
    assert!(rear.minimum() >= 5.0 && rear.count() > 2.0, "{rear:?}");
    let front = last("/bridge:get_lidar_data/front", "duration_ms");
    assert!(front.count() == 0.0 && front.average().is_nan(), "{front:?}");
    assert_eq!(last("/bridge:idle", "duration_ms").count(), 0.0);

    assert_eq!(frames.unit, "Hz");
    let length = (frames.stop - frames.start) as f64 * 1e-9;
    assert!(frames.count() > 2.0 && (frames.average() - frames.count() / length).abs() < 1.0, "{frames:?}");
    assert_eq!((frames.minimum(), frames.maximum()), (frames.average(), frames.average()));
    assert_eq!(last("/bridge:frames/1", "frequency_hz").average(), 0.0, "no count is 0 Hz, not NaN");
    assert!(tens.count() % 10.0 == 0.0 && tens.count() > 20.0, "{tens:?}");
}

#[test]
fn disabled_stopwatches_and_counters_record_nothing_and_restart_at_zero() {
    let (_executor, _node, statistics) = statistics(Duration::from_millis(20));
    let (stopwatch, counter) = (statistics.create_stopwatch("call"), statistics.create_counter("calls"));
    statistics.set_state(TopicStatisticsState::Disable);
    wait_for("end", || {
        let mut windows = stopwatch.watch();
        windows.borrow_and_update();
        std::thread::sleep(Duration::from_millis(60));
        !windows.has_changed().unwrap()
    });
    stopwatch.time(|| ());
    counter.add(1000);
    let mut windows = (stopwatch.watch(), counter.watch());
    windows.0.borrow_and_update();
    windows.1.borrow_and_update();
    statistics.set_state(TopicStatisticsState::Enable);
    wait_for("windows", || windows.0.has_changed().unwrap() && windows.1.has_changed().unwrap());
    let (timed, counted) = (windows.0.borrow().clone().unwrap(), windows.1.borrow().clone().unwrap());
    assert_eq!((timed.count, counted.count), (0, 0), "{timed:?} {counted:?}");
}

#[test]
fn a_stopwatch_and_a_counter_have_a_state_of_their_own() {
    let (_executor, _node, statistics) = statistics(DAY);
    let (stopwatch, counter) = (statistics.create_stopwatch("call"), statistics.create_counter("calls"));
    stopwatch.set_state(TopicStatisticsState::Disable);
    counter.set_state(TopicStatisticsState::Enable);
    assert_eq!((stopwatch.is_enabled(), counter.is_enabled()), (false, true));
    statistics.set_state(TopicStatisticsState::Disable);
    assert!(!statistics.is_enabled() && counter.is_enabled());
    statistics.set_publish_period(Duration::from_millis(20)).unwrap();
    wait_for("windows of the counter alone", || counter.latest().is_some());
    assert!(stopwatch.latest().is_none());
    stopwatch.set_state(TopicStatisticsState::Enable);
    counter.set_state(TopicStatisticsState::NodeDefault);
    assert_eq!((stopwatch.is_enabled(), counter.is_enabled()), (true, false));
    statistics.set_state(TopicStatisticsState::NodeDefault);
    assert!(statistics.is_enabled() && counter.is_enabled());
}

#[test]
fn a_dropped_stopwatch_ends_its_windows_and_frees_its_name() {
    let (_executor, _node, statistics) = statistics(Duration::from_millis(20));
    let stopwatch = statistics.create_stopwatch("call");
    let windows = stopwatch.watch();
    drop(stopwatch.clone());
    let mut still = stopwatch.watch();
    still.borrow_and_update();
    wait_for("window while one handle is left", || still.has_changed().unwrap());
    drop(stopwatch);
    wait_for("end of the windows", || windows.has_changed().is_err());
    let again = statistics.create_stopwatch("call");
    assert_eq!(again.source_name(), "/bridge:call");
    wait_for("window", || again.latest().is_some());
}
