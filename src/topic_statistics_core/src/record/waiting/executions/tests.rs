// SPDX-License-Identifier: Apache-2.0

use proptest::prelude::*;

use super::*;
use crate::record::clock::Step;

const MS: i64 = 1_000_000;

/// An executor with threads of the given names, in a window that starts at 0.
struct Test {
    names: ExecutorNames,
    executions: Executions,
    counts: Vec<u64>,
}

impl Test {
    fn new(threads: &[&str]) -> Self {
        let names = ExecutorNames::default();
        for name in threads {
            lock(&names.0).add_thread((*name).into());
        }
        let mut executions = Executions::new(names.clone());
        executions.clear(0, false);
        Self { names, executions, counts: vec![] }
    }

    fn timer(&self, name: &str) -> CallbackId {
        self.names.id(ExecutorCallback::new(CallbackKind::Timer, name))
    }

    fn accept(&mut self, thread: usize, at: i64, event: Event) {
        self.executions.accept(
            &Execution { thread, at, event },
            Present::of_test(),
            &mut Distributions::default(),
        );
    }

    fn start(&mut self, thread: usize, callback: CallbackId, ready: Option<i64>, at: i64) {
        self.accept(thread, at, Event::Start { callback, ready });
    }

    fn end(&mut self, thread: usize, at: i64) {
        self.accept(thread, at, Event::End);
    }

    fn run(&mut self, thread: usize, callback: CallbackId, ready: Option<i64>, from: i64, until: i64) {
        self.start(thread, callback, ready, from);
        self.end(thread, until);
    }

    fn take(&mut self) -> ([Summary; 3], ExecutorWindow) {
        let (count, metrics) = self.executions.take(&EndedWindow::of_test(false));
        self.counts.push(count);
        let names = metrics.iter().map(|(metric, _)| *metric);
        assert!(names.eq([Metric::Busy, Metric::ReadyToRun, Metric::LongestCallback]));
        let summaries = [0, 1, 2].map(|index| metrics[index].1);
        (summaries, Arc::unwrap_or_clone(self.executions.executor().unwrap()))
    }
}

/// Returns the waits of a window: the waiting callback, the running callback, and the length of the wait.
fn waits(window: &ExecutorWindow) -> Vec<(&str, &str, f64)> {
    window.waits.iter().map(|wait| (&*wait.waiting.name, &*wait.running.name, wait.milliseconds)).collect()
}

#[test]
fn a_thread_is_busy_while_it_runs_callbacks() {
    let mut test = Test::new(&["spin", "node", "worker 1"]);
    let (a, b) = (test.timer("a"), test.timer("b"));
    for start in [0, 100 * MS] {
        test.run(0, a, None, start, start + 50 * MS);
    }
    test.run(1, b, None, 200 * MS, 230 * MS);

    let ([busy, ready_to_run, longest], window) = test.take();
    let shares: Vec<_> = window.threads.iter().map(|thread| (&*thread.name, thread.busy)).collect();
    assert_eq!(shares, [("spin", 10.0), ("node", 3.0), ("worker 1", 0.0)]);
    assert_eq!((busy.sample_count, busy.maximum, busy.minimum), (3, 10.0, 0.0));
    assert_eq!((longest.sample_count, longest.average), (1, 50.0));
    let longest = window.longest.unwrap();
    assert_eq!((&*longest.callback.name, &*longest.thread, longest.milliseconds), ("a", "spin", 50.0));
    assert!(ready_to_run.sample_count == 0 && ready_to_run.average.is_nan(), "the waiting time is unknown");
}

#[test]
fn a_step_of_the_clock_hides_waits_that_begin_by_it() {
    for is_of_system_time in [false, true] {
        let mut test = Test::new(&["spin"]);
        if is_of_system_time {
            test.executions = Executions::new(test.names.clone()).ready_of_system_time();
            test.executions.clear(0, false);
        }
        let (scan, timer) = (test.timer("/scan"), test.timer("10ms"));
        let mut take = |at, step| {
            test.run(0, scan, None, at, at + 55 * MS);
            test.run(0, timer, Some(at + 10 * MS), at + 55 * MS, at + 56 * MS);
            let (_, metrics) = test.executions.take(&EndedWindow { step, ..EndedWindow::of_test(false) });
            (metrics[1].1.sample_count, test.executions.executor().unwrap().waits.len())
        };
        let step = Step { by: 1_000 * MS, suspended: 0 };
        let expected = if is_of_system_time { (0, 0) } else { (1, 1) };
        assert_eq!((take(0, Some(step)), take(1_000 * MS, None)), (expected, (1, 1)), "{is_of_system_time}");
    }
}

#[test]
fn an_end_recorded_after_its_window_is_not_busy_in_the_next_one() {
    let mut test = Test::new(&["spin"]);
    let late = test.timer("late");
    test.start(0, late, None, 999 * MS);
    assert_eq!(test.take().0[0].maximum, 0.1);
    test.end(0, 1000 * MS - 1000);
    let ([busy, ..], _) = test.take();
    assert_eq!(busy.maximum, 0.0);
    test.end(0, 2500 * MS); // the start of this callback was not recorded
    assert_eq!(test.take().0[0].maximum, 0.0);
}

#[test]
fn a_callback_that_waited_is_named_with_the_one_that_ran() {
    let mut test = Test::new(&["spin", "worker 1"]);
    let (timer, scan, other) = (test.timer("10ms"), test.timer("/scan"), test.timer("other"));
    test.start(1, other, None, 0); // this callback runs on another thread
    test.run(0, scan, None, 10 * MS, 65 * MS);
    test.end(1, 66 * MS);
    test.run(0, timer, Some(20 * MS), 65 * MS + 1, 66 * MS);
    // This wait of 0.05 ms is too short to be reported.
    test.run(0, other, Some(66 * MS - 50_000), 66 * MS, 67 * MS);
    test.start(0, timer, Some(70 * MS), 70 * MS + 30_000); // no other callback ran during the wait
    test.end(0, 71 * MS);

    let ([_, ready_to_run, _], window) = test.take();
    assert_eq!(waits(&window), [("10ms", "/scan", 45.0)]);
    assert_eq!((ready_to_run.sample_count, ready_to_run.maximum), (3, 45.000001));
    assert_eq!(ready_to_run.minimum, 0.03);
    assert!(waits(&test.take().1).is_empty(), "a wait is reported in one window only");
}

#[test]
fn the_last_runs_of_a_thread_are_bounded() {
    let mut test = Test::new(&["spin"]);
    let (first, many, timer) = (test.timer("first"), test.timer("many"), test.timer("timer"));
    let mut at = 0;
    for index in 0..=Thread::LAST as i64 {
        test.start(0, if index == 0 { first } else { many }, None, at);
        at += MS;
        test.end(0, at);
    }
    assert_eq!(test.executions.threads[0].last.len(), Thread::LAST);
    assert_eq!(test.executions.threads[0].last.capacity(), Thread::LAST, "the queue of runs does not grow");
    test.start(0, timer, Some(0), at);
    assert_eq!(waits(&test.take().1), [("timer", "many", 1.0)]);
}

#[test]
fn an_ended_thread_is_in_its_last_window_only() {
    let mut test = Test::new(&["a", "b"]);
    let timer = test.timer("timer");
    let threads = |window: &ExecutorWindow| -> Vec<(String, f64)> {
        window.threads.iter().map(|thread| (thread.name.to_string(), thread.busy)).collect()
    };
    test.run(0, timer, None, 0, 500 * MS);
    test.start(0, timer, None, 600 * MS); // the callback throws an exception, so no end is recorded
    test.names.end_thread(0);
    assert_eq!(threads(&test.take().1), [("a".to_owned(), 90.0), ("b".to_owned(), 0.0)]);
    assert_eq!(threads(&test.take().1), [("b".to_owned(), 0.0)]);
    // The first new thread has to get the number of the ended thread.
    assert_eq!(lock(&test.names.0).add_thread("c".into()), 0);
    assert_eq!(lock(&test.names.0).add_thread("d".into()), 2);
    assert_eq!(test.take().1.threads.len(), 3);
    assert_eq!(test.counts, [2, 0, 0]);
}

#[test]
fn threads_are_bounded() {
    let names = ExecutorNames::default();
    let executions = Arc::new(Windowed::new(Executions::new(names.clone())));
    let new = || ThreadRecorder::within(2, Arc::clone(&executions), &names, "thread").map(|new| new.number());
    assert_eq!([new(), new(), new()], [Some(0), Some(1), None]);
}

#[test]
fn names_are_bounded() {
    let names = ExecutorNames::default();
    let id = |name: usize| names.id(ExecutorCallback::new(CallbackKind::Task, name.to_string()));
    let first = id(0);
    let all: Vec<_> = (0..ExecutorNames::MOST + 10).map(id).collect();
    assert_eq!((all[0], id(0), id(17)), (first, first, all[17]), "equal callbacks have the same number");
    assert!(all[ExecutorNames::MOST - 1..].iter().all(|id| *id == all[ExecutorNames::MOST - 1]));
    assert_ne!(all[ExecutorNames::MOST - 2], all[ExecutorNames::MOST - 1]);
    let names = lock(&names.0);
    assert_eq!((names.callbacks.len(), names.ids.len()), (ExecutorNames::MOST, ExecutorNames::MOST));
    assert_eq!(&*names.callbacks[ExecutorNames::MOST - 1].name, ExecutorNames::OTHERS);
}

#[test]
fn a_panic_ends_the_run() {
    use crate::record::{clock::HostClock, source::WindowedCollector};

    let names = ExecutorNames::default();
    let executions = Arc::new(Windowed::new(Executions::new(names.clone())));
    executions.enable(&HostClock);
    let recorder = ThreadRecorder::new(Arc::clone(&executions), &names, "spin");
    let callback = names.id(ExecutorCallback::new(CallbackKind::Task, "panics"));
    let panicking = std::panic::AssertUnwindSafe(|| recorder.run(callback, None, || panic!("on purpose")));
    std::panic::catch_unwind(panicking).unwrap_err();
    let first = executions.end_window(&HostClock).unwrap().statistics;
    assert_eq!(&*first.executor.as_ref().unwrap().longest.as_ref().unwrap().callback.name, "panics");
    let second = executions.end_window(&HostClock).unwrap().statistics;
    assert_eq!(second.executor.unwrap().threads[0].busy, 0.0);
    assert_eq!((first.count, second.count), (1, 0));
}

/// A run: the time before the run, its duration, the index of its callback, and how long before the run the callback
/// became ready.
fn any_run() -> impl Strategy<Value = (i64, i64, usize, Option<i64>)> {
    let time = || prop_oneof![0..200_000_i64, 0..400 * MS];
    (time(), prop_oneof![time(), 0..2500 * MS], 0..4_usize, proptest::option::of(time()))
}

proptest! {
    #[test]
    fn windows_are_what_the_runs_say(all in proptest::collection::vec(any_run(), 0..40)) {
        let mut test = Test::new(&["spin"]);
        let callbacks = ["a", "b", "c", "d"].map(|name| test.timer(name));
        // For each run: its start, its end, its callback, and the time at which the callback became ready.
        let mut runs = vec![];
        let mut at = 0;
        for (before, duration, callback, ready) in all {
            let start = at + before;
            at = start + duration;
            runs.push((start, at, callback, ready.map(|ready| start - ready)));
        }
        let mut next = runs.iter().flat_map(|&(start, end, callback, ready)| {
            [(start, Event::Start { callback: callbacks[callback], ready }), (end, Event::End)]
        }).peekable();
        let second = 1000 * MS;
        for window in 0..=at / second {
            let (from, to) = (window * second, (window + 1) * second);
            while let Some((at, event)) = next.next_if(|(at, _)| *at < to) {
                test.accept(0, at, event);
            }
            let ([busy, ready_to_run, _], of_window) = test.take();

            let overlap = |start: i64, end: i64| (end.min(to) - start.max(from)).max(0);
            let sum: i64 = runs.iter().map(|run| overlap(run.0, run.1)).sum();
            prop_assert_eq!(busy.average, sum as f64 / second as f64 * 100.0);

            let starts = || runs.iter().filter(|run| (from..to).contains(&run.0));
            let ends_or_runs = || runs.iter().filter(|run| run.0 < to && run.1 >= from);
            prop_assert_eq!(test.counts[window as usize], ends_or_runs().count() as u64, "a stuck executor is not silent");
            let longest = ends_or_runs().map(|run| run.1.min(to) - run.0).max();
            prop_assert_eq!(of_window.longest.map(|run| run.milliseconds), longest.map(|longest| longest as f64 / 1e6));
            let known = starts().filter(|run| run.3.is_some()).count();
            prop_assert_eq!(ready_to_run.sample_count as usize, known);

            let mut pairs = std::collections::BTreeMap::new();
            for waiting in starts() {
                let Some(ready) = waiting.3 else { continue };
                for ran in runs.iter().filter(|ran| ran.1 <= waiting.0 && ran.1 - ran.0 >= Thread::SHORTEST) {
                    let wait = ran.1 - ran.0.max(ready);
                    if wait >= Thread::SHORTEST {
                        let longest = pairs.entry((waiting.2, ran.2)).or_insert(0);
                        *longest = wait.max(*longest);
                    }
                }
            }
            let mut expected: Vec<_> = pairs.values().map(|wait| *wait as f64 / 1e6).collect();
            expected.sort_by(|a, b| b.total_cmp(a));
            expected.truncate(Executions::WAITS);
            let found: Vec<_> = of_window.waits.iter().map(|wait| wait.milliseconds).collect();
            prop_assert_eq!(found, expected);
            for wait in &of_window.waits {
                let index = |name: &str| ["a", "b", "c", "d"].iter().position(|known| *known == name).unwrap();
                let pair = (index(&wait.waiting.name), index(&wait.running.name));
                prop_assert_eq!(Some(wait.milliseconds), pairs.get(&pair).map(|wait| *wait as f64 / 1e6));
            }
        }
    }
}
