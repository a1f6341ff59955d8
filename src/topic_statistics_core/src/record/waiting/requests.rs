// SPDX-License-Identifier: Apache-2.0

//! The collectors of a service.

use std::sync::Arc;

use super::{
    active::Active,
    delays::{measured, Delays, Timestamps},
};
use crate::{
    collector::{milliseconds_between, single_sample, FirstPeriod, SummaryCollector},
    distributions::Distributions,
    metric::Metric,
    metric_set::MetricSet,
    record::sources::{
        periods::Periods,
        windowed::{Collector, Present, WindowEnd, Windowed},
    },
    source_kind::SourceKind,
    summary::Summary,
};

/// The collectors of a service.
#[derive(Debug)]
pub struct Requests {
    metrics: MetricSet,
    active: Active,
    delays: Delays,
    period: Periods,
    callback_duration: SummaryCollector,
    response_duration: SummaryCollector,
    count: u64,
    panics: u64,
}

/// An event of a request.
#[derive(Debug)]
pub enum RequestSample {
    /// Its callback starts.
    Start {
        /// On the monotonic clock, in nanoseconds.
        time: i64,
        /// Its timestamps.
        stamps: Timestamps,
    },
    /// Its callback ends: it has a response.
    End {
        /// Its duration: of the callback, or, if that is async, of the response.
        milliseconds: f64,
        /// Whether its callback returns a future.
        is_async: bool,
    },
    /// Its callback panics.
    Panic,
}

impl Requests {
    /// Creates the collectors of these metrics.
    fn new(metrics: MetricSet, first_period: FirstPeriod, active: Active) -> Self {
        Self {
            metrics,
            active,
            delays: Delays::default(),
            period: Periods::new(Metric::RequestPeriod, first_period),
            callback_duration: SummaryCollector::default(),
            response_duration: SummaryCollector::default(),
            count: 0,
            panics: 0,
        }
    }
}

impl Collector for Requests {
    type Sample = RequestSample;

    const KIND: SourceKind = SourceKind::Service;

    const DISTRIBUTIONS: MetricSet = MetricSet::of(SourceKind::Service.metrics());

    fn accept(&mut self, sample: &RequestSample, present: Present, distributions: &mut Distributions) {
        match sample {
            RequestSample::Start { time, stamps } => {
                self.count += 1;
                self.period.accept(*time, distributions);
                self.delays.accept(stamps, *time, present, distributions);
            }
            RequestSample::End { milliseconds, is_async } => {
                let (metric, duration) = match is_async {
                    false => (Metric::CallbackDuration, &mut self.callback_duration),
                    true => (Metric::ResponseDuration, &mut self.response_duration),
                };
                if duration.accept(*milliseconds) {
                    distributions.accept(metric, *milliseconds);
                }
            }
            RequestSample::Panic => self.panics += 1,
        }
    }

    fn take(&mut self, end: &WindowEnd) -> (u64, Vec<(Metric, Summary)>) {
        let [to_receive, to_callback, whole] = self.delays.take(end);
        let count = std::mem::take(&mut self.count);
        let (active, most) = self.active.take();
        let one = |metric, value: u64| (metric, single_sample(Some(value as f64)));
        let metrics = [
            to_receive,
            to_callback,
            whole,
            (Metric::CallbackDuration, self.callback_duration.take()),
            one(Metric::Requests, count),
            self.period.take(end.has_earlier),
            (Metric::ResponseDuration, self.response_duration.take()),
            one(Metric::ActiveRequests, active.into()),
            one(Metric::MaxActiveRequests, most.into()),
            one(Metric::CallbackPanics, std::mem::take(&mut self.panics)),
        ];
        (count, measured(metrics, self.metrics))
    }

    fn measures(&self, metric: Metric) -> bool {
        self.metrics.contains(metric)
    }

    fn clear(&mut self, start: i64, has_stepped: bool) {
        self.delays.clear(start, has_stepped);
        self.period.clear(start);
        self.active.take();
        self.callback_duration = SummaryCollector::default();
        self.response_duration = SummaryCollector::default();
        (self.count, self.panics) = (0, 0);
    }
}

/// Records the requests of a service.
#[derive(Clone, Debug)]
pub struct RequestRecorder {
    /// The collectors.
    pub requests: Arc<Windowed<Requests>>,
    active: Active,
    is_async: bool,
}

impl RequestRecorder {
    /// Returns the metrics that a service measures, unless others are chosen. `is_async`: its callback returns a
    /// future.
    pub fn metrics(is_async: bool) -> MetricSet {
        let other = if is_async { Metric::CallbackDuration } else { Metric::ResponseDuration };
        SourceKind::Service.metrics().iter().filter(|metric| **metric != other).collect()
    }

    /// Creates the recorder of these metrics, disabled. `is_async`: the callback returns a future.
    pub fn new(metrics: MetricSet, first_period: FirstPeriod, is_async: bool) -> Self {
        let active = Active::default();
        let requests = Requests::new(metrics, first_period, active.clone());
        Self { requests: Arc::new(Windowed::new(requests)), active, is_async }
    }

    /// Returns a recorder of the same service for another callback. `is_async`: that returns a future.
    pub fn with_callback(&self, is_async: bool) -> Self {
        Self { is_async, ..self.clone() }
    }

    /// Records that a request is taken. Returns None while the statistics are disabled. `stamps` returns its source
    /// timestamp and its received timestamp.
    #[inline]
    pub fn take(&self, stamps: impl FnOnce() -> (i64, i64)) -> Option<ActiveRequest> {
        let epoch = self.requests.epoch()?;
        let (source, received) = stamps();
        self.active.begin();
        let stamps = Timestamps { source, received, epoch };
        Some(ActiveRequest { recorder: self.clone(), stamps, started: 0, is_running: false })
    }
}

/// A request under way: from its taking until this is dropped.
#[derive(Debug)]
pub struct ActiveRequest {
    recorder: RequestRecorder,
    stamps: Timestamps,
    started: i64,
    is_running: bool,
}

impl ActiveRequest {
    /// Records that its callback starts now, at the time that `clock` returns.
    pub fn start(&mut self, clock: impl FnOnce() -> i64) {
        let Self { recorder, stamps, started, .. } = self;
        recorder.requests.record(|| {
            *started = clock();
            RequestSample::Start { time: *started, stamps: *stamps }
        });
    }

    /// Runs its callback, or polls it. If that panics, it is recorded.
    pub fn run<R>(&mut self, callback: impl FnOnce() -> R) -> R {
        self.is_running = true;
        let result = callback();
        self.is_running = false;
        result
    }

    /// Records that it has a response, now.
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
