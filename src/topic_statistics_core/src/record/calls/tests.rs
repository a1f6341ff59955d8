// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::{
    record::{
        clock::{monotonic, system_time, HostClock},
        source::WindowedCollector,
    },
    window::WindowStatistics,
};

fn recorder() -> CallRecorder {
    let recorder = CallRecorder::new(MetricSet::of(SourceKind::Client.metrics()));
    assert!(recorder.calls.enable(&HostClock));
    recorder
}

/// Returns calls, responses and dropped calls.
fn counts(window: &WindowStatistics) -> [f64; 3] {
    [Metric::Calls, Metric::Responses, Metric::DroppedCalls].map(|metric| window.get(metric).unwrap().average)
}

fn end(recorder: &CallRecorder) -> WindowStatistics {
    recorder.calls.end_window(&HostClock).unwrap().statistics
}

fn call(recorder: &CallRecorder, began: i64) -> WaitingCall {
    recorder.call(began, || Ok::<_, ()>(())).unwrap().1.unwrap()
}

#[test]
fn a_call_has_a_round_trip_and_the_delays_of_its_response() {
    let recorder = recorder();
    let began = monotonic();
    let responded = began + 185_000_000;
    let waiting = call(&recorder, began);
    let sent = system_time() - monotonic() + responded - 60_000_000;
    waiting.respond(|| responded, || (sent, sent + 40_000_000));
    let window = end(&recorder);
    let average = |metric| window.get(metric).unwrap().average;
    assert_eq!((window.count, counts(&window)), (1, [1.0, 1.0, 0.0]));
    assert_eq!(average(Metric::RoundTrip), 185.0);
    assert_eq!(average(Metric::SourceToReceive), 40.0);
    // The offset of the system clock is read in between.
    assert!((average(Metric::ReceiveToCallback) - 20.0).abs() < 0.1, "{window:?}");
    assert!((average(Metric::SourceToCallback) - 60.0).abs() < 0.1, "{window:?}");
    assert_eq!(average(Metric::OldestCall), 0.0);
}

#[test]
fn the_oldest_waiting_call_shows_in_every_window_until_it_ends() {
    let recorder = recorder();
    let second = 1_000_000_000;
    let began = monotonic();
    let [oldest, response, dropped] = [3, 2, 1].map(|ago| call(&recorder, began - ago * second));
    let ages = |window: &WindowStatistics| (window.get(Metric::OldestCall).unwrap().average / 1e3).floor();
    let window = end(&recorder);
    assert_eq!((ages(&window), counts(&window)), (3.0, [3.0, 0.0, 0.0]));
    response.respond(monotonic, || (0, 0));
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
    assert_eq!(recorder.call(monotonic(), || Err::<(), _>("shut down")).unwrap_err(), "shut down");
    let window = end(&recorder);
    assert_eq!(counts(&window), [0.0; 3]);
    assert_eq!(window.get(Metric::OldestCall).unwrap().average, 0.0);
    recorder.calls.disable();
    let (sent, waiting) = recorder.call(monotonic(), || Ok::<_, ()>(7)).unwrap();
    assert!(sent == 7 && waiting.is_none(), "it is sent, and not measured");
}
