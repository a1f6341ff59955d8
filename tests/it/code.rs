// SPDX-License-Identifier: Apache-2.0

//! Stopwatches and counters around any code, and the thread of the statistics.

use std::fs;

use crate::waiting::*;

#[test]
fn stopwatches_and_counters_are_measured_and_published() {
    let (mut executor, node) = node("bridge", &[]);
    let statistics = statistics(&node);
    let [_front, rear] = &statistics.create_stopwatches("call", ["front", "rear"])[..] else { panic!() };
    let counters = statistics.create_counters("frames", 0..2);
    let (rear_windows, frames_windows) =
        (Windows::collect(rear.statistics().watch()), Windows::collect(counters[1].statistics().watch()));
    let mut reader = Reader::start(domain());
    // A guard records a duration on return, error and panic, but not when the guard is discarded.
    let pause = || std::thread::sleep(Duration::from_millis(10));
    let early = |fail: bool| -> Result<(), String> {
        let _running = rear.start();
        pause();
        if fail {
            Err("the call failed".to_owned())
        } else {
            Ok(())
        }
    };
    early(false).unwrap();
    early(true).unwrap_err();
    let panics = std::panic::AssertUnwindSafe(|| rear.time(|| panic!("after {:?}", pause())));
    std::panic::catch_unwind(panics).unwrap_err();
    rear.time(|| rear.time(pause));
    rear.start().discard();
    // A duration can end on another thread.
    let running = rear.start();
    std::thread::spawn(move || {
        pause();
        drop(running);
    });
    // A future is measured from its first poll until it is complete. This one is never polled.
    drop(rear.instrument(async {}));
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let instrumented = rear.instrument(async move { receiver.await.unwrap() });
    std::thread::spawn(move || {
        pause();
        sender.send(()).unwrap();
    });
    run(&mut executor, instrumented);
    rear_windows.wait_for(Metric::Duration, 7);
    assert!(rear_windows.least(Metric::Duration) >= 10.0 && rear_windows.most(Metric::Duration) < 5000.0);

    counters[1].increment();
    counters[1].add(10);
    let same = statistics.create_counter("frames/1");
    std::thread::spawn(move || same.add(9)).join().unwrap();
    frames_windows.wait_for(Metric::Frequency, 20);
    read_all(&mut reader, "/bridge:call/rear", &[Metric::Duration]);
    read_all(&mut reader, "/bridge:frames/0", &[Metric::Frequency]);
    let idle = reader.windows("/bridge:frames/0", "frequency_hz");
    assert!(idle.iter().all(|window| window.average() == 0.0), "no count is 0 Hz, not NaN");

    // Dropping the last handle ends the windows and frees the name, even while a guard runs.
    let once = statistics.create_stopwatch("once");
    let (clone, running, windows) = (once.clone(), once.start(), once.statistics().watch());
    drop(once);
    assert!(windows.has_changed().is_ok());
    drop(clone);
    wait_for("end of the windows", || windows.has_changed().is_err());
    drop(running);
    assert_eq!(statistics.create_stopwatch("once").statistics().source_name(), "/bridge:once");
}

#[test]
fn the_statistics_of_a_node_have_one_thread() {
    if shares_its_process() {
        return;
    }
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let (executor, node) = node("listener", &[]);
    // The middleware starts threads for the first publisher and subscription, so the threads are counted only after
    // these were created.
    let publisher = node.create_publisher::<Int32>("number").unwrap();
    let _plain = node.create_subscription("number", |_: Int32| ()).unwrap();
    let _spinning = Spinning::start(executor);
    wait_for("the subscription", || publisher.get_subscription_count().unwrap() == 1);
    publisher.publish(Int32 { data: 1 }).unwrap();
    let before = threads();
    let statistics = statistics(&node);
    let received = statistics.create_subscription("number", |_: Int32| ()).unwrap();
    statistics.create_stopwatch("call").time(|| ());
    wait_for("the subscription", || publisher.get_subscription_count().unwrap() == 2);
    publisher.publish(Int32 { data: 2 }).unwrap();
    wait_for("a window", || {
        received.statistics().latest().is_some() && received.statistics().totals().unwrap().received == 1
    });
    assert_eq!(threads(), before + 1);
}
