// SPDX-License-Identifier: Apache-2.0

//! Delays, losses and silence, on real topics.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    IntoMeasuredOptions, Metric, NodeStatistics, TopicStatisticsOptions, WindowStatistics,
};
use ros_env::{sensor_msgs::msg::Imu, statistics_msgs::msg::MetricsMessage};
use test_support::{
    collect, domain, middleware, node, of, program, wait_for, Metric as Published, Process, Program,
    Progress, Reader, Spinning,
};

/// Returns options for all metrics, in windows of 250 ms.
fn everything() -> TopicStatisticsOptions {
    TopicStatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS).publish_period(Duration::from_millis(250))
}

/// Returns the smallest value of a metric in all windows that have samples of it.
fn least(windows: &[Arc<WindowStatistics>], metric: Metric) -> f64 {
    windows.iter().map(|window| window.get(metric).unwrap().minimum).fold(f64::INFINITY, f64::min)
}

/// Measures all metrics of `imu` with a publisher. Returns windows with at least ten messages.
fn windows_of(publisher: &[&str]) -> Vec<Arc<WindowStatistics>> {
    let domain = domain();
    let (executor, node) = node("delayed", &[]);
    let statistics = NodeStatistics::with_options(&node, everything()).unwrap();
    let imu = statistics.create_subscription("imu".keep_last(100), |_: Imu| ()).unwrap();
    let windows = collect(imu.watch());
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", publisher, domain);
    let messages = |windows: &[Arc<WindowStatistics>]| -> u64 {
        windows.iter().map(|window| window.get(Metric::HeaderToCallback).unwrap().sample_count).sum()
    };
    wait_for("ten messages in finished windows", || messages(&windows.lock().unwrap()) >= 10);
    let windows = windows.lock().unwrap().clone();
    windows
}

#[test]
fn a_driver_that_waits_before_it_publishes_raises_header_to_source_only() {
    let prompt = windows_of(&["--rate", "10"]);
    let waiting = windows_of(&["--rate", "10", "--wait", "0.05"]);

    let moved = |metric| least(&waiting, metric) - least(&prompt, metric);
    let driver = moved(Metric::HeaderToSource);
    assert!((45.0..150.0).contains(&driver), "header_to_source_ms grows by 50 ms: {driver}");
    assert!(least(&waiting, Metric::HeaderToSource) >= 50.0);
    let rest = moved(Metric::SourceToCallback);
    assert!(rest.abs() < 20.0, "source_to_callback_ms changes by less than 20 ms: {rest}");
    if !middleware::lacks_reception_timestamps("source_to_receive_ms of a driver that waits") {
        let network = moved(Metric::SourceToReceive);
        assert!(network.abs() < 20.0, "source_to_receive_ms changes by less than 20 ms: {network}");
    }
}

#[test]
fn the_partial_delays_add_up_to_header_to_callback() {
    let windows = windows_of(&["--rate", "3", "--stamp-age", "0.02"]);
    let mut ways = vec![vec![Metric::HeaderToSource, Metric::SourceToCallback]];
    if !middleware::lacks_reception_timestamps("the three parts of an age") {
        ways.push(vec![Metric::HeaderToSource, Metric::SourceToReceive, Metric::ReceiveToCallback]);
    }
    let mut single = 0;
    for window in &windows {
        let part = |metric: Metric| window.get(metric).unwrap();
        let whole = part(Metric::HeaderToCallback);
        for way in &ways {
            let parts: Vec<_> = way.iter().map(|metric| part(*metric)).collect();
            assert!(parts.iter().all(|part| part.sample_count == whole.sample_count), "{window:?}");
            // The averages of several messages, or the values of one message.
            let sum: f64 = parts.iter().map(|part| part.average).sum();
            assert!(whole.sample_count == 0 || (sum - whole.average).abs() < 1e-6, "{way:?}: {window:?}");
        }
        if whole.sample_count == 0 {
            continue;
        }
        assert_eq!(whole.average, part(Metric::MessageAge).average, "the age is the whole: {window:?}");
        single += usize::from(whole.sample_count == 1);
    }
    assert!(single > 0, "a window of one message: {windows:?}");
}

#[test]
fn a_stopped_receiver_raises_source_to_receive_and_not_header_to_source() {
    let domain = domain();
    let mut reader = Reader::start(domain);
    let part = match middleware::lacks_reception_timestamps("source_to_receive_ms of a stopped receiver") {
        true => "source_to_callback_ms",
        false => "source_to_receive_ms",
    };
    let metrics = &format!("metrics:=[header_to_source_ms, {part}]");
    let listener = Process::start(program("listener"), &["--ros-args", "-p", metrics], domain);
    let _publisher = Program::start("publisher.py", &["--rate", "50"], domain);
    let received =
        |metrics: &[Published]| of(metrics, "/listener:/imu", part).map(Published::count).sum::<f64>();
    reader.read_until("messages", |metrics| received(metrics) > 50.0);

    let before = reader.metrics.len();
    listener.signal("STOP");
    // This duration is the fault under test, not a wait for a condition.
    std::thread::sleep(Duration::from_millis(400));
    listener.signal("CONT");
    let stopped = |metrics: &[Published]| {
        of(&metrics[before..], "/listener:/imu", part).any(|window| window.maximum() > 100.0)
    };
    reader.read_until(&format!("{part} of some 400 ms"), stopped);
    // Ten or more messages waited that long. If the driver were late, only one would.
    for window in
        of(&reader.metrics, "/listener:/imu", "header_to_source_ms").filter(|window| window.count() > 20.0)
    {
        assert!(window.average() < 20.0, "the driver did not wait: {window:?}");
    }
}

#[test]
fn a_slow_callback_in_the_nodes_scope_raises_receive_to_callback_window_by_window() {
    let domain = domain();
    let (executor, node) = node("slow", &[]);
    let statistics =
        NodeStatistics::with_options(&node, everything().publish_period(Duration::from_secs(1))).unwrap();
    let imu = statistics
        .create_subscription("imu".keep_last(1000), |_: Imu| std::thread::sleep(Duration::from_millis(100)))
        .unwrap();
    let mut windows = imu.watch(); // from here, because the executor will be busy
    let _spinning = Spinning::start(executor);
    let _publisher = Program::start("publisher.py", &["--rate", "50"], domain);

    let part = match middleware::lacks_reception_timestamps("receive_to_callback_ms of a slow callback") {
        true => Metric::SourceToCallback,
        false => Metric::ReceiveToCallback,
    };
    let mut seen: Vec<Arc<WindowStatistics>> = vec![];
    // The delay grows by 80 ms with each message, unless the publisher is late.
    wait_for("backlog of a second that grew in four windows", || {
        if windows.has_changed().unwrap() {
            seen.extend(windows.borrow_and_update().clone());
            seen.retain(|window| window.get(part).unwrap().sample_count > 0);
        }
        let backlog = |index: usize| seen[index].get(part).unwrap().average;
        let grew = (1..seen.len()).filter(|index| backlog(*index) > backlog(index - 1) + 100.0).count();
        // The middleware itself has no delay, except with what was sent before it discovered the publisher.
        let is_prompt = || seen.last().unwrap().get(Metric::SourceToReceive).unwrap().minimum < 20.0;
        grew >= 4 && backlog(seen.len() - 1) > 1000.0 && (part == Metric::SourceToCallback || is_prompt())
    });
    let last = seen.last().unwrap();
    let minimum = |metric| last.get(metric).unwrap().minimum;
    assert!(minimum(Metric::CallbackDuration) >= 100.0, "{last:#?}");
    if !middleware::lacks_sequence_numbers("losses beside a slow callback") {
        assert_eq!(imu.totals().lost, Some(0), "no message is lost: all wait");
    }
}

#[test]
fn a_slow_worker_with_depth_1_loses_messages_and_reports_the_exact_number() {
    if middleware::lacks_sequence_numbers("losses of a slow worker") {
        return;
    }
    const COUNT: u64 = 150;
    let domain = domain();
    let (executor, node) = node("slow_worker", &[]);
    let statistics = NodeStatistics::with_options(&node, everything()).unwrap();
    let worker = node.create_worker(());
    let numbers = Arc::new(Mutex::new(vec![]));
    let imu = statistics
        .create_worker_subscription(&worker, "imu".keep_last(1), {
            let (numbers, progress) = (Arc::clone(&numbers), Progress::of_publisher(&node));
            move |message: Imu| {
                let number = message.linear_acceleration.x as u64;
                numbers.lock().unwrap().push(number);
                // Wait for two more messages.
                progress.wait_for(COUNT.min(number + 2));
            }
        })
        .unwrap();
    let windows = collect(imu.watch());
    let _spinning = Spinning::start(executor);
    let (rate, count) = ("50", COUNT.to_string());
    let arguments = ["--rate", rate, "--count", &count, "--subscribers", "1"];
    let _publisher = Program::start("publisher.py", &arguments, domain);

    // With depth 1 the last message is always received.
    wait_for("last message", || numbers.lock().unwrap().last() == Some(&COUNT));
    let numbers = numbers.lock().unwrap().clone();
    let totals = imu.totals();
    let lost = totals.lost.unwrap();
    assert!(lost > COUNT / 10, "about half of the messages are overwritten: {totals:?}");
    assert_eq!(totals.received, numbers.len() as u64, "{totals:?}");
    // The reader may discover the publisher late. It then receives several messages at once, and only the last one
    // remains. A subscription does not know what was sent before its first message.
    assert_eq!(totals.received + lost, COUNT - numbers[0] + 1, "{totals:?}, {numbers:?}");
    assert_eq!((totals.out_of_order, totals.publishers), (Some(0), Some(1)));
    wait_for("window of the last message", || {
        let windows = windows.lock().unwrap();
        let gaps = windows.iter().map(|window| window.get(Metric::PublicationSeqGap).unwrap());
        // Each message except the first has a sample: its gap, which may be 0.
        let (samples, missing) = gaps.fold((0, 0.0), |(samples, missing), gap| match gap.sample_count {
            0 => (samples, missing),
            count => (samples + count, missing + gap.average * count as f64),
        });
        samples == totals.received - 1 && missing.round() as u64 == lost
    });
    for window in windows.lock().unwrap().iter() {
        let waited = window.get(Metric::ReceiveToCallback).unwrap();
        assert!(waited.sample_count == 0 || waited.average < 1000.0, "no backlog: {window:#?}");
    }
}

#[test]
fn killing_and_restarting_one_of_two_publishers_is_no_loss() {
    let domain = domain();
    let (executor, node) = node("two_publishers", &[]);
    let statistics = NodeStatistics::with_options(&node, everything()).unwrap();
    let imu = statistics.create_subscription("imu".keep_last(1000), |_: Imu| ()).unwrap();
    let _spinning = Spinning::start(executor);
    let start = || Program::start("publisher.py", &["--rate", "50"], domain);
    let started = Instant::now();
    let _one = start();
    let other = start();
    let received_more = |what: &str, publishers: u64| {
        let before = imu.totals().received;
        wait_for(what, || {
            let totals = imu.totals();
            totals.received > before + 100 && totals.publishers == Some(publishers)
        });
    };
    received_more("messages of two", 2);
    drop(other); // killed
    received_more("messages of one", 2);
    let _again = start();
    received_more("messages of two again", 3);

    let totals = imu.totals();
    if !middleware::lacks_sequence_numbers("losses of a publisher that restarts") {
        assert_eq!((totals.lost, totals.out_of_order), (Some(0), Some(0)), "{totals:?}");
    }
    let (rate, least) = (totals.rate(), totals.received as f64 / started.elapsed().as_secs_f64());
    assert!(least < rate && rate < 110.0, "50 to 100 Hz: {rate}, {least} at least; {totals:?}");
}

#[test]
fn time_since_last_message_grows_while_a_topic_is_silent() {
    let domain = domain();
    let (executor, node) = node("silent", &[]);
    let statistics = NodeStatistics::with_options(&node, everything()).unwrap();
    let imu = statistics.create_subscription("imu".keep_last(10), |_: Imu| ()).unwrap();
    let windows = collect(imu.watch());
    let _spinning = Spinning::start(executor);
    let count = |windows: &[Arc<WindowStatistics>], full: bool| {
        let is_full =
            |window: &Arc<WindowStatistics>| window.get(Metric::MessageAge).unwrap().sample_count > 0;
        windows.iter().filter(|window| is_full(window) == full).count()
    };
    wait_for("windows before any message", || count(&windows.lock().unwrap(), false) >= 2);
    for window in windows.lock().unwrap().iter() {
        let silence = window.get(Metric::TimeSinceLastMessage).unwrap();
        assert!(silence.average.is_nan() && silence.sample_count == 0, "no message before: {window:#?}");
    }

    let publisher = Program::start("publisher.py", &["--rate", "50"], domain);
    wait_for("windows with messages", || count(&windows.lock().unwrap(), true) >= 3);
    drop(publisher);
    // The last message may be late.
    wait_for("five silent windows", || {
        let windows = windows.lock().unwrap();
        count(&windows[windows.len() - 5..], false) == 5
    });

    let windows = windows.lock().unwrap().clone();
    let silent = &windows[windows.len() - 4..];
    for (window, next) in silent.iter().zip(&silent[1..]) {
        let silence = |window: &WindowStatistics| window.get(Metric::TimeSinceLastMessage).unwrap().average;
        let length = next.length.as_secs_f64() * 1e3;
        assert!((silence(next) - silence(window) - length).abs() < 1e-6, "it grows with time: {silent:#?}");
        assert!(silence(window) > 0.0 && next.get(Metric::TimeSinceLastMessage).unwrap().sample_count == 1);
        for metric in [Metric::MessageAge, Metric::MessagePeriod, Metric::PublicationSeqGap] {
            let summary = next.get(metric).unwrap();
            assert!(summary.average.is_nan() && summary.sample_count == 0, "{metric:?}: {summary:?}");
        }
    }
}

#[test]
fn the_clock_offset_is_published_once_per_window_and_node() {
    let (executor, node) = node("clock", &[]);
    let published = Arc::new(Mutex::new(vec![]));
    let _reader = node
        .create_subscription::<MetricsMessage, _>("statistics".keep_last(100), {
            let published = Arc::clone(&published);
            move |message: MetricsMessage| published.lock().unwrap().push(message)
        })
        .unwrap();
    let statistics = NodeStatistics::with_options(&node, everything()).unwrap();
    let _one = statistics.create_subscription("imu", |_: Imu| ()).unwrap();
    let _other = statistics.create_subscription("number".keep_last(1), |_: Imu| ()).unwrap();
    let _without = statistics
        .create_subscription(
            "imu".topic_statistics(TopicStatisticsOptions::new().metrics([Metric::MessageAge])),
            |_: Imu| (),
        )
        .unwrap();
    let _spinning = Spinning::start(executor);
    let messages_of = |name: &str| -> Vec<MetricsMessage> {
        published.lock().unwrap().iter().filter(|message| message.metrics_source == name).cloned().collect()
    };
    wait_for("four windows", || messages_of("clock_offset_ms").len() >= 4);
    let clocks = messages_of("clock_offset_ms");
    for (clock, next) in clocks.iter().zip(&clocks[1..]) {
        assert_eq!(next.window_start, clock.window_stop, "one per window: {clocks:#?}");
    }
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(clocks.iter().all(|clock| clock.measurement_source_name == hostname.trim()), "{clocks:#?}");
    assert!(messages_of("message_age")
        .iter()
        .any(|message| message.measurement_source_name == "/clock:/imu"));
}
