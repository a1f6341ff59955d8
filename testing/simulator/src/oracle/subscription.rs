// SPDX-License-Identifier: Apache-2.0

//! The oracle of a subscription.

use topic_statistics_core::{collector::FirstPeriod, health::Missing, record::recorder::AgeSource, Metric};

use super::{
    losses::{add_gap, Gap, Losses},
    milliseconds, Expected, Received, Stamp, Totals, Window, WindowTimes,
};

/// The longest time between two readings of simulated time, from docs/reliability.md, in nanoseconds.
const READ_WITHIN: i64 = 100_000_000;

#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub metrics: Vec<Metric>,
    pub age_source: AgeSource,
    pub first_period: FirstPeriod,
    pub is_simulated: bool,
}

/// The samples that were lost while a window ended. These samples may belong to this window or to the next window.
pub struct LostAtEnd {
    pub has_samples: bool,
    /// How many of the lost samples are of messages, which are counted but not measured. The other lost samples are the
    /// ends of callbacks.
    pub messages: u64,
}

#[derive(Default)]
pub struct Subscription {
    pub settings: Settings,
    /// How often the statistics were enabled or disabled. They are enabled while this number is odd.
    switches: u32,
    pub times: WindowTimes,
    messages: Vec<Received>,
    durations: Vec<f64>,
    gaps: Vec<Gap>,
    evictions_at_start: u64,
    /// The known losses at the end of the previous window.
    lost_before: Option<u64>,
    carried: Option<i64>,
    /// Whether a message of this window was recorded after a later message.
    is_unordered: bool,
    /// The number of messages of this window that were counted but not measured.
    unrecorded: u64,
    /// Whether a sample of this window is missing.
    is_incomplete: bool,
    /// Whether messages were only counted, and not measured, while the previous window ended.
    has_counted_at_start: bool,
    /// Whether a sample was missing in any window.
    pub has_missed: bool,
    /// Whether the last message of a window had a stamp on another clock.
    pub has_other_clock: bool,
    /// How often stamps became doubtful or usable again, until now.
    pub steps: u32,
    /// The value of `steps` when the last step of the system clock was found.
    steps_at_last: u32,
    /// When the system clock was stepped last, on the monotonic clock.
    pub stepped_at: Option<i64>,
    /// For each step, the monotonic time until which a valid stamp may be doubtful.
    doubtful_until: Vec<i64>,
    /// When the host was suspended last, on the monotonic clock.
    pub suspended_at: Option<i64>,
    /// When simulated time jumped last, on the monotonic clock.
    pub jumped_at: Option<i64>,
    received: u64,
    bytes: u64,
    /// Whether some received messages were only counted, so that their bytes are unknown.
    has_counted: bool,
    first: Option<i64>,
    last: Option<i64>,
    /// The monotonic times of the callbacks of the first and the last message since the statistics were enabled.
    enabled_span: Option<(i64, i64)>,
    /// Whether messages after the last message of `enabled_span` were counted but not measured.
    has_later: bool,
    epochs_with_messages: u64,
    active_before: i64,
    /// Whether an enabled period began or ended with messages that were counted but not measured.
    has_unknown_span: bool,
    pub losses: Losses,
}

impl Subscription {
    pub fn new(settings: Settings, offset: i64, suspended: i64) -> Self {
        let times = WindowTimes::new(offset, suspended);
        Self { settings, times, lost_before: Some(0), ..Self::default() }
    }

    /// Returns the number of the present enabled period; `None` while disabled. A message that was taken in another
    /// enabled period is not recorded.
    pub fn epoch(&self) -> Option<u32> {
        (self.switches % 2 == 1).then_some(self.switches)
    }

    pub fn enable(&mut self, now: i64, offset: i64, suspended: i64) {
        if self.epoch().is_some() {
            return;
        }
        self.doubtful_until.retain(|until| now <= *until);
        // If the clock was stepped while the statistics were disabled, stamps are doubtful for 10 s.
        if self.times.restart(now, offset, suspended).is_some() {
            self.doubtful_until.push(now + 10_000_000_000);
        }
        self.switches += 1;
        self.clear();
        (self.carried, self.is_incomplete, self.has_later) = (None, false, false);
        (self.has_counted_at_start, self.is_unordered) = (false, false);
        self.losses.pause();
    }

    pub fn disable(&mut self) {
        if self.epoch().is_none() {
            return;
        }
        if let Some((first, last)) = self.enabled_span.take() {
            self.active_before += last - first;
        }
        self.has_unknown_span |= self.has_later;
        self.switches += 1;
    }

    /// Returns whether `last`, the time of the last step or suspend, is in this window. A second step or suspend in the
    /// same window must not be injected, because the library would not find it.
    pub fn has(&self, last: Option<i64>) -> bool {
        self.epoch().is_some() && last.is_some_and(|at| at >= self.times.start)
    }

    /// The callback of a message starts. `epoch` is the enabled period in which the message was taken.
    pub fn receive(&mut self, epoch: Option<u32>, message: Received) {
        if epoch.is_none() || epoch != self.epoch() {
            return;
        }
        self.received += 1;
        self.bytes += u64::from(message.size);
        self.messages.push(message);
        match &mut self.enabled_span {
            Some((first, last)) if message.callback < *last => {
                self.is_unordered = true;
                *first = message.callback.min(*first);
                self.first = self.first.map(|first| first.min(message.callback));
            }
            Some((_, last)) => {
                *last = message.callback;
                (self.has_later, self.last) = (false, Some(message.callback));
            }
            None => {
                self.enabled_span = Some((message.callback, message.callback));
                self.epochs_with_messages += 1;
                self.first.get_or_insert(message.callback);
                (self.has_later, self.last) = (false, Some(message.callback));
            }
        }
        if self.measures_losses() {
            let Received { publisher, number, callback, is_filtered, .. } = message;
            let shown = self.losses.receive(publisher, number, callback, is_filtered);
            add_gap(&mut self.gaps, shown);
        }
    }

    pub fn end(&mut self, epoch: Option<u32>, milliseconds: f64) {
        if epoch.is_some() && epoch == self.epoch() {
            self.durations.push(milliseconds);
        }
    }

    /// The callback of a message starts, and the message can only be counted, not measured.
    pub fn count(&mut self, epoch: Option<u32>) {
        self.miss();
        if epoch.is_some() && epoch == self.epoch() {
            self.received += 1;
            self.unrecorded += 1;
            self.has_counted = true;
            self.losses.miss();
            self.has_later = true;
            self.has_unknown_span |= self.enabled_span.is_none();
        }
    }

    /// A callback ends while the library cannot record its duration, so the figures of the window are incomplete.
    pub fn miss(&mut self) {
        self.is_incomplete |= self.epoch().is_some();
        self.has_missed |= self.is_incomplete;
    }

    /// Notes that messages which were only counted may be later than all measured messages.
    pub fn count_later(&mut self) {
        self.has_later = self.epoch().is_some();
    }

    fn measures_losses(&self) -> bool {
        self.settings.metrics.contains(&Metric::PublicationSeqGap)
    }

    pub fn lost(&self) -> Option<u64> {
        self.losses.lost().filter(|_| self.measures_losses())
    }

    pub fn totals(&self) -> Totals {
        let losses = Some(&self.losses).filter(|_| self.measures_losses());
        let is_known = !self.has_later && !self.has_unknown_span;
        Totals {
            received: self.received,
            lost: losses.and_then(Losses::lost),
            out_of_order: losses.and_then(Losses::out_of_order),
            duplicates: losses.and_then(Losses::duplicates),
            publishers: losses.and_then(Losses::publishers),
            bytes: Some(self.bytes)
                .filter(|_| self.settings.metrics.contains(&Metric::MessageSize) && !self.has_counted),
            first: self.first.map(|first| self.times.system(first)),
            last: self.last.map(|last| self.times.system(last)),
            active: self.active_before + self.enabled_span.map_or(0, |(first, last)| last - first),
            intervals: is_known.then(|| self.received.saturating_sub(self.epochs_with_messages)),
        }
    }

    /// Returns the messages lost in this window, and starts the next window. A late message reduces the losses of an
    /// earlier window, so the sum of the losses can decrease.
    fn lost_in_window(&mut self) -> Option<u64> {
        let now = match self.received {
            0 => Some(0),
            _ => self.losses.followed_lost().filter(|_| self.measures_losses()),
        };
        let before = std::mem::replace(&mut self.lost_before, now);
        // If a publisher was replaced in this window, it may have lost messages that are not counted, so the losses are
        // unknown.
        let (now, before) = now.zip(before)?;
        (self.losses.evictions == self.evictions_at_start).then(|| now.saturating_sub(before))
    }

    fn clear(&mut self) {
        self.evictions_at_start = self.losses.evictions;
        self.messages.clear();
        self.durations.clear();
        self.gaps.clear();
        self.unrecorded = 0;
    }

    /// Ends the window, and returns what the oracle knows about it.
    pub fn end_window(&mut self, now: i64, offset: i64, suspended: i64, lost: &LostAtEnd) -> Window {
        let offset_before = self.times.offset;
        let window = self.times.end(now, offset, suspended);
        let (start, step) = (window.start, window.step);
        let metrics = self.settings.metrics.clone();
        let metrics = metrics
            .iter()
            .map(|metric| (*metric, self.metric(*metric, now, (start, offset_before), step.is_some())))
            .collect();
        let latest = self.messages.iter().max_by_key(|message| message.callback);
        let missing = match latest.map(|message| message.header) {
            _ if self.settings.age_source != AgeSource::HeaderStamp => None,
            Some(Stamp { value: 0, .. }) => Some(Missing::HeaderStamps),
            Some(Stamp { is_of_other_clock: true, .. }) if step.is_none() => Some(Missing::OtherClock),
            _ => None,
        };
        self.has_other_clock |= missing == Some(Missing::OtherClock);
        let window = Window {
            count: (!self.has_counted_at_start && lost.messages == 0)
                .then_some(self.messages.len() as u64 + self.unrecorded),
            unrecorded: self.unrecorded,
            missing,
            lost: self.lost_in_window(),
            metrics,
            totals: Some(self.totals()),
            ..window
        };
        // As docs/reliability.md says, stamps are doubtful until all messages that were under way at the step have
        // arrived.
        let doubtful = self.doubtful_until.len();
        self.doubtful_until.retain(|until| now <= *until);
        let has_expired = self.doubtful_until.len() < doubtful;
        if step.is_some() {
            self.doubtful_until.push(now + 10_000_000_000);
        }
        self.steps += u32::from(step.is_some() || has_expired);
        if step.is_some() {
            self.steps_at_last = self.steps;
        }
        self.carried = match self.settings.first_period {
            FirstPeriod::CarriedOver if !self.has_later => {
                self.messages.iter().map(|message| message.callback).max().or(self.carried)
            }
            _ => None,
        };
        self.clear();
        self.is_unordered = false;
        self.is_incomplete = lost.has_samples;
        self.has_counted_at_start = lost.messages > 0;
        window
    }

    fn metric(&self, metric: Metric, now: i64, (start, offset): (i64, i64), is_stepped: bool) -> Expected {
        if metric == Metric::ClockOffset {
            return Expected::Kernel;
        }
        if metric == Metric::PublicationSeqGap {
            let is_known =
                self.losses.followed_are_known() && self.losses.evictions == self.evictions_at_start;
            let gaps = self.gaps.iter().map(|gap| gap.missing as f64);
            return Expected::Samples(if is_known { gaps.collect() } else { vec![] });
        }
        if self.is_incomplete {
            return Expected::Samples(vec![]);
        }
        let (is_simulated, is_stepped) = (self.settings.is_simulated, (start, is_stepped));
        // Callbacks are converted into system time by the clock offset at the start of their window.
        let callback = |message: &Received| Stamp {
            value: message.callback + offset,
            read_at: Some(message.callback),
            ..Stamp::NONE
        };
        let ros = |message: &Received| match self.settings.is_simulated {
            true => Stamp { value: message.ros, jumps: message.jumps, ..Stamp::NONE },
            false => callback(message),
        };
        let header_and_ros = |message: &Received| (message.header, ros(message));
        match metric {
            Metric::MessageAge if self.settings.age_source == AgeSource::HeaderStamp => {
                self.delays(header_and_ros, is_simulated, is_stepped)
            }
            Metric::MessageAge => {
                self.delays(|message| (message.source, callback(message)), false, is_stepped)
            }
            Metric::HeaderToSource if self.settings.is_simulated => Expected::Samples(vec![]),
            Metric::HeaderToSource => {
                self.delays(|message| (message.header, message.source), false, is_stepped)
            }
            Metric::SourceToReceive => {
                self.delays(|message| (message.source, message.received), false, is_stepped)
            }
            Metric::ReceiveToCallback => {
                self.delays(|message| (message.received, callback(message)), false, is_stepped)
            }
            Metric::SourceToCallback => {
                self.delays(|message| (message.source, callback(message)), false, is_stepped)
            }
            Metric::HeaderToCallback => self.delays(header_and_ros, is_simulated, is_stepped),
            // As docs/statistics.md says, a window has no periods if its messages were recorded out of order.
            Metric::MessagePeriod if self.is_unordered => Expected::Samples(vec![]),
            Metric::MessagePeriod => {
                let callbacks =
                    self.carried.into_iter().chain(self.messages.iter().map(|message| message.callback));
                let callbacks: Vec<i64> = callbacks.collect();
                Expected::Samples(callbacks.windows(2).map(|pair| milliseconds(pair[1] - pair[0])).collect())
            }
            Metric::MessageSize => {
                Expected::Samples(self.messages.iter().map(|message| message.size.into()).collect())
            }
            Metric::CallbackDuration => Expected::Samples(self.durations.clone()),
            Metric::TimeSinceLastMessage => {
                let last = self.enabled_span.filter(|_| !self.has_later);
                Expected::Samples(last.iter().map(|(_, last)| milliseconds(now - last)).collect())
            }
            _ => Expected::Samples(vec![]),
        }
    }

    fn delays(
        &self,
        stamps: impl Fn(&Received) -> (Stamp, Stamp),
        is_simulated: bool,
        (start, is_stepped): (i64, bool),
    ) -> Expected {
        if is_stepped && !is_simulated {
            return Expected::Samples(vec![]);
        }
        let is_good =
            |stamp: Stamp| match (is_simulated, self.stepped_at.max(self.suspended_at), stamp.read_at) {
                // A stamp that was read before the last step or suspend is a time of the clock as it was before that
                // event.
                (false, Some(stepped_at), Some(read_at)) => read_at >= stepped_at,
                _ => true,
            };
        // As docs/reliability.md says, a message is under way for up to 10 s. So a message that was stamped more than
        // 10 s before the jump, or received 10 s or more after it, was not under way at the jump: its stamp is only
        // old.
        let is_old = |message: &Received, stamp: Stamp| match (message.jumped_at, stamp.read_at) {
            (Some(jumped), Some(read)) => {
                let has_arrived =
                    read < jumped - 10_000_000_000 || message.callback >= jumped + 10_000_000_000;
                has_arrived && message.taken >= jumped
            }
            _ => false,
        };
        let sample = |message: &Received| {
            let (from, to) = stamps(message);
            let is_same_time = from.jumps == to.jumps || is_old(message, from);
            let is_known = from.value != 0 && to.value != 0 && is_same_time && !from.is_of_other_clock;
            (is_known && is_good(from) && is_good(to)).then(|| milliseconds(to.value - from.value))
        };
        // A message that was taken before the last step or jump was found has no age. A message that was taken later,
        // but before stamps became usable again or simulated time was read again, may or may not have an age.
        let is_certain = |message: &Received| match is_simulated {
            true => message.jumped_at.is_none_or(|jumped| message.taken > jumped + READ_WITHIN),
            false => message.steps == self.steps,
        };
        let is_possible = |message: &Received| is_simulated || message.steps >= self.steps_at_last;
        let delays_of = |is_expected: &dyn Fn(&Received) -> bool| -> Vec<f64> {
            self.messages.iter().filter(|message| is_expected(message)).filter_map(sample).collect()
        };
        let (certain, samples) = (delays_of(&is_certain).len(), delays_of(&is_possible));
        // A jump is found at the next reading of simulated time. Until then, and until all messages that were under way
        // at the jump have arrived, valid stamps may be unused.
        let jumped = self.jumped_at.is_some_and(|at| start < at + 11_000_000_000);
        let is_doubtful = if is_simulated { jumped } else { !self.doubtful_until.is_empty() };
        if is_doubtful {
            Expected::SomeOf(samples, 0)
        } else if certain < samples.len() {
            Expected::SomeOf(samples, certain)
        } else {
            Expected::Samples(samples)
        }
    }
}
