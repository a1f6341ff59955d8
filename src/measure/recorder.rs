// SPDX-License-Identifier: Apache-2.0

//! The recorder of a subscription: its callback records into it, and the end of a window reads from it.

use std::sync::{Arc, OnceLock};

use rclrs::MessageInfo;

use super::{
    clock::{Clock, SystemClock},
    host,
    sample_lock::{Accept, SampleLock},
    simulated_time::SimulatedTime,
    source::{FinishedWindow, WindowedCollector},
};
use crate::{
    collector::{milliseconds_between, Publisher, SequenceTracker},
    options::TopicStatisticsOptions,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    totals::{PublisherTotals, Totals},
    transport::{Gid, Middleware, ReceivedTimestamp, TransportInfo},
    window::{Distributions, MessageTimes, Metric, WindowStatistics},
};
use collectors::{CollectorOptions, Collectors, Times, Warning};

mod collectors;

/// The recorder of a subscription.
pub(crate) struct Recorder {
    /// The [epoch](Epoch) of messages that are taken now.
    epoch: AtomicU64,
    needs: Needs,
    /// The node's clock, if the node runs on simulated time. Otherwise ROS time is system time (`use_sim_time` cannot change
    /// while a node of rclrs 0.8 lives).
    simulated: Option<Arc<SimulatedTime>>,
    metrics: Box<[Metric]>,
    /// Whether the windows that start from now on have distributions.
    has_distributions: AtomicBool,
    /// The topic, for warnings.
    topic: Box<str>,
    /// Known from the first message on.
    middleware: OnceLock<&'static Middleware>,
    collectors: SampleLock<Collectors>,
}

/// When a message was taken: a number of the time in which the statistics are enabled, and how often stamps became doubtful or
/// usable again in it.
///
/// A message that is taken in one time and whose callback starts in another is not recorded. One that is taken before a step of the
/// system clock was found, and whose callback starts after that, has no age: its stamp may be of the clock before the step. One that
/// is taken after it, while stamps are [filtered](super::clock::StampFilter), is filtered even if its callback starts later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// The statistics are disabled.
    const DISABLED: Self = Self(0);

    /// Returns the epoch of the next time in which the statistics are enabled.
    fn next(self) -> Self {
        Self(u64::from(self.number().wrapping_add(1).max(1)) << 32)
    }

    /// Returns the epoch after stamps became doubtful or usable again.
    fn with_other_stamps(self) -> Self {
        Self(u64::from(self.number()) << 32 | u64::from((self.0 as u32).wrapping_add(1)))
    }

    /// Returns whether both are of the same time in which the statistics are enabled.
    fn is_of(self, other: Self) -> bool {
        self.number() == other.number() && self != Self::DISABLED
    }

    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What the metrics need beyond the time at which a callback starts.
#[derive(Clone, Copy)]
struct Needs {
    /// The [details](Details) of a message.
    details: bool,
    /// The end of the callback.
    callback_end: bool,
    /// The time at which the message arrived on this host.
    reception_time: bool,
    /// What the middleware reports with the message.
    transport: bool,
    /// The size of the message.
    size: bool,
}

/// A message as it is taken. Times are in nanoseconds, 0 if there is none.
#[derive(Clone, Copy)]
pub(crate) struct ReceivedMessage {
    epoch: Epoch,
    header: i64,
    /// None if no metric needs them.
    details: Option<Details>,
}

/// What a message has beyond its header stamp.
#[derive(Clone, Copy)]
struct Details {
    transport: TransportInfo,
    /// How often simulated time had jumped.
    jumps: u32,
    /// The size in bytes; 0 if it is not known or not measured.
    size: u32,
}

/// A callback that is running.
#[derive(Clone, Copy)]
pub(crate) struct RunningCallback {
    epoch: Epoch,
    /// On the monotonic clock.
    started: i64,
}

/// A sample of a subscription. Times are in nanoseconds on the monotonic clock.
pub(crate) enum Sample {
    /// A message whose callback starts.
    Message {
        message: ReceivedMessage,
        callback: i64,
        /// ROS time at the same moment if it is simulated; 0 if it is not known.
        simulated: i64,
    },
    /// The end of a callback.
    CallbackEnd { epoch: Epoch, milliseconds: f64, end: i64 },
}

impl Recorder {
    /// Creates a recorder of a topic, disabled; `options` are complete.
    pub(crate) fn new(
        topic: &str,
        options: &TopicStatisticsOptions,
        simulated: Option<Arc<SimulatedTime>>,
        clock: &dyn Clock,
    ) -> Self {
        let mut metrics =
            options.metrics.clone().unwrap_or_else(|| vec![Metric::MessageAge, Metric::MessagePeriod]);
        metrics.sort();
        metrics.dedup();
        let collector_options = CollectorOptions {
            has_delays: metrics.iter().any(|metric| {
                matches!(
                    metric,
                    Metric::HeaderToSource
                        | Metric::SourceToReceive
                        | Metric::ReceiveToCallback
                        | Metric::SourceToCallback
                        | Metric::HeaderToCallback
                        | Metric::CallbackDuration
                )
            }),
            has_losses: metrics.contains(&Metric::PublicationSeqGap),
            has_sizes: metrics.contains(&Metric::MessageSize),
            is_simulated: simulated.is_some(),
            age_source: options.age_source.unwrap_or_default(),
            first_period: options.first_period.unwrap_or_default(),
        };
        Self {
            epoch: AtomicU64::new(Epoch::DISABLED.0),
            needs: Needs {
                details: collector_options.needs_details(),
                callback_end: metrics.contains(&Metric::CallbackDuration),
                reception_time: metrics.contains(&Metric::SourceToReceive)
                    || metrics.contains(&Metric::ReceiveToCallback),
                transport: collector_options.needs_transport(),
                size: collector_options.has_sizes,
            },
            metrics: metrics.into(),
            has_distributions: AtomicBool::new(false),
            topic: topic.into(),
            middleware: OnceLock::new(),
            collectors: SampleLock::new(Collectors::new(collector_options, clock)),
            simulated,
        }
    }

    /// Returns the epoch of messages that are taken now; None while the statistics are disabled.
    #[inline]
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        match Epoch(self.epoch.load(Ordering::Relaxed)) {
            Epoch::DISABLED => None,
            epoch => Some(epoch),
        }
    }

    /// Returns what the statistics need of a message that was taken. `size` returns its size in bytes, 0 if that is not known.
    #[inline(always)]
    pub(crate) fn received_message(
        &self,
        epoch: Epoch,
        header: i64,
        info: &MessageInfo,
        size: impl FnOnce() -> u32,
    ) -> ReceivedMessage {
        ReceivedMessage { epoch, header, details: self.needs.details.then(|| self.details(info, size)) }
    }

    /// Returns what a message has beyond its header stamp.
    #[inline(never)]
    fn details(&self, info: &MessageInfo, size: impl FnOnce() -> u32) -> Details {
        let jumps = self.simulated.as_ref().map_or(0, |time| time.jumps());
        let size = if self.needs.size { size() } else { 0 };
        let transport = match self.needs.transport {
            true => TransportInfo::new(info, self.middleware.get_or_init(|| Middleware::of(info))),
            false => TransportInfo::default(),
        };
        Details { transport, jumps, size }
    }

    /// Records a message whose callback starts now, at the time that `clock` returns. Returns what
    /// [`record_end`](Self::record_end) needs, if a metric needs it.
    #[inline]
    pub(crate) fn record(
        &self,
        message: &ReceivedMessage,
        clock: impl FnOnce() -> i64,
    ) -> Option<RunningCallback> {
        let started = self.record_start(message, clock);
        self.needs.callback_end.then_some(RunningCallback { epoch: message.epoch, started })
    }

    /// Records a message whose callback starts now. Returns the time.
    #[inline(always)]
    pub(crate) fn record_start(&self, message: &ReceivedMessage, clock: impl FnOnce() -> i64) -> i64 {
        let simulated = |callback| {
            self.simulated
                .as_ref()
                .zip(message.details.as_ref())
                .map_or(0, |(time, details)| time.now(message.header, details.jumps, callback))
        };
        match self.collectors.try_lock() {
            Some(mut collectors) => {
                let callback = clock();
                collectors.accept_message(message, callback, || simulated(callback));
                callback
            }
            None => {
                let callback = clock();
                let sample = Sample::Message { message: *message, callback, simulated: simulated(callback) };
                // One that was taken in another time would not be recorded either.
                let counts = message.epoch.is_of(Epoch(self.epoch.load(Ordering::Relaxed)));
                self.collectors.enqueue_or_count(sample, counts);
                callback
            }
        }
    }

    /// Records that a callback ends at `now`, on the monotonic clock.
    pub(crate) fn record_end(&self, callback: RunningCallback, now: i64) {
        let milliseconds = milliseconds_between(callback.started, now);
        let sample = Sample::CallbackEnd { epoch: callback.epoch, milliseconds, end: now };
        match self.collectors.try_lock() {
            Some(mut collectors) => collectors.accept(&sample),
            None => self.collectors.enqueue_or_count(sample, false),
        }
    }

    /// Returns the distributions of a window that starts; none if they are not enabled.
    fn new_distributions(&self) -> Distributions {
        let metrics = self.has_distributions.load(Ordering::Relaxed).then_some(&*self.metrics);
        Distributions::new(metrics.unwrap_or_default())
    }

    /// Returns the messages received from and lost of each publisher.
    pub(crate) fn publishers(&self) -> Vec<PublisherTotals> {
        let collectors = self.collectors.lock();
        let (system, knows_losses) = (collectors.window.system, collectors.knows_losses());
        let totals = |publisher| publisher_totals(publisher, system, knows_losses);
        collectors.publishers().iter().map(totals).collect()
    }

    /// Returns the times of the last message that was recorded.
    pub(crate) fn last_message(&self, clock: &dyn Clock) -> Option<MessageTimes> {
        let collectors = self.collectors.lock();
        let Times { header, source, received, .. } = collectors.last_times();
        let mut system = collectors.window.system;
        let (callback, is_of_window) = collectors.last_message_in_window();
        drop(collectors);
        // Since the last window. A suspend in this window was before its messages, or the next message will correct it.
        let correction = system.check(clock).map_or(0, |step| match is_of_window {
            true => step.by,
            false => step.by - step.suspended,
        });
        let if_known = |time: i64| (time != 0).then_some(time);
        Some(MessageTimes {
            header: if_known(header),
            source: if_known(source),
            received: if_known(received),
            callback: callback?.saturating_add(correction),
        })
    }

    /// Returns the text of a warning.
    fn text(&self, warning: Warning, unrecorded: u64) -> String {
        let (topic, gap) = (&self.topic, Metric::PublicationSeqGap);
        let middleware = self.middleware.get().map_or("the middleware", |middleware| middleware.name);
        match warning {
            Warning::NoReceptionTime => format!(
                "{} and {} of {topic} are NaN: {middleware} does not report when a message was received; use {}",
                Metric::SourceToReceive,
                Metric::ReceiveToCallback,
                Metric::SourceToCallback
            ),
            Warning::NoSequenceNumbers => format!(
                "Losses on {topic} are not known, and {gap} is NaN: {middleware} does not number messages"
            ),
            Warning::TooManyPublishers => format!(
                "Losses on {topic} are not known any more, and {gap} is NaN: it has more than {} publishers",
                SequenceTracker::<Gid>::PUBLISHERS
            ),
            Warning::SamplesLost => format!(
                "The thread that ends the windows of {topic} was preempted for too long: {unrecorded} messages were counted without \
                 being measured; the other figures of such a window are NaN"
            ),
        }
    }
}

impl WindowedCollector for Recorder {
    fn enable(&self, clock: &dyn Clock) -> bool {
        if self.is_enabled() {
            return false; // without distributions that nobody needs
        }
        let distributions = self.new_distributions();
        let mut collectors = self.collectors.lock();
        let was_disabled = collectors.epoch == Epoch::DISABLED;
        if was_disabled {
            collectors.start_epoch(clock);
            collectors.start_window(distributions);
            self.epoch.store(collectors.epoch.0, Ordering::Relaxed);
        }
        was_disabled
    }

    fn disable(&self) {
        let mut collectors = self.collectors.lock();
        collectors.end_epoch();
        self.epoch.store(Epoch::DISABLED.0, Ordering::Relaxed);
    }

    fn is_enabled(&self) -> bool {
        self.epoch().is_some()
    }

    fn set_distributions(&self, enabled: bool) {
        self.has_distributions.store(enabled, Ordering::Relaxed);
    }

    fn end_window(&self, clock: &dyn Clock) -> Option<FinishedWindow> {
        // What takes time is done before the lock is taken, or after it is released.
        let mut metrics = Vec::with_capacity(self.metrics.len());
        let clock_offset = self.metrics.contains(&Metric::ClockOffset).then(host::clock_offset).flatten();
        let distributions = self.new_distributions();
        let mut collectors = self.collectors.lock();
        if collectors.epoch == Epoch::DISABLED {
            return None;
        }
        let ended = collectors.window.end(clock);
        collectors.accept_step(&ended);
        // A sample that is recorded while the lock is held here belongs to the window of its time.
        let mut of_next_window = vec![];
        while let Some(sample) = self.collectors.dequeue() {
            let (Sample::Message { callback: time, .. } | Sample::CallbackEnd { end: time, .. }) = sample;
            match time >= ended.stop {
                true => of_next_window.push(sample),
                false => collectors.accept(&sample),
            }
        }
        // If this thread was preempted since it took the lock, it is not known to which of the two windows lost samples belong.
        let lost_meanwhile = self.collectors.take_unrecorded();
        if let Some(count) = lost_meanwhile {
            collectors.accept_unrecorded(count);
        }
        let (count, unrecorded) = collectors.end_window(
            &ended,
            &mut metrics,
            &self.metrics,
            clock_offset,
            lost_meanwhile.is_some(),
        );
        let distributions = collectors.start_window(distributions);
        self.epoch.store(collectors.epoch.0, Ordering::Relaxed); // another one after a step
        let totals = Some(collectors.totals());
        let middleware = self.middleware.get();
        if self.needs.reception_time
            && middleware.is_some_and(|of| of.received != ReceivedTimestamp::Reception)
        {
            collectors.warnings.raise(Warning::NoReceptionTime);
        }
        let warnings = collectors.warnings.take();
        of_next_window.iter().for_each(|sample| collectors.accept(sample));
        if lost_meanwhile.is_some_and(|count| count > 0) {
            collectors.accept_later();
        }
        drop(collectors);

        let statistics = WindowStatistics {
            window: ended.window,
            length: ended.length(),
            clock_step: ended.step.map(|step| step.by),
            count,
            unrecorded,
            distributions: distributions.of_window(&metrics),
            metrics,
            totals,
        };
        let warnings = warnings.map(|warning| self.text(warning, unrecorded)).collect();
        Some(FinishedWindow { statistics, clock_offset: ended.clock_offset(), warnings })
    }

    fn totals(&self) -> Option<Totals> {
        Some(self.collectors.lock().totals())
    }

    fn given_topic(&self) -> Option<&str> {
        Some(&self.topic)
    }

    fn measures(&self, metric: Metric) -> bool {
        self.metrics.contains(&metric)
    }
}

fn publisher_totals(publisher: &Publisher<Gid>, system: SystemClock, knows_losses: bool) -> PublisherTotals {
    PublisherTotals {
        gid: publisher.gid,
        received: publisher.received,
        lost: publisher.lost().filter(|_| knows_losses),
        out_of_order: publisher.out_of_order().filter(|_| knows_losses),
        last_message: system.at(publisher.last_heard),
    }
}

#[cfg(loom)]
pub(crate) mod models;
#[cfg(test)]
mod tests;
