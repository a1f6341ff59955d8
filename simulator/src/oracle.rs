// SPDX-License-Identifier: Apache-2.0

//! The naive oracle of a subscription: it keeps every sample and every truth, and computes figures from them in the simplest way.

use std::collections::{BTreeMap, BTreeSet};

use crate::{collector::FirstPeriod, options::AgeSource, transport::Gid, window::Metric};

/// How a subscription measures.
#[derive(Clone, Debug)]
pub struct Settings {
    pub metrics: Vec<Metric>,
    pub age_source: AgeSource,
    pub first_period: FirstPeriod,
    pub is_simulated: bool,
}

/// A stamp, and the truth about it.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// In nanoseconds; 0 if there is none.
    pub value: i64,
    /// When it was read from this host's system clock, on the monotonic clock; None if it is another host's.
    pub read_at: Option<i64>,
    /// How often simulated time had jumped before, if it is of simulated time.
    pub jumps: u32,
}

impl Stamp {
    pub const NONE: Self = Self { value: 0, read_at: None, jumps: 0 };
}

/// A message whose callback has started, and the truth about it.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// On the monotonic clock.
    pub callback: i64,
    /// Simulated time at the callback, and how often it had jumped.
    pub ros: i64,
    pub jumps: u32,
    pub header: Stamp,
    pub source: Stamp,
    /// [`Stamp::NONE`] if the middleware does not report the time of reception.
    pub received: Stamp,
    /// How often stamps had become doubtful, or usable again, when it was taken.
    pub steps: u32,
    pub publisher: Gid,
    /// None if the middleware does not number messages.
    pub number: Option<u64>,
}

/// What is known of a metric in a window.
#[derive(Clone, Debug)]
pub enum Expected {
    /// These samples.
    Samples(Vec<f64>),
    /// Some of these samples: after a step, a good stamp may be doubtful to a subscription, but a bad one must not be used.
    SomeOf(Vec<f64>),
}

/// The figures of a window.
#[derive(Debug)]
pub struct Window {
    pub start: i64,
    pub stop: i64,
    /// System time less monotonic time at the stop.
    pub offset: i64,
    pub step: Option<i64>,
    pub count: u64,
    pub metrics: Vec<(Metric, Expected)>,
    pub totals: Totals,
}

/// Messages received and lost since the creation.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    pub received: u64,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    pub duplicates: Option<u64>,
    pub publishers: Option<u64>,
    pub first: Option<i64>,
    pub last: Option<i64>,
    /// From the first message to the last while the statistics were enabled, and the intervals in it.
    pub active: i64,
    pub intervals: u64,
}

/// The oracle of a subscription.
pub struct Subscription {
    settings: Settings,
    /// The number of times that it was enabled; the statistics are enabled if it is odd.
    switches: u32,
    window_start: i64,
    /// System time less monotonic time at the last end of a window.
    offset: i64,
    suspended: i64,
    /// Messages of this window, and durations of callbacks that ended in it.
    messages: Vec<Received>,
    durations: Vec<f64>,
    gaps: Vec<f64>,
    carried: Option<i64>,
    /// How often stamps became doubtful, or usable again.
    steps: u32,
    /// When the system clock was stepped last, on the monotonic clock.
    stepped_at: Option<i64>,
    /// Until then, on the monotonic clock, a good stamp may be doubtful, for each step.
    doubtful_until: Vec<i64>,
    /// When simulated time jumped last, on the monotonic clock.
    jumped_at: Option<i64>,
    received: u64,
    first: Option<i64>,
    last_before: Option<i64>,
    /// The callbacks of the first and the last message since it was enabled.
    of_epoch: Option<(i64, i64)>,
    epochs_with_messages: u64,
    active_before: i64,
    publishers: BTreeMap<Gid, Publisher>,
    has_evicted: bool,
    has_unnumbered: bool,
    lost: u64,
    out_of_order: u64,
    duplicates: u64,
}

/// What was received of a publisher since its first message, or since the statistics were enabled.
struct Publisher {
    first: u64,
    latest: u64,
    missing: BTreeSet<u64>,
    is_new: bool,
}

impl Subscription {
    /// Publishers that are followed.
    pub const PUBLISHERS: usize = 256;
    /// A message may be that many numbers late; then its loss is not taken back.
    const WINDOW: u64 = 64;

    pub fn new(settings: Settings, offset: i64, suspended: i64) -> Self {
        Self {
            settings,
            switches: 0,
            window_start: 0,
            offset,
            suspended,
            messages: vec![],
            durations: vec![],
            gaps: vec![],
            carried: None,
            steps: 0,
            stepped_at: None,
            doubtful_until: vec![],
            jumped_at: None,
            received: 0,
            first: None,
            last_before: None,
            of_epoch: None,
            epochs_with_messages: 0,
            active_before: 0,
            publishers: BTreeMap::new(),
            has_evicted: false,
            has_unnumbered: false,
            lost: 0,
            out_of_order: 0,
            duplicates: 0,
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the time in which it is enabled, by which messages are told apart that were taken in another; None while disabled.
    pub fn epoch(&self) -> Option<u32> {
        (self.switches % 2 == 1).then_some(self.switches)
    }

    /// Returns how often stamps became doubtful, or usable again.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    pub fn enable(&mut self, now: i64, offset: i64, suspended: i64) {
        if self.epoch().is_some() {
            return;
        }
        self.doubtful_until.retain(|until| now <= *until);
        // The clock may have been stepped while the statistics were disabled.
        self.correct(offset, suspended);
        if offset != self.offset {
            self.doubtful_until.push(now + 10_000_000_000);
        }
        self.switches += 1;
        (self.window_start, self.offset, self.suspended) = (now, offset, suspended);
        self.messages.clear();
        self.durations.clear();
        self.gaps.clear();
        self.carried = None;
        self.publishers.values_mut().for_each(|publisher| publisher.is_new = true);
    }

    pub fn disable(&mut self) {
        if self.epoch().is_none() {
            return;
        }
        self.last_before = self.last_message();
        if let Some((first, last)) = self.of_epoch.take() {
            self.active_before += last - first;
        }
        self.switches += 1;
    }

    pub fn step(&mut self, now: i64) {
        self.stepped_at = Some(now);
    }

    pub fn jump(&mut self, now: i64) {
        self.jumped_at = Some(now);
    }

    /// Corrects the times of messages by the steps of the system clock, but not by the time of suspends, which did pass.
    fn correct(&mut self, offset: i64, suspended: i64) {
        let correction = (offset - self.offset) - (suspended - self.suspended);
        for time in [&mut self.first, &mut self.last_before].into_iter().flatten() {
            *time += correction;
        }
    }

    /// A callback starts, of a message that was taken in that epoch.
    pub fn receive(&mut self, epoch: Option<u32>, message: Received) {
        if epoch.is_none() || epoch != self.epoch() {
            return;
        }
        self.received += 1;
        self.messages.push(message);
        match &mut self.of_epoch {
            Some((_, last)) => *last = message.callback,
            None => {
                self.of_epoch = Some((message.callback, message.callback));
                self.epochs_with_messages += 1;
                self.first.get_or_insert(message.callback + self.offset);
            }
        }
        if self.settings.metrics.contains(&Metric::PublicationSeqGap) {
            self.count_losses(message.publisher, message.number);
        }
    }

    /// A callback ends.
    pub fn end(&mut self, epoch: Option<u32>, milliseconds: f64) {
        if epoch.is_some() && epoch == self.epoch() {
            self.durations.push(milliseconds);
        }
    }

    fn count_losses(&mut self, gid: Gid, number: Option<u64>) {
        let is_full = self.publishers.len() >= Self::PUBLISHERS;
        let Some(number) = number else {
            self.has_unnumbered = true;
            self.has_evicted |= is_full && !self.publishers.contains_key(&gid);
            let new = Publisher { first: 0, latest: 0, missing: BTreeSet::new(), is_new: true };
            self.publishers.entry(gid).or_insert(new);
            return;
        };
        let new = Publisher { first: number, latest: number, missing: BTreeSet::new(), is_new: false };
        let Some(publisher) = self.publishers.get_mut(&gid) else {
            self.has_evicted |= is_full;
            self.publishers.insert(gid, new);
            return;
        };
        if publisher.is_new {
            *publisher = new;
        } else if number > publisher.latest {
            let gap = publisher.latest + 1..number;
            self.gaps.push((number - publisher.latest - 1) as f64);
            self.lost += number - publisher.latest - 1;
            publisher.missing.extend(gap);
            publisher.latest = number;
        } else if number == publisher.latest {
            self.duplicates += 1;
        } else if publisher.latest - number >= Self::WINDOW || number < publisher.first {
            self.out_of_order += 1;
        } else if publisher.missing.remove(&number) {
            self.lost -= 1;
            self.out_of_order += 1;
        } else {
            self.duplicates += 1;
        }
    }

    fn last_message(&self) -> Option<i64> {
        self.of_epoch.map(|(_, last)| last + self.offset).or(self.last_before)
    }

    /// Returns the losses that are known.
    pub fn lost(&self) -> Option<u64> {
        let measures = self.settings.metrics.contains(&Metric::PublicationSeqGap);
        let is_known = !self.has_unnumbered && !self.has_evicted && !self.publishers.is_empty();
        (measures && is_known).then_some(self.lost)
    }

    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    pub fn totals(&self) -> Totals {
        let measures = self.settings.metrics.contains(&Metric::PublicationSeqGap);
        let lost = self.lost();
        Totals {
            received: self.received,
            lost,
            out_of_order: lost.map(|_| self.out_of_order),
            duplicates: lost.map(|_| self.duplicates),
            publishers: (measures && !self.has_evicted).then_some(self.publishers.len() as u64),
            first: self.first,
            last: self.last_message(),
            active: self.active_before + self.of_epoch.map_or(0, |(first, last)| last - first),
            intervals: self.received.saturating_sub(self.epochs_with_messages),
        }
    }

    /// Ends the window, and returns what is known of it.
    pub fn end_window(&mut self, now: i64, offset: i64, suspended: i64) -> Window {
        let step = Some(offset - self.offset).filter(|step| step.abs() > 10_000);
        self.correct(offset, suspended);
        let offset_before = self.offset;
        (self.offset, self.suspended) = (offset, suspended);
        let metrics = self.settings.metrics.clone();
        let metrics =
            metrics.iter().map(|of| (*of, self.metric(*of, now, offset_before, step.is_some()))).collect();
        let window = Window {
            start: self.window_start,
            stop: now,
            offset,
            step,
            count: self.messages.len() as u64,
            metrics,
            totals: self.totals(),
        };
        // By docs/reliability.md: until messages that were under way have arrived.
        let doubtful = self.doubtful_until.len();
        self.doubtful_until.retain(|until| now <= *until);
        let has_expired = self.doubtful_until.len() < doubtful;
        if step.is_some() {
            self.doubtful_until.push(now + 10_000_000_000);
        }
        self.steps += u32::from(step.is_some() || has_expired);
        self.carried = match self.settings.first_period {
            FirstPeriod::CarriedOver => self.messages.last().map(|last| last.callback).or(self.carried),
            FirstPeriod::NoSample => None,
        };
        self.window_start = now;
        self.messages.clear();
        self.durations.clear();
        self.gaps.clear();
        window
    }

    fn metric(&self, metric: Metric, now: i64, offset: i64, is_stepped: bool) -> Expected {
        // A window's callbacks are on the system clock as it was at the window's start.
        let callback = |message: &Received| Stamp {
            value: message.callback + offset,
            read_at: Some(message.callback),
            jumps: 0,
        };
        let ros = |message: &Received| match self.settings.is_simulated {
            true => Stamp { value: message.ros, read_at: None, jumps: message.jumps },
            false => callback(message),
        };
        let header_and_ros = |message: &Received| (message.header, ros(message));
        match metric {
            Metric::MessageAge if self.settings.age_source == AgeSource::HeaderStamp => {
                self.delays(header_and_ros, self.settings.is_simulated, is_stepped)
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
            Metric::HeaderToCallback => self.delays(header_and_ros, self.settings.is_simulated, is_stepped),
            Metric::MessagePeriod => {
                let callbacks =
                    self.carried.into_iter().chain(self.messages.iter().map(|message| message.callback));
                let callbacks: Vec<i64> = callbacks.collect();
                Expected::Samples(callbacks.windows(2).map(|pair| milliseconds(pair[1] - pair[0])).collect())
            }
            Metric::CallbackDuration => Expected::Samples(self.durations.clone()),
            Metric::PublicationSeqGap => Expected::Samples(match self.lost() {
                Some(_) => self.gaps.clone(),
                None => vec![],
            }),
            Metric::TimeSinceLastMessage => {
                Expected::Samples(self.of_epoch.iter().map(|(_, last)| milliseconds(now - last)).collect())
            }
            _ => Expected::Samples(vec![]),
        }
    }

    /// The times between two stamps of each message.
    fn delays(
        &self,
        stamps: impl Fn(&Received) -> (Stamp, Stamp),
        is_simulated: bool,
        is_stepped: bool,
    ) -> Expected {
        if is_stepped && !is_simulated {
            return Expected::Samples(vec![]);
        }
        let is_good = |of: Stamp| match (is_simulated, self.stepped_at, of.read_at) {
            // Read before the step: a time of another clock.
            (false, Some(stepped_at), Some(read_at)) => read_at >= stepped_at,
            _ => true,
        };
        // A message that was taken before stamps became doubtful or usable has no age.
        let taken_since = self.messages.iter().filter(|of| is_simulated || of.steps == self.steps);
        let good = taken_since.map(stamps).filter(|(from, to)| {
            from.value != 0 && to.value != 0 && is_good(*from) && is_good(*to) && from.jumps == to.jumps
        });
        let samples = good.map(|(from, to)| milliseconds(to.value - from.value)).collect();
        // A jump is seen at the next reading; until then, and while the rate is measured anew, good stamps may be doubtful.
        let jumped = self.jumped_at.is_some_and(|at| self.window_start < at + 11_000_000_000);
        let is_doubtful = if is_simulated { jumped } else { !self.doubtful_until.is_empty() };
        if is_doubtful {
            Expected::SomeOf(samples)
        } else {
            Expected::Samples(samples)
        }
    }
}

fn milliseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e6
}
