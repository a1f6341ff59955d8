// SPDX-License-Identifier: Apache-2.0

//! Conditions on sources, and their properties by docs/health.md.

use topic_statistics_core::{
    condition::{Condition, Conditions},
    source_kind::SourceKind,
};

pub const KINDS: [SourceKind; 4] =
    [SourceKind::Subscription, SourceKind::Publisher, SourceKind::Stopwatch, SourceKind::Counter];

/// A condition, and its properties by docs/health.md.
pub struct Rule {
    pub condition: &'static str,
    pub topic: Option<&'static str>,
    /// The kinds of sources that measure it.
    pub kinds: &'static [SourceKind],
    /// Whether a source that is ill violates it.
    pub is_of_illness: bool,
}

const fn rule(
    topic: Option<&'static str>,
    condition: &'static str,
    kinds: &'static [SourceKind],
    is_of_illness: bool,
) -> Rule {
    Rule { condition, topic, kinds, is_of_illness }
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

/// Returns the conditions of rules.
pub fn conditions(rules: &[&Rule]) -> Result<Vec<Condition>, String> {
    let mut all = vec![];
    for rule in rules {
        let parsed: Conditions =
            rule.condition.parse().map_err(|error| format!("{}: {error}", rule.condition))?;
        all.extend(parsed);
    }
    Ok(all)
}
