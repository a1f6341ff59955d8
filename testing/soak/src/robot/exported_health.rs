// SPDX-License-Identifier: Apache-2.0

//! Compares the health of sources that the exporter tells, and the limits of their authors, with the statuses on
//! `/diagnostics` that it has read.

use std::collections::{BTreeMap, BTreeSet};

use rclrs_topic_statistics::health::Conditions;

use super::{
    reports::{Status, Wire, UNSEEN},
    tally::Tally,
};

/// How long a source and a diagnostic status stay without another message.
pub const KEPT: i64 = 60_000_000_000;

/// Labels in the order of their names.
pub type Labels = BTreeMap<String, String>;

/// The levels by their number in `health_level`, and in the label `level`.
const LEVELS: [&str; 4] = ["OK", "WARN", "ERROR", "STALE"];

/// Whether a time series, by its name without the namespace, tells of a source's health.
pub fn is_of_health(short: &str) -> bool {
    ["health_level", "judged_rate_hertz", "windows_judged_total"].contains(&short)
        || short.starts_with("expected_")
}

/// Returns the source that labels name.
pub fn source_of(labels: &Labels) -> String {
    let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
    format!("{}:{}{}", label("node"), label("topic"), label("name"))
}

/// The time series of a scrape that tell of health: name and labels, by source.
#[derive(Default)]
pub struct Healths(BTreeMap<String, Vec<(String, Labels, f64)>>);

impl Healths {
    pub fn add(&mut self, short: &str, labels: &Labels, value: f64) {
        self.0.entry(source_of(labels)).or_default().push((short.to_owned(), labels.clone(), value));
    }

    pub fn compare(&self, now: i64, lateness: i64, wire: &Wire, tally: &mut Tally) {
        let mut statuses = BTreeMap::<&str, Vec<&Status>>::new();
        for status in wire.statuses.iter().filter(|status| status.at <= now + lateness) {
            if let Some(source) = status.values["measurement_source_name"].as_str() {
                statuses.entry(source).or_default().push(status);
            }
        }
        for (source, series) in &self.0 {
            let Some(statuses) = statuses.get(&**source) else {
                tally.check("health", false, || format!("{now}: {source} has no status: {series:?}"));
                continue;
            };
            compare_source(now, lateness, (source, series), statuses, tally);
        }
        for (source, statuses) in statuses {
            let is_there = self.0.contains_key(source);
            let age = now - statuses.last().map_or(0, |status| status.at);
            let may_be_absent = age > KEPT - lateness || statuses[0].at > now - lateness;
            tally.check("health", is_there || may_be_absent, || format!("{now}: {source} has no health"));
        }
    }
}

fn compare_source(
    now: i64,
    lateness: i64,
    (source, series): (&str, &[(String, Labels, f64)]),
    statuses: &[&Status],
    tally: &mut Tally,
) {
    let up_to = |time: i64| statuses.partition_point(|status| status.at <= time);
    // The last status that the exporter has certainly received, and those that it may have.
    let possible = &statuses[up_to(now - lateness).saturating_sub(1)..];
    let is_possible = |is_right: &dyn Fn(&Status) -> bool| possible.iter().any(|status| is_right(status));
    let mut there = BTreeSet::new();
    let mut judged = 0.0;
    for (short, labels, value) in series {
        let fault = || {
            let last = possible.last().map(|status| (status.level, &status.values));
            format!("{now}: {short} {labels:?} {value}, the last status was {last:?}")
        };
        tally.check("time series are there once", there.insert((short, labels)), fault);
        let level = labels.get("level").map(String::as_str).unwrap_or_default();
        match &**short {
            "health_level" => {
                let level = LEVELS.get(*value as usize);
                tally.check("health", is_possible(&|status| level == Some(&status.level)), fault);
            }
            "judged_rate_hertz" => {
                let is_rate = |status: &Status| status.number("Actual frequency (Hz)") == Some(*value);
                tally.check("health", is_possible(&is_rate), fault);
            }
            "windows_judged_total" => {
                judged += value;
                tally.check("labels", LEVELS.contains(&&*level.to_uppercase()), fault);
            }
            _ => {
                let is_lower = labels.get("bound").is_some_and(|bound| bound == "lower");
                let is_limit =
                    |status: &Status| limits(status, level, is_lower).any(|limit| is_near(limit, *value));
                tally.check("expected limits", is_possible(&is_limit), fault);
            }
        }
    }
    // The judge's own count, which the exporter follows from the first status that it receives on.
    let count = |status: &Status| -> f64 {
        let counts = status.values["windows_judged"].as_str().unwrap_or_default();
        counts.split(' ').filter_map(|count| count.parse::<f64>().ok()).sum()
    };
    let firsts = &statuses[..up_to(statuses[0].at + lateness)];
    let between = |from: &[&Status], to: Option<&&Status>| -> f64 {
        to.map_or(0.0, |to| count(to)) - from.last().map_or(0.0, |from| count(from))
    };
    let least = between(firsts, possible.first()) - UNSEEN as f64;
    let most = between(&firsts[..1], possible.last()) + UNSEEN as f64;
    // After so long a pause the health begins anew, and what a judge has counted when it begins anew is not told.
    let is_known = statuses
        .windows(2)
        .all(|pair| pair[1].at - pair[0].at < KEPT - lateness && count(pair[0]) <= count(pair[1]));
    tally.check_known("windows judged", is_known, (least..=most).contains(&judged), || {
        format!("{now}: {source} {judged}, read were {least} to {most}")
    });
}

/// Returns the limits of a level's conditions in the units of the exporter.
fn limits<'a>(status: &'a Status, level: &str, is_lower: bool) -> impl Iterator<Item = f64> + use<'a> {
    let text = status.values[format!("{level}_unless")].as_str().unwrap_or_default();
    let conditions: Option<Conditions> = text.parse().ok();
    let conditions: Vec<_> = conditions.iter().flat_map(Conditions::iter).cloned().collect();
    conditions.into_iter().filter_map(move |condition| {
        let factor = if condition.quantity().unit() == "ms" { 1e-3 } else { 1.0 };
        let limit = if is_lower { condition.lower_limit() } else { condition.upper_limit() };
        limit.map(|limit| limit * factor)
    })
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs()
}
