// SPDX-License-Identifier: Apache-2.0

//! Statistics of publishers, read by rclpy.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
        Arc,
    },
    time::{Duration, Instant},
};

use rclrs::*;
use rclrs_topic_statistics::{
    AgeSource, FirstPeriod, IntoMeasuredOptions, Metric, NodeStatistics, SourceName, StatisticsError,
    TopicStatisticsOptions, TopicStatisticsState,
};
use ros_env::{
    sensor_msgs::msg::{rmw, Imu},
    std_msgs::msg::rmw::Int32,
};
use test_support::{context, domain, node, of, wait_for, Reader, Spinning};

const WINDOW: Duration = Duration::from_millis(500);

#[test]
fn every_form_of_publishing_is_received_and_measured_and_silence_has_count_0() {
    let domain = domain();
    let (executor, node) = node("driver", &[]);
    let options = TopicStatisticsOptions::new().publish_period(WINDOW);
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    // Deep enough for all messages, also if a thread is late.
    const ALL: u32 = 10_000;
    let idiomatic = statistics.create_publisher::<Imu>("imu".keep_last(ALL)).unwrap();
    let layout = statistics.create_publisher::<rmw::Imu>("raw".keep_last(ALL)).unwrap();
    let loaned = statistics.create_publisher::<Int32>("number".keep_last(ALL)).unwrap();
    assert_eq!((idiomatic.topic_name(), idiomatic.source_name()), ("/imu".to_owned(), "/driver:/imu"));

    let listener = executor.create_node("listener").unwrap();
    let counts: [Arc<AtomicU64>; 3] = Default::default();
    let [imus, raws, numbers] = counts.clone();
    let _imu = listener.create_subscription("imu".keep_last(ALL), move |_: Imu| {
        imus.fetch_add(1, Ordering::Relaxed);
    });
    let _raw = listener.create_subscription("raw".keep_last(ALL), move |_: Imu| {
        raws.fetch_add(1, Ordering::Relaxed);
    });
    let _number = listener.create_subscription("number".keep_last(ALL), move |number: Int32| {
        numbers.fetch_add(number.data as u64, Ordering::Relaxed);
    });
    let mut ready = idiomatic.notify_on_subscriber_ready();
    let _spinning = Spinning::start(executor);
    wait_for("a subscriber", || matches!(ready.try_recv(), Ok(Some(()))));
    let mut reader = Reader::start(domain);
    for (publishers, topic) in [(1, "/imu"), (1, "/raw"), (1, "/number")] {
        wait_for("subscription", || node.count_subscriptions(topic).unwrap() == publishers);
    }
    assert_eq!(idiomatic.get_subscription_count().unwrap(), 1);

    let mut published = 0;
    let publish = |published: &mut u64| {
        let imu = Imu::default();
        idiomatic.publish(&imu).unwrap();
        idiomatic.publish(imu).unwrap();
        let raw = rmw::Imu::default();
        layout.publish(&raw).unwrap();
        layout.publish(raw).unwrap();
        match loaned.can_loan_messages() {
            true => {
                let mut number = loaned.borrow_loaned_message().unwrap();
                number.data = 1;
                assert_eq!(number.data, 1);
                number.publish().unwrap();
            }
            false => loaned.publish(Int32 { data: 1 }).unwrap(),
        }
        *published += 1;
    };
    // Three further windows, so that one of them is complete.
    let windows = |reader: &mut Reader| {
        let wanted = of(&reader.metrics, "/driver:/number", "publish_period").count() + 3;
        reader.read_until("windows", |metrics| {
            of(metrics, "/driver:/number", "publish_period").count() >= wanted
        });
    };
    std::thread::scope(|scope| {
        // Dropped at the end, also after a panic, because the scope waits for its threads.
        let (_running, stopped) = mpsc::channel::<()>();
        let (published, publish) = (&mut published, &publish);
        scope.spawn(move || {
            while stopped.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Timeout) {
                publish(published);
            }
        });
        windows(&mut reader);
    });
    let sent = |index: usize| counts[index].load(Ordering::Relaxed);
    wait_for("all messages", || (sent(0), sent(1), sent(2)) == (2 * published, 2 * published, published));

    for (source, often) in [("/driver:/imu", 2.0), ("/driver:/raw", 2.0), ("/driver:/number", 1.0)] {
        let (periods, durations) =
            (reader.windows(source, "publish_period"), reader.windows(source, "publish_duration_ms"));
        // The two metrics of a window are two messages. The last one may not be received yet.
        let duration = |period: &test_support::Metric| {
            durations.iter().find(|duration| duration.start == period.start).cloned()
        };
        let windows: Vec<_> = periods.iter().filter_map(|period| Some((period, duration(period)?))).collect();
        for (period, duration) in &windows {
            assert_eq!((period.unit.as_str(), duration.unit.as_str()), ("ms", "ms"));
            assert_eq!(period.count(), (duration.count() - 1.0).max(0.0), "{source}");
            assert!(duration.count() == 0.0 || duration.minimum() > 0.0, "{duration:?}");
        }
        assert!(windows.iter().any(|(period, _)| period.count() >= often), "{windows:?}");
        for period in periods.iter().filter(|period| period.count() >= often) {
            let length = (period.stop - period.start) as f64 * 1e-6;
            assert!(period.average() * period.count() <= length, "the periods fit in the window: {period:?}");
            assert!(period.maximum() >= 10.0, "a period is as long as the pause: {period:?}");
        }
    }
    for metric in ["publish_period", "publish_duration_ms"] {
        let last = |metrics: &[test_support::Metric]| of(metrics, "/driver:/number", metric).last().cloned();
        let is_silent = |window: test_support::Metric| window.count() == 0.0 && window.average().is_nan();
        reader.read_until("silent window", |metrics| last(metrics).is_some_and(is_silent));
    }
}

#[test]
fn threads_that_share_a_publisher_leave_no_wrong_period() {
    const THREADS: usize = 4;
    const WINDOWS: usize = 30;
    let domain = domain();
    let (_executor, node) = node("driver", &[]);
    let options = TopicStatisticsOptions::new().publish_period(Duration::from_millis(100));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let shared = statistics.create_publisher::<Int32>("number").unwrap();
    let mut reader = Reader::start(domain);
    std::thread::scope(|scope| {
        // Dropped at the end, also after a panic, because the scope waits for its threads.
        let running = Arc::new(());
        for _ in 0..THREADS {
            let (shared, running) = (&shared, Arc::downgrade(&running));
            scope.spawn(move || {
                while running.strong_count() > 0 {
                    shared.publish(Int32 { data: 1 }).unwrap();
                }
            });
        }
        reader.read_until("windows", |metrics| {
            of(metrics, "/driver:/number", "publish_period").count() > WINDOWS
        });
    });
    let periods = reader.windows("/driver:/number", "publish_period");
    let durations = reader.windows("/driver:/number", "publish_duration_ms");
    let mut unknown = 0;
    for (index, period) in periods.iter().enumerate() {
        let Some(duration) = durations.iter().find(|duration| duration.start == period.start) else {
            continue;
        };
        if period.count() == 0.0 {
            assert!(period.average().is_nan(), "{period:?}");
            unknown += u32::from(duration.count() > 1.0);
            continue;
        }
        assert!(period.minimum() >= 0.0 && duration.minimum() > 0.0, "{period:?} {duration:?}");
        // What was before the first window that the reader received is not known.
        let follows_unknown = index == 0 || periods[index - 1].count() == 0.0;
        assert!(period.count() == duration.count() - 1.0 || follows_unknown, "{period:?} {duration:?}");
    }
    println!("windows_without_periods={unknown} of {}", periods.len());
}

#[test]
fn a_publisher_has_the_same_options_as_a_subscription() {
    let (_executor, node) = node("driver", &[]);
    let statistics = NodeStatistics::new(&node).unwrap();
    let fast = TopicStatisticsOptions::new()
        .publish_period(Duration::from_millis(20))
        .source_name(SourceName::Custom("front".to_owned()))
        .first_period(FirstPeriod::CarriedOver);
    let publisher = statistics.create_publisher::<Int32>("number".topic_statistics(fast)).unwrap();
    assert_eq!(publisher.source_name(), "front");
    // Less than one message per window: all periods are carried over.
    let mut published = Instant::now();
    wait_for("period that is carried over", || {
        if published.elapsed() >= Duration::from_millis(100) {
            publisher.publish(Int32 { data: 1 }).unwrap();
            published = Instant::now();
        }
        publisher.latest().is_some_and(|window| {
            let period = window.get(Metric::PublishPeriod).unwrap();
            window.count == 1 && period.sample_count == 1 && period.average >= 99.0
        })
    });
    publisher.set_state(TopicStatisticsState::Disable);
    assert!(!publisher.is_enabled());
    publisher.publish(Int32 { data: 1 }).unwrap();
    publisher.set_state(TopicStatisticsState::NodeDefault);
    assert!(publisher.is_enabled());
    let others = statistics.create_publisher::<Int32>("number").unwrap();
    assert!(others.latest().is_none(), "its window of 1 s has not ended");
}

#[test]
fn a_publisher_that_cannot_be_created_is_an_error_with_the_name() {
    let executor = context(domain(), &[]).create_basic_executor();
    let statistics = NodeStatistics::new(&executor.create_node("driver").unwrap()).unwrap();
    let error = statistics.create_publisher::<Int32>("no topic").err().unwrap();
    assert!(
        matches!(&error, StatisticsError::CreatePublisher { topic, .. } if topic == "no topic"),
        "{error}"
    );
    let never = TopicStatisticsOptions::new().publish_period(Duration::ZERO);
    let error = statistics.create_publisher::<Int32>("number".topic_statistics(never)).err().unwrap();
    assert!(matches!(error, StatisticsError::InvalidPublishPeriod { .. }), "{error}");
}

#[test]
fn an_option_that_a_publisher_does_not_have_is_an_error_and_none_of_the_node() {
    let executor = context(domain(), &[]).create_basic_executor();
    let of_subscriptions = TopicStatisticsOptions::new()
        .metrics([Metric::MessageAge, Metric::MessageSize])
        .age_source(AgeSource::SourceTimestamp);
    let node = executor.create_node("driver").unwrap();
    let statistics = NodeStatistics::with_options(&node, of_subscriptions.clone()).unwrap();
    let publisher = statistics.create_publisher::<Int32>("number").unwrap();
    let error = |own: TopicStatisticsOptions| {
        statistics.create_publisher::<Int32>("number".topic_statistics(own)).err().unwrap()
    };
    assert_eq!(
        error(of_subscriptions).to_string(),
        "A publisher has no metric \"message_age\": it has publish_period, publish_duration_ms, message_size"
    );
    let aged = error(TopicStatisticsOptions::new().age_source(AgeSource::HeaderStamp));
    assert_eq!(aged.to_string(), "A publisher has no age_source: it receives no messages");
    wait_for("the one publisher", || node.count_publishers("/number").unwrap() == 1);
    let all = TopicStatisticsOptions::new().metrics([Metric::PublishPeriod, Metric::MessageSize]);
    let measured = statistics.create_publisher::<Int32>("number".topic_statistics(all)).unwrap();
    wait_for("windows", || publisher.latest().is_some() && measured.latest().is_some());
    for handle in [publisher, measured] {
        let metrics = handle.latest().unwrap().metrics.iter().map(|(metric, _)| *metric).collect::<Vec<_>>();
        assert_eq!(metrics, [Metric::PublishPeriod, Metric::PublishDuration, Metric::MessageSize]);
    }
}
