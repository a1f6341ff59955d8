// SPDX-License-Identifier: Apache-2.0

//! The collectors of a subscription, which the recorder's lock protects.

use super::{
    history::History,
    losses::Losses,
    message::{Details, Epoch, IntraProcessMessage, ReceivedMessage, Sample},
    options::{AgeSource, RecorderOptions},
    span::Span,
    warnings::{Warning, Warnings},
};
use crate::{
    collector::{milliseconds_between, single_sample, AgeCollector, PeriodCollector, SummaryCollector},
    distributions::Distributions,
    metric::Metric,
    record::{
        clocks::{
            clock::{is_simulated, Clock, EndedWindow, Step, WindowClock},
            stamp_filter::StampFilter,
        },
        locks::{Accept, CountUnrecorded},
        topics::transport::TransportInfo,
    },
    summary::Summary,
    timestamp::Timestamp,
    totals::Totals,
};

pub(super) struct Collectors {
    pub(super) epoch: Epoch,
    /// The last epoch that was started. It is kept while the statistics are disabled, when `epoch` is
    /// `Epoch::DISABLED`.
    last_epoch: Epoch,
    /// The epoch that began when the last step of the system clock was found.
    epoch_after_step: Epoch,
    pub(super) window: WindowClock,
    /// Whether a message needs [`record_details`](Self::record_details): because the options need more than the header
    /// stamp, stamps are filtered after a clock step, or the window has distributions.
    needs_details: bool,
    options: RecorderOptions,
    age: AgeCollector,
    period: PeriodCollector,
    // Each of these four boxes is `None` if no option needs the box.
    delays: Option<Box<Delays>>,
    history: Option<Box<History>>,
    pub(super) losses: Option<Box<Losses>>,
    sizes: Option<Box<Sizes>>,
    /// Whether the order of this window's messages is unknown: callbacks run on several threads, and either a message
    /// was recorded after a later message, or an earlier message may not be recorded yet.
    pub(super) is_unordered: bool,
    /// The start of the latest callback in all earlier windows, in nanoseconds on the monotonic clock.
    latest_before: i64,
    distributions: Distributions,
    /// The number of messages recorded in this window.
    count: u64,
    /// The number of messages of this window that were counted without being measured.
    unrecorded: u64,
    /// Whether samples of this window were lost because the queue was full.
    is_incomplete: bool,
    /// Whether messages of this window may be counted in another window, or messages of another window may be counted
    /// in this window.
    has_unknown_count: bool,
    /// The number of messages received from the creation to the start of this window.
    received_before: u64,
    pub(super) span: Span,
    filter: StampFilter,
    /// The time on the monotonic clock since which no stamp could be compared with simulated time; `i64::MAX` if the
    /// last stamp could be compared.
    unusable_since: i64,
    pub(super) warnings: Warnings,
}

/// The counts and flags of an ended window, with the same meaning as in `WindowStatistics`.
pub(super) struct WindowCount {
    pub(super) count: u64,
    pub(super) is_known: bool,
    pub(super) unrecorded: u64,
    pub(super) has_history: bool,
}

/// The collectors of the delays that add up to an age, and of the callback duration.
#[derive(Default)]
struct Delays {
    header_to_source: AgeCollector,
    source_to_receive: AgeCollector,
    receive_to_callback: AgeCollector,
    source_to_callback: AgeCollector,
    header_to_callback: AgeCollector,
    callback_duration: SummaryCollector,
}

struct Sizes {
    summary: SummaryCollector,
    /// The bytes of all messages since the creation; `None` if the size of a message is unknown, or if the sum
    /// overflows.
    total: Option<u64>,
}

impl Sizes {
    /// Adds the size of a message. A size of 0 means that the size is unknown.
    fn add(&mut self, size: u32, distributions: &mut Distributions) {
        if size == 0 {
            self.total = None;
            return;
        }
        self.summary.accept(size.into());
        distributions.accept(Metric::MessageSize, size.into());
        self.total = self.total.and_then(|total| total.checked_add(size.into()));
    }
}

impl Accept for Collectors {
    type Sample = Sample;

    fn accept(&mut self, sample: &Sample) {
        match sample {
            Sample::Message { message, callback, simulated } => {
                self.record_message(message, *callback, || *simulated);
            }
            Sample::IntraProcess { epoch, message, callback } => {
                self.record_intra_process(*epoch, message, *callback);
            }
            Sample::CallbackEnd { epoch, milliseconds, .. } => {
                if let (true, Some(delays)) = (epoch.is_of(self.epoch), &mut self.delays) {
                    if delays.callback_duration.accept(*milliseconds) {
                        self.distributions.accept(Metric::CallbackDuration, *milliseconds);
                    }
                }
            }
        }
    }
}

impl CountUnrecorded for Collectors {
    fn count_unrecorded(&mut self, count: u64) {
        if self.epoch == Epoch::DISABLED {
            return;
        }
        self.warnings.raise(Warning::SamplesLost);
        self.is_incomplete = true;
        self.unrecorded += count;
        if count == 0 {
            return;
        }
        if let Some(losses) = &mut self.losses {
            // The sequence numbers of the samples that were lost in the queue are unknown, so the numbers of a later
            // gap may belong to these samples, whose messages were received.
            losses.sequences.lose_track();
        }
        if let Some(sizes) = &mut self.sizes {
            sizes.total = None;
        }
        self.forget_last();
    }
}

impl Collectors {
    /// Creates the collectors in the disabled state.
    pub(super) fn new(options: RecorderOptions, clock: &dyn Clock) -> Self {
        let sizes = || Box::new(Sizes { summary: SummaryCollector::default(), total: Some(0) });
        Self {
            epoch: Epoch::DISABLED,
            last_epoch: Epoch::DISABLED,
            epoch_after_step: Epoch::DISABLED,
            window: WindowClock::new(clock),
            needs_details: options.needs_details(),
            options,
            age: AgeCollector::default(),
            period: PeriodCollector::new(options.first_period),
            delays: options.has_delays().then(Box::default),
            history: options.is_transient_local.then(Box::default),
            losses: options.has_losses().then(Box::default),
            sizes: options.has_sizes().then(sizes),
            is_unordered: false,
            latest_before: i64::MIN,
            distributions: Distributions::default(),
            count: 0,
            unrecorded: 0,
            is_incomplete: false,
            has_unknown_count: false,
            received_before: 0,
            span: Span::default(),
            filter: StampFilter::default(),
            unusable_since: i64::MAX,
            warnings: Warnings::default(),
        }
    }

    #[inline(always)] // a call would save registers, which costs a sixth of the instructions
    pub(super) fn record_message(
        &mut self,
        message: &ReceivedMessage,
        callback: i64,
        simulated: impl FnOnce() -> i64,
    ) {
        if message.epoch != self.epoch {
            return self.record_of_another_epoch(message, callback, simulated());
        }
        self.record_of_this_epoch(message, callback, simulated);
    }

    /// Records a message that was taken in another [epoch](Epoch), with those of its stamps that are usable. Records
    /// nothing if the statistics were disabled after the message was taken.
    #[cold]
    #[inline(never)]
    fn record_of_another_epoch(&mut self, message: &ReceivedMessage, callback: i64, simulated: i64) {
        if !message.epoch.is_of(self.epoch) {
            return;
        }
        // If the message was taken before the last clock step was found, its stamps may be from the clock before the
        // step, even if the stamps are old.
        let is_after_step = message.epoch >= self.epoch_after_step;
        let usable = |stamp| if is_after_step && !self.filter.was_doubtful(stamp) { stamp } else { 0 };
        let header = if self.options.is_simulated { message.header } else { usable(message.header) };
        let details = message.details.map(|details| {
            let TransportInfo { source, received, .. } = details.transport;
            let transport =
                TransportInfo { source: usable(source), received: usable(received), ..details.transport };
            Details { transport, ..details }
        });
        let with_usable_stamps = ReceivedMessage { epoch: self.epoch, header, details };
        self.record_of_this_epoch(&with_usable_stamps, callback, || simulated);
        if self.span.last.callback != callback {
            return; // a later message was already recorded
        }
        self.span.last.header = message.header;
        if let Some(TransportInfo { source, received, .. }) = message.details.map(|details| details.transport)
        {
            (self.span.last.source, self.span.last.received) = (source, received);
        }
    }

    pub(super) fn record_intra_process(
        &mut self,
        epoch: Epoch,
        message: &IntraProcessMessage,
        callback: i64,
    ) {
        if !epoch.is_of(self.epoch) {
            return;
        }
        // The publication time is a monotonic time, like the callback's start, so both are converted into system time
        // by the same offset.
        let source = if message.published == 0 { 0 } else { self.window.system.at(message.published) };
        let transport =
            TransportInfo { source, received: 0, publisher: message.buffer, number: message.number };
        let details = Details { transport, size: 0, jumps: 0, is_simulated: false, is_filtered: false };
        let is_known = self.options.needs_details() && message.number != u64::MAX;
        let details = is_known.then_some(details);
        if let (None, Some(sizes)) = (details, &mut self.sizes) {
            sizes.total = None;
        }
        let message = ReceivedMessage { epoch: self.epoch, header: 0, details };
        self.record_of_this_epoch(&message, callback, || 0);
        self.span.mark_intra_process(callback);
    }

    #[inline(always)]
    fn record_of_this_epoch(
        &mut self,
        message: &ReceivedMessage,
        callback: i64,
        simulated: impl FnOnce() -> i64,
    ) {
        if !self.period.has_period(callback) {
            return self.record_without_period(message, callback, simulated());
        }
        self.record_figures(message, callback, simulated);
        self.period.add_next(callback);
        self.span.last.callback = callback;
    }

    /// Records all figures of a message except its period.
    #[inline(always)]
    fn record_figures(&mut self, message: &ReceivedMessage, callback: i64, simulated: impl FnOnce() -> i64) {
        let now = self.window.system.at(callback);
        if self.needs_details {
            self.record_details(message, callback, now, simulated());
        } else if is_simulated(message.header) || is_simulated(now) {
            self.record_age_before_2000(message.header, now);
        } else {
            self.age.accept(message.header, now);
        }
        self.span.last.header = message.header;
        self.count += 1;
    }

    /// Records the age of a message that has no stamp, or whose stamp or callback is before the year 2000.
    #[cold]
    #[inline(never)]
    fn record_age_before_2000(&mut self, header: i64, now: i64) {
        self.age.accept(if is_simulated(header) == is_simulated(now) { header } else { 0 }, now);
    }

    /// Records the first message of a window, or a message that is recorded after a later message.
    #[cold]
    #[inline(never)]
    fn record_without_period(&mut self, message: &ReceivedMessage, callback: i64, simulated: i64) {
        let now = self.window.system.at(callback);
        let last = self.span.last;
        self.record_figures(message, callback, || simulated);
        if self.span.extend(callback, now) {
            return self.period.accept(callback);
        }
        self.span.last = last;
        // A message that is earlier than the latest message of the earlier windows belongs to an earlier window, so it
        // makes only that window unordered.
        self.is_unordered |= callback >= self.latest_before;
    }

    /// Records the figures that need more than the header stamp and the system clock, and all distributions.
    #[inline(never)]
    fn record_details(&mut self, message: &ReceivedMessage, callback: i64, now: i64, simulated: i64) {
        let (header, details) = (message.header, message.details.as_ref());
        if let (Some(sizes), Some(details)) = (&mut self.sizes, details) {
            sizes.add(details.size, &mut self.distributions);
        }
        let distributions = &mut self.distributions;
        if let Some(period) = self.period.sample(callback) {
            distributions.accept(Metric::MessagePeriod, period);
        }
        let mut accept_age = |metric, ages: &mut AgeCollector, stamp, now| {
            ages.accept(stamp, now);
            if let Some(age) = AgeCollector::sample(stamp, now) {
                distributions.accept(metric, age);
            }
        };
        // A stamp that may be from the system clock before its step is not used.
        let usable = |stamp: i64| if self.filter.is_doubtful(stamp) { 0 } else { stamp };
        // Header stamps are compared with ROS time, which is simulated time if the node uses it.
        let (header, ros_now) = match self.options.is_simulated {
            true => {
                if simulated != 0 {
                    self.unusable_since = i64::MAX;
                } else if header != 0 {
                    self.unusable_since = self.unusable_since.min(callback);
                }
                (header, simulated)
            }
            false => (usable(header), now),
        };
        let header = if is_simulated(header) == is_simulated(ros_now) { header } else { 0 };
        let transport = details.map(|details| &details.transport).filter(|_| self.options.needs_transport());
        let usable_transport = transport.map(|info| (usable(info.source), usable(info.received)));
        if self.options.age_source == AgeSource::HeaderStamp {
            accept_age(Metric::MessageAge, &mut self.age, header, ros_now);
        }
        let Some(&TransportInfo { source, received, publisher, number }) = transport else { return };
        (self.span.last.source, self.span.last.received) = (source, received);
        let (source, received) = usable_transport.unwrap_or_default();
        if self.options.age_source == AgeSource::SourceTimestamp {
            accept_age(Metric::MessageAge, &mut self.age, source, now);
        }
        if let Some(delays) = &mut self.delays {
            if !self.options.is_simulated {
                accept_age(Metric::HeaderToSource, &mut delays.header_to_source, header, source);
            }
            accept_age(Metric::SourceToReceive, &mut delays.source_to_receive, source, received);
            accept_age(Metric::ReceiveToCallback, &mut delays.receive_to_callback, received, now);
            accept_age(Metric::SourceToCallback, &mut delays.source_to_callback, source, now);
            accept_age(Metric::HeaderToCallback, &mut delays.header_to_callback, header, ros_now);
        }
        if let Some(history) = &mut self.history {
            history.add(publisher, source, callback, now, self.span.last_callback());
        }
        if let Some(losses) = &mut self.losses {
            let is_filtered = details.is_some_and(|details| details.is_filtered);
            losses.add_message(publisher, number, callback, is_filtered, &mut self.distributions);
            if number == u64::MAX {
                self.warnings.raise(Warning::NoSequenceNumbers);
            }
            if losses.sequences.has_evicted() {
                self.warnings.raise(Warning::TooManyPublishers);
            }
        }
    }

    /// Starts an epoch, with a window that starts now. Call [`start_window`](Self::start_window) next.
    pub(super) fn start_epoch(&mut self, clock: &dyn Clock) {
        self.last_epoch = self.last_epoch.next();
        self.epoch = self.last_epoch;
        let (start, step) = self.window.restart(clock);
        self.end_count();
        self.filter.restart(start, step.is_some());
        if let Some(step) = step {
            // The system clock was stepped while the statistics were disabled.
            self.keep_times_before_suspend(start, step);
            self.span.correct(step);
        }
        (self.age, self.unusable_since) = (AgeCollector::default(), i64::MAX);
        (self.is_unordered, self.latest_before) = (false, i64::MIN);
        self.period = PeriodCollector::new(self.options.first_period);
        if let Some(delays) = &mut self.delays {
            **delays = Delays::default();
        }
        if let Some(losses) = &mut self.losses {
            losses.restart();
        }
        if let Some(sizes) = &mut self.sizes {
            sizes.summary = SummaryCollector::default();
        }
    }

    /// Disables the collectors, and discards the current window.
    pub(super) fn end_epoch(&mut self) {
        self.epoch = Epoch::DISABLED;
        self.span.end_epoch(self.window.system);
    }

    /// Corrects the times by a step that was found in the ended window, before samples are accepted on the new clock.
    pub(super) fn correct_times(&mut self, ended: &EndedWindow) {
        if let Some(step) = ended.step {
            self.keep_times_before_suspend(ended.start, step);
            self.span.correct(step);
        }
    }

    /// Ends the window: returns the window's metrics and the number of its messages. `lost_meanwhile` is the number of
    /// messages that were counted but not measured while the window was being ended; `None` if no sample was lost.
    /// These messages may belong to the next window.
    pub(super) fn end_window(
        &mut self,
        ended: &EndedWindow,
        metrics: &mut Vec<(Metric, Summary)>,
        clock_offset: Option<f64>,
        lost_meanwhile: Option<u64>,
    ) -> WindowCount {
        if let Some(losses) = &mut self.losses {
            losses.close_all(&mut self.distributions);
        }
        let has_history = self.history.as_mut().is_some_and(|history| history.end_window());
        // History arrives all at once, so its periods say nothing about the publisher. So the window has no periods.
        self.is_unordered |= has_history;
        metrics.extend(
            self.options.metrics.iter().map(|metric| (metric, self.take(metric, ended, clock_offset))),
        );
        (self.is_unordered, self.latest_before) = (false, self.span.last.callback);
        let is_uncertain = lost_meanwhile.is_some_and(|count| count > 0);
        // Whether all messages of this window, and no messages of another window, are counted in this window.
        let is_known = !self.has_unknown_count && !is_uncertain;
        let unrecorded = self.unrecorded;
        let count = WindowCount { count: self.end_count(), is_known, unrecorded, has_history };
        (self.is_incomplete, self.has_unknown_count) = (lost_meanwhile.is_some(), is_uncertain);
        if self.filter.end_window(ended) {
            self.epoch = self.epoch.with_other_stamps();
            self.last_epoch = self.epoch;
        }
        if ended.step.is_some() {
            self.epoch_after_step = self.epoch;
        }
        count
    }

    /// Starts a window with these empty distributions. Returns the distributions of the previous window.
    pub(super) fn start_window(&mut self, distributions: Distributions) -> Distributions {
        let ended = std::mem::replace(&mut self.distributions, distributions);
        self.needs_details =
            self.options.needs_details() || !self.filter.is_empty() || !self.distributions.is_empty();
        ended
    }

    /// Returns the number of messages in this window, and adds it to the number of earlier messages.
    fn end_count(&mut self) -> u64 {
        (self.is_incomplete, self.has_unknown_count) = (false, false);
        let count = std::mem::take(&mut self.count) + std::mem::take(&mut self.unrecorded);
        self.received_before += count;
        count
    }

    /// Returns the summary of a metric in the ended window, and starts the next window of the metric.
    fn take(&mut self, metric: Metric, ended: &EndedWindow, clock_offset: Option<f64>) -> Summary {
        let RecorderOptions { is_simulated, age_source, .. } = self.options;
        let mut unused = Delays::default();
        let delays = self.delays.as_deref_mut().unwrap_or(&mut unused);
        let (summary, is_of_system_time) = match metric {
            Metric::MessageAge => (self.age.take(), !(is_simulated && age_source == AgeSource::HeaderStamp)),
            Metric::MessagePeriod => {
                let periods = self.period.take();
                (if self.is_unordered { Summary::default() } else { periods }, false)
            }
            Metric::HeaderToSource => (delays.header_to_source.take(), true),
            Metric::SourceToReceive => (delays.source_to_receive.take(), true),
            Metric::ReceiveToCallback => (delays.receive_to_callback.take(), true),
            Metric::SourceToCallback => (delays.source_to_callback.take(), true),
            Metric::HeaderToCallback => (delays.header_to_callback.take(), !is_simulated),
            Metric::CallbackDuration => (delays.callback_duration.take(), false),
            Metric::PublicationSeqGap => {
                return self.losses.as_mut().map(|losses| losses.take()).unwrap_or_default();
            }
            Metric::TimeSinceLastMessage => {
                let silence =
                    self.span.last_callback().map(|last| milliseconds_between(last, ended.stop).max(0.0));
                let is_known = !self.is_incomplete && !self.span.marks().has_later;
                return single_sample(silence.filter(|_| is_known));
            }
            Metric::ClockOffset => return single_sample(clock_offset),
            Metric::MessageSize => {
                (self.sizes.as_mut().map(|sizes| sizes.summary.take()).unwrap_or_default(), false)
            }
            // No other metric comes here, because a subscription's options reject the metrics of other kinds of
            // sources.
            _ => return Summary::default(),
        };
        if self.is_incomplete || (is_of_system_time && ended.step.is_some()) {
            return Summary::default();
        }
        summary
    }

    /// If the host was suspended in the window that started at `start`, keeps the times of the messages before that
    /// window: a correction by the whole clock step would make these times too late by the suspended time. It is
    /// unknown whether the messages of that window were before or after the suspend.
    fn keep_times_before_suspend(&mut self, start: i64, step: Step) {
        if step.suspended == 0 {
            return;
        }
        if let Some(losses) = &mut self.losses {
            losses.sequences.put_back(start, step.suspended);
        }
        self.span.keep_before_suspend(start, step, self.window.system);
    }

    /// Records that messages were counted but not measured after the last recorded message. So no period or silence is
    /// computed from that last message.
    pub(super) fn forget_last(&mut self) {
        self.span.mark_unmeasured();
        // The periods of this window are NaN anyway, because samples were lost.
        self.period = PeriodCollector::new(self.options.first_period);
    }

    pub(super) fn totals(&self) -> Totals {
        let losses = self.losses.as_ref().map(|losses| losses.sequences.totals()).unwrap_or_default();
        let received = self.received_before + self.count + self.unrecorded;
        let (intervals, active) = (self.span.intervals(received), self.span.active());
        let (intervals, active) = match &self.history {
            Some(history) => history.without(intervals, active),
            None => (intervals, active),
        };
        Totals {
            received,
            lost: losses.lost,
            out_of_order: losses.out_of_order,
            duplicates: losses.duplicates,
            publishers: losses.publishers_seen,
            bytes: self.sizes.as_ref().and_then(|sizes| sizes.total),
            first_message: self.span.first.map(Timestamp::from_nanoseconds),
            last_message: self.span.last_message(self.window.system).map(Timestamp::from_nanoseconds),
            active,
            intervals,
            followed: self.losses.as_ref().and_then(|losses| losses.sequences.followed()),
        }
    }

    /// Returns whether the last message of this window had no header stamp although ages start at the header stamp.
    pub(super) fn is_unstamped(&self) -> bool {
        self.options.age_source == AgeSource::HeaderStamp
            && self.count > 0
            && self.span.last.header == 0
            && !self.span.marks().is_intra_process
    }

    /// Returns whether the last message of this window had a header stamp, and ages start at the header stamp.
    pub(super) fn is_stamped(&self) -> bool {
        self.options.age_source == AgeSource::HeaderStamp && self.count > 0 && self.span.last.header != 0
    }

    /// Returns whether the last message of this window had a header stamp on another clock than `ros_now`, the ROS time
    /// of the node.
    pub(super) fn is_of_other_clock(&self, ros_now: i64) -> bool {
        self.is_stamped() && is_simulated(self.span.last.header) != is_simulated(ros_now)
    }

    /// Returns whether no stamp could be compared with simulated time for more than 30 s up to the last message. This
    /// is three times the time for which stamps are unusable after a jump of simulated time.
    pub(super) fn has_unusable_stamps(&self) -> bool {
        self.span.last.callback.saturating_sub(self.unusable_since) > 30_000_000_000
    }
}
