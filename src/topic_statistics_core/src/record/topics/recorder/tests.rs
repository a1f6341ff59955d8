// SPDX-License-Identifier: Apache-2.0

use std::{
    ops::{Deref, RangeInclusive},
    sync::atomic::AtomicI64,
    time::Duration,
};

use super::*;
use crate::{
    collector::{Distribution, FirstPeriod, SequenceTracker},
    record::{
        locks::QUEUE,
        simulated_time::RosClock,
        test_clock::{HeldUp, TestClock, MS, S},
        transport::{Delivered, Delivery, Gid, TransportInfo},
    },
    timestamp::{ClockStep, Timestamp},
    Summary,
};

mod stamps;

const FAST_DDS: &Transport = &Transport {
    name: "rmw_fastrtps_cpp",
    received: ReceivedTimestamp::Reception,
    has_sequence_numbers: true,
};
const CYCLONE_DDS: &Transport =
    &Transport { name: "rmw_cyclonedds_cpp", received: ReceivedTimestamp::Take, has_sequence_numbers: false };
const UNKNOWN: &Transport =
    &Transport { name: "unknown", received: ReceivedTimestamp::Unknown, has_sequence_numbers: true };

struct Test {
    clock: TestClock,
    recorder: Recorder,
}

impl Deref for Test {
    type Target = Recorder;

    fn deref(&self) -> &Recorder {
        &self.recorder
    }
}

impl Test {
    fn new(options: RecorderOptions) -> Self {
        Self::on(options, None)
    }

    fn on(options: RecorderOptions, simulated: Option<Arc<SimulatedTime>>) -> Self {
        let clock = TestClock::new();
        let recorder = Recorder::new("/imu", options, simulated, &clock);
        recorder.enable(&clock);
        Self { clock, recorder }
    }

    fn of<const N: usize>(metrics: [Metric; N]) -> Self {
        Self::new(RecorderOptions::new().metrics(metrics))
    }

    fn all_metrics() -> Self {
        Self::new(RecorderOptions::new().metrics(Metric::OF_SUBSCRIPTIONS))
    }

    fn with_distributions() -> Self {
        let test = Self::all_metrics();
        test.set_distributions(true);
        test.restart();
        test
    }

    fn restart(&self) {
        self.disable();
        self.enable(&self.clock);
    }

    /// Returns what the middleware reports with a message that was published 30 ms ago and received 20 ms ago.
    fn info(&self, transport: &'static Transport, publisher: u16, number: u64) -> Delivery {
        let now = self.clock.system();
        let mut gid = Gid::default();
        gid[..2].copy_from_slice(&publisher.to_be_bytes());
        Delivery { transport, source: now - 30 * MS, received: now - 20 * MS, publisher: gid, number }
    }

    fn take(&self, stamp: i64, delivered: impl Delivered) -> ReceivedMessage {
        self.received_message(self.epoch().unwrap(), stamp, delivered, || 100)
    }

    fn start(&self, message: &ReceivedMessage) -> Option<RunningCallback> {
        self.record(message, || self.clock.monotonic())
    }

    fn end_callback(&self, running: RunningCallback) {
        self.record_end(running, self.clock.monotonic());
    }

    /// Takes a message with a stamp from 40 ms ago, and starts its callback.
    fn receive(&self, delivered: impl Delivered) {
        self.start(&self.take(self.clock.system() - 40 * MS, delivered));
    }

    fn receive_all(&self, numbers: RangeInclusive<u64>) {
        numbers.for_each(|number| self.receive(self.info(FAST_DDS, 1, number)));
    }

    fn receive_one(&self, number: u64) {
        self.receive_all(number..=number);
    }

    /// Receives these messages, `apart` nanoseconds apart, while another thread holds the lock. The queue has room for
    /// 8 samples.
    fn receive_while_held(&self, numbers: RangeInclusive<u64>, apart: i64) {
        let guard = self.collectors.lock();
        for number in numbers {
            self.clock.pass(apart);
            self.receive_one(number);
        }
        drop(guard);
    }

    /// Runs a callback of 10 ms that starts 10 ms from now, and lets 10 ms pass after it.
    fn run_callback(&self, number: u64) {
        let message = self.take(self.clock.system(), self.info(FAST_DDS, 1, number));
        self.clock.pass(10 * MS);
        let running = self.start(&message);
        self.clock.pass(10 * MS);
        running.into_iter().for_each(|running| self.end_callback(running));
        self.clock.pass(10 * MS);
    }

    fn window(&self) -> FinishedWindow {
        self.end_window(&self.clock).unwrap()
    }

    fn end(&self) -> WindowStatistics {
        self.window().statistics
    }

    /// Ends a window. `meanwhile` runs before the clock is read for the window's stop, or, if `is_after_stop` is true,
    /// after that reading.
    fn end_held_up(&self, is_after_stop: bool, meanwhile: impl Fn() + Send + Sync) -> WindowStatistics {
        let clock = HeldUp::new(&self.clock, is_after_stop.into(), meanwhile);
        self.end_window(&clock).unwrap().statistics
    }

    /// Lets `pass` nanoseconds pass, and ends a window. Returns the summary of a metric.
    fn summary(&self, pass: i64, metric: Metric) -> Summary {
        self.clock.pass(pass);
        *self.end().get(metric).unwrap()
    }
}

fn samples(window: &WindowStatistics, metric: Metric) -> u64 {
    window.get(metric).unwrap().sample_count
}

/// Finds a metric that was forgotten in the sets of `RecorderOptions`: it would have no collector, and so no samples.
#[test]
fn each_metric_has_samples_if_it_is_the_only_one() {
    for &metric in Metric::OF_SUBSCRIPTIONS {
        let test = Test::of([metric]);
        assert!(Metric::ALL.iter().all(|other| test.measures(*other) == (*other == metric)));
        for number in 1..=2 {
            test.receive_one(number);
            let started = test.clock.monotonic();
            test.end_callback(RunningCallback { epoch: test.epoch().unwrap(), started });
        }
        let expected = match metric {
            // If no time daemon adjusts the host's clock, the clock's offset is unknown.
            Metric::ClockOffset => 0..=1,
            Metric::MessagePeriod | Metric::PublicationSeqGap | Metric::TimeSinceLastMessage => 1..=1,
            _ => 2..=2,
        };
        let count = samples(&test.end(), metric);
        assert!(expected.contains(&count), "{metric}: {count}");
    }
}

/// Callbacks run on several threads. One thread is preempted between the reading of the clock and the recording.
#[test]
fn a_window_with_messages_in_another_order_has_no_periods() {
    for (first_period, periods_after_that) in [(FirstPeriod::NoSample, 1), (FirstPeriod::CarriedOver, 2)] {
        let metrics =
            [Metric::MessageAge, Metric::MessagePeriod, Metric::MessageSize, Metric::TimeSinceLastMessage];
        let test = Test::new(RecorderOptions::new().metrics(metrics).first_period(first_period));
        let receive = |milliseconds: i64| {
            test.clock.set(milliseconds * MS);
            test.receive_one(1);
        };
        [5, 0, 20, 10, 30].into_iter().for_each(receive);
        test.clock.set(31 * MS);
        let window = test.end();
        let last = test.last_message(&test.clock).unwrap().callback.as_nanoseconds();
        assert_eq!(last, TestClock::EPOCH + 30 * MS, "the last message is the latest one");
        assert_eq!(window.count, 5);
        assert_eq!(metrics.map(|metric| samples(&window, metric)), [5, 0, 5, 1]);
        assert!(window.get(Metric::MessagePeriod).unwrap().average.is_nan());
        assert_eq!(window.get(Metric::TimeSinceLastMessage).unwrap().average, 1.0);
        let totals = window.totals.unwrap();
        assert_eq!(totals.active, Duration::from_millis(30), "the first to the last message");
        assert_eq!(totals.first_message, Some(Timestamp::from_nanoseconds(TestClock::EPOCH)));

        [40, 50].into_iter().for_each(receive);
        let period = test.summary(MS, Metric::MessagePeriod);
        assert_eq!((period.sample_count, period.average), (periods_after_that, 10.0));
    }
}

#[test]
fn counts_are_unknown_if_a_message_is_of_one_of_two_windows() {
    for is_after_stop in [false, true] {
        let test = Test::new(RecorderOptions::new());
        let messages = |count| {
            test.receive_all(1..=count);
            test.clock.pass(S);
        };
        messages(10);
        let first = test.end_held_up(is_after_stop, || messages(50));
        messages(10);
        let second = test.end();
        assert_eq!(first.count + second.count, 70);
        for window in [&first, &second] {
            assert!(!window.is_count_known && window.rate().is_nan(), "{window:?}");
        }
        assert_eq!(second.totals.unwrap().received, 70);
        messages(10);
        let third = test.end();
        assert!(third.is_count_known && third.rate() > 0.0, "{third:?}");
    }
}

#[test]
fn a_message_begun_at_a_windows_end_takes_periods_if_one_waits() {
    // After the sample of a message was begun, the queue gets nothing, the end of a callback, or another thread's
    // message. Only the other thread's message makes the order unknown, so that there are no periods.
    for (queued, expected) in [(0, 9), (1, 9), (2, 0)] {
        let test = Test::of([Metric::MessagePeriod, Metric::CallbackDuration]);
        test.receive_all(1..=10);
        let window = test.end_held_up(false, || {
            test.collectors.begin_sample();
            let (epoch, started) = (test.epoch().unwrap(), test.clock.monotonic());
            match queued {
                0 => {}
                1 => test.end_callback(RunningCallback { epoch, started }),
                _ => test.receive_one(11),
            }
            test.clock.pass(MS);
        });
        test.collectors.end_sample();
        assert_eq!(samples(&window, Metric::MessagePeriod), expected, "{queued}");
    }
}

#[test]
fn messages_beyond_the_queue_are_counted_and_the_rest_is_nan() {
    let test = Test::all_metrics();
    let publisher = || {
        let [publisher] = test.publishers()[..] else { panic!("one publisher") };
        (publisher.received, publisher.lost, publisher.out_of_order)
    };
    test.receive_one(1);
    assert_eq!(publisher(), (1, Some(0), Some(0)));
    test.receive_while_held(2..=50, 0);
    assert_eq!(publisher(), (1 + QUEUE as u64, None, None));
    test.clock.pass(S);
    let FinishedWindow { statistics: window, warnings, .. } = test.window();
    assert!(warnings.iter().any(|warning| warning.contains("without being measured")), "{warnings:?}");
    assert_eq!((window.count, window.unrecorded), (50, 49 - QUEUE as u64));
    assert!(window.is_count_known && window.rate() > 0.0, "all messages are of this window: {window:?}");
    for (metric, summary) in window.metrics.iter().filter(|(metric, _)| *metric != Metric::ClockOffset) {
        assert!(summary.average.is_nan() && summary.sample_count == 0, "{metric:?} {summary:?}");
    }
    let totals = window.totals.unwrap();
    assert_eq!((totals.received, totals.lost), (50, None));

    // The overflow must have no effect on the next window, except on the losses.
    test.receive_one(51);
    let FinishedWindow { statistics: window, warnings, .. } = test.window();
    assert!(warnings.is_empty(), "said once: {warnings:?}");
    let metrics = [Metric::MessageAge, Metric::PublicationSeqGap];
    assert_eq!(metrics.map(|metric| samples(&window, metric)), [1, 0]);
}

#[test]
fn a_step_of_the_clock_makes_ages_nan_and_nothing_else() {
    for by in [-60 * S, -S / 2, S / 2, 3600 * S] {
        let test = Test::all_metrics();
        test.clock.pass(S);
        test.clock.step(by);
        test.receive_all(1..=3);
        let first = Timestamp::from_nanoseconds(test.clock.system());
        let window = test.end();
        assert_eq!(window.clock_step, Some(ClockStep::from_nanoseconds(by)));
        for (metric, summary) in &window.metrics {
            let expected = match metric {
                Metric::MessagePeriod | Metric::PublicationSeqGap => 2,
                Metric::TimeSinceLastMessage => 1,
                Metric::MessageSize => 3,
                Metric::ClockOffset => continue,
                _ => 0,
            };
            assert_eq!(summary.sample_count, expected, "{metric:?} {summary:?}");
        }
        assert_eq!(window.length, Duration::from_secs(1));
        assert!(window.window.stop > window.window.start);

        // The next message is received after all messages that were under way have arrived.
        test.clock.pass(110 * MS);
        let now = Timestamp::from_nanoseconds(test.clock.system());
        test.receive_one(4);
        assert_eq!(test.last_message(&test.clock).unwrap().callback, now, "on the present clock");
        let next = test.end();
        assert_eq!(next.clock_step, None);
        assert_eq!(next.window.start, window.window.stop, "windows follow each other");
        assert_eq!(next.totals.unwrap().first_message, Some(first), "the time is corrected");
    }
}

#[test]
fn an_unmeasured_message_is_later_than_the_last_measured_one() {
    let metrics = [Metric::MessagePeriod, Metric::TimeSinceLastMessage];
    let test = Test::new(RecorderOptions::new().metrics(metrics).first_period(FirstPeriod::CarriedOver));
    test.receive_one(1);
    test.receive_while_held(2..=20, 10 * MS);
    test.clock.pass(S);
    let totals = test.end().totals.unwrap();
    assert!(totals.rate().is_nan(), "the time of the 20 messages is unknown: {totals:?}");
    let silence = test.summary(S, Metric::TimeSinceLastMessage);
    assert_eq!(silence.sample_count, 0, "the time since the 9th message is unknown: {silence:?}");

    test.receive_one(21);
    test.clock.pass(S / 2);
    test.receive_one(22);
    test.clock.pass(S / 4);
    let window = test.end();
    let period = window.get(Metric::MessagePeriod).unwrap();
    assert_eq!((period.sample_count, period.average), (1, 500.0), "there is no period since the 9th message");
    assert_eq!(window.get(Metric::TimeSinceLastMessage).unwrap().average, 250.0);
    assert_eq!(window.totals.unwrap().rate(), 21.0 / 2.69, "the time of all messages is known again");
}

#[test]
fn a_message_within_the_process_is_one_like_others() {
    let test = Test::all_metrics();
    let receive = |published, number| {
        let message = IntraProcessMessage { published, buffer: [7; 16], number };
        let epoch = test.epoch().unwrap();
        let started = test.record_intra_process(epoch, &message, || test.clock.monotonic());
        test.end_callback(test.running(epoch, started).unwrap());
    };
    test.receive_all(1..=1);
    test.clock.pass(30 * MS);
    receive(test.clock.monotonic() - 10 * MS, 1);
    test.clock.pass(50 * MS);
    receive(test.clock.monotonic() - 10 * MS, 4); // the second and the third message are overwritten
    test.receive_while_held(2..=3, 0);
    test.clock.pass(S / 4);
    let window = test.end();
    let is = |metric, count, average: f64| {
        let found = window.get(metric).unwrap();
        assert_eq!((found.sample_count, found.average), (count, average), "{metric:?}");
    };
    assert_eq!(window.count, 5);
    is(Metric::MessagePeriod, 4, 80.0 / 4.0);
    is(Metric::MessageAge, 3, 40.0);
    is(Metric::SourceToCallback, 5, (3.0 * 30.0 + 2.0 * 10.0) / 5.0);
    is(Metric::ReceiveToCallback, 3, 20.0);
    is(Metric::CallbackDuration, 2, 0.0);
    is(Metric::PublicationSeqGap, 3, 2.0 / 3.0);
    is(Metric::TimeSinceLastMessage, 1, 250.0);
    assert_eq!(window.totals.unwrap().lost, Some(2));

    receive(0, u64::MAX); // a message of a ROS distribution that does not report the buffer
    let window = test.end();
    assert!(!window.unstamped && window.count == 1);
    assert_eq!(samples(&window, Metric::SourceToCallback), 0);
    assert_eq!(window.totals.unwrap().lost, Some(2));
}

#[test]
fn a_message_within_the_process_is_recorded_while_a_window_ends() {
    let test = Test::of([Metric::MessagePeriod]);
    let message = IntraProcessMessage { published: 0, buffer: [0; 16], number: u64::MAX };
    let window = test.end_held_up(true, || {
        test.record_intra_process(test.epoch().unwrap(), &message, || test.clock.pass(MS));
    });
    assert_eq!(window.count + test.end().count, 1);
}

/// A message of a subscription with a content filter: other messages before or after it may have been left out.
struct Filtered(Delivery);

impl Delivered for Filtered {
    fn transport(&self) -> &'static Transport {
        self.0.transport
    }

    fn info(&self, transport: &Transport) -> TransportInfo {
        self.0.info(transport)
    }

    fn is_filtered(&self) -> bool {
        true
    }
}

#[test]
fn what_is_filtered_is_not_lost() {
    let test = Test::of([Metric::PublicationSeqGap]);
    let receive = |publisher, number| test.receive(test.info(FAST_DDS, publisher, number));
    let gaps = || {
        let gaps = test.summary(0, Metric::PublicationSeqGap);
        (gaps.sample_count, gaps.maximum)
    };
    [(1, 1), (2, 1), (1, 4)].into_iter().for_each(|(publisher, number)| receive(publisher, number));
    assert_eq!(gaps(), (1, 2.0));
    test.pause_losses();
    receive(1, 5); // a message that was taken before the filter was set
    [10, 20].into_iter().for_each(|number| test.receive(Filtered(test.info(FAST_DDS, 1, number))));
    assert_eq!(gaps().0, 0);
    for publisher in [1, 2] {
        receive(publisher, 30);
        assert_eq!(gaps().0, 0, "the first message without a filter of publisher {publisher}");
        receive(publisher, 32);
        assert_eq!(gaps(), (1, 1.0));
    }
}

#[test]
fn messages_that_are_recorded_in_another_order_are_no_gap() {
    let test = Test::of([Metric::PublicationSeqGap]);
    test.set_distributions(true);
    // From the second message on, each message has a gap before it. The gap is 0 if the message has the next number.
    let rows: [(&[(u16, u64)], _, &str); 10] = [
        (&[(1, 1), (1, 3), (1, 2), (1, 4)], (3, 0.0, 0.0, Some(0)), "two messages are swapped"),
        (&[(1, 6), (1, 7), (1, 8), (1, 5)], (4, 0.0, 0.0, Some(0)), "one thread is delayed"),
        (&[(1, 12), (1, 10), (1, 9), (1, 13)], (4, 1.0, 1.0, Some(1)), "11 is lost"),
        (&[(2, 1), (1, 15), (2, 2), (1, 14)], (3, 0.0, 0.0, Some(1)), "14 is in the gap of publisher 1"),
        (&[(1, 18), (2, 5), (1, 17)], (3, 3.0, 2.0, Some(4)), "17 is in the gap before 18"),
        (&[(1, 20)], (1, 1.0, 1.0, Some(5)), "19 is missing at the end of the window"),
        (&[(1, 19), (1, 21)], (1, 0.0, 0.0, Some(4)), "19 is late and changes only the totals"),
        (&[(1, 121), (1, 50)], (1, 99.0, 99.0, Some(103)), "a message that is too late may be a duplicate"),
        (
            &[(1, 123), (1, 125), (1, 122), (1, 127), (1, 124), (1, 126)],
            (6, 0.0, 0.0, Some(103)),
            "three threads",
        ),
        (
            &[(1, 129), (1, 131), (1, 133), (1, 135), (1, 137), (1, 128)],
            (5, 5.0, 1.0, Some(107)),
            "more gaps than can be open",
        ),
    ];
    for (messages, expected, text) in rows {
        for (publisher, number) in messages {
            test.receive(test.info(FAST_DDS, *publisher, *number));
        }
        let window = test.end();
        let gaps = *window.get(Metric::PublicationSeqGap).unwrap();
        let sum = (gaps.average * gaps.sample_count as f64).round();
        assert_eq!((gaps.sample_count, sum, gaps.maximum, window.totals.unwrap().lost), expected, "{text}");
    }
}

#[test]
fn the_rate_is_known_where_the_times_of_both_ends_are() {
    let held = || {
        let test = Test::new(RecorderOptions::new());
        test.receive_while_held(1..=20, 10 * MS);
        test
    };
    let test = held();
    test.clock.pass(10 * MS);
    test.receive_one(21);
    assert_eq!(test.end().totals.unwrap().rate(), 100.0, "a measured message is immediately the last one");

    let test = held();
    test.restart();
    test.receive_one(21);
    test.clock.pass(10 * MS);
    test.receive_one(22);
    assert!(test.end().totals.unwrap().rate().is_nan(), "the time ends with unmeasured messages");

    let test = Test::new(RecorderOptions::new());
    let of_another_time = test.take(0, test.info(FAST_DDS, 1, 1));
    test.restart();
    let guard = test.collectors.lock();
    (0..QUEUE).for_each(|_| assert!(test.start(&of_another_time).is_none()));
    test.receive_one(2); // the queue has no room
    drop(guard);
    for number in 3..=4 {
        test.clock.pass(10 * MS);
        test.receive_one(number);
    }
    let totals = test.end().totals.unwrap();
    assert_eq!((totals.received, totals.intervals), (3, None), "the time begins with an unmeasured message");

    // If the queue has no room for messages from before the pause, these messages must not be counted, either.
    let guard = test.collectors.lock();
    (0..20).for_each(|_| assert!(test.start(&of_another_time).is_none()));
    drop(guard);
    let window = test.end();
    assert_eq!((window.count, window.unrecorded, window.totals.unwrap().received), (0, 0, 3));
}

#[test]
fn what_is_recorded_while_a_window_ends_is_in_that_of_its_time() {
    for (is_after_stop, expected) in [(false, [(1, 1), (0, 0)]), (true, [(0, 0), (1, 1)])] {
        let test = Test::of([Metric::CallbackDuration]);
        test.clock.pass(S);
        let windows = [test.end_held_up(is_after_stop, || test.run_callback(1)), test.end()]
            .map(|window| (window.count, samples(&window, Metric::CallbackDuration)));
        assert_eq!(windows, expected, "after the stop: {is_after_stop}");
    }
}

#[test]
fn unmeasured_messages_while_a_window_ends_are_the_last_ones() {
    for is_after_stop in [false, true] {
        let test = Test::of([Metric::TimeSinceLastMessage]);
        test.clock.pass(S);
        let first = test.end_held_up(is_after_stop, || (1..=20).for_each(|number| test.run_callback(number)));
        assert!(first.totals.unwrap().rate().is_nan(), "recorded after the stop: {is_after_stop}");
        for window in 2..=3 {
            let silence = test.summary(S, Metric::TimeSinceLastMessage);
            assert_eq!(silence.sample_count, 0, "{is_after_stop}, window {window}: {silence:?}");
        }
        test.receive_one(21);
        assert_eq!(test.summary(S / 4, Metric::TimeSinceLastMessage).average, 250.0);
    }
}

#[test]
fn the_last_message_is_known_if_a_callbacks_end_is_unmeasured() {
    let test = Test::of([Metric::CallbackDuration, Metric::TimeSinceLastMessage]);
    let running = test.start(&test.take(0, test.info(FAST_DDS, 1, 1))).unwrap();
    test.clock.pass(S);
    test.end_held_up(true, || {
        let callbacks = QUEUE as u64 / 2; // each callback has a start and an end
        (2..2 + callbacks).for_each(|number| test.run_callback(number));
        test.end_callback(running); // the queue has no room
    });
    assert_eq!(test.summary(0, Metric::CallbackDuration).sample_count, 0, "one duration is unknown");
    let silence = test.summary(S, Metric::TimeSinceLastMessage);
    assert_eq!((silence.sample_count, silence.average), (1, 1020.0), "since the last callback's start");
}

#[test]
fn a_step_corrects_the_time_of_a_waiting_first_message_once() {
    let test = Test::of([Metric::CallbackDuration]);
    test.clock.pass(S);
    test.clock.step(-S);
    let expected = Some(Timestamp::from_nanoseconds(test.clock.system() + 10 * MS));
    let totals = test.end_held_up(false, || test.run_callback(1)).totals.unwrap();
    assert_eq!((totals.first_message, totals.last_message), (expected, expected));
}

#[test]
fn a_good_message_recorded_after_stamps_expired_has_an_age() {
    let test = Test::new(RecorderOptions::new());
    let taken = |stamp| test.take(stamp, test.info(UNKNOWN, 1, 1));
    let on_the_old_clock = test.clock.system();
    let before_it_was_found = taken(on_the_old_clock);
    test.clock.step(3600 * S);
    let waiting_in_the_executor = taken(test.clock.system());
    test.clock.pass(S);
    assert_eq!(test.end().clock_step, Some(ClockStep::from_nanoseconds(3600 * S)));
    let waiting_in_the_network = taken(on_the_old_clock);
    for stamp in [on_the_old_clock, test.clock.system()] {
        test.start(&taken(stamp));
    }
    let age = test.summary(0, Metric::MessageAge);
    assert_eq!((age.sample_count, age.maximum), (1, 0.0), "only the stamp after the step is good");
    test.clock.pass(10 * S);
    test.end();
    let good = taken(test.clock.system());
    test.clock.pass(S);
    test.end(); // the doubtful stamps expire
    test.clock.pass(20 * S);
    for message in [before_it_was_found, waiting_in_the_executor, waiting_in_the_network, good] {
        test.start(&message);
    }
    let age = test.summary(0, Metric::MessageAge);
    assert_eq!((age.sample_count, age.average), (1, 21_000.0), "{age:?}");
}

#[test]
fn a_suspend_does_not_change_the_time_of_the_message_before_it() {
    let test = Test::of([Metric::PublicationSeqGap]);
    let now = || Timestamp::from_nanoseconds(test.clock.system());
    test.receive_one(1);
    let last = now();
    test.clock.pass(S);
    test.end();
    for _ in 0..2 {
        test.clock.suspend(3600 * S);
        assert_eq!(test.last_message(&test.clock).unwrap().callback, last, "the time before the window ends");
        test.clock.pass(S);
        assert_eq!(test.end().totals.unwrap().last_message, Some(last));
        assert_eq!(test.last_message(&test.clock).unwrap().callback, last);
        assert_eq!(test.publishers()[0].last_message, last);
    }

    test.disable();
    test.clock.suspend(3600 * S);
    test.restart();
    assert_eq!(test.totals().unwrap().last_message, Some(last), "the time does not change");
    assert_eq!(test.publishers()[0].last_message, last);

    test.receive_one(2);
    assert_eq!(test.end().totals.unwrap().last_message, Some(now()), "the next message has the right time");

    // The message is received in the window in which the host is suspended, so the recorder cannot know that it came
    // before the suspend.
    test.receive_one(3);
    test.clock.suspend(S);
    assert_eq!(test.end().totals.unwrap().last_message, Some(now()));
}

#[test]
fn the_times_of_the_last_message_are_those_that_are_known() {
    let test = Test::all_metrics();
    test.receive_one(1);
    let now = test.clock.system();
    let last = test.last_message(&test.clock).unwrap();
    let expected = [40, 30, 20, 0].map(|ago| Some(Timestamp::from_nanoseconds(now - ago * MS)));
    assert_eq!([last.header, last.source, last.received, Some(last.callback)], expected);

    let without = Delivery { source: 0, received: 0, ..test.info(FAST_DDS, 1, 2) };
    test.start(&test.take(0, without));
    let last = test.last_message(&test.clock).unwrap();
    assert_eq!((last.header, last.source, last.received), (None, None, None), "{last:?}");
}

#[test]
fn off_and_on_again_is_another_time_and_no_message_reaches_over() {
    let test = Test::all_metrics();
    test.receive_all(1..=3);
    // The message is taken before the pause, but its callback starts after the pause.
    let taken = test.take(1, test.info(FAST_DDS, 1, 4));
    let running = test.start(&taken);
    test.disable();
    test.start(&taken);
    test.end_callback(running.unwrap());
    assert_eq!(test.totals().unwrap().received, 4, "nothing is recorded while the statistics are disabled");
    test.restart();
    test.start(&taken);
    let window = test.end();
    assert_eq!((window.count, window.totals.unwrap().received), (0, 4));
    let silence = window.get(Metric::TimeSinceLastMessage).unwrap();
    assert!(silence.average.is_nan(), "nothing is known about the time before the pause: {silence:?}");

    test.receive_one(101);
    let totals = test.totals().unwrap();
    assert_eq!((totals.received, totals.lost), (5, Some(0)), "messages sent during the pause are not lost");
}

#[test]
fn the_rate_of_all_is_over_the_time_in_which_it_was_on() {
    let test = Test::new(RecorderOptions::new());
    for _ in 0..2 {
        test.receive_one(1);
        test.clock.pass(20 * MS);
        test.receive_one(2);
        test.disable();
        test.clock.pass(S);
        test.restart();
    }
    let totals = test.totals().unwrap();
    assert_eq!((totals.intervals, totals.active, totals.rate()), (Some(2), Duration::from_millis(40), 50.0));
}

#[test]
fn each_middleware_gives_what_its_transport_says() {
    for (middleware, parts, lost, warnings) in
        [(FAST_DDS, [2, 2], Some(2), 0), (CYCLONE_DDS, [0, 0], None, 2), (UNKNOWN, [0, 0], Some(2), 1)]
    {
        let test = Test::all_metrics();
        for number in [1, 4] {
            // A number from a middleware that does not support sequence numbers has to be ignored.
            test.receive(test.info(middleware, 1, number));
        }
        let window = test.window();
        let measured = [Metric::SourceToReceive, Metric::ReceiveToCallback];
        assert_eq!(measured.map(|metric| samples(&window.statistics, metric)), parts, "{middleware:?}");
        let whole = window.statistics.get(Metric::SourceToCallback).unwrap();
        assert_eq!((whole.sample_count, whole.minimum), (2, 30.0));
        let totals = window.statistics.totals.unwrap();
        assert_eq!((totals.lost, totals.publishers), (lost, Some(1)), "{middleware:?}");
        assert_eq!(window.warnings.len(), warnings, "{:?}", window.warnings);
        assert!(window.warnings.iter().all(|warning| warning.contains(middleware.name)));
        test.receive(test.info(middleware, 1, 5));
        assert!(test.window().warnings.is_empty(), "each warning is given once");
        test.receive(test.info(middleware, 1, u64::MAX));
        assert_eq!(test.end().totals.unwrap().lost, None, "one message was not numbered");
    }
}

#[test]
fn a_middleware_without_numbers_tells_publishers_apart() {
    let test = Test::all_metrics();
    for message in 0..194 {
        test.receive(test.info(CYCLONE_DDS, message % 2, u64::MAX));
    }
    let totals = test.totals().unwrap();
    assert_eq!((totals.publishers, totals.lost, totals.out_of_order), (Some(2), None, None));
    let publishers: Vec<_> = test.publishers().iter().map(|one| (one.received, one.lost)).collect();
    assert_eq!(publishers, [(97, None); 2]);
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn after_more_publishers_than_are_followed_only_windows_of_known_ones_have_losses() {
    let test = Test::all_metrics();
    let restarted = SequenceTracker::<Gid>::PUBLISHERS as u16;
    (0..=restarted).for_each(|publisher| test.receive(test.info(FAST_DDS, publisher, 1)));
    let FinishedWindow { statistics, warnings, .. } = test.window();
    assert!(matches!(&warnings[..], [one] if one.contains("256 publishers")), "{warnings:?}");
    assert_eq!(samples(&statistics, Metric::PublicationSeqGap), 0);
    assert_eq!(test.publishers().len(), usize::from(restarted));
    let mut before = statistics.totals.unwrap();
    assert_eq!((before.publishers, before.received), (None, u64::from(restarted) + 1));
    for (publishers, number, gaps, losses) in [
        (&[restarted][..], 5, (1, 3.0), Some((3, 0))),
        // The first publisher was replaced and is not followed any more, so its losses since then are unknown.
        (&[restarted, 0], 6, (0, f64::NAN), None),
        (&[restarted, 0], 7, (2, 0.0), Some((0, 0))),
    ] {
        for publisher in publishers {
            test.receive(test.info(FAST_DDS, *publisher, number));
        }
        let FinishedWindow { statistics: window, warnings, .. } = test.window();
        assert!(warnings.is_empty(), "said once: {warnings:?}");
        let (summary, totals) = (window.get(Metric::PublicationSeqGap).unwrap(), window.totals.unwrap());
        assert_eq!(totals.lost, None, "the losses since the creation are unknown");
        assert_eq!(summary.sample_count, gaps.0);
        assert!(gaps.0 == 0 || summary.maximum == gaps.1, "{summary:?}");
        assert_eq!(totals.losses_since(&before), losses);
        before = totals;
    }
}

fn distributed(window: &WindowStatistics) -> Vec<Metric> {
    Metric::ALL.iter().copied().filter(|metric| window.distribution(*metric).is_some()).collect()
}

#[test]
fn each_metric_with_more_than_one_sample_has_a_distribution() {
    let test = Test::with_distributions();
    for number in 1..=20 {
        let message = test.take(test.clock.system() - 40 * MS, test.info(FAST_DDS, 1, number));
        let running = test.start(&message).unwrap();
        test.end_callback(running);
    }
    let window = test.end();
    let with_one_sample = [Metric::TimeSinceLastMessage, Metric::ClockOffset];
    let expected =
        Metric::OF_SUBSCRIPTIONS.iter().copied().filter(|metric| !with_one_sample.contains(metric));
    assert_eq!(distributed(&window), expected.collect::<Vec<_>>());
    for metric in distributed(&window) {
        let (distribution, summary) = (window.distribution(metric).unwrap(), window.get(metric).unwrap());
        assert_eq!(distribution.count(), summary.sample_count, "{metric}");
        assert_eq!((distribution.minimum(), distribution.maximum()), (summary.minimum, summary.maximum));
        let sum = summary.average * summary.sample_count as f64;
        assert!((distribution.sum() - sum).abs() < 1e-9 * sum.abs().max(1.0), "{metric}: {distribution:?}");
    }
    let age = window.distribution(Metric::MessageAge).unwrap();
    assert_eq!(age.quantile(0.9), 40.0, "stamped 40 ms ago: {age:?}");
    assert_eq!(distributed(&test.end()), [], "no samples, no distribution");
}

#[test]
fn what_has_no_summary_has_no_distribution() {
    let test = Test::with_distributions();
    test.receive_all(1..=3);
    test.clock.step(S);
    let window = test.end();
    assert!(window.clock_step.is_some());
    let of_other_clocks = [Metric::MessagePeriod, Metric::PublicationSeqGap, Metric::MessageSize];
    assert_eq!(distributed(&window), of_other_clocks, "{window:?}");

    test.receive_while_held(4..=50, 0);
    let window = test.end();
    assert!(window.unrecorded > 0, "samples are missing");
    assert_eq!(distributed(&window), []);
}

#[test]
fn distributions_begin_and_end_with_a_window() {
    let test = Test::new(RecorderOptions::new());
    for (is_set, count, metrics, text) in [
        (true, None, 0, "the first samples of the window are in no distribution"),
        (true, Some(4), 2, "whole"),
        (false, Some(4), 2, "the distribution has all samples"),
        (false, None, 0, "off"),
    ] {
        test.receive_all(1..=3);
        test.set_distributions(is_set);
        test.receive_one(4);
        let window = test.end();
        assert_eq!(samples(&window, Metric::MessageAge), 4);
        assert_eq!(window.distribution(Metric::MessageAge).map(Distribution::count), count, "{text}");
        assert_eq!(distributed(&window).len(), metrics, "{text}");
    }
    test.set_distributions(true);
    test.restart();
    test.receive_all(1..=2);
    assert_eq!(test.end().distribution(Metric::MessageAge).map(Distribution::count), Some(2));
}

#[test]
fn sizes_are_summed_until_one_is_not_known() {
    let receive = |test: &Test, size| {
        let (epoch, info) = (test.epoch().unwrap(), test.info(FAST_DDS, 1, 1));
        test.start(&test.received_message(epoch, 0, info, || size));
        test.clock.pass(S);
    };
    let test = Test::of([Metric::MessageSize]);
    assert_eq!(test.totals().unwrap().bytes, Some(0));
    receive(&test, 100);
    receive(&test, u32::MAX);
    let window = test.end();
    let size = window.get(Metric::MessageSize).unwrap();
    assert_eq!((size.minimum, size.maximum, size.sample_count), (100.0, f64::from(u32::MAX), 2));
    assert_eq!(window.totals.unwrap().bytes, Some(100 + u64::from(u32::MAX)));
    assert_eq!(window.bandwidth() * window.length.as_secs_f64(), 4_294_967_395.0);
    test.clock.pass(S);
    assert_eq!(test.end().bandwidth(), 0.0, "silence has a bandwidth of 0");

    // Sizes of messages that are received while the statistics are disabled must not be in the sum.
    test.restart();
    receive(&test, 5);
    assert_eq!(test.totals().unwrap().bytes, Some(105 + u64::from(u32::MAX)));

    receive(&test, 0);
    let window = test.end();
    assert_eq!(samples(&window, Metric::MessageSize), 1);
    assert!(window.bandwidth().is_nan(), "the size of one of two messages is unknown");
    assert_eq!(window.totals.unwrap().bytes, None);

    // The size of a message that is counted but not measured is unknown.
    let test = Test::of([Metric::MessageSize]);
    test.receive_while_held(1..=50, MS);
    let window = test.end();
    assert!(window.unrecorded > 0 && window.bandwidth().is_nan());
    assert_eq!((window.count, window.totals.unwrap().bytes), (50, None));
}

/// Receives messages of a transient local subscription in a window of one second. Each message has the time at which it
/// is received and the time at which it was published (both in ms), and its publisher. Returns the window.
fn receive_latched(test: &Test, messages: &[(i64, i64, u16)]) -> WindowStatistics {
    let start = test.clock.passed();
    for (&(at, published, publisher), number) in messages.iter().zip(0..) {
        test.clock.set(start + at * MS);
        let source = TestClock::EPOCH + start + published * MS;
        let info = Delivery { source, received: 0, ..test.info(CYCLONE_DDS, publisher, number) };
        test.start(&test.take(source, info));
    }
    test.clock.set(start + S);
    test.end()
}

#[test]
fn history_of_transient_local_publishers_has_no_rate() {
    let test = Test::new(RecorderOptions::new().transient_local(true));
    let totals = || {
        let totals = test.totals().unwrap();
        (totals.received, totals.intervals, totals.rate())
    };
    // Ten messages that were published at 1 Hz are delivered within 3 ms. Then one message arrives per second.
    let history: Vec<_> = (0..10).map(|number| (100 + number / 3, 1000 * number - 9500, 1)).collect();
    let window = receive_latched(&test, &history);
    assert!(window.has_history && window.rate().is_nan(), "{window:?}");
    assert_eq!((window.count, samples(&window, Metric::MessagePeriod)), (10, 0));
    assert!(window.totals.unwrap().rate().is_nan(), "history has no rate");
    for _ in 0..10 {
        let window = receive_latched(&test, &[(500, 500, 1)]);
        assert_eq!((window.has_history, window.rate()), (false, 1.0));
    }
    assert_eq!(totals(), (20, Some(9), 1.0), "the first interval begins at the last message of the history");
    // The publisher restarts, and delivers ten messages again.
    let restarted: Vec<_> = (0..10).map(|number| (300 + number / 3, -900 + 10 * number, 2)).collect();
    assert!(receive_latched(&test, &restarted).has_history);
    assert_eq!(totals(), (30, Some(9), 1.0));
}

#[test]
fn publishers_that_publish_once_have_no_rate() {
    for is_latched in [true, false] {
        let test = Test::new(RecorderOptions::new().transient_local(is_latched));
        for publisher in 0..5 {
            // All publishers except the first start after the subscription was created.
            assert_eq!(receive_latched(&test, &[(700, 690, publisher)]).has_history, is_latched);
        }
        let rate = test.totals().unwrap().rate();
        assert!(if is_latched { rate.is_nan() } else { rate == 1.0 }, "{rate}");
    }
}

#[test]
fn slow_history_is_history_and_a_clock_behind_is_none_for_long() {
    let test = Test::new(RecorderOptions::new().transient_local(true));
    assert!(receive_latched(&test, &[(100, -3000, 1), (900, -2000, 1)]).has_history);
    assert!(receive_latched(&test, &[(700, -2000, 1)]).has_history, "1.6 s after the first message");
    assert!(!receive_latched(&test, &[(700, 690, 1)]).has_history);
    // The clock of this publisher is an hour behind.
    let seconds = (0..15).map(|_| receive_latched(&test, &[(100, -3_600_000, 2)]).has_history);
    assert_eq!(seconds.filter(|has_history| *has_history).count(), 10);
}
