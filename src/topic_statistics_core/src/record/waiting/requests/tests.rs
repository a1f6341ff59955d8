// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{
    record::{
        source::WindowedCollector,
        test_clock::{TestClock, MS},
    },
    window::WindowStatistics,
};

const EPOCH: i64 = TestClock::EPOCH;

impl TestClock {
    /// Sets the time since the start, in milliseconds. Returns the monotonic time.
    fn at(&self, milliseconds: i64) -> i64 {
        self.set(milliseconds * MS)
    }
}

fn recorder(is_async: bool) -> (RequestRecorder, TestClock) {
    let recorder = RequestRecorder::new(RequestRecorder::metrics(is_async), FirstPeriod::NoSample, is_async);
    recorder.requests.set_distributions(true);
    let clock = TestClock::enable(&*recorder.requests);
    (recorder, clock)
}

fn end(recorder: &RequestRecorder, clock: &TestClock) -> WindowStatistics {
    recorder.requests.end_window(clock).unwrap().statistics
}

fn average(window: &WindowStatistics, metric: Metric) -> f64 {
    window.get(metric).unwrap().average
}

#[test]
fn each_delay_of_a_request_is_in_its_own_metric() {
    let (recorder, clock) = recorder(false);
    for (sent, count) in [(100, 1), (400, 2)] {
        let mut request = recorder.take(|| (EPOCH + sent * MS, EPOCH + (sent + 40) * MS)).unwrap();
        request.start(|| clock.at(sent + 70));
        assert_eq!(request.run(|| count), count);
        request.respond(|| clock.at(sent + 125));
    }
    clock.at(1000);
    let window = end(&recorder, &clock);
    let expected = [
        (Metric::SourceToReceive, 40.0),
        (Metric::ReceiveToCallback, 30.0),
        (Metric::SourceToCallback, 70.0),
        (Metric::CallbackDuration, 55.0),
        (Metric::Requests, 2.0),
        (Metric::RequestPeriod, 300.0),
        (Metric::ActiveRequests, 0.0),
        (Metric::MaxActiveRequests, 1.0),
        (Metric::CallbackPanics, 0.0),
    ];
    let measured: Vec<_> =
        window.metrics.iter().map(|(metric, summary)| (*metric, summary.average)).collect();
    assert_eq!((window.count, &measured[..]), (2, &expected[..]));
    assert_eq!(window.distribution(Metric::CallbackDuration).unwrap().count(), 2);
    assert!(window.distribution(Metric::Requests).is_none());
}

#[test]
fn requests_are_under_way_from_their_taking_to_their_response() {
    let (recorder, clock) = recorder(true);
    let metrics = [Metric::Requests, Metric::ActiveRequests, Metric::MaxActiveRequests];
    let counts = |window: &WindowStatistics| metrics.map(|metric| average(window, metric));
    let mut requests: Vec<_> = (0..3).map(|_| recorder.take(|| (0, 0)).unwrap()).collect();
    requests[0].start(|| clock.at(10));
    requests.remove(0).respond(|| clock.at(250));
    let window = end(&recorder, &clock);
    assert_eq!(counts(&window), [1.0, 2.0, 3.0], "two requests wait for the executor");
    assert_eq!(average(&window, Metric::ResponseDuration), 240.0);
    assert!(window.get(Metric::CallbackDuration).is_none(), "it has a response duration instead");
    assert_eq!(window.get(Metric::SourceToCallback).unwrap().sample_count, 0, "no timestamps");
    drop(requests); // the executor is dropped, so the requests have no response
    let window = end(&recorder, &clock);
    assert_eq!(counts(&window), [0.0, 0.0, 2.0]);
    assert_eq!(average(&window, Metric::CallbackPanics), 0.0, "the callbacks did not start");
    assert_eq!(counts(&end(&recorder, &clock)), [0.0, 0.0, 0.0]);
}

#[test]
fn a_callback_that_panics_is_counted_and_has_no_duration() {
    let (recorder, clock) = recorder(false);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut request = recorder.take(|| (0, 0)).unwrap();
        request.start(|| clock.at(1));
        request.run(|| panic!("the panic of the callback"))
    }));
    assert!(panicked.is_err());
    let window = end(&recorder, &clock);
    assert_eq!(average(&window, Metric::CallbackPanics), 1.0);
    assert_eq!(average(&window, Metric::ActiveRequests), 0.0);
    assert_eq!(window.get(Metric::CallbackDuration).unwrap().sample_count, 0);
}

#[test]
fn after_a_step_of_the_system_clock_no_delay_is_of_two_clocks() {
    let (recorder, clock) = recorder(false);
    let request = |sent: i64, offset: i64, called: i64| {
        let sent = EPOCH + (offset + sent) * MS;
        let mut request = recorder.take(|| (sent, sent + 5 * MS)).unwrap();
        request.start(|| clock.at(called));
        request.respond(|| clock.at(called + 2));
    };
    let mut waits = recorder.take(|| (EPOCH + 90 * MS, EPOCH + 95 * MS)).unwrap();
    request(100, 0, 120);
    clock.step(3_600_000 * MS);
    let window = end(&recorder, &clock);
    assert!(window.clock_step.is_some());
    assert_eq!(window.get(Metric::SourceToCallback).unwrap().sample_count, 0);
    assert_eq!(average(&window, Metric::CallbackDuration), 2.0, "durations are correct");

    waits.start(|| clock.at(200)); // this request was taken before the step was found
    waits.respond(|| clock.at(201));
    request(110, 0, 210); // this request was sent before the step
    request(200, 3_600_000, 230);
    let delays = *end(&recorder, &clock).get(Metric::SourceToCallback).unwrap();
    assert_eq!((delays.sample_count, delays.average), (1, 30.0), "{delays:?}");
}

#[test]
fn disabled_statistics_take_no_request_and_forget_earlier_ones() {
    let (recorder, clock) = recorder(false);
    let mut request = recorder.take(|| (0, 0)).unwrap();
    recorder.requests.disable();
    assert!(recorder.take(|| unreachable!("not read")).is_none());
    request.start(|| clock.at(1));
    assert!(recorder.requests.enable(&clock));
    let window = end(&recorder, &clock);
    assert_eq!((window.count, average(&window, Metric::ActiveRequests)), (0, 1.0), "still in progress");
    request.respond(|| clock.at(2));
    assert_eq!(average(&end(&recorder, &clock), Metric::ActiveRequests), 0.0);
}

#[test]
fn statistics_that_are_disabled_forever_stay_so() {
    let (recorder, clock) = recorder(false);
    assert!(recorder.requests.disable_forever());
    assert!(!recorder.requests.disable_forever(), "the second call changes nothing");
    assert!(!recorder.requests.enable(&clock));
    assert!(recorder.requests.end_window(&clock).is_none() && recorder.take(|| (0, 0)).is_none());
}

#[test]
fn a_duration_is_of_the_callback_that_is_set() {
    let both = SourceKind::Service.metrics().iter().collect();
    let recorder = RequestRecorder::new(both, FirstPeriod::NoSample, false);
    let clock = TestClock::enable(&*recorder.requests);
    for (is_async, durations) in [(false, [1, 0]), (true, [0, 1])] {
        let mut request = recorder.with_callback(is_async).take(|| (0, 0)).unwrap();
        request.start(|| 0);
        request.respond(|| MS);
        let window = end(&recorder, &clock);
        let counts = [Metric::CallbackDuration, Metric::ResponseDuration]
            .map(|metric| window.get(metric).unwrap().sample_count);
        assert_eq!(counts, durations);
    }
}
