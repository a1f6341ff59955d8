// SPDX-License-Identifier: Apache-2.0

//! The triggers of the black box, and when its files begin and end. The caller passes all times: this module reads no
//! clock.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use topic_statistics_core::{
    health::{Cause as HealthCause, Change},
    Escaped,
};
use topic_statistics_observe::format::name;

#[derive(Clone, Debug)]
pub struct Trigger {
    pub at: Instant,
    /// The time of the trigger in nanoseconds since the Unix epoch.
    pub time: u64,
    pub cause: Cause,
}

#[derive(Clone, Debug)]
pub enum Cause {
    Level { topic: String, change: Box<Change> },
    Service,
    Signal,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level { topic, change } => {
                write!(f, "{} is {}, {}", name(topic), change.health.level, change.health)
            }
            Self::Service => f.write_str("service call"),
            Self::Signal => f.write_str("SIGUSR1"),
        }
    }
}

impl Trigger {
    /// Returns the names and values of the MCAP metadata record about this trigger. All times are in nanoseconds since the Unix epoch.
    pub fn to_metadata(&self) -> BTreeMap<String, String> {
        let mut fields = vec![("time", self.time.to_string())];
        match &self.cause {
            Cause::Service => fields.push(("trigger", "service".to_owned())),
            Cause::Signal => fields.push(("trigger", "signal".to_owned())),
            Cause::Level { topic, change } => {
                let health = &change.health;
                fields.extend([
                    ("trigger", "level".to_owned()),
                    ("topic", topic.clone()),
                    ("level", health.level.to_string()),
                    ("level_before", change.before.to_string()),
                    ("verdict", health.to_string()),
                ]);
                if let HealthCause::Condition { condition, .. } = &health.cause {
                    fields.push(("condition", Escaped(&condition.to_string()).to_string()));
                }
                if let Some(window) = health.window {
                    fields.push(("window_start", window.start.as_nanoseconds().to_string()));
                    fields.push(("window_stop", window.stop.as_nanoseconds().to_string()));
                }
                fields.extend(health.since.map(|since| ("since", since.as_nanoseconds().to_string())));
            }
        }
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A file begins now. The first trigger of the file was at this time, in nanoseconds since the Unix epoch.
    Begins(u64),
    Joins,
    Waits(Duration),
    LeftOut,
}

#[derive(Debug)]
pub struct Schedule {
    last: Duration,
    after: Duration,
    began: Option<Instant>,
    /// The time up to which messages belong to the file that is being written. `None` if no file is being written.
    until: Option<Instant>,
    triggers: Vec<Trigger>,
    left_out: u64,
}

impl Schedule {
    /// The shortest time between the beginnings of two files.
    pub const INTERVAL: Duration = Duration::from_secs(60);
    pub const MAX_TRIGGERS: usize = 100;

    /// `began` is when the last file of an earlier run began.
    pub fn new(last: Duration, after: Duration, began: Option<Instant>) -> Self {
        Self { last, after, began, until: None, triggers: vec![], left_out: 0 }
    }

    pub fn trigger(&mut self, trigger: Trigger) -> Next {
        let at = trigger.at;
        if self.triggers.len() >= Self::MAX_TRIGGERS {
            self.left_out += 1;
            return Next::LeftOut;
        }
        self.triggers.push(trigger);
        if let Some(until) = self.until {
            // Each further trigger extends the file, but not beyond the time `longest`.
            let longest = self.began.map_or(at, |began| began + self.after.max(Self::INTERVAL));
            self.until = Some(until.max((at + self.after).min(longest)));
            return Next::Joins;
        }
        match self.wait(at) {
            Duration::ZERO => Next::Begins(self.triggers.first().map_or(0, |first| first.time)),
            wait => Next::Waits(wait),
        }
    }

    fn wait(&self, now: Instant) -> Duration {
        self.began.map_or(Duration::ZERO, |began| (began + Self::INTERVAL).saturating_duration_since(now))
    }

    /// Returns the time from which on messages have to be kept. `None` if this time is before the start of the clock.
    pub fn keeps_from(&self, now: Instant) -> Option<Instant> {
        // If a trigger waits for a file, the messages of the seconds before the trigger are kept until the file begins.
        let waiting = if self.until.is_none() { self.triggers.first() } else { None };
        waiting.map_or(now, |trigger| trigger.at.min(now)).checked_sub(self.last)
    }

    pub fn is_waiting(&self) -> bool {
        self.until.is_none() && !self.triggers.is_empty()
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.is_waiting() && self.wait(now).is_zero()
    }

    /// Begins a file. Returns the triggers that waited for this file.
    pub fn begin(&mut self, now: Instant) -> Vec<Trigger> {
        let last = self.triggers.last().map_or(now, |trigger| trigger.at + self.after);
        (self.began, self.until) = (Some(now), Some(last.max(now)));
        self.take_triggers()
    }

    pub fn take_triggers(&mut self) -> Vec<Trigger> {
        std::mem::take(&mut self.triggers)
    }

    pub fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// Ends the file if its time is over and its triggers are written. Call this only when all messages before `now`
    /// are in the file. Returns the time up to which the file has messages. `None` if the file does not end yet.
    pub fn end(&mut self, now: Instant) -> Option<Instant> {
        self.until.take_if(|until| now > *until && self.triggers.is_empty())
    }

    pub fn abort(&mut self) {
        self.until = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(last: u64, after: u64) -> (Schedule, impl Fn(u64) -> Instant) {
        let start = Instant::now() + Duration::from_secs(1000);
        let schedule = Schedule::new(Duration::from_secs(last), Duration::from_secs(after), None);
        (schedule, move |second| start + Duration::from_secs(second))
    }

    fn trigger(at: Instant) -> Trigger {
        Trigger { at, time: 100, cause: Cause::Signal }
    }

    #[test]
    fn two_errors_at_once_are_in_one_file() {
        let (mut schedule, at) = schedule(30, 10);
        assert!(!schedule.is_due(at(0)));
        let second = Trigger { time: 101, ..trigger(at(100)) };
        let both = [schedule.trigger(trigger(at(100))), schedule.trigger(second)];
        assert_eq!(both, [Next::Begins(100); 2]);
        assert!(schedule.is_due(at(100)));
        assert_eq!(schedule.keeps_from(at(100)), Some(at(70)));
        assert_eq!(schedule.begin(at(100)).len(), 2);
        assert!(!schedule.is_due(at(100)) && schedule.end(at(110)).is_none());
        // A third error makes the file longer.
        assert_eq!(schedule.trigger(trigger(at(105))), Next::Joins);
        assert_eq!(schedule.end(at(116)), None, "its trigger is not in the file yet");
        assert_eq!(schedule.take_triggers().len(), 1);
        assert_eq!([115, 116, 117].map(|second| schedule.end(at(second))), [None, Some(at(115)), None]);
        assert!(!schedule.is_waiting());
    }

    #[test]
    fn later_error_in_the_minute_waits_and_keeps_its_seconds() {
        let (mut schedule, at) = schedule(30, 10);
        schedule.trigger(trigger(at(100)));
        schedule.begin(at(100));
        assert_eq!(schedule.end(at(111)), Some(at(110)));
        assert_eq!(schedule.trigger(trigger(at(120))), Next::Waits(Duration::from_secs(40)));
        assert_eq!(schedule.trigger(trigger(at(155))), Next::Waits(Duration::from_secs(5)));
        assert_eq!(schedule.keeps_from(at(159)), Some(at(90)));
        assert!(!schedule.is_due(at(159)) && schedule.is_due(at(160)));
        assert_eq!(schedule.begin(at(160)).len(), 2);
        assert_eq!(schedule.keeps_from(at(165)), Some(at(135)));
        assert_eq!(schedule.end(at(200)), Some(at(165)));
    }

    #[test]
    fn file_of_an_earlier_run_counts() {
        let (_, at) = schedule(30, 0);
        let mut schedule = Schedule::new(Duration::from_secs(30), Duration::ZERO, Some(at(0)));
        assert_eq!(schedule.trigger(trigger(at(50))), Next::Waits(Duration::from_secs(10)));
    }

    #[test]
    fn flood_of_triggers_is_bounded() {
        let (mut schedule, at) = schedule(30, 10);
        schedule.trigger(trigger(at(0)));
        schedule.begin(at(0));
        for second in 0..101 {
            let expected = if second < 100 { Next::Joins } else { Next::LeftOut };
            assert_eq!(schedule.trigger(trigger(at(second))), expected);
        }
        assert_eq!(schedule.take_triggers().len(), Schedule::MAX_TRIGGERS);
        assert_eq!((schedule.take_left_out(), schedule.take_left_out()), (1, 0));
        assert_eq!(schedule.end(at(1000)), Some(at(60)), "the file ends after a minute");
    }
}
