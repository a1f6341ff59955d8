// SPDX-License-Identifier: Apache-2.0

//! The oracle of sources other than subscriptions.

use topic_statistics_core::{collector::FirstPeriod, Metric, SourceKind};

use super::{milliseconds, Expected, Window, WindowTimes};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Kind {
    Publisher(FirstPeriod),
    Stopwatch,
    #[default]
    Counter,
    Service {
        is_async: bool,
    },
    Client,
    /// The number is the timer's period in nanoseconds.
    Timer(i64),
    ActionServer,
    ActionClient,
}

/// The oracle of a source other than a subscription: what happened while it was enabled.
#[derive(Default)]
pub struct Other {
    pub kind: Kind,
    times: WindowTimes,
    pub is_enabled: bool,
    /// For each publication or duration: its end on the monotonic clock, and its duration in milliseconds.
    samples: Vec<(i64, f64)>,
    /// The end of the last publication in earlier windows.
    carried: Option<i64>,
    /// Whether a publication of this window was recorded after a later publication.
    is_unordered: bool,
    /// Whether the last publication of this window was recorded while another thread held the lock. If so, earlier
    /// publications may not be recorded yet.
    has_waited: bool,
    count: u64,
    /// The starts of callbacks or calls in this window.
    starts: Vec<i64>,
    /// The durations of callbacks or round trips that ended in this window, in milliseconds.
    durations: Vec<f64>,
    /// The number of responses to a client, or of panics of a service's callbacks, in this window.
    others: u64,
    dropped: u64,
    /// The start times of the requests or calls under way.
    under_way: Vec<i64>,
    /// The number of requests or calls under way after each change in this window.
    numbers: Vec<usize>,
    /// The lateness and skipped periods of each timer call. `None` if unknown.
    calls: Vec<Option<(f64, u64)>>,
    /// The events of goals in this window, each with its duration in milliseconds.
    events: Vec<(Metric, f64)>,
}

impl Other {
    pub fn new(kind: Kind, offset: i64, suspended: i64) -> Self {
        Self { kind, times: WindowTimes::new(offset, suspended), ..Self::default() }
    }

    /// Enables or disables the source. `distributions` is whether the windows have distributions, from the next window
    /// on.
    pub fn set(&mut self, enabled: bool, distributions: bool, now: i64, offset: i64, suspended: i64) {
        self.times.set_distributions(distributions);
        if std::mem::replace(&mut self.is_enabled, enabled) || !enabled {
            return;
        }
        let _no_stamps_are_compared = self.times.restart(now, offset, suspended);
        self.samples.clear();
        (self.carried, self.is_unordered, self.has_waited, self.count) = (None, false, false, 0);
        self.forget();
    }

    /// A publication or a duration ends.
    pub fn record(&mut self, end: i64, milliseconds: f64) {
        if self.is_enabled {
            self.samples.push((end, milliseconds));
            self.has_waited = false;
        }
    }

    /// A publication or a duration ends while another thread holds the lock.
    pub fn record_waiting(&mut self, end: i64, milliseconds: f64) {
        self.record(end, milliseconds);
        self.has_waited = self.is_enabled;
    }

    /// A publication is recorded after a later publication.
    pub fn record_unordered(&mut self, end: i64, milliseconds: f64) {
        self.record_waiting(end, milliseconds);
        self.is_unordered = true;
    }

    pub fn add(&mut self, count: u64) {
        self.count += count;
    }

    fn forget(&mut self) {
        self.starts.clear();
        self.durations.clear();
        self.calls.clear();
        self.events.clear();
        (self.others, self.dropped) = (0, 0);
        self.numbers = vec![self.under_way.len()];
    }

    /// A measured request is taken, or a measured call begins.
    pub fn begin(&mut self, now: i64) {
        self.under_way.push(now);
        self.numbers.push(self.under_way.len());
    }

    /// A measured request or call ends.
    pub fn end(&mut self, began: i64) {
        let index = self.under_way.iter().position(|time| *time == began).expect("it has begun");
        self.under_way.remove(index);
        self.numbers.push(self.under_way.len());
    }

    /// A callback starts, or a request is sent.
    pub fn start(&mut self, now: i64) {
        if self.is_enabled {
            self.starts.push(now);
        }
    }

    /// A callback or a round trip ends. It has taken this number of nanoseconds.
    pub fn lasted(&mut self, nanoseconds: i64) {
        if self.is_enabled {
            self.durations.push(milliseconds(nanoseconds));
        }
    }

    /// A client receives a response, or a service's callback panics.
    pub fn add_other(&mut self) {
        self.others += u64::from(self.is_enabled);
    }

    /// A call ends without a response.
    pub fn drop_call(&mut self) {
        self.dropped += u64::from(self.is_enabled);
    }

    /// A timer is called. `call` is the lateness in nanoseconds and the number of skipped periods; `None` if unknown.
    pub fn call(&mut self, call: Option<(i64, u64)>) {
        if self.is_enabled {
            self.calls.push(call.map(|(lateness, skipped)| (milliseconds(lateness), skipped)));
        }
    }

    /// A goal has an event of this metric. `nanoseconds` is the duration that ends with the event. A metric that counts
    /// ignores the duration.
    pub fn event(&mut self, metric: Metric, nanoseconds: i64) {
        if self.is_enabled {
            self.events.push((metric, milliseconds(nanoseconds)));
        }
    }

    fn goals(&self, kind: SourceKind, now: i64) -> Vec<(Metric, Expected)> {
        let one = |value| Expected::Samples(vec![value]);
        let most = self.numbers.iter().copied().max().unwrap_or_default();
        let oldest = self.under_way.iter().min().map_or(0, |began| now - began);
        let expected = |metric: Metric| {
            let samples = self.events.iter().filter(|(event, _)| *event == metric).map(|(_, lasted)| *lasted);
            match metric {
                Metric::ActiveGoals => one(self.under_way.len() as f64),
                Metric::MaxActiveGoals => one(most as f64),
                Metric::OldestGoal => one(milliseconds(oldest)),
                _ if metric.is_count() => one(samples.count() as f64),
                _ => Expected::Samples(samples.collect()),
            }
        };
        kind.metrics().iter().map(|metric| (*metric, expected(*metric))).collect()
    }

    /// Ends the window, and returns what the oracle knows about it. `others_wait` is whether other publications wait
    /// for the lock while the window ends.
    pub fn end_window(&mut self, now: i64, offset: i64, suspended: i64, others_wait: bool) -> Window {
        let window = self.times.end(now, offset, suspended);
        let samples = std::mem::take(&mut self.samples);
        let counted = std::mem::take(&mut self.count) + samples.len() as u64;
        let timed = Expected::Samples(samples.iter().map(|(_, milliseconds)| *milliseconds).collect());
        let periods = self.starts.windows(2).map(|pair| milliseconds(pair[1] - pair[0])).collect();
        let goals = self.events.iter().filter(|(metric, _)| *metric == Metric::Goals).count();
        let (count, periods) = (counted + (self.starts.len() + goals) as u64, Expected::Samples(periods));
        let durations = Expected::Samples(self.durations.clone());
        let one = |value: u64| Expected::Samples(vec![value as f64]);
        let none = || Expected::Samples(vec![]);
        let delays = [Metric::SourceToReceive, Metric::ReceiveToCallback, Metric::SourceToCallback];
        let delays = delays.map(|metric| (metric, none())); // requests and responses have no timestamps here
        let metrics = match self.kind {
            Kind::Publisher(first_period) => {
                let ends: Vec<i64> =
                    self.carried.into_iter().chain(samples.iter().map(|(end, _)| *end)).collect();
                // As docs/code.md says, a window has no periods if a publication was recorded out of order or may be
                // missing.
                let may_miss = std::mem::take(&mut self.has_waited) && others_wait;
                let between = match std::mem::take(&mut self.is_unordered) || may_miss {
                    true => vec![],
                    false => ends.windows(2).map(|pair| milliseconds(pair[1] - pair[0])).collect(),
                };
                self.carried =
                    ends.iter().max().copied().filter(|_| first_period == FirstPeriod::CarriedOver);
                vec![
                    (Metric::PublishPeriod, Expected::Samples(between)),
                    (Metric::PublishDuration, timed),
                    // All published messages have the same size.
                    (Metric::MessageSize, Expected::Samples(vec![100.0; samples.len()])),
                ]
            }
            Kind::Stopwatch => vec![(Metric::Duration, timed)],
            Kind::Counter => {
                vec![(Metric::Frequency, Expected::Frequency { count: counted, length: now - window.start })]
            }
            Kind::Service { is_async } => {
                let most = self.numbers.iter().copied().max().unwrap_or_default() as u64;
                let mut metrics = Vec::from(delays);
                if !is_async {
                    metrics.push((Metric::CallbackDuration, durations.clone()));
                }
                metrics.extend([(Metric::Requests, one(count)), (Metric::RequestPeriod, periods)]);
                if is_async {
                    metrics.push((Metric::ResponseDuration, durations));
                }
                metrics.extend([
                    (Metric::ActiveRequests, one(self.under_way.len() as u64)),
                    (Metric::MaxActiveRequests, one(most)),
                    (Metric::CallbackPanics, one(self.others)),
                ]);
                metrics
            }
            Kind::Client => {
                let oldest = self.under_way.iter().min().map_or(0, |began| now - began);
                let mut metrics = Vec::from(delays);
                metrics.extend([
                    (Metric::Calls, one(count)),
                    (Metric::Responses, one(self.others)),
                    (Metric::DroppedCalls, one(self.dropped)),
                    (Metric::RoundTrip, durations),
                    (Metric::OldestCall, Expected::Samples(vec![milliseconds(oldest)])),
                ]);
                metrics
            }
            Kind::ActionServer => self.goals(SourceKind::ActionServer, now),
            Kind::ActionClient => self.goals(SourceKind::ActionClient, now),
            Kind::Timer(period) => {
                let lateness = self.calls.iter().flatten().map(|(lateness, _)| *lateness).collect();
                let skipped: Option<u64> = self.calls.iter().map(|call| Some(call.as_ref()?.1)).sum();
                let share = |duration: &f64| 100.0 * duration / milliseconds(period);
                let shares = self.durations.iter().map(share).collect();
                vec![
                    (Metric::CallbackDuration, durations),
                    (Metric::TimerPeriod, periods),
                    (Metric::TimerLateness, Expected::Samples(lateness)),
                    (Metric::SkippedPeriods, skipped.map_or_else(none, one)),
                    (Metric::CallbackShare, Expected::Samples(shares)),
                ]
            }
        };
        self.forget();
        Window { count: Some(count), metrics, ..window }
    }
}
