// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{
    record::{
        source::WindowedCollector,
        test_clock::{at, TestClock, MS},
    },
    window::WindowStatistics,
};

fn recorder() -> CallRecorder {
    let recorder = CallRecorder::new(MetricSet::of(SourceKind::Client.metrics()));
    TestClock::enable(&*recorder.calls);
    recorder
}

fn counts(window: &WindowStatistics) -> [f64; 3] {
    [Metric::Calls, Metric::Responses, Metric::DroppedCalls].map(|metric| window.get(metric).unwrap().average)
}

fn end(recorder: &CallRecorder) -> WindowStatistics {
    recorder.calls.end_window(&TestClock::new()).unwrap().statistics
}

fn call(recorder: &CallRecorder, began: i64) -> WaitingCall {
    recorder.call(began, || Ok::<_, ()>(())).unwrap().1.unwrap()
}

#[test]
fn a_call_has_a_round_trip_and_the_delays_of_its_response() {
    let recorder = recorder();
    let waiting = call(&recorder, at(0)());
    let sent = TestClock::EPOCH + 125 * MS;
    waiting.respond(at(185), || (sent, sent + 40 * MS));
    let window = end(&recorder);
    let average = |metric| window.get(metric).unwrap().average;
    assert_eq!((window.count, counts(&window)), (1, [1.0, 1.0, 0.0]));
    let delays = [Metric::SourceToReceive, Metric::ReceiveToCallback, Metric::SourceToCallback];
    assert_eq!(delays.map(average), [40.0, 20.0, 60.0]);
    assert_eq!([Metric::RoundTrip, Metric::OldestCall].map(average), [185.0, 0.0]);
}

#[test]
fn the_oldest_waiting_call_shows_in_every_window_until_it_ends() {
    let recorder = recorder();
    let [oldest, response, dropped] = [3, 2, 1].map(|ago| call(&recorder, at(-1000 * ago)()));
    let ages = |window: &WindowStatistics| window.get(Metric::OldestCall).unwrap().average / 1e3;
    let window = end(&recorder);
    assert_eq!((ages(&window), counts(&window)), (3.0, [3.0, 0.0, 0.0]));
    response.respond(at(0), || (0, 0));
    let window = end(&recorder);
    assert_eq!((ages(&window), counts(&window)), (3.0, [0.0, 1.0, 0.0]));
    assert_eq!(window.get(Metric::SourceToCallback).unwrap().sample_count, 0, "no timestamps");
    drop(oldest);
    let window = end(&recorder);
    assert_eq!((ages(&window), counts(&window)), (1.0, [0.0, 0.0, 1.0]));
    drop(dropped);
    let window = end(&recorder);
    assert_eq!((ages(&window), counts(&window)), (0.0, [0.0, 0.0, 1.0]));
}

#[test]
fn a_request_that_cannot_be_sent_is_no_call() {
    let recorder = recorder();
    assert_eq!(recorder.call(at(0)(), || Err::<(), _>("shut down")).unwrap_err(), "shut down");
    let window = end(&recorder);
    assert_eq!(counts(&window), [0.0; 3]);
    assert_eq!(window.get(Metric::OldestCall).unwrap().average, 0.0);
    recorder.calls.disable();
    let (sent, waiting) = recorder.call(at(0)(), || Ok::<_, ()>(7)).unwrap();
    assert!(sent == 7 && waiting.is_none(), "the request is sent, but not measured");
}
