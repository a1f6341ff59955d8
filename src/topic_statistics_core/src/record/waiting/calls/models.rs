// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use super::*;
use crate::{
    model::{check, Reached, Ticks},
    record::{clock::Clock, source::WindowedCollector},
    sync::thread,
    window::WindowStatistics,
};

/// One call gets a response and another call is dropped, while a window ends. Each call, response and drop has to be
/// counted in exactly one window, and no call waits afterwards. At the end of a window, the age of the oldest call is
/// the age of the oldest call that still waits.
#[test]
fn every_call_ends_once() {
    let waits = Reached::default();
    let reached = waits.clone();
    check(2, move || {
        let clock = Arc::new(Ticks::new());
        let recorder = CallRecorder::new(MetricSet::of(SourceKind::Client.metrics()));
        recorder.calls.enable(&*clock);
        let threads = [true, false].map(|responds| {
            let (recorder, clock) = (recorder.clone(), Arc::clone(&clock));
            thread::spawn(move || {
                let (_, waiting) = recorder.call(clock.monotonic(), || Ok::<_, ()>(())).unwrap();
                match waiting {
                    Some(waiting) if responds => waiting.respond(|| clock.monotonic(), || (0, 0)),
                    waiting => drop(waiting),
                }
            })
        });
        let first = recorder.calls.end_window(&*clock).unwrap().statistics;
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let second = recorder.calls.end_window(&*clock).unwrap().statistics;
        let average = |window: &WindowStatistics, metric| window.get(metric).unwrap().average;
        for (metric, count) in [(Metric::Calls, 2.0), (Metric::Responses, 1.0), (Metric::DroppedCalls, 1.0)] {
            assert_eq!(average(&first, metric) + average(&second, metric), count, "{metric}");
        }
        assert_eq!(average(&second, Metric::OldestCall), 0.0);
        reached.set_if(average(&first, Metric::OldestCall) > 0.0);
    });
    waits.assert();
}
