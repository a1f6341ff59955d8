// SPDX-License-Identifier: Apache-2.0

use std::{sync::atomic::AtomicI64, time::Duration};

use super::*;
use crate::{
    collector::{Distribution, FirstPeriod, SequenceTracker},
    record::{
        clock::{monotonic, HostClock},
        sample_lock::QUEUE,
        simulated_time::RosClock,
        transport::{Delivered, Delivery, TransportInfo},
    },
    timestamp::{ClockStep, Timestamp},
};

const S: i64 = 1_000_000_000;
const FAST_DDS: &Transport = &Transport {
    name: "rmw_fastrtps_cpp",
    received: ReceivedTimestamp::Reception,
    has_sequence_numbers: true,
};
const CYCLONE_DDS: &Transport =
    &Transport { name: "rmw_cyclonedds_cpp", received: ReceivedTimestamp::Take, has_sequence_numbers: false };
const UNKNOWN: &Transport =
    &Transport { name: "unknown", received: ReceivedTimestamp::Unknown, has_sequence_numbers: true };

fn recorder(options: RecorderOptions) -> Recorder {
    let recorder = Recorder::new("/imu", options, None, &HostClock);
    recorder.enable(&HostClock);
    recorder
}

fn all_metrics() -> Recorder {
    recorder(RecorderOptions::new().metrics(Metric::OF_SUBSCRIPTIONS))
}

fn system_now() -> i64 {
    SystemClock::now(&HostClock).at(monotonic())
}

/// A middleware's report with a message that was published 30 ms ago and received 20 ms ago.
fn info(transport: &'static Transport, publisher: u16, number: u64) -> Delivery {
    let now = system_now();
    let mut gid = Gid::default();
    gid[..2].copy_from_slice(&publisher.to_be_bytes());
    Delivery { transport, source: now - 30_000_000, received: now - 20_000_000, publisher: gid, number }
}

/// Takes a message and starts its callback, with a stamp of 40 ms ago.
fn receive(recorder: &Recorder, info: &Delivery) {
    let Some(epoch) = recorder.epoch() else { return };
    let header = system_now() - 40_000_000;
    recorder.record(&recorder.received_message(epoch, header, *info, || 100), monotonic);
}

fn end(recorder: &Recorder) -> WindowStatistics {
    recorder.end_window(&HostClock).unwrap().statistics
}

/// Has the recorder believe that the system clock was `by` ns behind, so that it finds it stepped.
fn step(recorder: &Recorder, by: i64) {
    let mut collectors = recorder.collectors.lock();
    collectors.window.system = collectors.window.system.shifted(-by);
}

#[test]
fn a_message_that_is_recorded_while_the_lock_is_held_is_in_the_window_and_nobody_waits() {
    let recorder = recorder(RecorderOptions::new());
    let info = info(FAST_DDS, 1, 1);
    receive(&recorder, &info);
    let held = recorder.collectors.lock();
    std::thread::scope(|scope| {
        // It returns although the lock stays held; a record that waited would never.
        scope.spawn(|| (0..5).for_each(|_| receive(&recorder, &info))).join().unwrap();
    });
    drop(held);
    let window = end(&recorder);
    assert_eq!((window.count, window.unrecorded), (6, 0));
    assert_eq!(window.get(Metric::MessageAge).unwrap().sample_count, 6);
    assert_eq!(window.get(Metric::MessagePeriod).unwrap().sample_count, 5);
}

/// A metric that is in no set of `Measured` has no collector.
#[test]
fn each_metric_has_samples_if_it_is_the_only_one() {
    for &metric in Metric::OF_SUBSCRIPTIONS {
        let recorder = recorder(RecorderOptions::new().metrics([metric]));
        for number in 1..=2 {
            receive(&recorder, &info(FAST_DDS, 1, number));
            let running = RunningCallback { epoch: recorder.epoch().unwrap(), started: monotonic() };
            recorder.record_end(running, monotonic());
        }
        let expected = match metric {
            // The clock of a host that nothing disciplines has no known offset.
            Metric::ClockOffset => 0..=1,
            Metric::MessagePeriod | Metric::PublicationSeqGap | Metric::TimeSinceLastMessage => 1..=1,
            _ => 2..=2,
        };
        let count = end(&recorder).get(metric).unwrap().sample_count;
        assert!(expected.contains(&count), "{metric}: {count}");
    }
}

#[test]
fn a_window_is_unstamped_if_a_type_with_a_header_has_stamps_of_zero_and_ages_start_there() {
    let (info, options) = (info(FAST_DDS, 1, 1), RecorderOptions::new());
    let receive_unstamped = |recorder: &Recorder| {
        let epoch = recorder.epoch().unwrap();
        recorder.record(&recorder.received_message(epoch, 0, info, || 100), monotonic);
    };
    let imu = recorder(options.clone());
    receive_unstamped(&imu);
    assert!(end(&imu).unstamped);
    assert!(!end(&imu).unstamped, "no message");
    receive(&imu, &info);
    assert!(!end(&imu).unstamped);
    let before_step = imu.received_message(imu.epoch().unwrap(), system_now(), info, || 100);
    step(&imu, -3 * S);
    end(&imu);
    imu.record(&before_step, monotonic);
    let window = end(&imu);
    assert_eq!(window.get(Metric::MessageAge).unwrap().sample_count, 0, "of the clock before the step");
    assert!(!window.unstamped);

    let without_header = recorder(options.clone());
    without_header.accept_no_header();
    assert!(
        !without_header.can_measure(Metric::MessageAge) && without_header.can_measure(Metric::MessagePeriod)
    );
    let from_source = recorder(options.age_source(AgeSource::SourceTimestamp));
    for recorder in [without_header, from_source] {
        receive_unstamped(&recorder);
        assert!(!end(&recorder).unstamped);
    }
}

/// A source timestamp is on the system clock.
#[test]
fn what_lies_between_a_simulated_stamp_and_the_source_timestamp_cannot_be_measured() {
    let can_measure = |simulated: Option<SimulatedTime>| {
        let simulated = simulated.map(Arc::new);
        let recorder = Recorder::new("/imu", RecorderOptions::new(), simulated, &HostClock);
        [Metric::HeaderToSource, Metric::MessageAge, Metric::HeaderToCallback]
            .map(|metric| recorder.can_measure(metric))
    };
    assert_eq!(can_measure(None), [true; 3]);
    assert_eq!(can_measure(Some(SimulatedTime::new(SetClock::default()))), [false, true, true]);
}

/// A `/clock` that a test sets.
#[derive(Clone, Default)]
struct SetClock(Arc<AtomicI64>);

impl RosClock for SetClock {
    fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A recorder on simulated time, and a function that receives a message at a time of the clock, in seconds after the
/// start.
fn simulated(options: RecorderOptions) -> (Recorder, impl Fn(&Recorder, i64, i64)) {
    let clock = SetClock::default();
    let time = Arc::new(SimulatedTime::new(clock.clone()));
    let recorder = Recorder::new("/imu", options, Some(time), &HostClock);
    recorder.enable(&HostClock);
    let start = monotonic() - 100 * S;
    let receive = move |recorder: &Recorder, now: i64, at: i64| {
        clock.0.store(now * S, Ordering::Relaxed);
        let (epoch, info) = (recorder.epoch().unwrap(), info(FAST_DDS, 1, 1));
        recorder.record(&recorder.received_message(epoch, (now + 1000) * S, info, || 100), || start + at * S);
    };
    (recorder, receive)
}

#[test]
fn without_a_clock_windows_are_marked_until_it_begins() {
    let (recorder, receive) = simulated(RecorderOptions::new());
    receive(&recorder, 0, 0);
    let window = end(&recorder);
    assert!(window.without_clock && window.get(Metric::MessageAge).unwrap().sample_count == 0);
    assert!(!end(&recorder).without_clock, "no message");
    receive(&recorder, 5000, 1);
    let window = end(&recorder);
    assert!(!window.without_clock && window.get(Metric::MessageAge).unwrap().sample_count == 1);

    let from_source = RecorderOptions::new().age_source(AgeSource::SourceTimestamp);
    let (recorder, receive) = simulated(from_source);
    receive(&recorder, 0, 0);
    assert!(!end(&recorder).without_clock);
}

#[test]
fn stamps_that_are_unusable_for_more_than_30_seconds_are_one_warning() {
    let warnings = |recorder: &Recorder| recorder.end_window(&HostClock).unwrap().warnings;
    let (recorder, receive) = simulated(RecorderOptions::new());
    for at in [0, 10, 30] {
        receive(&recorder, 0, at);
        assert_eq!(warnings(&recorder), [""; 0], "{at}");
    }
    receive(&recorder, 0, 31);
    let text = "The ages of messages on /imu are NaN: the node uses simulated time, and there is no /clock";
    assert_eq!(warnings(&recorder), [text]);
    receive(&recorder, 0, 70);
    assert_eq!(warnings(&recorder), [""; 0], "once");

    // Two publishers of /clock, but for 13 s there is one: stamps are usable again in the last three of them.
    let (recorder, receive) = simulated(RecorderOptions::new());
    let mut logged = vec![];
    for at in 0..75 {
        let is_the_first = at % 2 == 0 || (18..31).contains(&at);
        receive(&recorder, if is_the_first { 5000 + at } else { 9000 + at }, at);
        logged.extend(warnings(&recorder).into_iter().map(|text| (at, text)));
    }
    let (at, text) = &logged[0];
    assert!(logged.len() == 1 && text.contains("simulated time jumps again and again"), "{logged:?}");
    assert_eq!(*at, 62, "{logged:?}");
    let ages_only_by_source = RecorderOptions::new().age_source(AgeSource::SourceTimestamp);
    let (recorder, receive) = simulated(ages_only_by_source);
    (0..40).for_each(|at| receive(&recorder, 0, at));
    assert_eq!(warnings(&recorder), [""; 0]);
}

/// Callbacks on several threads: one is preempted between its clock and its recording.
#[test]
fn a_window_with_a_message_recorded_after_a_later_one_has_no_periods() {
    for first_period in [FirstPeriod::NoSample, FirstPeriod::CarriedOver] {
        let metrics =
            [Metric::MessageAge, Metric::MessagePeriod, Metric::MessageSize, Metric::TimeSinceLastMessage];
        let options = RecorderOptions::new().metrics(metrics).first_period(first_period);
        let recorder = recorder(options);
        let start = monotonic();
        let at = |milliseconds: i64| start + milliseconds * 1_000_000;
        let receive = |milliseconds: &i64| {
            let message = recorder.received_message(
                recorder.epoch().unwrap(),
                SystemClock::now(&HostClock).at(at(*milliseconds)) - 40_000_000,
                info(FAST_DDS, 1, 1),
                || 100,
            );
            recorder.record(&message, || at(*milliseconds));
        };
        let wait_until = |milliseconds| while monotonic() < at(milliseconds) {};
        [5, 0, 20, 10, 30].iter().for_each(receive);
        wait_until(31);
        let window = recorder.end_window(&HostClock).unwrap();
        let last = recorder.last_message(&HostClock).unwrap();
        let last = last.callback.as_nanoseconds() - window.clock_offset - start;
        assert!((last - 30_000_000).abs() < 100_000, "the last one is the latest: {last}");
        let window = window.statistics;
        let samples = |metric| window.get(metric).unwrap().sample_count;
        assert_eq!((window.count, samples(Metric::MessageAge), samples(Metric::MessageSize)), (5, 5, 5));
        let period = window.get(Metric::MessagePeriod).unwrap();
        assert!(period.average.is_nan() && period.sample_count == 0, "{period:?}");
        let totals = window.totals.unwrap();
        assert_eq!(totals.active, Duration::from_millis(30), "from the first to the last");
        let silence = window.get(Metric::TimeSinceLastMessage).unwrap().average;
        assert!((1.0..1000.0).contains(&silence), "{silence}");

        [40, 50].iter().for_each(receive);
        wait_until(51);
        let period = *end(&recorder).get(Metric::MessagePeriod).unwrap();
        let expected = 1 + u64::from(first_period == FirstPeriod::CarriedOver);
        assert_eq!((period.sample_count, period.average), (expected, 10.0));
    }
}

/// A clock whose reader is preempted before its n-th reading. Something happens meanwhile.
struct PreemptedClock<F>(AtomicI64, i64, F);

impl<F: Fn() + Send + Sync> Clock for PreemptedClock<F> {
    fn monotonic(&self) -> i64 {
        if self.0.fetch_add(1, Ordering::Relaxed) == self.1 {
            (self.2)();
        }
        monotonic()
    }

    fn system(&self) -> i64 {
        HostClock.system()
    }

    fn suspended(&self) -> i64 {
        0
    }
}

#[test]
fn the_counts_of_two_windows_are_unknown_if_messages_were_only_counted_between_them() {
    // The thread is preempted before or after it reads the window's stop.
    for reading in [0, 1] {
        let recorder = Arc::new(recorder(RecorderOptions::new()));
        let info = info(FAST_DDS, 1, 1);
        let messages = |count| (0..count).for_each(|_| receive(&recorder, &info));
        messages(10);
        let clock = PreemptedClock(AtomicI64::new(0), reading, || messages(50));
        let first = recorder.end_window(&clock).unwrap().statistics;
        messages(10);
        let second = end(&recorder);
        assert_eq!(first.count + second.count, 70);
        for window in [&first, &second] {
            assert!(!window.is_count_known && window.rate().is_nan(), "{window:?}");
        }
        assert_eq!(second.totals.unwrap().received, 70);
        messages(10);
        let third = end(&recorder);
        assert!(third.is_count_known && third.rate() > 0.0, "{third:?}");
    }
}

#[test]
fn a_message_that_is_begun_while_a_window_ends_takes_its_periods_only_if_another_one_is_queued() {
    let metrics = [Metric::MessagePeriod, Metric::CallbackDuration];
    // The queue's content after it was begun: nothing, the end of a callback, a message of another thread.
    for (queued, expected) in [(0, 9), (1, 9), (2, 0)] {
        let recorder = Arc::new(recorder(RecorderOptions::new().metrics(metrics)));
        let info = info(FAST_DDS, 1, 1);
        (0..10).for_each(|_| receive(&recorder, &info));
        let clock = PreemptedClock(AtomicI64::new(0), 0, || {
            recorder.collectors.begin_sample();
            let epoch = recorder.epoch().unwrap();
            match queued {
                0 => {}
                1 => recorder.record_end(RunningCallback { epoch, started: monotonic() }, monotonic()),
                _ => receive(&recorder, &info),
            }
        });
        let window = recorder.end_window(&clock).unwrap().statistics;
        recorder.collectors.end_sample();
        assert_eq!(window.get(Metric::MessagePeriod).unwrap().sample_count, expected, "{queued}");
    }
}

#[test]
fn messages_beyond_the_queue_are_counted_and_what_is_not_known_is_nan() {
    let recorder = all_metrics();
    receive(&recorder, &info(FAST_DDS, 1, 1));
    let held = recorder.collectors.lock();
    (2..=50).for_each(|number| receive(&recorder, &info(FAST_DDS, 1, number)));
    drop(held);
    let window = recorder.end_window(&HostClock).unwrap();
    assert!(
        window.warnings.iter().any(|warning| warning.contains("without being measured")),
        "{:?}",
        window.warnings
    );
    let window = window.statistics;
    let waited = QUEUE as u64;
    assert_eq!((window.count, window.unrecorded), (50, 49 - waited));
    assert!(window.is_count_known && window.rate() > 0.0, "all are of this window: {window:?}");
    for (metric, summary) in window.metrics.iter().filter(|(metric, _)| *metric != Metric::ClockOffset) {
        assert!(summary.average.is_nan() && summary.sample_count == 0, "{metric:?} {summary:?}");
    }
    let totals = window.totals.unwrap();
    assert_eq!((totals.received, totals.lost), (50, None));

    // The next window is right, but for the losses.
    receive(&recorder, &info(FAST_DDS, 1, 51));
    let window = recorder.end_window(&HostClock).unwrap();
    assert!(window.warnings.is_empty(), "said once: {:?}", window.warnings);
    assert_eq!(window.statistics.get(Metric::MessageAge).unwrap().sample_count, 1);
    assert_eq!(window.statistics.get(Metric::PublicationSeqGap).unwrap().sample_count, 0);
}

#[test]
fn a_step_of_the_clock_makes_ages_nan_in_its_window_and_nothing_else() {
    for by in [-60 * S, -S / 2, S / 2, 3600 * S] {
        let recorder = all_metrics();
        step(&recorder, by);
        for number in 1..=3 {
            receive(&recorder, &info(FAST_DDS, 1, number));
        }
        let window = end(&recorder);
        let told = window.clock_step.unwrap().as_nanoseconds();
        assert!((told - by).abs() < 10_000_000, "{told} {by}");
        for (metric, summary) in &window.metrics {
            let expected = match metric {
                Metric::MessagePeriod => 2,
                Metric::PublicationSeqGap => 2,
                Metric::TimeSinceLastMessage => 1,
                Metric::MessageSize => 3,
                Metric::ClockOffset => continue,
                _ => 0,
            };
            assert_eq!(summary.sample_count, expected, "{metric:?} {summary:?}");
        }
        assert!(window.length < Duration::from_secs(60) && window.window.stop > window.window.start);

        // The next one, after messages under way have arrived.
        if by < 0 {
            std::thread::sleep(Duration::from_millis(110));
        }
        receive(&recorder, &info(FAST_DDS, 1, 4));
        let last = recorder.last_message(&HostClock).unwrap();
        assert!((last.callback.as_nanoseconds() - system_now()).abs() < S, "on the clock as it is");
        let next = end(&recorder);
        assert_eq!(next.clock_step, None);
        assert_eq!(next.window.start, window.window.stop, "windows follow each other");
        let totals = next.totals.unwrap();
        let first = totals.first_message.unwrap().as_nanoseconds();
        assert!((first - system_now()).abs() < 10 * S, "corrected: {totals:?} {by}");
    }
}

#[test]
fn a_message_that_was_stamped_before_a_step_forward_has_no_age_after_it() {
    let recorder = recorder(RecorderOptions::new());
    step(&recorder, 3600 * S);
    let on_the_old_clock = system_now() - 3600 * S - 1_000_000; // 1 ms ago
    assert!(end(&recorder).clock_step.is_some());
    let epoch = recorder.epoch().unwrap();
    let record = |stamp| {
        recorder.record(&recorder.received_message(epoch, stamp, info(UNKNOWN, 1, 1), || 100), monotonic);
    };
    record(on_the_old_clock);
    record(system_now());
    let age = *end(&recorder).get(Metric::MessageAge).unwrap();
    assert!(age.sample_count == 1 && age.maximum < 1000.0, "{age:?}");
}

/// Clocks that change only when a test changes them.
struct TestClock {
    monotonic: AtomicI64,
    offset: AtomicI64,
    suspended: AtomicI64,
}

impl TestClock {
    fn new() -> Self {
        let (monotonic, offset) = (AtomicI64::new(1000 * S), AtomicI64::new(1_790_000_000 * S));
        Self { monotonic, offset, suspended: AtomicI64::new(0) }
    }

    fn pass(&self, time: i64) {
        self.monotonic.fetch_add(time, Ordering::Relaxed);
    }

    fn suspend(&self, time: i64) {
        self.offset.fetch_add(time, Ordering::Relaxed);
        self.suspended.fetch_add(time, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn monotonic(&self) -> i64 {
        self.monotonic.load(Ordering::Relaxed)
    }

    fn system(&self) -> i64 {
        self.monotonic() + self.offset.load(Ordering::Relaxed)
    }

    fn suspended(&self) -> i64 {
        self.suspended.load(Ordering::Relaxed)
    }
}

/// Returns a recorder of these metrics on a clock.
fn recorder_on(clock: &TestClock, options: RecorderOptions) -> Recorder {
    let recorder = Recorder::new("/imu", options, None, clock);
    recorder.enable(clock);
    recorder
}

/// Takes a message and starts its callback, at the time of a clock.
fn receive_on(recorder: &Recorder, clock: &TestClock, number: u64) {
    let info = info(FAST_DDS, 1, number);
    let Some(epoch) = recorder.epoch() else { return };
    recorder.record(&recorder.received_message(epoch, clock.system(), info, || 100), || clock.monotonic());
}

fn end_on(recorder: &Recorder, clock: &TestClock) -> WindowStatistics {
    recorder.end_window(clock).unwrap().statistics
}

/// Receives that many messages, 10 ms apart, while another thread holds the lock: 8 wait, the others are only counted.
fn receive_while_held(recorder: &Recorder, clock: &TestClock, numbers: std::ops::RangeInclusive<u64>) {
    let held = recorder.collectors.lock();
    for number in numbers {
        clock.pass(S / 100);
        receive_on(recorder, clock, number);
    }
    drop(held);
}

#[test]
fn a_message_that_was_not_measured_is_later_than_the_last_one_that_was() {
    let clock = TestClock::new();
    let metrics = [Metric::MessagePeriod, Metric::TimeSinceLastMessage];
    let options = RecorderOptions::new().metrics(metrics).first_period(FirstPeriod::CarriedOver);
    let recorder = recorder_on(&clock, options);
    receive_on(&recorder, &clock, 1);
    receive_while_held(&recorder, &clock, 2..=20);
    clock.pass(S);
    let totals = end_on(&recorder, &clock).totals.unwrap();
    assert!(totals.rate().is_nan(), "20 messages in a time that is not known: {totals:?}");

    clock.pass(S);
    let window = end_on(&recorder, &clock);
    let silence = window.get(Metric::TimeSinceLastMessage).unwrap();
    assert_eq!(silence.sample_count, 0, "since the 9th message: {silence:?}");

    receive_on(&recorder, &clock, 21);
    clock.pass(S / 2);
    receive_on(&recorder, &clock, 22);
    clock.pass(S / 4);
    let window = end_on(&recorder, &clock);
    let period = window.get(Metric::MessagePeriod).unwrap();
    assert_eq!((period.sample_count, period.average), (1, 500.0), "none since the 9th message");
    assert_eq!(window.get(Metric::TimeSinceLastMessage).unwrap().average, 250.0);
    assert_eq!(window.totals.unwrap().rate(), 21.0 / 2.69, "the time is known again");
}

#[test]
fn a_message_that_came_another_way_leaves_the_silence_unknown_until_the_next_one() {
    let clock = TestClock::new();
    let metrics = [Metric::MessagePeriod, Metric::TimeSinceLastMessage];
    let recorder = recorder_on(&clock, RecorderOptions::new().metrics(metrics));
    let receive_another_way = || {
        clock.pass(S / 10);
        recorder.accept_unmeasured();
        clock.pass(S / 10);
    };
    // From the second message to the third is no period.
    (1..=2).for_each(|number| receive_on(&recorder, &clock, number));
    receive_another_way();
    (3..=4).for_each(|number| receive_on(&recorder, &clock, number));
    let window = end_on(&recorder, &clock);
    let periods = window.get(Metric::MessagePeriod).unwrap();
    assert_eq!((periods.sample_count, periods.maximum), (2, 0.0));
    assert_eq!(window.get(Metric::TimeSinceLastMessage).unwrap().average, 0.0);
    receive_another_way();
    for _ in 0..2 {
        clock.pass(S);
        let window = end_on(&recorder, &clock);
        assert_eq!(window.get(Metric::TimeSinceLastMessage).unwrap().sample_count, 0);
        assert_eq!(window.count, 0, "it is not counted");
    }
    receive_on(&recorder, &clock, 5);
    clock.pass(S / 4);
    assert_eq!(end_on(&recorder, &clock).get(Metric::TimeSinceLastMessage).unwrap().average, 250.0);
}

/// A message of which others may have been filtered.
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
fn what_is_filtered_is_not_lost_up_to_the_first_message_of_each_publisher_without_a_filter() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new().metrics([Metric::PublicationSeqGap]));
    let receive = |publisher, number, is_filtered: bool| {
        let (info, epoch) = (info(FAST_DDS, publisher, number), recorder.epoch().unwrap());
        let message = match is_filtered {
            true => recorder.received_message(epoch, 0, Filtered(info), || 0),
            false => recorder.received_message(epoch, 0, info, || 0),
        };
        recorder.record(&message, || clock.monotonic());
    };
    let gaps = || {
        let gaps = *end_on(&recorder, &clock).get(Metric::PublicationSeqGap).unwrap();
        (gaps.sample_count, gaps.maximum)
    };
    [1, 2].iter().for_each(|publisher| receive(*publisher, 1, false));
    receive(1, 4, false);
    assert_eq!(gaps(), (1, 2.0));
    recorder.pause_losses();
    receive(1, 5, false); // taken before the filter was set
    [10, 20].iter().for_each(|number| receive(1, *number, true));
    assert_eq!(gaps().0, 0);
    for publisher in [1, 2] {
        receive(publisher, 30, false);
        assert_eq!(gaps().0, 0, "the first of publisher {publisher}");
        receive(publisher, 32, false);
        assert_eq!(gaps(), (1, 1.0));
    }
}

#[test]
fn messages_that_are_recorded_in_another_order_than_sent_are_no_gap() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new().metrics([Metric::PublicationSeqGap]));
    recorder.set_distributions(true);
    let gaps = |messages: &[(u16, u64)]| {
        for (publisher, number) in messages {
            let message = recorder.received_message(
                recorder.epoch().unwrap(),
                0,
                info(FAST_DDS, *publisher, *number),
                || 0,
            );
            recorder.record(&message, || clock.monotonic());
        }
        let window = end_on(&recorder, &clock);
        let gaps = *window.get(Metric::PublicationSeqGap).unwrap();
        let sum = gaps.average * gaps.sample_count as f64;
        (gaps.sample_count, sum.round(), gaps.maximum, window.totals.unwrap().lost)
    };
    // From the second one on, a message has a gap before it: 0 if it is the one expected.
    assert_eq!(gaps(&[(1, 1), (1, 3), (1, 2), (1, 4)]), (3, 0.0, 0.0, Some(0)), "neighbours");
    assert_eq!(gaps(&[(1, 6), (1, 7), (1, 8), (1, 5)]), (4, 0.0, 0.0, Some(0)), "one thread held up");
    assert_eq!(gaps(&[(1, 12), (1, 10), (1, 9), (1, 13)]), (4, 1.0, 1.0, Some(1)), "11 is lost");
    assert_eq!(gaps(&[(2, 1), (1, 15), (2, 2), (1, 14)]), (3, 0.0, 0.0, Some(1)), "of its own publisher");
    assert_eq!(gaps(&[(1, 18), (2, 5), (1, 17)]), (3, 3.0, 2.0, Some(4)), "of the gap before");
    assert_eq!(gaps(&[(1, 20)]), (1, 1.0, 1.0, Some(5)), "what comes after its end");
    assert_eq!(gaps(&[(1, 19), (1, 21)]), (1, 0.0, 0.0, Some(4)), "changes the totals only");
    assert_eq!(gaps(&[(1, 121), (1, 50)]), (1, 99.0, 99.0, Some(103)), "too late: it may have come before");
    let by_turns = [(1, 123), (1, 125), (1, 122), (1, 127), (1, 124), (1, 126)];
    assert_eq!(gaps(&by_turns), (6, 0.0, 0.0, Some(103)), "three threads");
    let many = [129, 131, 133, 135, 137, 128].map(|number| (1, number));
    assert_eq!(gaps(&many), (5, 5.0, 1.0, Some(107)), "more gaps than are open");
}

#[test]
fn a_message_after_those_that_were_not_measured_is_the_last_one_at_once() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new());
    receive_while_held(&recorder, &clock, 1..=20);
    clock.pass(S / 100);
    receive_on(&recorder, &clock, 21);
    assert_eq!(end_on(&recorder, &clock).totals.unwrap().rate(), 100.0);
}

#[test]
fn the_rate_is_not_known_if_a_time_ends_with_messages_that_were_not_measured() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new());
    receive_while_held(&recorder, &clock, 1..=20);
    recorder.disable();
    recorder.enable(&clock);
    receive_on(&recorder, &clock, 21);
    clock.pass(S / 100);
    receive_on(&recorder, &clock, 22);
    assert!(end_on(&recorder, &clock).totals.unwrap().rate().is_nan());
}

/// Runs a callback of 10 ms, 10 ms from now, and lets 10 ms pass after it.
fn run_callback(recorder: &Recorder, clock: &TestClock, number: u64) {
    let info = info(FAST_DDS, 1, number);
    let message = recorder.received_message(recorder.epoch().unwrap(), clock.system(), info, || 100);
    clock.pass(S / 100);
    let running = recorder.record(&message, || clock.monotonic());
    clock.pass(S / 100);
    if let Some(running) = running {
        recorder.record_end(running, clock.monotonic());
    }
    clock.pass(S / 100);
}

/// A clock on which something happens while the end of a window is delayed, before or after it has read the window's
/// stop.
struct HeldUp<'a> {
    clock: &'a TestClock,
    meanwhile: &'a (dyn Fn() + Sync),
    is_after_stop: bool,
    readings: AtomicI64,
}

/// Ends a window with a delay.
fn end_held_up(
    recorder: &Recorder,
    clock: &TestClock,
    is_after_stop: bool,
    meanwhile: &(dyn Fn() + Sync),
) -> WindowStatistics {
    let held_up = HeldUp { clock, meanwhile, is_after_stop, readings: AtomicI64::new(0) };
    recorder.end_window(&held_up).unwrap().statistics
}

impl Clock for HeldUp<'_> {
    fn monotonic(&self) -> i64 {
        if self.readings.fetch_add(1, Ordering::Relaxed) == i64::from(self.is_after_stop) {
            (self.meanwhile)();
        }
        self.clock.monotonic()
    }

    fn system(&self) -> i64 {
        self.clock.system()
    }

    fn suspended(&self) -> i64 {
        self.clock.suspended()
    }
}

#[test]
fn what_is_recorded_while_a_window_ends_belongs_to_the_window_of_its_time() {
    for is_after_stop in [false, true] {
        let clock = TestClock::new();
        let recorder = recorder_on(&clock, RecorderOptions::new().metrics([Metric::CallbackDuration]));
        clock.pass(S);
        let first = end_held_up(&recorder, &clock, is_after_stop, &|| run_callback(&recorder, &clock, 1));
        let windows = [first, end_on(&recorder, &clock)]
            .map(|window| (window.count, window.get(Metric::CallbackDuration).unwrap().sample_count));
        let expected = if is_after_stop { [(0, 0), (1, 1)] } else { [(1, 1), (0, 0)] };
        assert_eq!(windows, expected, "after the stop: {is_after_stop}");
    }
}

#[test]
fn messages_that_were_not_measured_while_a_window_ends_are_later_than_the_last_one_that_was() {
    for is_after_stop in [false, true] {
        let clock = TestClock::new();
        let options = RecorderOptions::new().metrics([Metric::TimeSinceLastMessage]);
        let recorder = recorder_on(&clock, options);
        clock.pass(S);
        let first = end_held_up(&recorder, &clock, is_after_stop, &|| {
            (1..=20).for_each(|number| run_callback(&recorder, &clock, number));
        });
        assert!(first.totals.unwrap().rate().is_nan(), "after the stop: {is_after_stop}");
        let silence = |window: WindowStatistics| *window.get(Metric::TimeSinceLastMessage).unwrap();
        for window in 2..=3 {
            clock.pass(S);
            let silence = silence(end_on(&recorder, &clock));
            assert_eq!(
                silence.sample_count, 0,
                "after the stop: {is_after_stop}, window {window}: {silence:?}"
            );
        }
        receive_on(&recorder, &clock, 21);
        clock.pass(S / 4);
        assert_eq!(silence(end_on(&recorder, &clock)).average, 250.0);
    }
}

#[test]
fn the_last_message_is_known_where_only_the_end_of_a_callback_was_not_measured() {
    let clock = TestClock::new();
    let metrics = [Metric::CallbackDuration, Metric::TimeSinceLastMessage];
    let recorder = recorder_on(&clock, RecorderOptions::new().metrics(metrics));
    let info = info(FAST_DDS, 1, 1);
    let message = recorder.received_message(recorder.epoch().unwrap(), clock.system(), info, || 100);
    let running = recorder.record(&message, || clock.monotonic()).unwrap();
    clock.pass(S);
    end_held_up(&recorder, &clock, true, &|| {
        let callbacks = QUEUE as u64 / 2; // a start and an end each
        (2..2 + callbacks).for_each(|number| run_callback(&recorder, &clock, number));
        recorder.record_end(running, clock.monotonic()); // finds no room
    });
    let second = end_on(&recorder, &clock);
    let durations = second.get(Metric::CallbackDuration).unwrap();
    assert_eq!(durations.sample_count, 0, "one is not known");
    clock.pass(S);
    let third = end_on(&recorder, &clock);
    let silence = third.get(Metric::TimeSinceLastMessage).unwrap();
    assert_eq!((silence.sample_count, silence.average), (1, 1020.0), "since the start of the last callback");
}

#[test]
fn a_recorder_has_the_topic_and_the_metrics_that_it_was_given() {
    let recorder = recorder(RecorderOptions::new().metrics([Metric::MessageAge]));
    assert_eq!(recorder.given_topic(), Some("/imu"));
    assert!(recorder.measures(Metric::MessageAge) && !recorder.measures(Metric::MessagePeriod));
}

#[test]
fn the_time_of_a_first_message_that_waits_while_a_window_ends_is_corrected_by_a_step_once() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new().metrics([Metric::CallbackDuration]));
    clock.pass(S);
    clock.offset.fetch_sub(S, Ordering::Relaxed);
    let expected = Timestamp::from_nanoseconds(clock.system() + S / 100);
    let window = end_held_up(&recorder, &clock, false, &|| run_callback(&recorder, &clock, 1));
    let totals = window.totals.unwrap();
    assert_eq!((totals.first_message, totals.last_message), (Some(expected), Some(expected)));
}

#[test]
fn messages_of_another_time_are_not_counted_where_there_is_no_room_for_them_either() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new());
    let epoch = recorder.epoch().unwrap();
    recorder.disable();
    recorder.enable(&clock);
    let held = recorder.collectors.lock();
    for number in 1..=20 {
        let message = recorder.received_message(epoch, 0, info(FAST_DDS, 1, number), || 100);
        recorder.record(&message, || clock.monotonic());
    }
    drop(held);
    let window = end_on(&recorder, &clock);
    assert_eq!((window.count, window.unrecorded), (0, 0));
    assert_eq!(window.totals.unwrap().received, 0);
}

#[test]
fn the_rate_is_not_known_if_a_time_begins_with_messages_that_were_not_measured() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new());
    let epoch_before = recorder.epoch().unwrap();
    recorder.disable();
    recorder.enable(&clock);
    let held = recorder.collectors.lock();
    let message = recorder.received_message(epoch_before, 0, info(FAST_DDS, 1, 1), || 100);
    for _ in 0..QUEUE {
        recorder.record(&message, || clock.monotonic());
    }
    receive_on(&recorder, &clock, 2); // finds no room
    drop(held);
    for number in 3..=4 {
        clock.pass(S / 100);
        receive_on(&recorder, &clock, number);
    }
    let totals = end_on(&recorder, &clock).totals.unwrap();
    assert_eq!((totals.received, totals.intervals), (3, None), "the time of the first one is not known");
}

#[test]
fn messages_that_were_not_measured_make_the_losses_of_each_publisher_unknown() {
    let clock = TestClock::new();
    let options = RecorderOptions::new().metrics([Metric::PublicationSeqGap]);
    let recorder = recorder_on(&clock, options);
    receive_while_held(&recorder, &clock, 1..=8);
    let [publisher] = recorder.publishers()[..] else { panic!("one publisher") };
    assert_eq!((publisher.received, publisher.lost, publisher.out_of_order), (8, Some(0), Some(0)));
    receive_while_held(&recorder, &clock, 9..=20);
    receive_on(&recorder, &clock, 21);
    let [publisher] = recorder.publishers()[..] else { panic!("one publisher") };
    assert_eq!((publisher.received, publisher.lost, publisher.out_of_order), (17, None, None));
}

#[test]
fn a_message_that_is_taken_before_stamps_expire_and_recorded_after_that_has_an_age_if_its_stamp_is_good() {
    let clock = TestClock::new();
    let recorder = Recorder::new("/imu", RecorderOptions::new(), None, &clock);
    recorder.enable(&clock);
    let end = || recorder.end_window(&clock).unwrap().statistics;
    let taken =
        |stamp| recorder.received_message(recorder.epoch().unwrap(), stamp, info(UNKNOWN, 1, 1), || 0);
    let on_the_old_clock = clock.system();
    let before_it_was_found = taken(on_the_old_clock);
    clock.offset.fetch_add(3600 * S, Ordering::Relaxed);
    let waiting_in_the_executor = taken(clock.system());
    clock.pass(S);
    assert_eq!(end().clock_step, Some(ClockStep::from_nanoseconds(3600 * S)));
    let waiting_in_the_network = taken(on_the_old_clock);
    clock.pass(10 * S);
    end();
    let good = taken(clock.system());
    clock.pass(S);
    end(); // stamps expire
    clock.pass(20 * S);
    for message in [before_it_was_found, waiting_in_the_executor, waiting_in_the_network, good] {
        recorder.record(&message, || clock.monotonic());
    }
    let age = *end().get(Metric::MessageAge).unwrap();
    assert_eq!((age.sample_count, age.average), (1, 21_000.0), "{age:?}");
}

#[test]
fn a_suspend_does_not_change_the_time_of_the_last_message_before_it() {
    let clock = TestClock::new();
    let options = RecorderOptions::new().metrics([Metric::PublicationSeqGap]);
    let recorder = recorder_on(&clock, options);
    receive_on(&recorder, &clock, 1);
    let last = Timestamp::from_nanoseconds(clock.system());
    clock.pass(S);
    end_on(&recorder, &clock);
    for _ in 0..2 {
        clock.suspend(3600 * S);
        assert_eq!(recorder.last_message(&clock).unwrap().callback, last, "before the window ends");
        clock.pass(S);
        assert_eq!(end_on(&recorder, &clock).totals.unwrap().last_message, Some(last));
        assert_eq!(recorder.last_message(&clock).unwrap().callback, last);
        assert_eq!(recorder.publishers()[0].last_message, last);
    }

    recorder.disable();
    clock.suspend(3600 * S);
    recorder.enable(&clock);
    assert_eq!(recorder.totals().unwrap().last_message, Some(last), "while disabled");
    assert_eq!(recorder.publishers()[0].last_message, last);

    receive_on(&recorder, &clock, 2);
    let now = Timestamp::from_nanoseconds(clock.system());
    assert_eq!(end_on(&recorder, &clock).totals.unwrap().last_message, Some(now), "the next one");

    // At the start of the window in which the host is suspended: perhaps after that.
    receive_on(&recorder, &clock, 3);
    let earliest = clock.system();
    clock.suspend(S);
    let last = end_on(&recorder, &clock).totals.unwrap().last_message;
    assert_eq!(last, Some(Timestamp::from_nanoseconds(earliest + S)));
}

#[test]
fn the_times_of_the_last_message_are_those_that_are_known() {
    let recorder = all_metrics();
    receive(&recorder, &info(FAST_DDS, 1, 1));
    let last = recorder.last_message(&HostClock).unwrap();
    let times = [last.header, last.source, last.received, Some(last.callback)];
    assert!(last.header.is_some() && times.windows(2).all(|pair| pair[0] < pair[1]), "{last:?}");

    let without = Delivery { source: 0, received: 0, ..info(FAST_DDS, 1, 2) };
    let epoch = recorder.epoch().unwrap();
    recorder.record(&recorder.received_message(epoch, 0, without, || 100), monotonic);
    let last = recorder.last_message(&HostClock).unwrap();
    assert_eq!((last.header, last.source, last.received), (None, None, None), "{last:?}");
}

#[test]
fn off_and_on_again_is_another_time_and_no_message_reaches_over() {
    let recorder = all_metrics();
    for number in 1..=3 {
        receive(&recorder, &info(FAST_DDS, 1, number));
    }
    // Taken before, called after.
    let epoch = recorder.epoch().unwrap();
    let taken = recorder.received_message(epoch, 1, info(FAST_DDS, 1, 4), || 100);
    let body = recorder.record(&taken, monotonic);
    recorder.disable();
    recorder.record(&taken, monotonic);
    recorder.record_end(body.unwrap(), monotonic());
    assert_eq!(recorder.totals().unwrap().received, 4, "nothing is recorded while it is off");
    recorder.enable(&HostClock);
    recorder.record(&taken, monotonic);
    let window = end(&recorder);
    assert_eq!((window.count, window.totals.unwrap().received), (0, 4));
    let silence = window.get(Metric::TimeSinceLastMessage).unwrap();
    assert!(silence.average.is_nan(), "nothing is known of the time before: {silence:?}");

    receive(&recorder, &info(FAST_DDS, 1, 101));
    let totals = recorder.totals().unwrap();
    assert_eq!((totals.received, totals.lost), (5, Some(0)), "what was sent in the pause is not lost");
}

#[test]
fn the_rate_of_all_is_over_the_time_in_which_it_was_on() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new());
    for _ in 0..2 {
        receive_on(&recorder, &clock, 1);
        clock.pass(S / 50);
        receive_on(&recorder, &clock, 2);
        recorder.disable();
        clock.pass(S);
        recorder.enable(&clock);
    }
    let totals = recorder.totals().unwrap();
    assert_eq!((totals.intervals, totals.active), (Some(2), Duration::from_millis(40)));
    assert_eq!(totals.rate(), 50.0);
}

#[test]
fn an_age_from_the_source_timestamp_needs_no_other_metric() {
    let recorder = recorder(RecorderOptions::new().age_source(AgeSource::SourceTimestamp));
    let message = recorder.received_message(
        recorder.epoch().unwrap(),
        0, // no header
        info(FAST_DDS, 1, 1),
        || 100,
    );
    recorder.record(&message, monotonic);
    let age = *end(&recorder).get(Metric::MessageAge).unwrap();
    assert!(age.sample_count == 1 && age.average >= 30.0, "{age:?}");
}

#[test]
fn each_middleware_gives_what_its_transport_says() {
    for middleware in [FAST_DDS, CYCLONE_DDS] {
        let recorder = all_metrics();
        for number in [1, 4] {
            // A middleware without numbers that gave one all the same would not be believed.
            receive(&recorder, &info(middleware, 1, number));
        }
        let window = recorder.end_window(&HostClock).unwrap();
        let samples = |metric| window.statistics.get(metric).unwrap().sample_count;
        let has_reception = middleware.received == ReceivedTimestamp::Reception;
        let parts = [Metric::SourceToReceive, Metric::ReceiveToCallback].map(samples);
        assert_eq!(parts, if has_reception { [2, 2] } else { [0, 0] }, "{middleware:?}");
        let whole = window.statistics.get(Metric::SourceToCallback).unwrap();
        assert!(whole.sample_count == 2 && (30.0..1000.0).contains(&whole.minimum), "{whole:?}");
        let totals = window.statistics.totals.unwrap();
        assert_eq!(totals.lost, middleware.has_sequence_numbers.then_some(2), "{middleware:?}");
        assert_eq!(totals.publishers, Some(1), "{middleware:?}");
        let expected = usize::from(!has_reception) + usize::from(!middleware.has_sequence_numbers);
        assert_eq!(window.warnings.len(), expected, "{:?}", window.warnings);
        assert!(window.warnings.iter().all(|warning| warning.contains(middleware.name)));
        receive(&recorder, &info(middleware, 1, 5));
        assert!(recorder.end_window(&HostClock).unwrap().warnings.is_empty(), "each is said once");
    }
}

#[test]
fn of_a_middleware_that_is_not_known_only_what_every_one_gives_is_believed() {
    let recorder = all_metrics();
    receive(&recorder, &info(UNKNOWN, 1, 1));
    receive(&recorder, &info(UNKNOWN, 1, u64::MAX));
    let window = end(&recorder);
    let samples = |metric| window.get(metric).unwrap().sample_count;
    assert_eq!(samples(Metric::SourceToReceive), 0);
    assert_eq!(samples(Metric::SourceToCallback), 2);
    assert_eq!(window.totals.unwrap().lost, None, "one message was not numbered");
}

#[test]
fn a_middleware_without_numbers_tells_publishers_apart_all_the_same() {
    let recorder = all_metrics();
    for message in 0..194 {
        receive(&recorder, &info(CYCLONE_DDS, message % 2, u64::MAX));
    }
    let totals = recorder.totals().unwrap();
    assert_eq!((totals.publishers, totals.lost, totals.out_of_order), (Some(2), None, None));
    let publishers = recorder.publishers();
    assert_eq!(
        publishers.iter().map(|publisher| (publisher.received, publisher.lost)).collect::<Vec<_>>(),
        [(97, None), (97, None)]
    );
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn more_publishers_than_are_followed_make_losses_unknown_and_that_is_said_once() {
    let recorder = all_metrics();
    let most = SequenceTracker::<Gid>::PUBLISHERS as u16;
    let mut warnings = vec![];
    for round in 1..=3 {
        (0..=most).for_each(|publisher| receive(&recorder, &info(FAST_DDS, publisher, 2 * round)));
        let window = recorder.end_window(&HostClock).unwrap();
        assert_eq!(window.statistics.get(Metric::PublicationSeqGap).unwrap().sample_count, 0);
        warnings.extend(window.warnings);
    }
    let totals = recorder.totals().unwrap();
    assert_eq!((totals.lost, totals.publishers, totals.received), (None, None, 3 * u64::from(most + 1)));
    assert!(matches!(&warnings[..], [one] if one.contains("256 publishers")), "{warnings:?}");
    assert_eq!(recorder.publishers().len(), usize::from(most));
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn after_more_publishers_than_are_followed_a_window_without_a_further_one_has_its_losses() {
    let recorder = all_metrics();
    let restarted = SequenceTracker::<Gid>::PUBLISHERS as u16;
    (0..=restarted).for_each(|publisher| receive(&recorder, &info(FAST_DDS, publisher, 1)));
    let before = end(&recorder).totals.unwrap();
    let window = |publishers: &[u16], number: u64, before: &Totals| {
        publishers.iter().for_each(|publisher| receive(&recorder, &info(FAST_DDS, *publisher, number)));
        let window = end(&recorder);
        let gaps = *window.get(Metric::PublicationSeqGap).unwrap();
        let totals = window.totals.unwrap();
        assert_eq!(totals.lost, None, "since the creation");
        ((gaps.sample_count, gaps.maximum), totals.losses_since(before), totals)
    };
    let (gaps, losses, before) = window(&[restarted], 5, &before);
    assert_eq!((gaps, losses), ((1, 3.0), Some((3, 0))));
    // The first one is not followed any more: its losses meanwhile are unknown.
    let (gaps, losses, before) = window(&[restarted, 0], 6, &before);
    assert_eq!((gaps.0, losses), (0, None));
    let (gaps, losses, _) = window(&[restarted, 0], 7, &before);
    assert_eq!((gaps, losses), ((2, 0.0), Some((0, 0))));
}

/// Returns a recorder of all metrics with distributions.
fn with_distributions() -> Recorder {
    let recorder =
        Recorder::new("/imu", RecorderOptions::new().metrics(Metric::OF_SUBSCRIPTIONS), None, &HostClock);
    recorder.set_distributions(true);
    recorder.enable(&HostClock);
    recorder
}

/// Returns the metrics that have a distribution.
fn distributed(window: &WindowStatistics) -> Vec<Metric> {
    Metric::ALL.iter().copied().filter(|metric| window.distribution(*metric).is_some()).collect()
}

#[test]
fn a_window_has_a_distribution_of_each_metric_with_more_than_one_sample() {
    let recorder = with_distributions();
    for number in 1..=20 {
        let Some(epoch) = recorder.epoch() else { panic!("disabled") };
        let info = info(FAST_DDS, 1, number);
        let message = recorder.received_message(epoch, system_now() - 40_000_000, info, || 72);
        let running = recorder.record(&message, monotonic).unwrap();
        recorder.record_end(running, monotonic());
    }
    let window = end(&recorder);
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
    assert!((40.0..200.0).contains(&age.quantile(0.9)), "stamped 40 ms ago: {age:?}");
    let empty = end(&recorder);
    assert_eq!(distributed(&empty), [], "no samples, no distribution");
}

#[test]
fn what_has_no_summary_has_no_distribution() {
    let recorder = with_distributions();
    let info = |number| info(FAST_DDS, 1, number);
    (1..=3).for_each(|number| receive(&recorder, &info(number)));
    step(&recorder, S);
    let window = end(&recorder);
    assert!(window.clock_step.is_some());
    let of_other_clocks = [Metric::MessagePeriod, Metric::PublicationSeqGap, Metric::MessageSize];
    assert_eq!(distributed(&window), of_other_clocks, "{window:?}");

    // A window with missing samples.
    let held = recorder.collectors.lock();
    (4..=50).for_each(|number| receive(&recorder, &info(number)));
    drop(held);
    let window = end(&recorder);
    assert!(window.unrecorded > 0);
    assert_eq!(distributed(&window), []);
}

#[test]
fn distributions_begin_and_end_with_a_window() {
    let recorder = recorder(RecorderOptions::new());
    let info = info(FAST_DDS, 1, 1);
    let window = |distributions| {
        for _ in 0..3 {
            receive(&recorder, &info);
        }
        recorder.set_distributions(distributions);
        receive(&recorder, &info);
        let window = end(&recorder);
        assert_eq!(window.get(Metric::MessageAge).unwrap().sample_count, 4);
        (window.distribution(Metric::MessageAge).map(Distribution::count), distributed(&window).len())
    };
    assert_eq!(window(true), (None, 0), "its first samples are not in a distribution");
    assert_eq!(window(true), (Some(4), 2));
    assert_eq!(window(false), (Some(4), 2), "it has all samples");
    assert_eq!(window(false), (None, 0));
    recorder.set_distributions(true);
    recorder.disable();
    recorder.enable(&HostClock);
    receive(&recorder, &info);
    receive(&recorder, &info);
    assert_eq!(end(&recorder).distribution(Metric::MessageAge).map(Distribution::count), Some(2));
}

#[test]
fn sizes_are_summed_until_one_is_not_known() {
    let sizes = RecorderOptions::new().metrics([Metric::MessageSize]);
    let receive = |recorder: &Recorder, size| {
        let epoch = recorder.epoch().unwrap();
        let message = recorder.received_message(epoch, 0, info(FAST_DDS, 1, 1), || size);
        recorder.record(&message, monotonic);
    };
    let measured = recorder(sizes.clone());
    assert_eq!(measured.totals().unwrap().bytes, Some(0));
    receive(&measured, 100);
    receive(&measured, u32::MAX);
    let window = end(&measured);
    let size = window.get(Metric::MessageSize).unwrap();
    assert_eq!((size.minimum, size.maximum, size.sample_count), (100.0, f64::from(u32::MAX), 2));
    assert_eq!(window.totals.unwrap().bytes, Some(100 + u64::from(u32::MAX)));
    assert!((window.bandwidth() * window.length.as_secs_f64() / 4_294_967_395.0 - 1.0).abs() < 1e-9);
    assert_eq!(end(&measured).bandwidth(), 0.0, "silence");

    // Messages received while the statistics were disabled are not in the sum.
    measured.disable();
    measured.enable(&HostClock);
    receive(&measured, 5);
    assert_eq!(measured.totals().unwrap().bytes, Some(105 + u64::from(u32::MAX)));

    receive(&measured, 0);
    let window = end(&measured);
    assert_eq!(window.get(Metric::MessageSize).unwrap().sample_count, 1);
    assert!(window.bandwidth().is_nan(), "the size of one of two messages is not known");
    assert_eq!(window.totals.unwrap().bytes, None);

    // A message that is only counted has no size.
    let counting = recorder(sizes);
    let held = counting.collectors.lock();
    (0..50).for_each(|_| receive(&counting, 100));
    drop(held);
    let window = end(&counting);
    assert!(window.unrecorded > 0 && window.bandwidth().is_nan());
    assert_eq!((window.count, window.totals.unwrap().bytes), (50, None));
}

/// Receives messages of a transient local subscription: at that time, published at that time (both in ms), by that
/// publisher. Returns the window.
fn receive_latched(recorder: &Recorder, clock: &TestClock, messages: &[(i64, i64, u16)]) -> WindowStatistics {
    let start = clock.monotonic();
    for (number, &(at, published, publisher)) in messages.iter().enumerate() {
        clock.pass(start + at * S / 1000 - clock.monotonic());
        let source = clock.system() - clock.monotonic() + start + published * S / 1000;
        let mut gid = Gid::default();
        gid[..2].copy_from_slice(&publisher.to_be_bytes());
        let info =
            Delivery { transport: CYCLONE_DDS, source, received: 0, publisher: gid, number: number as u64 };
        let epoch = recorder.epoch().unwrap();
        recorder.record(&recorder.received_message(epoch, source, info, || 100), || clock.monotonic());
    }
    clock.pass(start + S - clock.monotonic());
    end_on(recorder, clock)
}

#[test]
fn history_of_transient_local_publishers_has_no_rate() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new().transient_local(true));
    // Ten messages at 1 Hz, delivered within 3 ms, and then one message per second.
    let history: Vec<_> = (0..10).map(|number| (100 + number / 3, 1000 * number - 9500, 1)).collect();
    let window = receive_latched(&recorder, &clock, &history);
    assert!(window.has_history && window.rate().is_nan(), "{window:?}");
    assert_eq!((window.count, window.get(Metric::MessagePeriod).unwrap().sample_count), (10, 0));
    assert!(window.totals.unwrap().rate().is_nan(), "no message was sent meanwhile");
    for _ in 0..10 {
        let window = receive_latched(&recorder, &clock, &[(500, 500, 1)]);
        assert_eq!((window.has_history, window.rate()), (false, 1.0));
    }
    // The first interval begins at the history.
    let totals = recorder.totals().unwrap();
    assert_eq!((totals.received, totals.intervals, totals.rate()), (20, Some(9), 1.0));
    // Its publisher restarts, and delivers ten messages again.
    let restarted: Vec<_> = (0..10).map(|number| (300 + number / 3, -900 + 10 * number, 2)).collect();
    assert!(receive_latched(&recorder, &clock, &restarted).has_history);
    let totals = recorder.totals().unwrap();
    assert_eq!((totals.received, totals.intervals, totals.rate()), (30, Some(9), 1.0));
}

#[test]
fn publishers_that_publish_once_have_no_rate() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new().transient_local(true));
    for publisher in 0..5 {
        // The others are started while it is subscribed.
        assert!(receive_latched(&recorder, &clock, &[(700, 690, publisher)]).has_history);
    }
    assert!(recorder.totals().unwrap().rate().is_nan());
    let volatile = recorder_on(&clock, RecorderOptions::new());
    for publisher in 0..5 {
        assert!(!receive_latched(&volatile, &clock, &[(700, 690, publisher)]).has_history);
    }
    assert_eq!(volatile.totals().unwrap().rate(), 1.0);
}

#[test]
fn slow_history_is_history_and_a_clock_that_is_behind_makes_none_for_long() {
    let clock = TestClock::new();
    let recorder = recorder_on(&clock, RecorderOptions::new().transient_local(true));
    let maps = [(100, -3000, 1), (900, -2000, 1)];
    assert!(receive_latched(&recorder, &clock, &maps).has_history);
    assert!(receive_latched(&recorder, &clock, &[(700, -2000, 1)]).has_history, "1.6 s after the first");
    assert!(!receive_latched(&recorder, &clock, &[(700, 690, 1)]).has_history);
    // The clock of this publisher is an hour behind.
    let seconds = (0..15).map(|_| receive_latched(&recorder, &clock, &[(100, -3_600_000, 2)]).has_history);
    assert_eq!(seconds.filter(|has_history| *has_history).count(), 10);
}
