//! What a callback records into, and what the end of a window reads from.

use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc,
};

use crate::{
    collector::{
        milliseconds_between, AgeCollector, FirstPeriod, PeriodCollector, Sequence, SequenceTracker,
        SummaryCollector,
    },
    host::{self, system_time},
    lock::{Lock, LockGuard},
    measured::{one, Recording},
    options::{AgeSource, TopicStatisticsOptions},
    probe::{Arrival, Gid, Told},
    simulated_time::SimulatedTime,
    totals::{PublisherTotals, Totals},
    window::{MessageTimes, Metric, Window, WindowStatistics},
};

/// What a callback records into and the end of a window reads from.
pub(crate) struct Recorder {
    enabled: AtomicBool,
    pub(crate) needs: Needs,
    age_source: AgeSource,
    first_period: FirstPeriod,
    /// The node's clock, if it runs on simulated time; otherwise ROS time is system time (as rclrs has it, and
    /// `use_sim_time` cannot change while a node lives), and one clock reading serves both.
    simulated: Option<Arc<SimulatedTime>>,
    metrics: Vec<Metric>,
    /// The topic, for what there is to say of it.
    topic: String,
    collectors: Lock<Collectors>,
}

/// What the metrics ask for beyond the time at which a callback starts.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    /// What the middleware tells of a message.
    pub(crate) info: bool,
    /// That, or simulated time.
    more: bool,
    /// The end of the callback's body.
    pub(crate) duration: bool,
}

struct Collectors {
    window_start: i64,
    age: AgeCollector,
    period: PeriodCollector,
    /// None if no metric asks for it.
    delays: Option<Box<Delays>>,
    /// None if no metric asks for it.
    losses: Option<Box<Losses>>,
    received: u64,
    /// How many of them came before this window.
    received_before: u64,
    /// When the first message's callback started.
    first: i64,
    /// Of the last message.
    last: Times,
}

/// When a message passed each point of its way: nanoseconds, 0 if that is not known.
#[derive(Clone, Copy, Default)]
struct Times {
    header: i64,
    source: i64,
    received: i64,
    callback: i64,
}

impl Collectors {
    fn totals(&self) -> Totals {
        let losses = self.losses.as_ref().map(|losses| losses.sequences.totals());
        let if_any = |time: i64| (self.received > 0).then_some(time);
        Totals {
            received: self.received,
            lost: losses.and_then(|totals| totals.lost),
            out_of_order: losses.map(|totals| totals.out_of_order),
            publishers: losses.map(|totals| totals.publishers_seen),
            first_message: if_any(self.first),
            last_message: if_any(self.last.callback),
        }
    }

    /// Starts a window that knows of nothing before, now.
    fn start_anew(&mut self, first_period: FirstPeriod) {
        self.window_start = system_time();
        self.received_before = self.received;
        self.age = AgeCollector::default();
        self.period = PeriodCollector::new(first_period);
        if let Some(delays) = &mut self.delays {
            **delays = Delays::default();
        }
        if let Some(losses) = &mut self.losses {
            losses.gaps = SummaryCollector::default();
            losses.sequences.pause();
        }
    }
}

/// Where the age arose.
#[derive(Default)]
struct Delays {
    header_to_source: AgeCollector,
    source_to_receive: AgeCollector,
    receive_to_callback: AgeCollector,
    header_to_callback: AgeCollector,
    callback_duration: AgeCollector,
}

/// What is missing.
#[derive(Default)]
struct Losses {
    sequences: SequenceTracker<Gid>,
    gaps: SummaryCollector,
    /// Whether it was said that losses are not known.
    is_told: bool,
}

impl Losses {
    fn accept(&mut self, publisher: Gid, number: u64, now: i64) {
        if let Sequence::Next { gap } = self.sequences.accept(publisher, number, now) {
            self.gaps.accept(gap as f64);
        }
    }

    /// Returns true once, if the middleware does not number messages.
    fn is_to_be_told(&mut self) -> bool {
        let is_new = !self.is_told && self.sequences.has_messages_without_number();
        self.is_told |= is_new;
        is_new
    }
}

impl Recording for Recorder {
    fn set_enabled(&self, enabled: bool) {
        let mut collectors = self.lock();
        if enabled && !self.is_enabled() {
            collectors.start_anew(self.first_period);
        }
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    fn end_window(&self) -> Option<WindowStatistics> {
        // What takes time is done before the lock is taken, and after it is released.
        let mut metrics = Vec::with_capacity(self.metrics.len());
        let clock_offset = self.metrics.contains(&Metric::ClockOffset).then(host::clock_offset).flatten();
        let mut collectors = self.lock();
        if !self.is_enabled() {
            return None;
        }
        let stop = system_time();
        let start = std::mem::replace(&mut collectors.window_start, stop);
        let Collectors { age, period, delays, losses, last, received, received_before, .. } =
            &mut *collectors;
        let count = *received - std::mem::replace(received_before, *received);
        let mut unused = Delays::default();
        let delays = delays.as_deref_mut().unwrap_or(&mut unused);
        for metric in &self.metrics {
            let summary = match metric {
                Metric::MessageAge => age.take(),
                Metric::MessagePeriod => period.take(),
                Metric::HeaderToSource => delays.header_to_source.take(),
                Metric::SourceToReceive => delays.source_to_receive.take(),
                Metric::ReceiveToCallback => delays.receive_to_callback.take(),
                Metric::HeaderToCallback => delays.header_to_callback.take(),
                Metric::CallbackDuration => delays.callback_duration.take(),
                Metric::PublicationSeqGap => {
                    losses.as_mut().map_or_else(|| one(None), |losses| losses.gaps.take())
                }
                Metric::TimeSinceLastMessage => {
                    one((*received > 0).then(|| since(last.callback, stop)).flatten())
                }
                Metric::ClockOffset => one(clock_offset),
                // The options of a subscription refuse them.
                Metric::PublishPeriod | Metric::PublishDuration | Metric::Duration | Metric::Frequency => {
                    continue
                }
            };
            metrics.push((*metric, summary));
        }
        let is_unnumbered = losses.as_mut().is_some_and(|losses| losses.is_to_be_told());
        let totals = Some(collectors.totals());
        drop(collectors);
        if is_unnumbered {
            tracing::warn!(
                "Losses on {} are not known, and {} is NaN: the middleware does not number messages",
                self.topic,
                Metric::PublicationSeqGap.name()
            );
        }
        Some(WindowStatistics { window: Window { start, stop }, count, metrics, totals })
    }

    fn totals(&self) -> Option<Totals> {
        Some(self.lock().totals())
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
                    | Metric::HeaderToCallback
                    | Metric::CallbackDuration
            )
        });
        let has_losses = metrics.contains(&Metric::PublicationSeqGap);
        let age_source = options.age_source.unwrap_or_default();
        let needs_info = has_delays || has_losses || age_source == AgeSource::SourceTimestamp;
        Self {
            enabled: AtomicBool::new(false),
            needs: Needs {
                info: needs_info,
                more: needs_info || simulated.is_some(),
                duration: metrics.contains(&Metric::CallbackDuration),
            },
            age_source,
            first_period: options.first_period.unwrap_or_default(),
            simulated,
            metrics,
            topic: topic.to_owned(),
            collectors: Lock::new(Collectors {
                window_start: 0,
                age: AgeCollector::default(),
                period: PeriodCollector::default(),
                delays: has_delays.then(Box::default),
                losses: has_losses.then(Box::default),
                received: 0,
                received_before: 0,
                first: 0,
                last: Times::default(),
            }),
        }
    }

    /// Returns whether messages are measured.
    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// Records a message whose callback's body starts now; returns when that is.
    #[inline]
    pub(crate) fn record(&self, arrival: &Arrival) -> i64 {
        let mut collectors = self.lock();
        // Read under the lock, as a window's stop is: a message belongs to the window that its time lies in.
        let now = system_time();
        self.accept(&mut collectors, arrival, now);
        now
    }

    /// Records a message whose callback's body starts at `now`.
    #[inline(always)]
    pub(crate) fn record_at(&self, arrival: &Arrival, now: i64) {
        self.accept(&mut self.lock(), arrival, now);
    }

    /// Accepts a message whose callback's body starts at `now`.
    #[inline(always)] // a call and the registers that it saves are a sixth of the instructions
    fn accept(&self, collectors: &mut Collectors, arrival: &Arrival, now: i64) {
        if self.needs.more {
            self.accept_more(collectors, arrival, now);
        } else {
            collectors.age.accept(arrival.header, now);
        }
        collectors.period.accept(now);
        if collectors.received == 0 {
            collectors.first = now;
        }
        collectors.received += 1;
        collectors.last.header = arrival.header;
        collectors.last.callback = now;
    }

    /// Accepts the age where it takes more than the header stamp and the system clock, and all metrics beyond rclcpp's.
    #[inline(never)]
    fn accept_more(&self, collectors: &mut Collectors, arrival: &Arrival, now: i64) {
        let Arrival { header, told } = *arrival;
        let ros_now = self.simulated.as_ref().map_or(now, |time| time.now(header));
        if self.age_source == AgeSource::HeaderStamp {
            collectors.age.accept(header, ros_now);
        }
        let Some(Told { source, received, publisher, number }) = told else { return };
        if self.age_source == AgeSource::SourceTimestamp {
            collectors.age.accept(source, now);
        }
        (collectors.last.source, collectors.last.received) = (source, received);
        if let Some(delays) = &mut collectors.delays {
            if self.simulated.is_none() {
                delays.header_to_source.accept(header, source);
            }
            delays.source_to_receive.accept(source, received);
            delays.receive_to_callback.accept(received, now);
            delays.header_to_callback.accept(header, ros_now);
        }
        if let Some(losses) = &mut collectors.losses {
            losses.accept(publisher, number, now);
        }
    }

    /// Records that the body of a callback, which started at `started`, ends now.
    pub(crate) fn record_end(&self, started: i64) {
        let mut collectors = self.lock();
        let now = system_time();
        if let Some(delays) = &mut collectors.delays {
            // A clock that is stepped backwards makes no duration.
            if now >= started {
                delays.callback_duration.accept(started, now);
            }
        }
    }

    /// Returns what came and did not come of each publisher.
    pub(crate) fn publishers(&self) -> Vec<PublisherTotals> {
        let collectors = self.lock();
        let losses = collectors.losses.as_ref();
        losses.map_or(&[][..], |losses| losses.sequences.publishers()).iter().map(Into::into).collect()
    }

    /// Returns the times of the last message that was measured.
    pub(crate) fn last_message(&self) -> Option<MessageTimes> {
        let collectors = self.lock();
        let Times { header, source, received, callback } = collectors.last;
        let if_known = |time: i64| (time != 0).then_some(time);
        (collectors.received > 0).then(|| MessageTimes {
            header: if_known(header),
            source: if_known(source),
            received: if_known(received),
            callback,
        })
    }

    #[inline]
    fn lock(&self) -> LockGuard<'_, Collectors> {
        self.collectors.lock()
    }
}

/// The milliseconds from `earlier` to `later`; None if the clock was stepped backwards in between.
fn since(earlier: i64, later: i64) -> Option<f64> {
    (later >= earlier).then(|| milliseconds_between(earlier, later))
}
