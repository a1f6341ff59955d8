// SPDX-License-Identifier: Apache-2.0

//! Whether each alarm is due, and each that is due is there: in the nodes, in topic_monitor, and on `/diagnostics`.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use serde_json::Value;

use super::{
    health::{Judgement, Seen, CLEAR},
    log::{Figures, Health, Process, Source, Window},
    reports::{each_object, figures_of, number, Status, Wire},
    scenario::{Host, PROCESSES, TOPICS},
    tally::Tally,
};

const SECOND: i64 = 1_000_000_000;
/// How old the window of a status may be: the statuses are due once per second, and the machine is busy.
const AGE: i64 = 4 * SECOND;
/// The largest number of windows in a row without a status, likewise.
const MISSING: usize = 4;
/// ... beyond a link that is cut for 10 s. The publisher keeps the last 10 statuses.
const MISSING_IN_CUT: usize = 16;

/// Returns the health that a source had reported at the end of each window.
fn in_force(source: &Source) -> Vec<Option<&Health>> {
    let (mut changes, mut current) = (source.health.iter().peekable(), None);
    let mut health_at = |window: &Window| {
        while let Some(change) = changes.next_if(|change| change.stop == 0 || change.stop == window.stop) {
            current = Some(change);
        }
        current
    };
    source.windows.iter().map(&mut health_at).collect()
}

/// Compares the health that the nodes have reported with a judgement of their windows. The windows were compared with
/// the logs.
pub fn of_nodes(processes: &[Process], tally: &mut Tally) {
    tally.report("health of nodes");
    for (process, source) in subscriptions(processes) {
        let Some(mut judgement) = Judgement::new(&source.topic, 1e-9) else { continue };
        for (index, (window, health)) in source.windows.iter().zip(in_force(source)).enumerate() {
            let mean = |metric| window.get(metric).map_or(f64::NAN, |figures| figures.0[0]);
            judgement.accept(&Seen {
                length: window.length as f64 / 1e9,
                count: window.is_count_known.then_some(window.count),
                age: mean("message_age"),
                silence: mean("time_since_last_message_ms"),
            });
            let level = health.map_or("OK", |health| &health.level);
            let cause = health.filter(|_| level != "OK").map(|health| &*health.cause);
            let value = health.filter(|health| health.stop == window.stop).map(|health| health.value);
            let expected = judgement.expected();
            // A process that was killed may have been before it wrote the line.
            let is_known = index + 1 < source.windows.len() || source.totals.is_some();
            tally.check_known(
                "level after a window",
                is_known,
                judgement.agrees(level, cause, value),
                || {
                    let name = &process.name;
                    format!(
                    "{name}, {}, window until {} of {} messages: {level} {cause:?} {value:?}, not {expected}",
                    source.topic, window.stop, window.count
                )
                },
            );
        }
    }
}

fn subscriptions(processes: &[Process]) -> impl Iterator<Item = (&Process, &Source)> {
    let all =
        processes.iter().flat_map(|process| process.sources.values().map(move |source| (process, source)));
    all.filter(|(_, source)| !source.is_publisher)
}

/// A topic of topic_monitor.
struct Monitored {
    judgement: Judgement,
    /// The end of the window before.
    before: i64,
    /// The level, by the lines about its changes.
    level: String,
    /// How many windows as expected have to follow until the level is known again. A window without a line sets it.
    unsure: u32,
    rows: Vec<Row>,
}

/// A line of topic_monitor.
struct Row {
    stop: i64,
    level: String,
    cause: String,
    row: Value,
}

/// Compares the health of topic_monitor with its own windows, and its statuses on `/diagnostics` with both. The figures
/// of the windows were compared with the senders' logs.
pub fn of_monitor(directory: &Path, wire: &Wire, tally: &mut Tally) -> Result<()> {
    let mut topics = BTreeMap::<String, Monitored>::new();
    tally.report("health of topic_monitor");
    each_object(&directory.join("monitor.out"), |row| {
        let topic = row["topic"].as_str().unwrap_or_default().to_owned();
        let Some(judgement) = Judgement::new(&topic, 1e-4) else { return };
        let new = || Monitored { judgement, before: 0, level: "OK".to_owned(), unsure: 0, rows: vec![] };
        let known = topics.entry(topic.clone()).or_insert_with(new);
        let judgement = &mut known.judgement;
        if let Some(level) = row["change"]["to"]["level"].as_str() {
            tally.check(
                "changes are of a level",
                row["change"]["from"].as_str() == Some(&known.level),
                || format!("{topic}: {row}, but it was {}", known.level),
            );
            known.level = level.to_owned();
            return;
        }
        let (Some(start), Some(stop)) = (row["window_start"].as_i64(), row["window_stop"].as_i64()) else {
            return;
        };
        let step = row["clock_step"].as_i64().unwrap_or(0);
        let is_next = known.before == 0 || (start - known.before - step).abs() < 1_000_000;
        let mean = |metric: &str| number(&row["metrics"][metric]["mean"]);
        let health = &row["health"];
        let text = |key: &str| health[key].as_str().unwrap_or_default();
        let (level, message) = (text("level"), text("message"));
        // The first window of a subscription is not whole and has no line, but its messages are the first ones.
        let length = (stop - start) as f64 / 1e6;
        let is_before =
            row["total"]["received"].as_u64() > Some(0) && number(&row["since_last_message"]) > length;
        if !is_next || (judgement.waits_for_the_first() && row["received"] == 0 && is_before) {
            judgement.resume();
        } else if known.before == 0 {
            // A topic without a window is silent, too.
            judgement.silent = (start - health["since"].as_i64().unwrap_or(start)) as f64 / 1e9;
        }
        judgement.accept(&Seen {
            length: (stop - start - if is_next { 0 } else { step }) as f64 / 1e9,
            count: row["received"].as_u64(),
            age: mean("message_age"),
            silence: mean("time_since_last_message_ms"),
        });
        let cause = match health["condition"].as_str() {
            Some(condition) => condition.split_once(": ").map_or(condition, |(_, condition)| condition),
            None => cause_of(message),
        };
        let expected = judgement.expected();
        let value = health["value"].as_f64();
        let is_right =
            judgement.agrees(level, Some(cause).filter(|_| level != "OK"), value) && known.level == level;
        known.unsure = match known.unsure {
            _ if !is_next => CLEAR,
            0 => 0,
            unsure => unsure - u32::from(level == "OK" && cause == "AsExpected"),
        };
        tally.check_known("level after a window", known.unsure == 0, is_right, || {
            let changed = &known.level;
            format!(
                "{topic}, window until {stop}: {health}, not {expected}; the last change was to {changed}"
            )
        });
        if known.unsure > 0 {
            judgement.resume();
        }
        known.before = stop;
        known.rows.push(Row { stop, level: level.to_owned(), cause: cause.to_owned(), row: row.clone() });
    })?;
    tally.report("/diagnostics of topic_monitor");
    let mut last = BTreeMap::<&str, i64>::new();
    for status in &wire.statuses {
        let Some(topic) = status.name.strip_prefix("topic_monitor: ") else { continue };
        let Some(Monitored { rows, .. }) = topics.get(topic) else { continue };
        let is_of = |row: &&Row| {
            let metrics = row.row["metrics"].as_object().into_iter().flatten();
            status.number("Events in window") == row.row["received"].as_f64()
                && metrics
                    .map(|(metric, value)| (metric, figures_of(value)))
                    .all(|(metric, figures)| status.has(metric, &figures))
        };
        let near: Vec<&Row> = rows
            .iter()
            .filter(|row| (row.stop - status.stamp).abs() <= 2 * AGE + wire.stalled(status.at))
            .collect();
        let found = near.iter().copied().find(|row| is_of(row) && row.level == status.level);
        // Before the first window there are no figures.
        let is_first = status.number("Events in window").is_none() && status.level != "WARN";
        tally.check_known("statuses", !is_first, found.is_some(), || {
            let text = |row: &&Row| format!("{} by {} until {}", row.level, row.cause, row.stop);
            format!("{status:?}; windows near it: {:?}", near.iter().map(text).collect::<Vec<_>>())
        });
        let gap = status.at - last.insert(topic, status.at).unwrap_or(status.at);
        tally.check("statuses come each second", gap <= AGE + wire.stalled(status.at), || {
            format!("{topic}: none for {gap} ns")
        });
    }
    Ok(())
}

/// Returns the cause of a level by its sentence.
fn cause_of(message: &str) -> &str {
    let causes = [
        ("no message yet", "NoMessageYet"),
        ("no message any more", "Silence"),
        ("messages again", "MessagesAgain"),
        ("as expected", "AsExpected"),
    ];
    causes.iter().find(|(start, _)| message.starts_with(start)).map_or(message, |(_, cause)| cause)
}

impl Status {
    /// Whether it has the average and the maximum of a metric.
    fn has(&self, metric: &str, figures: &Figures) -> bool {
        self.is(&format!("{metric}.average"), figures.0[0])
            && self.is(&format!("{metric}.maximum"), figures.0[2])
    }

    /// Whether it has this number; NaN is none.
    fn is(&self, key: &str, expected: f64) -> bool {
        self.number(key).map_or(expected.is_nan(), |number| (number - expected).abs() <= 1e-6)
    }

    fn is_of(&self, window: &Window) -> bool {
        let known = |count: i64| if count < 0 { f64::NAN } else { count as f64 };
        let [age, youngest, oldest, ..] =
            window.get("message_age").map_or([f64::NAN; 5], |figures| figures.0);
        self.is("Events since startup", window.totals[0] as f64)
            && self.is("Events in window", if window.is_count_known { window.count as f64 } else { f64::NAN })
            && self.is("Duration of window (s)", window.length as f64 / 1e9)
            && self.is("total_dropped_frames", known(window.totals[1]))
            && self.is("Earliest timestamp delay:", youngest * 1e-3)
            && self.is("Latest timestamp delay:", oldest * 1e-3)
            && self.is("current_delay_from_realtime_ms", age)
            && window.metrics.iter().all(|(metric, figures)| self.has(metric, figures))
    }
}

/// Compares each status of a node on `/diagnostics` with a window of the source that has just ended, and its level with
/// that after this window; and looks for windows without a status.
pub fn diagnostics(wire: &Wire, processes: &[Process], tally: &mut Tally) {
    tally.report("/diagnostics");
    struct Judged<'a> {
        source: &'a Source,
        in_force: Vec<Option<&'a Health>>,
        /// The windows with a status.
        found: Vec<usize>,
    }
    let mut sources = BTreeMap::<String, Vec<Judged>>::new();
    for (process, source) in subscriptions(processes).filter(|(_, source)| source.topic != "/diagnostics") {
        let judged = Judged { source, in_force: in_force(source), found: vec![] };
        sources.entry(format!("{}: {}", process.name, source.topic)).or_default().push(judged);
    }
    for status in &wire.statuses {
        let Some(sources) = sources.get_mut(&status.name) else { continue };
        let fault = || format!("{status:?}");
        if status.number("Duration of window (s)").is_none() {
            let is_right = status.level == "OK" && status.message == "no message yet";
            tally.check("statuses before the first window", is_right, fault);
            continue;
        }
        let all = sources.iter().enumerate().flat_map(|(source, judged)| {
            let windows = judged.source.windows.iter().enumerate();
            windows.filter(|(_, window)| status.is_of(window)).map(move |(window, _)| (source, window))
        });
        let age =
            |(source, window): &(usize, usize)| status.stamp - sources[*source].source.windows[*window].stop;
        let nearest = all.min_by_key(|candidate| age(candidate).abs());
        tally.check("figures of a window", nearest.is_some(), fault);
        let Some((source, index)) = nearest else { continue };
        let (age, judged) = (age(&(source, index)), &mut sources[source]);
        judged.found.push(index);
        let windows = &judged.source.windows;
        // Since the window's end, the clock may have been stepped.
        let later = &windows[index..windows.len().min(index + 6)];
        let steps: i64 = later.iter().map(|window| window.step.abs()).sum();
        tally.check(
            "age of the window",
            age >= -steps - SECOND / 10 && age <= AGE + steps + wire.stalled(status.at),
            || format!("{age} ns: {status:?}"),
        );
        let health = judged.in_force[index];
        let (level, cause) = health.map_or(("OK", "NoMessageYet"), |health| (&health.level, &health.cause));
        let is_condition = !["NoMessageYet", "Silence", "MessagesAgain", "AsExpected"].contains(&cause);
        let fails = level != "OK" && is_condition;
        let has_cause = level == "OK"
            || cause_of(&status.message) == cause
            || (fails && status.values["failing"].as_str().is_some_and(|failing| failing.contains(cause)));
        let is_right = status.level == level && has_cause && status.values["failing"].is_null() != fails;
        tally.check("levels", is_right, || format!("{level} by {cause} in the process: {status:?}"));
        let topic = TOPICS.iter().find(|topic| topic.name == judged.source.topic);
        let is_expected = status.values["warn_unless"].as_str() == topic.map(|topic| topic.expected);
        tally.check("conditions", is_expected, fault);
        // The rate is counted over as many windows as it takes.
        let (mut messages, mut seconds) = (0.0, 0.0);
        let mut rates = windows[..=index].iter().rev().take(60).map(|window| {
            messages += window.count as f64;
            seconds += window.length as f64 / 1e9;
            messages / seconds
        });
        let rate = status.number("Actual frequency (Hz)");
        let is_rate = rates.any(|expected| rate.is_some_and(|rate| (rate - expected).abs() <= 2e-6));
        // The history that a latched topic's publisher delivers at matching is no rate.
        let has_rate = rate.is_some() || !topic.is_some_and(|topic| topic.is_latched);
        let is_known = windows[index].is_count_known && has_rate;
        tally.check_known("rates", is_known, is_rate && status.number("frame_rate_node") == rate, fault);
    }
    for (name, judged) in &sources {
        let process = name.split(':').next();
        let is_far = PROCESSES.iter().any(|known| Some(known.name) == process && known.host == Host::Brain);
        let allowed = if is_far { MISSING_IN_CUT } else { MISSING };
        for Judged { source, found, .. } in judged {
            let mut found = found.clone();
            found.sort_unstable();
            // The reader and the publisher may not know each other at first.
            let first = found.first().copied().unwrap_or(0).min(MISSING_IN_CUT);
            let (mut before, end) = (first, source.windows.len());
            for index in found.into_iter().chain([end]) {
                let missing = index.saturating_sub(before + 1);
                tally.check("windows have a status", missing <= allowed, || {
                    format!("{name}: none for the {missing} windows before {index} of {end}")
                });
                before = index;
            }
        }
    }
}
