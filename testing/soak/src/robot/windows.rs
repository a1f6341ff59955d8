// SPDX-License-Identifier: Apache-2.0

//! Compares the windows of a source with the messages that its process has sent or received, and its health with the
//! oracle of the simulator.
//!
//! The process cannot read the clock at the same moment as the library. The library reads the clock after the previous
//! callback has ended, and before the process itself reads the clock. So each of the library's times is known as an
//! interval, however busy the machine is. A figure is right if times in these intervals can cause it. Windows contain
//! the messages in order, so the counts of the windows show which messages a window contains.

use std::{collections::VecDeque, fs::File, io, io::Write as _, path::Path, sync::Arc};

use rclrs_topic_statistics::{
    health::{Cause, Health, Level},
    ClockStep, Metric, Summary, Totals, WindowStatistics,
};
use serde_json::{json, Value};
use simulator::{
    oracle::{add_gap, publisher_gid, Gap, Judgement, Losses, Wanted, Window},
    scenario::Row,
};

/// The largest error, in ns, when the library converts a time of one clock to another clock.
const OFFSET: f64 = 25_000.0;
/// After a step of a clock, the library may reject stamps for the size of the step plus this time, in ns. The other
/// host's clock may be 4 s behind, and messages wait while a callback blocks.
const DOUBT: i64 = 8_000_000_000;

#[derive(Clone)]
pub struct Log(Arc<File>);

impl Log {
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self(Arc::new(File::options().create(true).append(true).open(path)?)))
    }

    pub fn write(&self, line: &Value) {
        (&*self.0).write_all(format!("{line}\n").as_bytes()).expect("the log cannot be written");
    }
}

#[derive(Clone, Copy)]
struct Between(f64, f64);

/// A received or published message. Times are in ns: `stamp`, `sent`, `received`, `system` are system times, the other
/// times are monotonic.
#[derive(Clone, Copy, Default)]
pub struct Message {
    pub incarnation: u32,
    pub number: u32,
    pub stamp: i64,
    pub sent: i64,
    pub received: i64,
    /// The time at which the thread ended its last callback before this callback.
    pub free: i64,
    pub start: i64,
    /// The system time, read between `start` and `after`.
    pub system: i64,
    pub after: i64,
    pub end: i64,
}

impl Message {
    /// Returns the interval in which the library has read the monotonic clock. Unless a clock step is near, the
    /// received timestamp makes the interval shorter.
    fn time(&self, near_step: bool) -> Between {
        let received = (self.received - (self.system - self.start)) as f64 - OFFSET;
        let is_usable = !near_step && self.received > 0 && received < self.start as f64;
        let free = self.free as f64;
        Between(if is_usable { free.max(received) } else { free }, self.start as f64)
    }

    /// Returns the interval in which the age of a stamp must be, by the system clock, in ns.
    fn age(&self, near_step: bool, stamp: i64) -> Between {
        let lowest = self.time(near_step).0 + (self.system - self.after) as f64;
        Between(lowest - stamp as f64 - OFFSET, (self.system - stamp) as f64 + OFFSET)
    }
}

/// Returns whether samples in these intervals (in ns) can cause these figures (in ms).
fn can_be(figures: &Summary, samples: &[Between]) -> bool {
    let Summary { average, minimum, maximum, standard_deviation, sample_count, .. } = *figures;
    if samples.is_empty() || sample_count as usize != samples.len() {
        let all = [average, minimum, maximum, standard_deviation];
        return samples.is_empty() && sample_count == 0 && all.iter().all(|figure| figure.is_nan());
    }
    let is_in = |value: f64, fold: fn(f64, f64) -> f64, parts: f64| {
        let low = samples.iter().map(|one| one.0).reduce(fold).unwrap_or(f64::NAN) / parts;
        let high = samples.iter().map(|one| one.1).reduce(fold).unwrap_or(f64::NAN) / parts;
        (low - 1.0..=high + 1.0).contains(&(value * 1e6))
    };
    is_in(average, |a, b| a + b, samples.len() as f64)
        && is_in(minimum, f64::min, 1.0)
        && is_in(maximum, f64::max, 1.0)
        && standard_deviation.is_nan() == (samples.len() == 1)
}

/// A publisher or a subscription, with the messages that its process has counted itself.
#[derive(Default)]
pub struct Source {
    pub name: String,
    log: Option<Log>,
    is_publisher: bool,
    /// The messages, windows and changes of the health that are not compared yet.
    pub messages: VecDeque<Message>,
    pub windows: VecDeque<Arc<WindowStatistics>>,
    pub changes: VecDeque<Health>,
    health: Health,
    judgement: Option<Judgement>,
    received: u64,
    losses: Losses,
    /// The gaps in the senders' numbers that the messages of this window show.
    gaps: Vec<Gap>,
    /// The durations of callbacks that are not in a window yet; `None` after messages that the library did not measure.
    durations: Option<VecDeque<Between>>,
    last: Option<Message>,
    /// The stop of the last window; `None` before the first window.
    stop: Option<i64>,
    lost: Option<u64>,
    unrecorded: u64,
    /// For how long after the last step of a clock the library may still reject stamps, in ns.
    doubt: i64,
    /// The sum of the clock steps since the last message; `None` if the last message and a step are in the same window.
    stepped: Option<i64>,
}

impl Source {
    pub fn new(log: Log, row: &Row, is_publisher: bool) -> Self {
        let wanted = Wanted::parse(row.warn_unless, row.error_unless).filter(|_| !is_publisher);
        Self {
            log: Some(log),
            is_publisher,
            judgement: wanted.map(|wanted| Judgement::new(wanted, false)),
            durations: Some(VecDeque::new()),
            lost: Some(0),
            stepped: Some(0),
            ..Self::default()
        }
    }

    fn write(&self, line: &Value) {
        self.log.iter().for_each(|log| log.write(line));
    }

    fn check(&self, what: &str, is_right: bool, fault: impl FnOnce() -> String) {
        if !is_right {
            let name = &self.name;
            self.write(&json!({ "difference": format!("{what} of {name}: {}", fault()) }));
        }
    }

    /// Compares the windows whose messages have all been logged. A window is compared when the next window has ended,
    /// because the next window shows whether a step of the clock followed.
    pub fn compare(&mut self) {
        while let [window, next, ..] = self.windows.make_contiguous() {
            let (window, next) = (Arc::clone(window), next.clock_step.is_some());
            let before = window.totals.map_or(0, |totals| totals.received) as i64 - window.count as i64;
            let skipped = if self.stop.is_none() { before.max(0) as usize } else { 0 };
            if self.messages.len() < skipped + window.count as usize {
                return;
            }
            for _ in 0..skipped {
                self.last = self.messages.pop_front();
                self.receive(self.last);
            }
            self.compare_window(&window, next);
            self.windows.pop_front();
        }
    }

    /// Compares what is left at the end of the source. The source's totals must include all messages.
    pub fn end(&mut self, totals: &Totals) {
        self.compare();
        while let Some(message) = self.messages.pop_front() {
            self.receive(Some(message));
        }
        self.unrecorded += self.windows.iter().map(|window| window.unrecorded).sum::<u64>();
        self.check_totals(totals, 0);
    }

    fn receive(&mut self, message: Option<Message>) {
        let Some(Message { incarnation, number, .. }) = message else { return };
        self.received += 1;
        let shown = self.losses.receive(publisher_gid(incarnation.into()), Some(number.into()), 0, false);
        add_gap(&mut self.gaps, shown);
    }

    fn check_totals(&self, totals: &Totals, stop: i64) {
        let is_known = !self.is_publisher && self.unrecorded == 0 && self.received > 0;
        let ours = [totals.lost, totals.out_of_order, totals.duplicates, totals.publishers];
        let losses = &self.losses;
        let theirs = [losses.lost(), losses.out_of_order(), losses.duplicates(), losses.publishers()];
        let is_right = totals.received == self.received && ours == theirs;
        self.check("totals", !is_known || is_right, || {
            format!("{totals:?} until {stop}, by the senders' {} and {theirs:?}", self.received)
        });
    }

    fn compare_window(&mut self, window: &WindowStatistics, next_has_step: bool) {
        let messages: Vec<Message> = self.messages.drain(..window.count as usize).collect();
        let step = window.clock_step.map_or(0, ClockStep::as_nanoseconds);
        let [start, stop] = [window.window.start, window.window.stop].map(|time| time.as_nanoseconds());
        let gap = start - self.stop.unwrap_or(start - step) - step;
        self.check("the start", gap.abs() <= 30_000, || format!("{gap} ns before {start}"));
        self.stop = Some(stop);
        if step != 0 {
            self.doubt = step.abs() + DOUBT;
        }
        let is_measured = window.unrecorded == 0 && window.is_count_known;
        self.unrecorded += window.unrecorded.max(u64::from(!is_measured));
        self.stepped = match window.count {
            0 => self.stepped.map(|stepped| stepped + step),
            _ => (step == 0).then_some(0),
        };
        self.gaps.clear();
        if !self.is_publisher {
            messages.iter().for_each(|message| self.receive(Some(*message)));
        }
        let near_step = self.doubt > 0 || next_has_step;
        self.last = messages.last().copied().or(self.last);
        let following = messages.iter().skip(1).chain(self.messages.front());
        let ends = following.map(|next| next.start as f64).chain([f64::INFINITY]);
        if let Some(durations) = self.durations.as_mut().filter(|_| !self.is_publisher) {
            let all = messages.iter().zip(ends);
            durations
                .extend(all.map(|(one, next)| Between((one.end - one.start) as f64, next - one.free as f64)));
        }
        if !is_measured {
            self.durations = None;
        }
        for metric in window.metrics.iter().filter(|_| is_measured) {
            let is_right = self.is_possible(metric, &messages, near_step, stop);
            self.check("a window", is_right, || {
                format!("{metric:?} of {} messages until {stop}", messages.len())
            });
        }
        let totals = window.totals.unwrap_or_default();
        self.check_totals(&totals, stop);
        self.judge(window, if self.received == 0 { Some(0) } else { totals.lost });
        let (level, cause) = (self.health.level.name(), cause(&self.health));
        self.write(&json!({ "compared": self.name, "stop": stop, "level": level, "cause": cause }));
        self.doubt = (self.doubt - window.length.as_nanos() as i64).max(0);
    }

    /// Returns whether these messages can cause the figures of a metric.
    fn is_possible(
        &mut self,
        (metric, figures): &(Metric, Summary),
        messages: &[Message],
        near_step: bool,
        stop: i64,
    ) -> bool {
        let count = figures.sample_count as usize;
        let between = |from: i64, to: i64| Between((to - from) as f64, (to - from) as f64);
        let stamped = messages.iter().filter(|one| one.stamp != 0);
        let samples: Vec<Between> = match metric {
            Metric::MessageAge | Metric::HeaderToCallback => {
                stamped.map(|one| one.age(near_step, one.stamp)).collect()
            }
            Metric::HeaderToSource => stamped.map(|one| between(one.stamp, one.sent)).collect(),
            Metric::SourceToReceive => messages.iter().map(|one| between(one.sent, one.received)).collect(),
            Metric::ReceiveToCallback => {
                messages.iter().map(|one| one.age(near_step, one.received)).collect()
            }
            Metric::SourceToCallback => messages.iter().map(|one| one.age(near_step, one.sent)).collect(),
            Metric::MessagePeriod | Metric::PublishPeriod => {
                let time = |one: &Message| match self.is_publisher {
                    true => Between(one.start as f64, one.end as f64),
                    false => one.time(near_step),
                };
                let pairs = messages.windows(2).map(|pair| (time(&pair[0]), time(&pair[1])));
                pairs.map(|(one, next)| Between((next.0 - one.1).max(0.0), next.1 - one.0)).collect()
            }
            Metric::PublishDuration => {
                messages.iter().map(|one| Between(0.0, (one.end - one.start) as f64)).collect()
            }
            // A callback may end in a later window than the window that contains its message.
            Metric::CallbackDuration => {
                let Some(durations) = self.durations.as_mut().filter(|all| all.len() <= count + 1) else {
                    return self.durations.is_none();
                };
                durations.drain(..count.min(durations.len())).collect()
            }
            Metric::PublicationSeqGap if self.unrecorded > 0 => return true,
            Metric::PublicationSeqGap => {
                self.gaps.iter().map(|gap| gap.missing as f64 * 1e6).map(|gap| Between(gap, gap)).collect()
            }
            // All messages of a topic have the same size. So the minimum must equal the maximum.
            Metric::MessageSize => {
                vec![Between(figures.minimum * 1e6, figures.minimum * 1e6); messages.len()]
            }
            Metric::TimeSinceLastMessage => {
                let (Some(last), Some(stepped)) = (self.last, self.stepped) else { return true };
                let Between(low, high) = last.age(near_step, stop - stepped);
                vec![Between(-high, -low)]
            }
            _ => return false,
        };
        let may_lack = near_step && *metric != Metric::PublicationSeqGap && *metric != Metric::MessageSize;
        can_be(figures, &samples) || (may_lack && count < samples.len())
    }

    /// Compares the health after a window. The library reports a change of the health before the next window.
    fn judge(&mut self, window: &WindowStatistics, lost: Option<u64>) {
        let Some(judgement) = &mut self.judgement else { return };
        let belongs = |health: &&Health| health.window.is_none_or(|judged| judged.stop == window.window.stop);
        let before = self.health.clone();
        while self.changes.front().filter(belongs).is_some() {
            self.health = self.changes.pop_front().unwrap_or_default();
        }
        let is_change = self.health.level != before.level
            || (before.level != Level::Ok && cause(&self.health) != cause(&before));
        let lost_before = std::mem::replace(&mut self.lost, lost);
        let lost = lost.zip(lost_before).map(|(now, before)| now.saturating_sub(before));
        let health = Some(&self.health).filter(|_| is_change);
        let judged = judgement.check_window(&Window::as_reported(window, lost), window, health, is_change);
        if let Err(error) = judged {
            self.check("health", false, || error);
            // Only the first difference of the health is reported, because later differences may be a consequence of
            // it.
            self.judgement = None;
        }
    }
}

fn cause(health: &Health) -> String {
    match &health.cause {
        Cause::Condition { condition, .. } => condition.to_string(),
        cause => format!("{cause:?}"),
    }
}
