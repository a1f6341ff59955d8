// SPDX-License-Identifier: Apache-2.0

//! The recorder of a subscription: its callback records into it, and the end of a window reads from it.

use std::sync::{Arc, OnceLock};

use super::transport::{Delivered, ReceivedTimestamp, Transport, TransportInfo};
use crate::{
    collector::milliseconds_between,
    distributions::Distributions,
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

pub use message::{Epoch, ReceivedMessage, RunningCallback};
pub use options::{AgeSource, RecorderOptions};

/// The recorder of a subscription.
pub struct Recorder {
    /// The [epoch](Epoch) of messages that are taken now.
    epoch: AtomicU64,
    options: RecorderOptions,
    /// Whether messages need [details](Details).
    needs_details: bool,
    /// The node's clock, if the node runs on simulated time. Otherwise ROS time is system time (`use_sim_time` cannot
    /// change while a node of rclrs 0.8 lives).
    simulated: Option<Arc<SimulatedTime>>,
    /// Whether the windows that start from now on have distributions.
    has_distributions: AtomicBool,
    /// Whether the type has no header: then a stamp of zero is no fault.
    lacks_header: AtomicBool,
    /// Whether no stamps are read: there are none, or their place is unknown. Then a stamp of zero has no meaning.
    lacks_stamps: AtomicBool,
    /// The topic, for warnings.
    topic: Box<str>,
    /// Known from the first message on.
    transport: OnceLock<&'static Transport>,
    collectors: CountingLock<Collectors>,
}

impl Recorder {
    /// Creates a recorder of a topic, disabled.
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

    /// Accepts that the type of the messages has no header.
    pub fn accept_no_header(&self) {
        self.lacks_header.store(true, Ordering::Relaxed);
        self.accept_no_stamps();
    }

    /// Accepts that the stamps of the messages cannot be read, whether the type has a header or not.
    pub fn accept_no_stamps(&self) {
        self.lacks_stamps.store(true, Ordering::Relaxed);
    }

    /// Returns the epoch of messages that are taken now; None while the statistics are disabled.
    #[inline]
    pub fn epoch(&self) -> Option<Epoch> {
        match Epoch(self.epoch.load(Ordering::Relaxed)) {
            Epoch::DISABLED => None,
            epoch => Some(epoch),
        }
    }

    /// Reads a taken message for the statistics. `size` returns its size in bytes, 0 if unknown.
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

    /// Returns a message's data besides its header stamp.
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

    /// Records a message at the start of its callback, now, at the time that `clock` returns. Returns the argument of
    /// [`record_end`](Self::record_end), if a metric needs it.
    #[inline]
    pub fn record(&self, message: &ReceivedMessage, clock: impl FnOnce() -> i64) -> Option<RunningCallback> {
        let started = self.record_start(message, clock);
        self.options.needs_callback_end().then_some(RunningCallback { epoch: message.epoch, started })
    }

    /// Records a message at the start of its callback, now. Returns the time.
    #[inline(always)]
    pub fn record_start(&self, message: &ReceivedMessage, clock: impl FnOnce() -> i64) -> i64 {
        let simulated = |callback| {
            self.simulated
                .as_ref()
                .zip(message.details.as_ref().filter(|details| details.is_simulated))
                .map_or(0, |(time, details)| time.now(message.header, details.jumps, callback))
        };
        match self.collectors.try_lock() {
            Some(mut collectors) => {
                let callback = clock();
                collectors.record_message(message, callback, || simulated(callback));
                callback
            }
            None => {
                self.collectors.begin_sample();
                let callback = clock();
                let sample = Sample::Message { message: *message, callback, simulated: simulated(callback) };
                // A message taken in another enabled period would not be recorded either.
                let counts = message.epoch.is_of(Epoch(self.epoch.load(Ordering::Relaxed)));
                self.collectors.enqueue_or_count(sample, counts);
                self.collectors.end_sample();
                callback
            }
        }
    }

    /// Records that a callback ends at `now`, on the monotonic clock.
    pub fn record_end(&self, callback: RunningCallback, now: i64) {
        let milliseconds = milliseconds_between(callback.started, now);
        let sample = Sample::CallbackEnd { epoch: callback.epoch, milliseconds, end: now };
        match self.collectors.try_lock() {
            Some(mut collectors) => collectors.accept(&sample),
            // The order of ends does not count.
            None => self.collectors.enqueue_or_count(sample, false),
        }
    }

    /// Accepts a message that is not measured, because it has not come by the middleware. How long the subscription has
    /// been silent, and the next period, are unknown until the next message that is measured. It never waits: if the
    /// lock is held, nothing changes.
    pub fn accept_unmeasured(&self) {
        if let Some(mut collectors) = self.collectors.try_lock() {
            collectors.accept_unmeasured();
        }
    }

    /// Counts the next message of each publisher as its first: messages that are filtered from now on are not lost. See
    /// [`Delivered::is_filtered`].
    pub fn pause_losses(&self) {
        self.collectors.lock().pause_losses();
    }

    /// Returns the distributions of a window that starts; none if they are not enabled.
    fn new_distributions(&self) -> Distributions {
        let metrics = self.has_distributions.load(Ordering::Relaxed).then_some(self.options.metrics);
        Distributions::new(metrics.unwrap_or_default())
    }

    /// Returns the messages received from and lost of each publisher.
    pub fn publishers(&self) -> Vec<PublisherTotals> {
        self.collectors.lock().publishers()
    }

    /// Returns the times of the last message that was recorded.
    pub fn last_message(&self, clock: &dyn Clock) -> Option<MessageTimes> {
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
        let if_known = |time: i64| (time != 0).then_some(Timestamp::from_nanoseconds(time));
        Some(MessageTimes {
            header: if_known(header),
            source: if_known(source),
            received: if_known(received),
            callback: Timestamp::from_nanoseconds(callback?.saturating_add(correction)),
        })
    }
}

impl WindowedCollector for Recorder {
    fn enable(&self, clock: &dyn Clock) -> bool {
        if self.is_enabled() {
            return false; // before distributions are allocated
        }
        let distributions = self.new_distributions();
        let mut collectors = self.collectors.lock();
        let was_disabled = collectors.epoch == Epoch::DISABLED;
        if was_disabled {
            collectors.start_epoch(clock);
            collectors.start_window(distributions);
            self.publish_epoch(&collectors);
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
        // Slow work is done before the lock is taken, or after it is released.
        let measured = self.options.metrics;
        let mut metrics = Vec::with_capacity(measured.len());
        let clock_offset = measured.contains(Metric::ClockOffset).then(host::clock_offset).flatten();
        let distributions = self.new_distributions();

        let mut collectors = self.collectors.lock();
        if collectors.epoch == Epoch::DISABLED {
            return None;
        }
        let (ended, of_next_window) = self.stop_window(&mut collectors, clock);
        let lost_meanwhile = self.count_lost(&mut collectors);
        let (unstamped, without_clock) = self.check_stamps(&mut collectors);
        let WindowCount { count, is_known, unrecorded, has_history } =
            collectors.end_window(&ended, &mut metrics, clock_offset, lost_meanwhile);
        let warnings = self.take_warnings(&mut collectors);
        let totals = Some(collectors.totals());
        let distributions = collectors.start_window(distributions);
        self.publish_epoch(&collectors);
        record_of_next_window(&mut collectors, &of_next_window, lost_meanwhile);
        drop(collectors);

        let statistics = WindowStatistics {
            is_count_known: is_known,
            unrecorded,
            unstamped,
            without_clock,
            has_history,
            totals,
            ..ended.statistics(count, metrics, distributions)
        };
        let middleware = self.transport.get().map_or("the middleware", |transport| transport.name);
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
        // Source timestamps are on the system clock.
        let is_of_two_clocks = metric == Metric::HeaderToSource && self.simulated.is_some();
        self.kind().measures(metric)
            && !is_of_two_clocks
            && !(starts_at_header_stamp && self.lacks_header.load(Ordering::Relaxed))
    }

    fn measures(&self, metric: Metric) -> bool {
        self.options.metrics.contains(metric)
    }
}

/// The steps that end a window, in their order. All of them hold the lock.
impl Recorder {
    /// Reads the clock, which is the window's stop, and accepts the samples that were queued since the lock was taken.
    /// Returns the window, and the queued samples from its stop on.
    ///
    /// Afterwards, each sample made before the stop is accepted. If one may be missing, because its thread was
    /// preempted, the window has lost the order of its messages. No sample made later is accepted.
    fn stop_window(&self, collectors: &mut Collectors, clock: &dyn Clock) -> (EndedWindow, Vec<Sample>) {
        // Since the lock was taken, a thread may have begun a sample here. It is the last one, so it is waited for. The
        // order is unknown only if that thread is preempted.
        let had_begun_samples = self.collectors.has_begun_samples();
        let ended = collectors.window.end(clock);
        let has_begun_samples = !self.collectors.await_begun_samples();
        collectors.correct_times(&ended);
        // A sample that is recorded while the lock is held here belongs to the window of its time.
        let mut of_next_window = vec![];
        let mut has_queued_messages = false;
        let mut drain_queue = |collectors: &mut Collectors| {
            while let Some(sample) = self.collectors.dequeue() {
                let (Sample::Message { callback: time, .. } | Sample::CallbackEnd { end: time, .. }) = sample;
                if time >= ended.stop {
                    of_next_window.push(sample);
                } else {
                    collectors.accept(&sample);
                    has_queued_messages |= matches!(sample, Sample::Message { .. });
                }
            }
        };
        drain_queue(collectors);
        if has_begun_samples {
            let has_begun_samples = self.collectors.has_begun_samples();
            drain_queue(collectors);
            // A thread that was preempted after it read the clock has a message that may be earlier than others, and is
            // recorded later. It is the last one of this window if none was queued, and it was begun after the lock was
            // taken here.
            if has_begun_samples && (had_begun_samples || has_queued_messages) {
                collectors.lose_order();
            }
        }
        (ended, of_next_window)
    }

    /// Counts the samples that were lost since the lock was taken. Returns how many of them count as messages; None if none
    /// was lost.
    ///
    /// Afterwards, each message up to now is counted: measured, or unrecorded. Those returned may belong to the next
    /// window, if this thread was preempted since it took the lock.
    fn count_lost(&self, collectors: &mut Collectors) -> Option<u64> {
        let lost_meanwhile = self.collectors.take_unrecorded();
        if let Some(count) = lost_meanwhile {
            collectors.count_unrecorded(count);
        }
        lost_meanwhile
    }

    /// Returns whether the window is unstamped, and whether it is without a clock.
    ///
    /// Up to here, the last message is one of the window: no message of the next window is accepted.
    fn check_stamps(&self, collectors: &mut Collectors) -> (bool, bool) {
        let unstamped = collectors.is_unstamped() && !self.lacks_stamps.load(Ordering::Relaxed);
        let has_clock = self.simulated.as_ref().is_none_or(|time| time.has_begun());
        let without_clock = !has_clock && collectors.needs_clock();
        if collectors.has_unusable_stamps() && self.options.needs_header_stamp() {
            collectors.warnings.raise(if has_clock { Warning::TimeJumps } else { Warning::NoClock });
        }
        (unstamped, without_clock)
    }

    /// Returns the warnings of the window, each once for the subscription.
    ///
    /// The metrics are taken, and no sample of the next window is accepted.
    fn take_warnings(&self, collectors: &mut Collectors) -> impl Iterator<Item = Warning> + use<> {
        let transport = self.transport.get();
        if self.options.needs_reception_time()
            && transport.is_some_and(|info| info.received != ReceivedTimestamp::Reception)
        {
            collectors.warnings.raise(Warning::NoReceptionTime);
        }
        collectors.warnings.take()
    }

    /// Has messages taken from now on be of the collectors' epoch, which is another one after a step.
    ///
    /// The next window has started: a message of the new epoch finds what it needs.
    fn publish_epoch(&self, collectors: &Collectors) {
        self.epoch.store(collectors.epoch.0, Ordering::Relaxed);
    }
}

/// Records the samples of the next window that were recorded while the one before was ended.
///
/// Afterwards, the lock can be released: each sample recorded up to now is in the window of its time, or in doubt in
/// both.
fn record_of_next_window(collectors: &mut Collectors, samples: &[Sample], lost_meanwhile: Option<u64>) {
    samples.iter().for_each(|sample| collectors.accept(sample));
    if lost_meanwhile.is_some_and(|count| count > 0) {
        collectors.forget_last();
    }
}

opaque_debug!(Recorder);

#[cfg(all(test, topic_statistics_loom))]
mod models;
#[cfg(test)]
mod tests;
