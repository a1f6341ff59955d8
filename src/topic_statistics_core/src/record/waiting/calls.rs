// SPDX-License-Identifier: Apache-2.0

//! The collectors of a client of a service.

use std::sync::Arc;

use super::{
    delays::{Delays, Timestamps},
    measurements::Measurements,
    under_way::{Oldest, Since},
};
use crate::{
    collector::{milliseconds_between, single_sample},
    distributions::Distributions,
    metric::Metric,
    metric_set::MetricSet,
    record::{
        clocks::clock::EndedWindow,
        sources::windowed::{Collector, Present, Windowed},
    },
    source_kind::SourceKind,
    summary::Summary,
};

/// The collectors of a client of a service.
#[derive(Debug)]
pub struct Calls {
    measurements: Measurements,
    waiting: Oldest,
    delays: Delays,
}

/// An event of a call.
#[derive(Debug)]
pub enum CallSample {
    /// The request was sent.
    Call,
    /// The response has arrived.
    Response {
        /// The start of the call and the present time, in nanoseconds on the monotonic clock.
        times: (i64, i64),
        /// The timestamps of the response.
        stamps: Timestamps,
    },
    /// The call ended without a response.
    Dropped,
}

impl Collector for Calls {
    type Sample = CallSample;

    const KIND: SourceKind = SourceKind::Client;

    fn accept(&mut self, sample: &CallSample, present: Present, distributions: &mut Distributions) {
        match sample {
            CallSample::Call => self.measurements.count(Metric::Calls),
            CallSample::Response { times: (began, now), stamps } => {
                self.measurements.count(Metric::Responses);
                let round_trip = milliseconds_between(*began, *now);
                self.measurements.add(Metric::RoundTrip, round_trip, distributions);
                self.delays.add(stamps, *now, present, &mut self.measurements, distributions);
            }
            CallSample::Dropped => self.measurements.count(Metric::DroppedCalls),
        }
    }

    fn take(&mut self, ended: &EndedWindow) -> (u64, Vec<(Metric, Summary)>) {
        self.delays.end_window(ended, &mut self.measurements);
        let oldest = single_sample(Some(self.waiting.age(ended.stop)));
        (self.measurements.counted(Metric::Calls), self.measurements.take(&[(Metric::OldestCall, oldest)]))
    }

    fn measures(&self, metric: Metric) -> bool {
        self.measurements.measures(metric)
    }

    fn clear(&mut self, start: i64, has_stepped: bool) {
        self.delays.restart(start, has_stepped);
        self.measurements.clear();
    }
}

/// Records the calls of a client of a service.
#[derive(Clone, Debug)]
pub struct CallRecorder {
    /// The collectors of the client.
    pub calls: Arc<Windowed<Calls>>,
    waiting: Oldest,
}

impl CallRecorder {
    /// Creates a recorder of these metrics, in the disabled state.
    pub fn new(metrics: MetricSet) -> Self {
        let waiting = Oldest::default();
        let measurements = Measurements::new(Calls::KIND.metrics(), metrics);
        let calls = Calls { measurements, waiting: waiting.clone(), delays: Delays::default() };
        Self { calls: Arc::new(Windowed::new(calls)), waiting }
    }

    /// Records that a call begins at the time `began` of the monotonic clock, and sends the call's request with `send`.
    /// Returns the result of `send`, and the call that waits for its response. The waiting call is `None` while the
    /// statistics are disabled. If the request cannot be sent, no call is recorded.
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

/// A call that waits for its response. If this value is dropped before the response arrives, the call counts as
/// dropped.
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

    /// Records the response to this call, at the present time, which `clock` returns. `stamps` returns the source
    /// timestamp and the received timestamp of the response.
    pub fn respond(mut self, clock: impl FnOnce() -> i64, stamps: impl FnOnce() -> (i64, i64)) {
        self.is_counted = false;
        let Some(epoch) = self.recorder.calls.epoch() else { return };
        let (source, received) = stamps();
        let stamps = Timestamps { source, received, epoch };
        let began = self.since.0;
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

#[cfg(test)]
mod tests;
