// SPDX-License-Identifier: Apache-2.0

//! What a callback records into, and what the end of a window reads from.

use std::sync::{
    atomic::{AtomicU32, Ordering},
    Arc, OnceLock,
};

use rclrs::MessageInfo;

use crate::{
    clock::{duration, monotonic, EndedWindow, StampFilter, Step, WindowClock},
    collector::{
        milliseconds_between, AgeCollector, FirstPeriod, PeriodCollector, Sequence, SequenceTracker,
        SummaryCollector,
    },
    contended::{Accept, Contended},
    host,
    measured::{single_sample, FinishedWindow, Recording},
    middleware::{Middleware, ReceivedTimestamp},
    options::{AgeSource, TopicStatisticsOptions},
    probe::{Gid, ReceivedMessage, RunningBody, TransportInfo},
    simulated_time::SimulatedTime,
    totals::{PublisherTotals, Totals},
    window::{MessageTimes, Metric, Summary, WindowStatistics},
};

/// What a callback records into and the end of a window reads from.
pub(crate) struct Recorder {
    /// The time in which the statistics are on: 0 while they are off, and another number each time that they are on. A message
    /// that was taken in one and whose callback starts in another belongs to neither.
    epoch: AtomicU32,
    needs: Needs,
    /// The node's clock, if it runs on simulated time; otherwise ROS time is system time (as rclrs has it, and
    /// `use_sim_time` cannot change while a node lives).
    simulated: Option<Arc<SimulatedTime>>,
    metrics: Vec<Metric>,
    /// The topic, for what there is to say of it.
    topic: String,
    /// Known with the first message.
    middleware: OnceLock<&'static Middleware>,
    collectors: Contended<Collectors>,
}

/// What the metrics ask for beyond the time at which a callback starts.
#[derive(Clone, Copy)]
struct Needs {
    /// What the middleware reports with a message.
    transport: bool,
    /// The end of the callback's body.
    duration: bool,
    /// A received timestamp that is one of reception.
    reception: bool,
}

/// What is recorded. Times are in nanoseconds on the monotonic clock.
pub(crate) enum Sample {
    /// A message whose callback's body starts.
    Message {
        message: ReceivedMessage,
        callback: i64,
        /// ROS time at the same moment, where it is simulated; 0 if it is not known.
        simulated: i64,
    },
    /// The end of a callback's body.
    End { epoch: u32, milliseconds: f64 },
}

struct Collectors {
    epoch: u32,
    /// The last epoch that there was.
    last_epoch: u32,
    window: WindowClock,
    /// Whether a message takes more than rclcpp's two metrics on the system clock; or that clock was stepped a moment ago.
    takes_more: bool,
    needs_more: bool,
    is_simulated: bool,
    age_source: AgeSource,
    first_period: FirstPeriod,
    age: AgeCollector,
    period: PeriodCollector,
    /// None if no metric asks for it.
    delays: Option<Box<Delays>>,
    /// None if no metric asks for it.
    losses: Option<Box<Losses>>,
    /// Messages that were recorded in this window.
    count: u64,
    /// Messages of this window of which nothing is known but that they came.
    unrecorded: u64,
    /// Whether there are samples of this window of which nothing is known.
    is_incomplete: bool,
    /// Messages before this window.
    received_before: u64,
    /// When the first message's callback started, on the system clock.
    first: Option<i64>,
    /// Of the last message.
    last: Times,
    /// When the callback of the first message of this epoch started, on the monotonic clock.
    stretch_start: Option<i64>,
    /// The last message of the epochs before, on the system clock.
    last_before: Option<i64>,
    /// How many epochs had messages, and for how long those before this one had.
    stretches: u64,
    active: i64,
    /// After a step of the system clock.
    filter: Option<StampFilter>,
    /// How long messages were on their way at most, in ns, in the last window that tells.
    latency: i64,
    is_reception_missing: Warning,
    is_number_missing: Warning,
    is_crowded: Warning,
    are_samples_missing: Warning,
}

/// Something that is said once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Warning {
    #[default]
    Unnecessary,
    Due,
    Given,
}

impl Warning {
    fn raise(&mut self) {
        if *self == Self::Unnecessary {
            *self = Self::Due;
        }
    }

    /// Returns true once.
    fn take(&mut self) -> bool {
        let is_due = *self == Self::Due;
        if is_due {
            *self = Self::Given;
        }
        is_due
    }
}

/// When a message passed each point of its way: nanoseconds, on the system clock but for the callback, 0 if that is not known.
#[derive(Clone, Copy, Default)]
struct Times {
    header: i64,
    source: i64,
    received: i64,
    /// On the monotonic clock.
    callback: i64,
}

/// Where the age arose.
#[derive(Default)]
struct Delays {
    header_to_source: AgeCollector,
    source_to_receive: AgeCollector,
    receive_to_callback: AgeCollector,
    source_to_callback: AgeCollector,
    header_to_callback: AgeCollector,
    callback_duration: SummaryCollector,
}

/// What is missing.
#[derive(Default)]
struct Losses {
    sequences: SequenceTracker<Gid>,
    gaps: SummaryCollector,
}

impl Losses {
    fn accept(&mut self, publisher: Gid, number: u64, callback: i64) {
        if let Sequence::Next { gap } = self.sequences.accept(publisher, number, callback) {
            self.gaps.accept(gap as f64);
        }
    }
}

impl Accept for Collectors {
    type Sample = Sample;

    fn accept(&mut self, sample: &Sample) {
        match sample {
            Sample::Message { message, callback, simulated } => {
                self.accept_message(message, *callback, || *simulated);
            }
            Sample::End { epoch, milliseconds } => {
                if let (true, Some(delays)) = (*epoch == self.epoch, &mut self.delays) {
                    delays.callback_duration.accept(*milliseconds);
                }
            }
        }
    }

    fn accept_unrecorded(&mut self, count: u64) {
        if self.epoch == 0 {
            return;
        }
        self.are_samples_missing.raise();
        self.is_incomplete = true;
        self.unrecorded += count;
        if let (Some(losses), 1..) = (&mut self.losses, count) {
            // What they were numbered is not known, and so nothing that is found missing from now on.
            losses.sequences.lose_track();
        }
    }
}

impl Collectors {
    #[inline(always)] // a call and the registers that it saves are a sixth of the instructions
    fn accept_message(&mut self, message: &ReceivedMessage, callback: i64, simulated: impl FnOnce() -> i64) {
        if message.epoch != self.epoch {
            return;
        }
        let now = self.window.system.at(callback);
        if self.takes_more {
            self.accept_more(message.header, message.transport.as_ref(), callback, now, simulated());
        } else {
            self.age.accept(message.header, now);
        }
        self.period.accept(callback);
        self.last.header = message.header;
        self.last.callback = callback;
        self.count += 1;
        if self.count == 1 {
            self.start_stretch(callback, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn start_stretch(&mut self, callback: i64, now: i64) {
        if self.stretch_start.is_none() {
            self.stretch_start = Some(callback);
            self.stretches += 1;
            self.first.get_or_insert(now);
        }
    }

    /// When the last message's callback started on the monotonic clock, if one came since the statistics are on.
    fn last_callback(&self) -> Option<i64> {
        self.stretch_start.map(|_| self.last.callback)
    }

    /// Accepts the age where it takes more than the header stamp and the system clock, and all metrics beyond rclcpp's.
    #[inline(never)]
    fn accept_more(
        &mut self,
        header: i64,
        transport: Option<&TransportInfo>,
        callback: i64,
        now: i64,
        simulated: i64,
    ) {
        // A stamp that may be of the system clock before its step is none.
        let filter = self.filter;
        let sure = |stamp: i64| match &filter {
            Some(filter) if stamp != 0 && filter.is_doubtful(stamp, now) => 0,
            _ => stamp,
        };
        // Stamps are held against ROS time.
        let (header, ros_now) = match self.is_simulated {
            true => (header, simulated),
            false => (sure(header), now),
        };
        if self.age_source == AgeSource::HeaderStamp {
            self.age.accept(header, ros_now);
        }
        let Some(&TransportInfo { source, received, publisher, number }) = transport else { return };
        (self.last.source, self.last.received) = (source, received);
        let (source, received) = (sure(source), sure(received));
        if self.age_source == AgeSource::SourceTimestamp {
            self.age.accept(source, now);
        }
        if let Some(delays) = &mut self.delays {
            if !self.is_simulated {
                delays.header_to_source.accept(header, source);
            }
            delays.source_to_receive.accept(source, received);
            delays.receive_to_callback.accept(received, now);
            delays.source_to_callback.accept(source, now);
            delays.header_to_callback.accept(header, ros_now);
        }
        if let Some(losses) = &mut self.losses {
            losses.accept(publisher, number, callback);
            if number == u64::MAX {
                self.is_number_missing.raise();
            }
            if losses.sequences.has_evicted() {
                self.is_crowded.raise();
            }
        }
    }

    fn totals(&self) -> Totals {
        let losses = self.losses.as_ref().map(|losses| losses.sequences.totals());
        let stretch = self.stretch_start.map_or(0, |start| self.last.callback - start);
        let received = self.received_before + self.count + self.unrecorded;
        Totals {
            received,
            lost: losses.and_then(|totals| totals.lost),
            out_of_order: losses.and_then(|totals| totals.out_of_order),
            duplicates: losses.and_then(|totals| totals.duplicates),
            publishers: losses.and_then(|totals| totals.publishers_seen),
            first_message: self.first,
            last_message: self.last_message(),
            active: duration(self.active + stretch),
            intervals: received.saturating_sub(self.stretches),
        }
    }

    /// When the last message's callback started, on the system clock.
    fn last_message(&self) -> Option<i64> {
        self.last_callback().map(|callback| self.window.system.at(callback)).or(self.last_before)
    }

    /// Starts an epoch, with a window that knows of nothing before, now.
    fn start_epoch(&mut self) {
        self.last_epoch = self.last_epoch.wrapping_add(1).max(1);
        self.epoch = self.last_epoch;
        self.window.restart();
        self.count_window();
        (self.filter, self.takes_more) = (None, self.needs_more);
        self.age = AgeCollector::default();
        self.period = PeriodCollector::new(self.first_period);
        if let Some(delays) = &mut self.delays {
            **delays = Delays::default();
        }
        if let Some(losses) = &mut self.losses {
            losses.gaps = SummaryCollector::default();
            losses.sequences.pause();
        }
    }

    /// Returns how many messages there were in this window, and counts them as before it.
    fn count_window(&mut self) -> u64 {
        self.is_incomplete = false;
        let count = std::mem::take(&mut self.count) + std::mem::take(&mut self.unrecorded);
        self.received_before += count;
        count
    }

    fn end_epoch(&mut self) {
        self.epoch = 0;
        self.last_before = self.last_message();
        if let Some(start) = self.stretch_start.take() {
            self.active += self.last.callback - start;
        }
    }

    /// Takes in that the system clock was stepped in a window that has ended.
    fn accept_step(&mut self, ended: &EndedWindow, step: Step) {
        (self.filter, self.takes_more) = (Some(StampFilter::new(ended, step, self.latency)), true);
        // What the clock was set by, it was wrong by before; time asleep did pass.
        let correction = step.by - step.suspended;
        for time in [&mut self.first, &mut self.last_before].into_iter().flatten() {
            *time = time.saturating_add(correction);
        }
    }

    /// Returns what a metric came to in a window that has ended, and starts the next.
    fn take(&mut self, metric: Metric, ended: &EndedWindow, clock_offset: Option<f64>) -> Summary {
        let is_simulated = self.is_simulated;
        let mut unused = Delays::default();
        let delays = self.delays.as_deref_mut().unwrap_or(&mut unused);
        let (summary, is_of_system_time) = match metric {
            Metric::MessageAge => {
                (self.age.take(), !(is_simulated && self.age_source == AgeSource::HeaderStamp))
            }
            Metric::MessagePeriod => (self.period.take(), false),
            Metric::HeaderToSource => (delays.header_to_source.take(), true),
            Metric::SourceToReceive => (delays.source_to_receive.take(), true),
            Metric::ReceiveToCallback => (delays.receive_to_callback.take(), true),
            Metric::SourceToCallback => (delays.source_to_callback.take(), true),
            Metric::HeaderToCallback => (delays.header_to_callback.take(), !is_simulated),
            Metric::CallbackDuration => (delays.callback_duration.take(), false),
            Metric::PublicationSeqGap => {
                let gaps = self.losses.as_mut().map(|losses| {
                    let gaps = losses.gaps.take();
                    // Those that are not known are missing in it.
                    losses.sequences.totals().lost.map(|_| gaps)
                });
                return gaps.flatten().unwrap_or_else(|| single_sample(None));
            }
            Metric::TimeSinceLastMessage => {
                let silence =
                    self.last_callback().map(|last| milliseconds_between(last, ended.stop).max(0.0));
                return single_sample(silence.filter(|_| !self.is_incomplete));
            }
            Metric::ClockOffset => return single_sample(clock_offset),
            // The options of a subscription refuse them.
            Metric::PublishPeriod | Metric::PublishDuration | Metric::Duration | Metric::Frequency => {
                return single_sample(None)
            }
        };
        if self.is_incomplete || (is_of_system_time && ended.step.is_some()) {
            return single_sample(None);
        }
        summary
    }

    /// Takes in that the system clock was not stepped in a window that has ended.
    fn accept_no_step(&mut self, ended: &EndedWindow, metrics: &[(Metric, Summary)]) {
        if self.filter.is_some_and(|filter| filter.is_over(ended.window.stop)) {
            (self.filter, self.takes_more) = (None, self.needs_more);
        }
        let of_header = |metric| match metric {
            Metric::MessageAge => self.age_source == AgeSource::HeaderStamp,
            metric => metric == Metric::HeaderToCallback,
        };
        let ages = metrics.iter().filter(|(metric, summary)| {
            // Ages on simulated time are of another clock.
            matches!(metric, Metric::MessageAge | Metric::HeaderToCallback | Metric::SourceToCallback)
                && !(self.is_simulated && of_header(*metric))
                && summary.sample_count > 0
        });
        if let Some(age) = ages.map(|(_, summary)| summary.maximum).reduce(f64::max) {
            self.latency = (age * 1e6) as i64;
        }
    }
}

impl Recording for Recorder {
    fn set_enabled(&self, enabled: bool) -> bool {
        let mut collectors = self.collectors.lock();
        let is_new = enabled && collectors.epoch == 0;
        if is_new {
            collectors.start_epoch();
        } else if !enabled {
            collectors.end_epoch();
        }
        self.epoch.store(collectors.epoch, Ordering::Relaxed);
        is_new
    }

    fn is_enabled(&self) -> bool {
        self.epoch().is_some()
    }

    fn end_window(&self) -> Option<FinishedWindow> {
        // What takes time is done before the lock is taken, and after it is released.
        let mut metrics = Vec::with_capacity(self.metrics.len());
        let clock_offset = self.metrics.contains(&Metric::ClockOffset).then(host::clock_offset).flatten();
        let mut collectors = self.collectors.lock();
        if collectors.epoch == 0 {
            return None;
        }
        let ended = collectors.window.end();
        // What is recorded while the lock is held here belongs to the window that its time lies in.
        let mut later = vec![];
        while let Some(sample) = self.collectors.take_waiting() {
            match sample {
                Sample::Message { callback, .. } if callback >= ended.stop => later.push(sample),
                sample => collectors.accept(&sample),
            }
        }
        // If this thread was held up since it has the lock, it is not known of which of the two windows those samples are.
        let unrecorded_meanwhile = self.collectors.take_unrecorded();
        if let Some(count) = unrecorded_meanwhile {
            collectors.accept_unrecorded(count);
        }
        for metric in &self.metrics {
            let summary = collectors.take(*metric, &ended, clock_offset);
            metrics.push((*metric, summary));
        }
        let unrecorded = collectors.unrecorded;
        let count = collectors.count_window();
        collectors.is_incomplete = unrecorded_meanwhile.is_some();
        match ended.step {
            Some(step) => collectors.accept_step(&ended, step),
            None => collectors.accept_no_step(&ended, &metrics),
        }
        let totals = Some(collectors.totals());
        let middleware = self.middleware.get();
        if self.needs.reception && middleware.is_some_and(|of| of.received != ReceivedTimestamp::Reception) {
            collectors.is_reception_missing.raise();
        }
        let is_reception_missing = collectors.is_reception_missing.take();
        let is_number_missing = collectors.is_number_missing.take();
        let is_crowded = collectors.is_crowded.take();
        let are_samples_missing = collectors.are_samples_missing.take();
        later.iter().for_each(|sample| collectors.accept(sample));
        drop(collectors);

        let mut warnings = vec![];
        let (topic, gap) = (&self.topic, Metric::PublicationSeqGap.name());
        let middleware = middleware.map_or("the middleware", |middleware| middleware.name);
        if is_reception_missing {
            warnings.push(format!(
                "{} and {} of {topic} are NaN: {middleware} does not report when a message was received; {} is right",
                Metric::SourceToReceive.name(),
                Metric::ReceiveToCallback.name(),
                Metric::SourceToCallback.name()
            ));
        }
        if is_number_missing {
            warnings.push(format!(
                "Losses on {topic} are not known, and {gap} is NaN: {middleware} does not number messages"
            ));
        }
        if is_crowded {
            warnings.push(format!(
                "Losses on {topic} are not known any more, and {gap} is NaN: it has more than {} publishers",
                SequenceTracker::<Gid>::PUBLISHERS
            ));
        }
        if are_samples_missing {
            warnings.push(format!(
                "The thread that ends the windows of {topic} was kept from running: {unrecorded} messages are counted, and not \
                 measured; the other figures of such a window are NaN"
            ));
        }
        let statistics = WindowStatistics {
            window: ended.window,
            length: ended.length(),
            clock_step: ended.step.map(|step| step.by),
            count,
            unrecorded,
            metrics,
            totals,
        };
        Some(FinishedWindow { statistics, clock_offset: ended.clock_offset(), warnings })
    }

    fn totals(&self) -> Option<Totals> {
        Some(self.collectors.lock().totals())
    }
}

impl Recorder {
    /// Creates a recorder that is off.
    pub(crate) fn new(
        topic: &str,
        options: &TopicStatisticsOptions,
        simulated: Option<Arc<SimulatedTime>>,
    ) -> Self {
        let mut metrics =
            options.metrics.clone().unwrap_or_else(|| vec![Metric::MessageAge, Metric::MessagePeriod]);
        metrics.sort();
        metrics.dedup();
        let has_delays = metrics.iter().any(|metric| {
            matches!(
                metric,
                Metric::HeaderToSource
                    | Metric::SourceToReceive
                    | Metric::ReceiveToCallback
                    | Metric::SourceToCallback
                    | Metric::HeaderToCallback
                    | Metric::CallbackDuration
            )
        });
        let has_losses = metrics.contains(&Metric::PublicationSeqGap);
        let age_source = options.age_source.unwrap_or_default();
        let first_period = options.first_period.unwrap_or_default();
        let needs_transport = has_delays || has_losses || age_source == AgeSource::SourceTimestamp;
        Self {
            epoch: AtomicU32::new(0),
            needs: Needs {
                transport: needs_transport,
                duration: metrics.contains(&Metric::CallbackDuration),
                reception: metrics.contains(&Metric::SourceToReceive)
                    || metrics.contains(&Metric::ReceiveToCallback),
            },
            metrics,
            topic: topic.to_owned(),
            middleware: OnceLock::new(),
            collectors: Contended::new(Collectors {
                epoch: 0,
                last_epoch: 0,
                window: WindowClock::default(),
                takes_more: needs_transport || simulated.is_some(),
                needs_more: needs_transport || simulated.is_some(),
                is_simulated: simulated.is_some(),
                age_source,
                first_period,
                age: AgeCollector::default(),
                period: PeriodCollector::new(first_period),
                delays: has_delays.then(Box::default),
                losses: has_losses.then(Box::default),
                count: 0,
                received_before: 0,
                unrecorded: 0,
                is_incomplete: false,
                first: None,
                last: Times::default(),
                stretch_start: None,
                last_before: None,
                stretches: 0,
                active: 0,
                filter: None,
                latency: 0,
                is_reception_missing: Warning::default(),
                is_number_missing: Warning::default(),
                is_crowded: Warning::default(),
                are_samples_missing: Warning::default(),
            }),
            simulated,
        }
    }

    /// Returns the time in which messages are measured that are taken now; None while the statistics are off.
    #[inline]
    pub(crate) fn epoch(&self) -> Option<u32> {
        match self.epoch.load(Ordering::Relaxed) {
            0 => None,
            epoch => Some(epoch),
        }
    }

    /// Puts together what the statistics need of a message that was taken.
    #[inline(always)]
    pub(crate) fn received_message(&self, epoch: u32, header: i64, info: &MessageInfo) -> ReceivedMessage {
        let mut message = ReceivedMessage { epoch, header, transport: None };
        if self.needs.transport {
            let middleware = self.middleware.get_or_init(|| Middleware::of(info));
            message.transport = Some(TransportInfo::new(info, middleware));
        }
        message
    }

    /// Records a message whose callback's body starts now; returns what is needed to record its end, if that is asked for.
    #[inline]
    pub(crate) fn record(&self, message: &ReceivedMessage) -> Option<RunningBody> {
        let started = self.record_by(message, monotonic);
        self.needs.duration.then_some(RunningBody { epoch: message.epoch, started })
    }

    /// Records a message whose callback's body starts at the time that `clock` tells; returns that.
    #[inline(always)]
    pub(crate) fn record_by(&self, message: &ReceivedMessage, clock: impl FnOnce() -> i64) -> i64 {
        let simulated = || self.simulated.as_ref().map_or(0, |time| time.now(message.header));
        match self.collectors.try_lock() {
            Some(mut collectors) => {
                let callback = clock();
                collectors.accept_message(message, callback, simulated);
                callback
            }
            None => {
                let callback = clock();
                let sample = Sample::Message { message: *message, callback, simulated: simulated() };
                self.collectors.wait_or_count(sample, true);
                callback
            }
        }
    }

    /// Records that a callback's body ends now.
    pub(crate) fn record_end(&self, body: RunningBody) {
        let milliseconds = milliseconds_between(body.started, monotonic());
        let sample = Sample::End { epoch: body.epoch, milliseconds };
        match self.collectors.try_lock() {
            Some(mut collectors) => collectors.accept(&sample),
            None => self.collectors.wait_or_count(sample, false),
        }
    }

    /// Returns the messages received and lost of each publisher.
    pub(crate) fn publishers(&self) -> Vec<PublisherTotals> {
        let collectors = self.collectors.lock();
        let system = collectors.window.system;
        let losses = collectors.losses.as_ref();
        let publishers = losses.map_or(&[][..], |losses| losses.sequences.publishers());
        publishers.iter().map(|publisher| PublisherTotals::new(publisher, system)).collect()
    }

    /// Returns the times of the last message that was measured.
    pub(crate) fn last_message(&self) -> Option<MessageTimes> {
        let collectors = self.collectors.lock();
        let Times { header, source, received, .. } = collectors.last;
        let (mut system, callback, before) =
            (collectors.window.system, collectors.last_callback(), collectors.last_before);
        drop(collectors);
        let _step_that_no_window_has_seen_yet = system.check();
        let if_known = |time: i64| (time != 0).then_some(time);
        Some(MessageTimes {
            header: if_known(header),
            source: if_known(source),
            received: if_known(received),
            callback: callback.map(|callback| system.at(callback)).or(before)?,
        })
    }
}

#[cfg(test)]
mod tests;
