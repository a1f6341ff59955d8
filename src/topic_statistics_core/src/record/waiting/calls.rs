// SPDX-License-Identifier: Apache-2.0

//! The collectors of a client.

use std::sync::Arc;

use super::{
    delays::{measured, Delays, Timestamps},
    oldest::{Oldest, Since},
};
use crate::{
    collector::{milliseconds_between, single_sample, SummaryCollector},
    distributions::Distributions,
    metric::Metric,
    metric_set::MetricSet,
    record::sources::windowed::{Collector, Present, WindowEnd, Windowed},
    source_kind::SourceKind,
    summary::Summary,
};

/// The collectors of a client.
#[derive(Debug)]
pub struct Calls {
    metrics: MetricSet,
    waiting: Oldest,
    delays: Delays,
    round_trip: SummaryCollector,
    calls: u64,
    responses: u64,
    dropped: u64,
}

/// An event of a call.
#[derive(Debug)]
pub enum CallSample {
    /// The request is sent.
    Call,
    /// The response arrives.
    Response {
        /// When the call began, and now, in nanoseconds on the monotonic clock.
        times: (i64, i64),
        /// The timestamps of the response.
        stamps: Timestamps,
    },
    /// It ends without a response.
    Dropped,
}

impl Collector for Calls {
    type Sample = CallSample;

    const KIND: SourceKind = SourceKind::Client;

    const DISTRIBUTIONS: MetricSet = MetricSet::of(SourceKind::Client.metrics());

    fn accept(&mut self, sample: &CallSample, present: Present, distributions: &mut Distributions) {
        match sample {
            CallSample::Call => self.calls += 1,
            CallSample::Response { times: (began, now), stamps } => {
                self.responses += 1;
                let round_trip = milliseconds_between(*began, *now);
                self.round_trip.accept(round_trip);
                distributions.accept(Metric::RoundTrip, round_trip);
                self.delays.accept(stamps, *now, present, distributions);
            }
            CallSample::Dropped => self.dropped += 1,
        }
    }

    fn take(&mut self, end: &WindowEnd) -> (u64, Vec<(Metric, Summary)>) {
        let [to_receive, to_callback, whole] = self.delays.take(end);
        let calls = std::mem::take(&mut self.calls);
        let one = |metric, value| (metric, single_sample(Some(value)));
        let metrics = [
            to_receive,
            to_callback,
            whole,
            one(Metric::Calls, calls as f64),
            one(Metric::Responses, std::mem::take(&mut self.responses) as f64),
            one(Metric::DroppedCalls, std::mem::take(&mut self.dropped) as f64),
            (Metric::RoundTrip, self.round_trip.take()),
            one(Metric::OldestCall, self.waiting.age(end.stop)),
        ];
        (calls, measured(metrics, self.metrics))
    }

    fn measures(&self, metric: Metric) -> bool {
        self.metrics.contains(metric)
    }

    fn clear(&mut self, start: i64, has_stepped: bool) {
        self.delays.clear(start, has_stepped);
        self.round_trip = SummaryCollector::default();
        (self.calls, self.responses, self.dropped) = (0, 0, 0);
    }
}

/// Records the calls of a client.
#[derive(Clone, Debug)]
pub struct CallRecorder {
    /// The collectors.
    pub calls: Arc<Windowed<Calls>>,
    waiting: Oldest,
}

impl CallRecorder {
    /// Creates the recorder of these metrics, disabled.
    pub fn new(metrics: MetricSet) -> Self {
        let waiting = Oldest::default();
        let calls = Calls {
            metrics,
            waiting: waiting.clone(),
            delays: Delays::default(),
            round_trip: SummaryCollector::default(),
            calls: 0,
            responses: 0,
            dropped: 0,
        };
        Self { calls: Arc::new(Windowed::new(calls)), waiting }
    }

    /// Begins a call at that time, on the monotonic clock, and sends its request. Returns the result of `send`, and the
    /// call that waits; None while the statistics are disabled. A request that cannot be sent is no call.
    pub fn call<R, E>(
        &self,
        began: i64,
        send: impl FnOnce() -> Result<R, E>,
    ) -> Result<(R, Option<WaitingCall>), E> {
        if !self.calls.is_enabled() {
            return Ok((send()?, None));
        }
        let since = self.waiting.begin(began);
        let call = WaitingCall { recorder: self.clone(), since, is_counted: false };
        let sent = send()?;
        Ok((sent, Some(call.counted())))
    }
}

/// A call that waits for its response. If it is dropped before, it has none.
#[derive(Debug)]
pub struct WaitingCall {
    recorder: CallRecorder,
    since: Since,
    is_counted: bool,
}

impl WaitingCall {
    fn counted(mut self) -> Self {
        self.is_counted = true;
        self.recorder.calls.record(|| CallSample::Call);
        self
    }

    /// Records its response, now, at the time that `clock` returns. `stamps` returns the response's source timestamp
    /// and its received timestamp.
    pub fn respond(mut self, clock: impl FnOnce() -> i64, stamps: impl FnOnce() -> (i64, i64)) {
        self.is_counted = false;
        let Some(epoch) = self.recorder.calls.epoch() else { return };
        let (source, received) = stamps();
        let stamps = Timestamps { source, received, epoch };
        let began = self.since.began();
        self.recorder.calls.record(|| CallSample::Response { times: (began, clock()), stamps });
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.recorder.waiting.end(self.since);
        if self.is_counted {
            self.recorder.calls.record(|| CallSample::Dropped);
        }
    }
}

#[cfg(all(test, topic_statistics_loom))]
mod models;
#[cfg(test)]
mod tests;
