// SPDX-License-Identifier: Apache-2.0

//! The recorder of a subscription: the callback of the subscription records messages, and the end of a window reads the
//! results.

use std::sync::{Arc, OnceLock};

use super::transport::{Delivered, ReceivedTimestamp, Transport, TransportInfo};
use crate::{
    collector::milliseconds_between,
    distributions::Distributions,
    health::Missing,
    metric::Metric,
    record::{
        clocks::{
            clock::{Clock, EndedWindow},
            host,
            simulated_time::SimulatedTime,
        },
        locks::{Accept, CountUnrecorded, CountingLock},
        sources::source::{FinishedWindow, WindowedCollector},
    },
    source_kind::SourceKind,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    timestamp::Timestamp,
    totals::{PublisherTotals, Totals},
    window::{MessageTimes, WindowStatistics},
};
use collectors::{Collectors, WindowCount};
use message::{Details, Sample};
use span::Times;
use warnings::Warning;

mod collectors;
mod history;
mod losses;
mod message;
mod options;
mod span;
mod warnings;

pub use message::{Epoch, IntraProcessMessage, ReceivedMessage, RunningCallback};
pub use options::{AgeSource, RecorderOptions};

/// The recorder of a subscription.
pub struct Recorder {
    /// A copy of the collectors' [epoch](Epoch), which is read without the lock.
    epoch: AtomicU64,
    options: RecorderOptions,
    needs_details: bool,
    /// The node's clock, if the node uses simulated time. If this is `None`, ROS time is system time. (`use_sim_time`
    /// cannot change during the lifetime of a node of rclrs 0.8.)
    simulated: Option<Arc<SimulatedTime>>,
    /// Whether the windows that start from now on have distributions.
    has_distributions: AtomicBool,
    /// Whether the message type has no header. Then a stamp of zero is no error of the publisher.
    lacks_header: AtomicBool,
    /// Whether stamps are not read, because the type has no stamp or the place of the stamp is unknown. Then a stamp of
    /// zero has no meaning.
    lacks_stamps: AtomicBool,
    topic: Box<str>,
    /// What the middleware reports with a message; empty until the first message.
    transport: OnceLock<&'static Transport>,
    collectors: CountingLock<Collectors>,
}

impl Recorder {
    /// Creates a recorder for a topic. The recorder is disabled at first.
    pub fn new(
        topic: &str,
        options: RecorderOptions,
        simulated: Option<Arc<SimulatedTime>>,
        clock: &dyn Clock,
    ) -> Self {
        let options = RecorderOptions { is_simulated: simulated.is_some(), ..options };
        Self {
            epoch: AtomicU64::new(Epoch::DISABLED.0),
            options,
            needs_details: options.needs_details(),
            has_distributions: AtomicBool::new(false),
            lacks_header: AtomicBool::new(false),
            lacks_stamps: AtomicBool::new(false),
            topic: topic.into(),
            transport: OnceLock::new(),
            collectors: CountingLock::new(Collectors::new(options, clock)),
            simulated,
        }
    }

    /// Records that the message type has no header, so that a missing stamp is no error.
    pub fn accept_no_header(&self) {
        self.lacks_header.store(true, Ordering::Relaxed);
        self.accept_no_stamps();
    }

    /// Records that the stamps of the messages cannot be read, although the type may have a header.
    pub fn accept_no_stamps(&self) {
        self.lacks_stamps.store(true, Ordering::Relaxed);
    }

    /// Returns the epoch of messages that are taken now; `None` while the statistics are disabled.
    #[inline]
    pub fn epoch(&self) -> Option<Epoch> {
        match Epoch(self.epoch.load(Ordering::Relaxed)) {
            Epoch::DISABLED => None,
            epoch => Some(epoch),
        }
    }

    /// Reads a taken message for the statistics. `size` returns the size of the message in bytes, 0 if unknown.
    #[inline(always)]
    pub fn received_message(
        &self,
        epoch: Epoch,
        header: i64,
        delivered: impl Delivered,
        size: impl FnOnce() -> u32,
    ) -> ReceivedMessage {
        ReceivedMessage { epoch, header, details: self.needs_details.then(|| self.details(delivered, size)) }
    }

    #[inline(never)]
    fn details(&self, delivered: impl Delivered, size: impl FnOnce() -> u32) -> Details {
        let jumps = self.simulated.as_ref().map_or(0, |time| time.jumps());
        let size = if self.options.has_sizes() { size() } else { 0 };
        let is_filtered = delivered.is_filtered();
        let transport = match self.options.needs_transport() {
            true => delivered.info(self.transport.get_or_init(|| delivered.transport())),
            false => TransportInfo::default(),
        };
        Details { transport, size, jumps, is_simulated: self.simulated.is_some(), is_filtered }
    }

    /// Records a message at the start of its callback, at the present time, which `clock` returns. If a metric needs
    /// the end of the callback, returns the argument for [`record_end`](Self::record_end).
    #[inline]
    pub fn record(&self, message: &ReceivedMessage, clock: impl FnOnce() -> i64) -> Option<RunningCallback> {
        let started = self.record_start(message, clock);
        self.running(message.epoch, started)
    }

    /// Returns the argument for [`record_end`](Self::record_end) for a callback that started at the time `started` of
    /// the monotonic clock; `None` if no metric needs the end of the callback.
    #[inline]
    pub fn running(&self, epoch: Epoch, started: i64) -> Option<RunningCallback> {
        self.options.needs_callback_end().then_some(RunningCallback { epoch, started })
    }

    /// Records a message at the start of its callback, at the present time. Returns this time.
    #[inline(always)]
    pub fn record_start(&self, message: &ReceivedMessage, clock: impl FnOnce() -> i64) -> i64 {
        let simulated = |callback| {
            self.simulated
                .as_ref()
                .zip(message.details.as_ref().filter(|details| details.is_simulated))
                .map_or(0, |(time, details)| time.now(message.header, details.jumps, callback))
        };
        self.record_or_enqueue(
            message.epoch,
            clock,
            |collectors, callback| collectors.record_message(message, callback, || simulated(callback)),
            |callback| Sample::Message { message: *message, callback, simulated: simulated(callback) },
        )
    }

    /// Records a message with `record`, or puts its `sample` into the queue if another thread holds the lock. Returns
    /// the start of the callback: the present time, which `clock` returns.
    #[inline(always)]
    fn record_or_enqueue(
        &self,
        epoch: Epoch,
        clock: impl FnOnce() -> i64,
        record: impl FnOnce(&mut Collectors, i64),
        sample: impl FnOnce(i64) -> Sample,
    ) -> i64 {
        if let Some(mut collectors) = self.collectors.try_lock() {
            let callback = clock();
            record(&mut collectors, callback);
            return callback;
        }
        self.collectors.begin_sample();
        let callback = clock();
        let sample = sample(callback);
        // If the statistics were disabled after the message was taken, the message is not recorded. So a lost sample of
        // this message must not be counted, either.
        let counts = epoch.is_of(Epoch(self.epoch.load(Ordering::Relaxed)));
        self.collectors.enqueue_or_count(sample, counts);
        self.collectors.end_sample();
        callback
    }

    /// Records that a callback ends at the time `now` of the monotonic clock.
    pub fn record_end(&self, callback: RunningCallback, now: i64) {
        let milliseconds = milliseconds_between(callback.started, now);
        let sample = Sample::CallbackEnd { epoch: callback.epoch, milliseconds, end: now };
        match self.collectors.try_lock() {
            Some(mut collectors) => collectors.accept(&sample),
            // The order of callback ends does not matter, so `begin_sample` is not called here.
            None => self.collectors.enqueue_or_count(sample, false),
        }
    }

    /// Records a message that was passed on within the process, at the start of its callback. Returns the present time,
    /// which `clock` returns.
    #[inline]
    pub fn record_intra_process(
        &self,
        epoch: Epoch,
        message: &IntraProcessMessage,
        clock: impl FnOnce() -> i64,
    ) -> i64 {
        self.record_or_enqueue(
            epoch,
            clock,
            |collectors, callback| collectors.record_intra_process(epoch, message, callback),
            |callback| Sample::IntraProcess { epoch, message: *message, callback },
        )
    }

    /// Makes the next message of each publisher count as the publisher's first message, so that messages that are
    /// filtered from now on are not counted as lost. See [`Delivered::is_filtered`].
    pub fn pause_losses(&self) {
        if let Some(losses) = &mut self.collectors.lock().losses {
            losses.sequences.pause();
        }
    }

    fn new_distributions(&self) -> Distributions {
        let metrics = self.has_distributions.load(Ordering::Relaxed).then_some(self.options.metrics);
        Distributions::new(metrics.unwrap_or_default())
    }

    /// Returns, for each publisher, the number of messages received and lost.
    pub fn publishers(&self) -> Vec<PublisherTotals> {
        let collectors = self.collectors.lock();
        let system = collectors.window.system;
        collectors.losses.as_ref().map_or_else(Vec::new, |losses| losses.publishers(system))
    }

    /// Returns the times of the last recorded message; `None` if no message was recorded.
    pub fn last_message(&self, clock: &dyn Clock) -> Option<MessageTimes> {
        let collectors = self.collectors.lock();
        let Times { header, source, received, .. } = collectors.span.last;
        let mut system = collectors.window.system;
        let callback = collectors.span.last_message(system)?;
        let is_of_window =
            collectors.span.last_callback().is_some_and(|last| last >= collectors.window.start);
        drop(collectors);
        // The clock step since the last window. If the host was suspended in the current window, the suspend is assumed
        // to be before a message of this window. If the suspend was in fact after this message, the returned time is
        // wrong until the next message.
        let correction = system.check(clock).map_or(0, |step| match is_of_window {
            true => step.by,
            false => step.by - step.suspended,
        });
        let if_known = |time: i64| (time != 0).then_some(Timestamp::from_nanoseconds(time));
        Some(MessageTimes {
            header: if_known(header),
            source: if_known(source),
            received: if_known(received),
            callback: Timestamp::from_nanoseconds(callback.saturating_add(correction)),
        })
    }
}

impl WindowedCollector for Recorder {
    fn enable(&self, clock: &dyn Clock) -> bool {
        if self.is_enabled() {
            return false; // returns before any distributions are allocated
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
        // To hold the lock only for a short time, slow work is done before the lock is taken, or after it is released.
        let measured = self.options.metrics;
        let mut metrics = Vec::with_capacity(measured.len());
        let clock_offset = measured.contains(Metric::ClockOffset).then(host::clock_offset).flatten();
        let distributions = self.new_distributions();

        let mut collectors = self.collectors.lock();
        if collectors.epoch == Epoch::DISABLED {
            return None;
        }
        let (ended, of_next_window) = self.stop_window(&mut collectors, clock);
        // The messages that were lost since the lock was taken. If this thread was preempted in this time, these
        // messages may belong to the next window.
        let lost_meanwhile = self.collectors.take_unrecorded();
        if let Some(count) = lost_meanwhile {
            collectors.count_unrecorded(count);
        }
        let stamps = self.check_stamps(&mut collectors, &ended);
        let WindowCount { count, is_known, unrecorded, has_history } =
            collectors.end_window(&ended, &mut metrics, clock_offset, lost_meanwhile);
        let transport = self.transport.get();
        if self.options.needs_reception_time()
            && transport.is_some_and(|info| info.received != ReceivedTimestamp::Reception)
        {
            collectors.warnings.raise(Warning::NoReceptionTime);
        }
        let warnings = collectors.warnings.take();
        let totals = Some(collectors.totals());
        let distributions = collectors.start_window(distributions);
        // If the clock was stepped, a new epoch has begun.
        self.epoch.store(collectors.epoch.0, Ordering::Relaxed);
        of_next_window.iter().for_each(|sample| collectors.accept(sample));
        if lost_meanwhile.is_some_and(|count| count > 0) {
            collectors.forget_last();
        }
        drop(collectors);

        let statistics = WindowStatistics {
            is_count_known: is_known,
            unrecorded,
            unstamped: stamps == Some(Missing::HeaderStamps),
            without_clock: stamps == Some(Missing::Clock),
            other_clock: stamps == Some(Missing::OtherClock),
            has_history,
            totals,
            ..ended.statistics(count, metrics, distributions)
        };
        let middleware = transport.map_or("the middleware", |transport| transport.name);
        let text = |warning: Warning| warning.text(&self.topic, middleware, unrecorded);
        Some(FinishedWindow {
            statistics,
            clock_offset: ended.clock_offset(),
            warnings: warnings.map(text).collect(),
        })
    }

    fn totals(&self) -> Option<Totals> {
        Some(self.collectors.lock().totals())
    }

    fn given_topic(&self) -> Option<&str> {
        Some(&self.topic)
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Subscription
    }

    fn is_latched(&self) -> bool {
        self.options.is_transient_local
    }

    fn can_measure(&self, metric: Metric) -> bool {
        let starts_at_header_stamp = match metric {
            Metric::MessageAge => self.options.age_source == AgeSource::HeaderStamp,
            metric => metric.starts_at_header_stamp(),
        };
        // Source timestamps use the system clock. So they cannot be compared with header stamps in simulated time.
        let is_of_two_clocks = metric == Metric::HeaderToSource && self.simulated.is_some();
        self.kind().measures(metric)
            && !is_of_two_clocks
            && !(starts_at_header_stamp && self.lacks_header.load(Ordering::Relaxed))
    }

    fn measures(&self, metric: Metric) -> bool {
        self.options.metrics.contains(metric)
    }
}

impl Recorder {
    /// Reads the clock for the window's stop, and accepts the samples that were made before the stop. Returns the
    /// window, and the queued samples that were made after the stop. If a sample may be missing because its thread was
    /// preempted, the order of the window's messages is unknown.
    fn stop_window(&self, collectors: &mut Collectors, clock: &dyn Clock) -> (EndedWindow, Vec<Sample>) {
        // Another thread may have begun a sample since this thread took the lock. This sample is the last sample of the
        // window, so this thread waits for it. The order is unknown only if the other thread is preempted.
        let had_begun_samples = self.collectors.has_begun_samples();
        let ended = collectors.window.end(clock);
        let has_begun_samples = !self.collectors.await_begun_samples();
        collectors.correct_times(&ended);
        let mut of_next_window = vec![];
        let mut has_queued_messages = false;
        let mut drain_queue = |collectors: &mut Collectors| {
            while let Some(sample) = self.collectors.dequeue() {
                let (Sample::Message { callback: time, .. }
                | Sample::IntraProcess { callback: time, .. }
                | Sample::CallbackEnd { end: time, .. }) = sample;
                if time >= ended.stop {
                    of_next_window.push(sample);
                } else {
                    collectors.accept(&sample);
                    has_queued_messages |= !matches!(sample, Sample::CallbackEnd { .. });
                }
            }
        };
        drain_queue(collectors);
        if has_begun_samples {
            let has_begun_samples = self.collectors.has_begun_samples();
            drain_queue(collectors);
            // The thread of a missing sample was preempted, perhaps after it read the clock. Then the sample's message
            // may be earlier than messages that are already recorded. The order is known only if the missing sample was
            // begun after this thread took the lock, and no message was queued since then. In this case, the missing
            // message is the last message of this window.
            if has_begun_samples && (had_begun_samples || has_queued_messages) {
                collectors.is_unordered = true;
            }
        }
        (ended, of_next_window)
    }

    /// Returns why the last message of the window has no age; `None` if it has an age, or if the reason is no fault.
    /// Must be called before a message of the next window is accepted.
    fn check_stamps(&self, collectors: &mut Collectors, ended: &EndedWindow) -> Option<Missing> {
        let simulated = self.simulated.as_ref().map(|time| time.last());
        let has_clock = simulated != Some(0);
        let system = ended.window.stop.as_nanoseconds();
        let is_of_other_clock =
            has_clock && ended.step.is_none() && collectors.is_of_other_clock(simulated.unwrap_or(system));
        if self.options.needs_header_stamp() {
            if collectors.has_unusable_stamps() {
                collectors.warnings.raise(if has_clock { Warning::TimeJumps } else { Warning::NoClock });
            }
            if is_of_other_clock {
                let warning = match simulated {
                    Some(_) => Warning::OtherThanSimulatedTime,
                    None => Warning::OtherThanSystemTime,
                };
                collectors.warnings.raise(warning);
            }
        }
        if collectors.is_unstamped() && !self.lacks_stamps.load(Ordering::Relaxed) {
            Some(Missing::HeaderStamps)
        } else if !has_clock && collectors.is_stamped() {
            Some(Missing::Clock)
        } else {
            is_of_other_clock.then_some(Missing::OtherClock)
        }
    }
}

opaque_debug!(Recorder);

#[cfg(all(test, topic_statistics_loom))]
mod models;
#[cfg(test)]
mod tests;
