// SPDX-License-Identifier: Apache-2.0

//! What the library measures by rclcpp's tracepoints: callbacks, intra-process communication, timers and executors.

use crate::{run_silently, Windows};

/// How long tests wait before a callback starts, and how long a callback runs, in milliseconds.
const BEFORE: f64 = 150.0;
const DURING: f64 = 250.0;

/// The period is longer than the tests' scripts, so the messages of a script are in one window or in two windows.
const PERIOD: (&str, &str) = ("PERIOD", "2.5");

/// Returns the number of periods between events. `metric` has a sample for each event. The first event of each window
/// has no period.
fn periods(windows: &Windows, source: &str, metric: &str) -> f64 {
    windows.samples(source, metric).iter().map(|(_, count)| (count - 1.0).max(0.0)).sum()
}

fn mean(windows: &Windows, source: &str, metric: &str) -> f64 {
    windows.total(source, metric).1
}

#[test]
fn the_figures_of_a_message_start_at_its_callback() {
    // The timestamps say that the messages were received a second ago. The callbacks of the third subscription are not
    // reported.
    let script = "
now = time.time_ns() - 1_000_000_000
rmw.play(b'rmw_fastrtps_cpp', long(now), long(now), ctypes.c_ulong(0))
reported, other, without = subscribe('/own_in'), subscribe('/own_other'), subscribe('/own_without', 0)
for _ in range(3):
    rmw.receive(reported, long(150), long(250))
rmw.receive(reported, long(0), long(-1)) # no callback
rmw.receive(other, long(0), long(0))
rmw.receive(without, long(150), long(-1))
";
    let Some(windows) = run_silently(script, &[("METRICS", "all"), PERIOD]) else { return };
    for metric in ["message_age", "receive_to_callback_ms", "source_to_callback_ms", "callback_duration_ms"] {
        assert_eq!(windows.total("/own_in", metric).0, 3.0, "{metric}");
    }
    let periods = periods(&windows, "/own_in", "message_age");
    assert_eq!(windows.total("/own_in", "message_period").0, periods);
    assert!(periods > 0.0 && mean(&windows, "/own_in", "message_period") >= BEFORE + DURING);
    assert!(mean(&windows, "/own_in", "callback_duration_ms") >= DURING);
    assert!(mean(&windows, "/own_in", "receive_to_callback_ms") >= 1000.0 + BEFORE + (BEFORE + DURING));
    assert_eq!(windows.total("/own_without", "receive_to_callback_ms").0, 1.0, "it starts at the take");
    assert_eq!(windows.total("/own_without", "callback_duration_ms").0, 0.0);
}

#[test]
fn messages_that_a_program_takes_itself_start_at_the_take() {
    // The program polls two subscriptions in turn. The first message of each subscription is not counted, because its
    // callback might still start when the message was taken. After the polling, three callbacks of the second
    // subscription start.
    let script = "
one, two = subscribe('/own_one'), subscribe('/own_two')
for _ in range(5):
    rmw.receive(one, long(0), long(-1))
    rmw.receive(two, long(0), long(-1))
for _ in range(3):
    rmw.receive(two, long(0), long(0))
";
    let Some(windows) = run_silently(script, &[("METRICS", "message_age,callback_duration_ms")]) else {
        return;
    };
    let counts = |metric| ["/own_one", "/own_two"].map(|source| windows.total(source, metric).0);
    assert_eq!(counts("message_age"), [4.0, 4.0 + 3.0]);
    // The first of these three callbacks is not measured, because its message was already measured when it was taken.
    assert_eq!(counts("callback_duration_ms"), [0.0, 2.0]);
}

#[test]
fn a_topic_is_one_source_by_dds_and_within_the_process() {
    // Messages are sent in three ways: by DDS and within the process, only by DDS, and only within the process. Then 15
    // messages are put into a buffer with 10 places.
    let script = "
own = case('both')
does('IdiccJiJi', own)
does('J' * 15 + 'i' * 15, own)
";
    let Some(windows) = run_silently(script, &[("METRICS", "all"), PERIOD]) else { return };
    let source = "/own_both_in";
    let total = |metric| windows.total(source, metric).0;
    let by_dds = 2.0;
    let within = 3.0 + 10.0;
    assert_eq!(total("callback_duration_ms"), by_dds + within);
    assert_eq!(total("message_period"), periods(&windows, source, "source_to_callback_ms"));
    assert_eq!(total("source_to_callback_ms"), by_dds + within);
    assert_eq!(total("message_age"), by_dds, "the content of a message within the process is not read");
    // The first message by DDS and the first message within the process have no gap, because no message precedes them
    // on the same way.
    assert_eq!(windows.total(source, "publication_seq_gap"), (by_dds + within - 2.0, 5.0 / 13.0));
    let publisher = "/own_both_in (2)";
    let all_windows = windows.samples(publisher, "publish_period");
    let windows_with_some = all_windows.iter().filter(|(_, count)| *count > 0.0).count() as f64;
    let published = windows.total(publisher, "publish_period").0 + windows_with_some;
    assert_eq!(published, 3.0 + 15.0, "each publication once");
    assert_eq!(windows.total(publisher, "publish_duration_ms").0, 1.0, "only by the middleware");
}

#[test]
fn a_timer_is_a_source() {
    let script = "
timer = pointer(rmw.create_timer, long(10_000_000), 3)
def fire(late, before=0, during=0, other=False, by=timer):
    rmw.fire(by, long(late), long(before), long(during), other)
fire(0)
fire(300_000_000, before=150, during=250)  # 30 periods late
fire(0)
queued = pointer(rmw.create_timer, long(40_000_000), 3)
fire(0, other=True, by=queued)
simulated = pointer(rmw.create_timer, long(20_000_000), 1)
subscribe('/clock', of=type_of('rosgraph_msgs', 'msg', 'Clock'))
fire(5_000_000, by=simulated)
gone = pointer(rmw.create_timer, long(30_000_000), 3)
fire(0, by=gone)
rmw.destroy_timer(gone)
";
    let Some(windows) = run_silently(script, &[("METRICS", "message_age"), PERIOD]) else { return };
    let total = |metric| windows.total("timer/10ms", metric);
    assert_eq!(total("callback_duration_ms").0, 3.0);
    assert_eq!(total("timer_period").0, periods(&windows, "timer/10ms", "timer_lateness_ms"));
    assert_eq!(total("timer_lateness_ms").0, 3.0);
    assert!(total("timer_lateness_ms").1 >= (300.0 + BEFORE) / 3.0);
    assert!(total("callback_duration_ms").1 >= DURING / 3.0);
    assert_eq!(windows.sum("timer/10ms", "skipped_periods"), 30.0);
    assert_eq!(windows.total("timer/40ms", "callback_duration_ms").0, 1.0);
    assert_eq!(windows.total("timer/40ms", "timer_lateness_ms").0, 0.0, "another thread has called it");
    assert_eq!(windows.total("timer/20ms", "callback_duration_ms").0, 1.0);
    assert_eq!(windows.total("timer/20ms", "timer_lateness_ms").0, 0.0, "on simulated time");
    assert!(!windows.sources().contains("timer/30ms"), "it ended before its first window");
    let excluded = run_silently(script, &[("TOPICS", "!/timer/*")]).unwrap();
    assert!(!excluded.0.contains("timer/"), "{}", excluded.0);
}

#[test]
fn ended_threads_leave_the_executor() {
    // As in a container with an executor for each component: 40 threads run a callback and end, and 40 more threads do
    // so in later windows. Fails if ended threads count towards the limit of 64 measured threads.
    let script = "
import threading
subscription = subscribe('/own_in')
def call():
    rmw.receive(subscription, long(0), long(0))
for _ in range(2):
    for _ in range(40):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    wait_for_windows()
call()
wait_for_windows()
";
    let Some(windows) = run_silently(script, &[("METRICS", "busy")]) else { return };
    let threads: Vec<f64> = windows.samples("executor", "busy").iter().map(|(_, threads)| *threads).collect();
    assert!(threads.iter().sum::<f64>() >= 80.0, "{threads:?}");
    assert_eq!(threads.last(), Some(&1.0), "the main thread: {threads:?}");
}

#[test]
fn the_executor_is_a_source_if_it_is_chosen() {
    let script = "
timer = pointer(rmw.create_timer, long(10_000_000), 3)
subscription = subscribe('/own_in')
rmw.fire(timer, long(0), long(0), long(400), False)
rmw.receive(subscription, long(0), long(100))
wait_for_windows() # the executor's windows begin after those that this waits for
";
    let Some(windows) = run_silently(script, &[("METRICS", "busy"), ("PERIOD", "0.7")]) else { return };
    let longest = windows.samples("executor", "longest_callback_ms");
    assert!(longest.iter().any(|(longest, _)| *longest >= 400.0), "{}", windows.0);
    // The callbacks take 500 ms of the total length of all windows. On a busy machine, windows are longer, so this
    // share is smaller.
    let busy = windows.samples("executor", "busy").into_iter().map(|(busy, _)| busy).fold(0.0, f64::max);
    assert!((5.0..=100.0).contains(&busy), "{busy} %: {}", windows.0);
    assert_eq!(windows.samples("executor", "busy").last().unwrap().0, 0.0, "both callbacks have ended");
    assert!(windows.total("executor", "ready_to_run_ms").0 >= 1.0);
    assert!(!run_silently(script, &[]).unwrap().0.contains("executor"));
}
