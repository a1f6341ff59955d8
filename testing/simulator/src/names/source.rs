// SPDX-License-Identifier: Apache-2.0

//! A source, and an oracle that knows the source's name, level and samples. Conditions on sources follow the rules of
//! docs/health.md.

use std::sync::Arc;

use topic_statistics_core::{
    condition::{Condition, Conditions},
    health::Level,
    record::{
        clock::Clock,
        source::{Source, SourceHandle},
    },
    source_kind::SourceKind,
    Metric, Summary,
};

use crate::{
    clocks::{HostClocks, MS},
    day::robot::delivery,
    measured::Measured,
};

pub const NODE: &str = "/relay";
pub const TOPIC: &str = "/imu";

/// How a source is named, as in the library's options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Naming {
    /// The source name consists of the node's name and of this name: the name of the topic or of the measured code.
    OfNode(&'static str),
    /// The source has the same name as with `OfNode`, but readers see only the node's name.
    Node(&'static str),
    Custom(&'static str),
}

/// A living source with its oracle.
pub struct Named {
    pub naming: Naming,
    pub kind: SourceKind,
    /// The expected source name without the node's name, and without the number (for example ` (2)`) that distinguishes
    /// equal names.
    pub task: String,
    /// The number at the end of the source name that distinguishes equal names.
    pub number: String,
    /// The source name as readers see it.
    pub shown: String,
    /// The unique value of this source's samples: the age or duration in milliseconds, or the count per increment.
    pub mark: f64,
    pub counts: u64,
    pub is_ill: bool,
    pub measured: Measured,
    pub source: Arc<Source>,
    pub handle: SourceHandle,
    pub samples: u64,
    pub messages: u64,
    /// The time at which the source's last window ended. Before its first window has ended: the time of its creation.
    pub ended: i64,
    /// The number of samples in the last window, as long as the message of this window is not published; then `None`.
    pub unpublished: Option<u64>,
    pub rules: Rules,
    /// The number of windows since the judge with the conditions `rules` started.
    pub judged: u32,
}

impl Named {
    /// Returns whether a condition on the name `name` applies to this source, by docs/health.md.
    pub fn has_name(&self, name: &str) -> bool {
        let number = if matches!(self.naming, Naming::Node(_)) { "" } else { &*self.number };
        let plain = &self.shown[..self.shown.len() - number.len()];
        let is_of_topic = matches!(self.kind, SourceKind::Subscription | SourceKind::Publisher);
        let is_of_code =
            |shown: &str| shown.strip_prefix(NODE).and_then(|rest| rest.strip_prefix(':')) == Some(name);
        (is_of_topic && name == TOPIC)
            || [plain, &self.shown].into_iter().any(|shown| shown == name || is_of_code(shown))
    }

    /// Returns the node's rules that apply to this source.
    pub fn matching_rules(&self, node: &Rules) -> Rules {
        let is_about = |rule: &Rule| match rule.topic {
            Some(name) => self.has_name(name),
            None => self.kind == SourceKind::Subscription,
        };
        let applies = |rule: &&&Rule| is_about(rule) && rule.kinds.contains(&self.kind);
        node.each_ref().map(|rules| rules.iter().filter(applies).copied().collect())
    }

    /// Returns whether this source has expectations. `expects_messages` is whether the node expects messages for every
    /// subscription.
    pub fn is_judged(&self, expects_messages: bool) -> bool {
        let is_expected = expects_messages && self.kind == SourceKind::Subscription;
        is_expected || self.rules.iter().any(|rules| !rules.is_empty())
    }

    /// Returns the expected level of the source after its last window.
    pub fn level(&self) -> Level {
        let is_violated = |rules: &[&Rule]| self.is_ill && rules.iter().any(|rule| rule.is_violated_if_ill);
        let [errors, warnings] = &self.rules;
        match self.judged {
            // The first window, which has the first messages, is not compared with the conditions. The next two windows
            // raise the level if they violate a condition.
            ..=2 => Level::Ok,
            _ if is_violated(errors) => Level::Error,
            _ if is_violated(warnings) => Level::Warn,
            _ => Level::Ok,
        }
    }

    /// Returns the metric with this source's unique value.
    pub fn metric(&self) -> Metric {
        match self.kind {
            SourceKind::Subscription => Metric::MessageAge,
            SourceKind::Publisher => Metric::PublishDuration,
            SourceKind::Stopwatch => Metric::Duration,
            SourceKind::Counter => Metric::Frequency,
            other => unreachable!("{other}"),
        }
    }

    /// Returns whether `ours` can be the figures of this source, in a window that has `samples` samples.
    pub fn is_its_own(&self, ours: &Summary, samples: u64) -> bool {
        let is_marked = (ours.average - self.mark).abs() < 1e-6;
        ours.sample_count == samples && (self.kind == SourceKind::Counter || is_marked)
    }

    /// Records a sample that ends now. A counter counts `counts` events.
    pub fn record(&mut self, clocks: &HostClocks) {
        let (now, takes) = (clocks.monotonic(), (self.mark * MS as f64).round() as i64);
        self.samples += 1;
        match &self.measured {
            Measured::Messages(recorder) => {
                self.messages += 1;
                let sent = clocks.system() - takes;
                let info = delivery(self.counts, self.messages, sent);
                let Some(epoch) = recorder.epoch() else { return };
                let message = recorder.received_message(epoch, sent, info, || 100);
                if let Some(running) = recorder.record(&message, || now) {
                    recorder.record_end(running, now);
                }
            }
            measured => {
                measured.record(now, takes, 100, self.counts);
                if self.kind == SourceKind::Counter {
                    self.samples += self.counts - 1;
                }
            }
        }
    }
}

pub const KINDS: [SourceKind; 4] =
    [SourceKind::Subscription, SourceKind::Publisher, SourceKind::Stopwatch, SourceKind::Counter];

/// A condition and its properties by docs/health.md.
pub struct Rule {
    pub condition: &'static str,
    pub topic: Option<&'static str>,
    /// The kinds of sources that measure the condition's metric.
    pub kinds: &'static [SourceKind],
    /// Whether a faulty source violates the condition.
    pub is_violated_if_ill: bool,
}

const fn rule(
    topic: Option<&'static str>,
    condition: &'static str,
    kinds: &'static [SourceKind],
    is_violated_if_ill: bool,
) -> Rule {
    Rule { condition, topic, kinds, is_violated_if_ill }
}

pub const RULES: &[Rule] = &[
    rule(None, "age.max<100ms", &[SourceKind::Subscription], true),
    rule(Some("/imu"), "/imu: age<100ms", &[SourceKind::Subscription], true),
    rule(Some("/imu"), "/imu: lost=0", &[SourceKind::Subscription], false),
    rule(Some("/imu"), "/imu: publish_duration.max<5ms", &[SourceKind::Publisher], true),
    rule(Some("/imu"), "/imu: bandwidth>=0", &[SourceKind::Subscription, SourceKind::Publisher], false),
    rule(Some("/imu"), "/imu: duration.max<5ms", &[SourceKind::Stopwatch], true),
    rule(Some("/imu"), "/imu: rate>=0", &KINDS, false),
    rule(Some("frames"), "frames: duration.max<5ms", &[SourceKind::Stopwatch], true),
    rule(Some("frames"), "frames: frequency_hz>=0", &[SourceKind::Counter], false),
    rule(Some("frames (2)"), "frames (2): duration<5ms", &[SourceKind::Stopwatch], true),
    rule(Some("/relay:/imu (2)"), "/relay:/imu (2): age<100ms", &[SourceKind::Subscription], true),
    rule(Some("/relay:/imu (2)"), "/relay:/imu (2): rate>=0", &KINDS, false),
    rule(Some("front_imu"), "front_imu: age<100ms", &[SourceKind::Subscription], true),
    rule(Some("relay"), "relay: publish_duration.max<5ms", &[SourceKind::Publisher], true),
];

/// The rules for ERROR and for WARN.
pub type Rules = [Vec<&'static Rule>; 2];

pub fn conditions(rules: &[&Rule]) -> Result<Vec<Condition>, String> {
    let mut all = vec![];
    for rule in rules {
        let parsed: Conditions =
            rule.condition.parse().map_err(|error| format!("{}: {error}", rule.condition))?;
        all.extend(parsed);
    }
    Ok(all)
}
