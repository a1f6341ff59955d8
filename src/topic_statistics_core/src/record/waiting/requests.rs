// SPDX-License-Identifier: Apache-2.0

//! The collectors of a service.

use std::sync::Arc;

use super::{
    delays::{Delays, Timestamps},
    measurements::Measurements,
    under_way::Active,
};
use crate::{
    collector::{milliseconds_between, single_sample, FirstPeriod},
    distributions::Distributions,
    metric::Metric,
    metric_set::MetricSet,
    record::{
        clocks::clock::EndedWindow,
        sources::{
            periods::Periods,
            windowed::{Collector, Present, Windowed},
        },
    },
    source_kind::SourceKind,
    summary::Summary,
};

/// The collectors of a service.
#[derive(Debug)]
pub struct Requests {
    measurements: Measurements,
    active: Active,
    delays: Delays,
    period: Periods,
}

/// An event of a request.
#[derive(Debug)]
pub enum RequestSample {
    /// The callback of the request starts.
    Start {
        /// The start of the callback, in nanoseconds on the monotonic clock.
        time: i64,
        /// The timestamps of the request.
        stamps: Timestamps,
    },
    /// The callback ends, so the request has a response.
    End {
        /// The duration from the start of the callback to the response.
        milliseconds: f64,
        /// Whether the callback returns a future.
        is_async: bool,
    },
    /// The callback panics.
    Panic,
}

impl Collector for Requests {
    type Sample = RequestSample;

    const KIND: SourceKind = SourceKind::Service;

    fn accept(&mut self, sample: &RequestSample, present: Present, distributions: &mut Distributions) {
        match sample {
            RequestSample::Start { time, stamps } => {
                self.measurements.count(Metric::Requests);
                self.period.accept(*time, distributions);
                self.delays.add(stamps, *time, present, &mut self.measurements, distributions);
            }
            RequestSample::End { milliseconds, is_async } => {
                let metric = if *is_async { Metric::ResponseDuration } else { Metric::CallbackDuration };
                self.measurements.add(metric, *milliseconds, distributions);
            }
            RequestSample::Panic => self.measurements.count(Metric::CallbackPanics),
        }
    }

    fn take(&mut self, ended: &EndedWindow) -> (u64, Vec<(Metric, Summary)>) {
        self.delays.end_window(ended, &mut self.measurements);
        let (active, most) = self.active.take();
        let others = [
            self.period.take(ended.has_earlier),
            (Metric::ActiveRequests, single_sample(Some(active.into()))),
            (Metric::MaxActiveRequests, single_sample(Some(most.into()))),
        ];
        (self.measurements.counted(Metric::Requests), self.measurements.take(&others))
    }

    fn measures(&self, metric: Metric) -> bool {
        self.measurements.measures(metric)
    }

    fn clear(&mut self, start: i64, has_stepped: bool) {
        self.delays.restart(start, has_stepped);
        self.period.clear(start);
        self.active.take();
        self.measurements.clear();
    }
}

/// Records the requests of a service.
#[derive(Clone, Debug)]
pub struct RequestRecorder {
    /// The collectors of the requests.
    pub requests: Arc<Windowed<Requests>>,
    active: Active,
    is_async: bool,
}

impl RequestRecorder {
    /// Returns the metrics that a service measures by default. `is_async` means that the service's callback returns a
    /// future.
    pub fn metrics(is_async: bool) -> MetricSet {
        let other = if is_async { Metric::CallbackDuration } else { Metric::ResponseDuration };
        SourceKind::Service.metrics().iter().filter(|metric| **metric != other).collect()
    }

    /// Creates a recorder of these metrics, in the disabled state. `is_async` means that the callback returns a future.
    pub fn new(metrics: MetricSet, first_period: FirstPeriod, is_async: bool) -> Self {
        let active = Active::default();
        let requests = Requests {
            measurements: Measurements::new(Requests::KIND.metrics(), metrics),
            active: active.clone(),
            delays: Delays::default(),
            period: Periods::new(Metric::RequestPeriod, first_period),
        };
        Self { requests: Arc::new(Windowed::new(requests)), active, is_async }
    }

    /// Returns a recorder of the same service for another callback, which returns a future if `is_async` is true.
    pub fn with_callback(&self, is_async: bool) -> Self {
        Self { is_async, ..self.clone() }
    }

    /// Records that a request is taken. Returns `None` while the statistics are disabled. `stamps` returns the source
    /// timestamp and the received timestamp of the request.
    #[inline]
    pub fn take(&self, stamps: impl FnOnce() -> (i64, i64)) -> Option<ActiveRequest> {
        let epoch = self.requests.epoch()?;
        let (source, received) = stamps();
        self.active.begin();
        let stamps = Timestamps { source, received, epoch };
        Some(ActiveRequest { recorder: self.clone(), stamps, started: 0, is_running: false })
    }
}

/// A request in progress, from the time at which it is taken until this value is dropped.
#[derive(Debug)]
pub struct ActiveRequest {
    recorder: RequestRecorder,
    stamps: Timestamps,
    started: i64,
    is_running: bool,
}

impl ActiveRequest {
    /// Records that the callback of this request starts now, at the time that `clock` returns.
    pub fn start(&mut self, clock: impl FnOnce() -> i64) {
        let Self { recorder, stamps, started, .. } = self;
        recorder.requests.record(|| {
            *started = clock();
            RequestSample::Start { time: *started, stamps: *stamps }
        });
    }

    /// Runs the callback of this request, or polls its future. A panic of the callback is recorded.
    pub fn run<R>(&mut self, callback: impl FnOnce() -> R) -> R {
        self.is_running = true;
        let result = callback();
        self.is_running = false;
        result
    }

    /// Records that this request gets its response now.
    pub fn respond(self, clock: impl FnOnce() -> i64) {
        let milliseconds = milliseconds_between(self.started, clock());
        let is_async = self.recorder.is_async;
        self.recorder.requests.record(|| RequestSample::End { milliseconds, is_async });
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if self.is_running {
            self.recorder.requests.record(|| RequestSample::Panic);
        }
        self.recorder.active.end();
    }
}

#[cfg(test)]
mod tests;
