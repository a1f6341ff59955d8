// SPDX-License-Identifier: Apache-2.0

//! Memory is bounded, a drop of the statistics returns soon, and a fault in one part does not affect the other parts.

use crate::{lifetime::has_thread, support::*};

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    memory.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Drops statistics. Asserts that this takes at most 1.5 s: the documented second, and half a second more for a busy
/// machine.
fn assert_dropped_in_time<T>(statistics: T) {
    let started = Instant::now();
    drop(statistics);
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

#[test]
fn a_stopped_reader_neither_fills_memory_nor_blocks_a_drop() {
    if shares_its_process() {
        return;
    }
    warnings::collect();
    let keep_all = QoSProfile { history: QoSHistoryPolicy::KeepAll, ..QoSProfile::topics_default() };
    let (executor, _node, statistics) = measured("held_up", every(1).qos(keep_all.reliable()));
    let _spinning = Spinning::start(executor);
    let stopwatches = statistics.create_stopwatches("call", 0..500);
    let reader = Program::start("statistics_reader.py", &[], domain());
    assert_eq!(reader.read("first window"), "received");
    wait_for("warning that windows are discarded", || warnings_of("are discarded") > 0);
    // DDS rejects messages when its history is full. There is one warning per second, not one per message.
    if !middleware::is_no_dds("messages that the middleware rejects") {
        wait_for("warning that messages are rejected", || warnings_of("could not be published") > 0);
    }
    let stop = || stopwatches[0].statistics().latest().unwrap().window.stop.as_nanoseconds();
    let (before, start) = (memory(), stop());
    wait_for("windows of three seconds", || stop() > start + 3_000_000_000);
    let grown = memory().saturating_sub(before);
    assert!(grown < 30_000, "{grown} kB in 3 s: {before} before");
    assert_eq!(warnings_of("are discarded"), 1);
    assert!(warnings_of("could not be published") < 30, "{:#?}", warnings::so_far());
    drop(stopwatches);
    assert_dropped_in_time(statistics);
}

/// Runs code on the thread of the statistics when the next window ends, as wakers of some executors do.
fn at_the_next_window(
    windows: watch::Receiver<Option<Arc<WindowStatistics>>>,
    code: impl FnOnce() + Send + 'static,
) {
    let mut code = Some(code);
    on_each(windows, move |_| code.take().into_iter().for_each(|code| code()));
}

#[test]
fn a_waker_may_read_totals_drop_the_statistics_or_panic() {
    if shares_its_process() {
        return;
    }
    warnings::collect();
    let (_executor, node) = node("unlucky", &[]);
    let create = || Arc::new(NodeStatistics::with_options(&node, every(50)).unwrap());
    let statistics = create();
    let imu = subscribe::<Imu>(&statistics, "imu");
    let (done, is_done) = mpsc::channel();
    let (weak, has_totals) = (Arc::downgrade(&statistics), done.clone());
    at_the_next_window(imu.statistics().watch(), move || {
        has_totals.send(weak.upgrade().unwrap().totals().len()).unwrap();
    });
    assert_eq!(is_done.recv_timeout(LIMIT), Ok(1));
    at_the_next_window(imu.statistics().watch(), move || {
        drop((statistics, imu));
        done.send(0).unwrap();
    });
    assert_eq!(is_done.recv_timeout(LIMIT), Ok(0));
    wait_for("end of the thread", || !has_thread());

    let statistics = create();
    let imu = subscribe::<Imu>(&statistics, "imu");
    at_the_next_window(imu.statistics().watch(), || panic!("the panic of a waker"));
    wait_for("error in the log", || warnings_of("of /unlucky panicked") == 1);
    wait_for("end of the statistics", || !imu.statistics().is_enabled());
    drop(imu);
    assert_dropped_in_time(statistics);

    // The directory of the file of totals is removed. The statistics must log the error and end.
    let directory = tempfile::tempdir().unwrap();
    let options = NodeStatisticsOptions::new().totals_file(directory.path().join("totals.yaml"));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    drop(directory);
    drop(statistics);
    let text = "The totals of the node \"/unlucky\" cannot be written";
    wait_for("error in the log", || warnings_of(text) == 1);
    wait_for("end of the threads", || !has_thread());
}
