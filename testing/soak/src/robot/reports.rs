// SPDX-License-Identifier: Apache-2.0

//! The output of the processes: `/statistics` with its distributions, `/events/messages_lost`, and the lines of
//! topic_monitor.
//!
//! The windows in the processes were compared with the logs before. Here a report has to have the figures of these
//! windows.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    log::{Figures, Process, Source, Window},
    scenario::{PROCESSES, TOPICS},
    tally::Tally,
};

/// How many windows of a source may be missing at its start: the reader and the publisher did not know each other yet.
/// At the end of a process that was killed, the last ones may be.
pub const UNSEEN: usize = 4;

/// How long a publisher may know topic_monitor's subscription before it is known there, in s.
const UNMATCHED: f64 = 2.0;

/// The time between windows that topic_monitor may have read together, on a busy machine: their length is 1 s. Windows
/// that come closer than regular ones waited for a link that was cut, and another reader may have received them closer
/// still.
const TOGETHER: i64 = 900_000_000;

/// The file of the stalls of the machine, longer than 0.1 s.
pub const STALLS: &str = "stalls";
/// A stall changes what is due this long before it and after it, in ns.
const NEAR: i64 = 15_000_000_000;

/// Gives each object of a file of JSON lines to a function. The last line may be cut off.
pub fn each_object(path: &Path, mut accept: impl FnMut(&Value)) -> Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    for line in BufReader::new(file).lines() {
        if let Ok(object) = serde_json::from_str(&line?) {
            accept(&object);
        }
    }
    Ok(())
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

pub fn is_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs().max(1e-3)
}

pub fn figures_of(metric: &Value) -> Figures {
    Figures(["mean", "min", "max", "std_dev", "count"].map(|figure| number(&metric[figure])))
}

/// Source, metric, start and stop of a window.
pub type Key = (String, String, i64, i64);

/// A distribution on `/statistics/distribution`.
#[derive(Debug)]
pub struct Distribution {
    pub at: i64,
    pub key: Key,
    /// Count, sum, minimum, maximum.
    pub figures: [f64; 4],
    /// p50, p90, p99, p99.9; NaN: unknown.
    pub percentiles: [f64; 4],
    pub scale: i32,
    /// The samples in all buckets.
    pub samples: f64,
}

/// A status on `/diagnostics`.
#[derive(Debug)]
pub struct Status {
    pub at: i64,
    pub stamp: i64,
    pub level: &'static str,
    pub name: String,
    pub hardware_id: String,
    pub message: String,
    pub values: Value,
}

impl Status {
    pub fn number(&self, key: &str) -> Option<f64> {
        self.values[key].as_str()?.parse().ok()
    }
}

/// The messages read on topics. `at`: the time of reading, on the monotonic clock.
#[derive(Default)]
pub struct Wire {
    pub statistics: Vec<(i64, Key, Figures)>,
    pub distributions: Vec<Distribution>,
    /// Node, topic, and number.
    pub losses: Vec<(i64, (String, String), u64)>,
    pub statuses: Vec<Status>,
    /// When each stall of the machine ended, on the monotonic clock, and its length.
    stalls: Vec<(i64, i64)>,
}

impl Wire {
    pub fn read(directory: &Path) -> Result<Self> {
        let stalls = fs::read_to_string(directory.join(STALLS))?;
        let stall = |line: &str| {
            let (end, length) = line.split_once(' ')?;
            Some((end.parse().ok()?, length.parse().ok()?))
        };
        let mut wire = Self { stalls: stalls.lines().filter_map(stall).collect(), ..Self::default() };
        each_object(&directory.join("reader.out"), |object| wire.accept(object))?;
        Ok(wire)
    }

    /// Returns for how long the machine had no time for the processes around a moment on the monotonic clock: what was
    /// due at that time may be that much later.
    pub fn stalled(&self, at: i64) -> i64 {
        let is_near = |(end, length): &&(i64, i64)| (at - end).abs() <= NEAR + length;
        self.stalls.iter().filter(is_near).map(|(_, length)| length).sum()
    }

    fn accept(&mut self, object: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let at = object["at"].as_i64().unwrap_or_default();
        let time = |index: usize| object["window"][index].as_i64().unwrap_or_default();
        let key = || (text(&object["source"]), text(&object["metric"]), time(0), time(1));
        match object["topic"].as_str() {
            // Average, minimum, maximum, standard deviation and count.
            Some("/statistics") => {
                self.statistics.push((
                    at,
                    key(),
                    Figures([0, 1, 2, 3, 4].map(|index| number(&object["figures"][index]))),
                ));
            }
            Some("/statistics/distribution") => self.distributions.push(Distribution {
                at,
                key: key(),
                figures: [0, 1, 2, 3].map(|index| number(&object["figures"][index])),
                percentiles: [0, 1, 2, 3].map(|index| number(&object["percentiles"][index])),
                scale: object["scale"].as_i64().unwrap_or_default() as i32,
                samples: number(&object["samples"]),
            }),
            Some("/events/messages_lost") => {
                for lost in object["lost"].as_array().into_iter().flatten() {
                    let topic = (text(&object["node"]), text(&lost[0]));
                    self.losses.push((at, topic, lost[1].as_u64().unwrap_or(u64::MAX)));
                }
            }
            _ => {
                for status in object["statuses"].as_array().into_iter().flatten() {
                    self.statuses.push(Status {
                        at,
                        stamp: object["stamp"].as_i64().unwrap_or_default(),
                        level: ["OK", "WARN", "ERROR", "STALE"]
                            [status["level"].as_u64().unwrap_or(0) as usize % 4],
                        name: text(&status["name"]),
                        hardware_id: text(&status["hardware_id"]),
                        message: text(&status["message"]),
                        values: status["values"].clone(),
                    });
                }
            }
        }
    }
}

/// The figures of the processes' windows that have to be reported, and how often they were.
struct Due<'a> {
    processes: &'a [Process],
    /// The figures in the processes, and how often they were read.
    figures: BTreeMap<Key, (Figures, usize)>,
}

impl<'a> Due<'a> {
    fn new(processes: &'a [Process], is_due: impl Fn(&Source, &str, &Figures) -> bool) -> Self {
        let mut figures = BTreeMap::new();
        for source in processes.iter().flat_map(|process| process.sources.values()) {
            for window in &source.windows {
                for (metric, values) in
                    window.metrics.iter().filter(|(metric, values)| is_due(source, metric, values))
                {
                    let key = (source.name.clone(), metric.clone(), window.start, window.stop);
                    figures.insert(key, (*values, 0));
                }
            }
        }
        Self { processes, figures }
    }

    /// Returns the figures in the process.
    fn take(&mut self, key: &Key) -> Option<Figures> {
        let (figures, read) = self.figures.get_mut(key)?;
        *read += 1;
        Some(*figures)
    }

    /// Looks for windows that are missing, or there twice. The first `unseen` ones of a source may be missing, and the
    /// last ones.
    fn finish(
        self,
        what: &'static str,
        last_unseen: usize,
        skipped: &BTreeSet<(&str, i64)>,
        tally: &mut Tally,
    ) {
        for (process, source) in self
            .processes
            .iter()
            .flat_map(|process| process.sources.values().map(move |source| (process, source)))
        {
            let all = |window: &Window, is_it: fn(usize) -> bool| {
                window.metrics.iter().all(|(metric, _)| {
                    let key = (source.name.clone(), metric.clone(), window.start, window.stop);
                    self.figures.get(&key).is_none_or(|(_, read)| is_it(*read))
                })
            };
            let windows = &source.windows;
            let first =
                windows.iter().position(|window| all(window, |read| read == 1)).unwrap_or(windows.len());
            for (index, window) in windows.iter().enumerate() {
                let is_edge = (index <= first && index < UNSEEN)
                    || index + last_unseen >= windows.len()
                    || skipped.contains(&(&*source.name, window.stop));
                let is_unseen = is_edge && !all(window, |read| read == 1) && all(window, |read| read < 2);
                tally.check_known(what, !is_unseen, all(window, |read| read == 1), || {
                    let name = format!("{} of {}", source.name, process.incarnation);
                    format!("{name}: the window until {} is missing or there twice", window.stop)
                });
            }
        }
    }
}

/// Compares `/statistics` with the windows in the processes.
pub fn statistics(wire: &Wire, processes: &[Process], tally: &mut Tally) {
    tally.report("/statistics");
    let mut due = Due::new(processes, |_, _, _| true);
    for (_, key, figures) in &wire.statistics {
        let expected = due.take(key);
        let fault = || format!("{key:?}: {figures:?}, in the process {expected:?}");
        tally.check("figures", expected == Some(*figures), fault);
    }
    due.finish("windows", 2, &BTreeSet::new(), tally);
}

/// Compares `/statistics/distribution` with the windows in the processes; `windows` has compared the percentiles.
pub fn distributions(wire: &Wire, processes: &[Process], tally: &mut Tally) {
    tally.report("/statistics/distribution");
    let has_them = |topic: &str| TOPICS.iter().any(|known| known.name == topic && known.has_distributions());
    let mut due = Due::new(processes, |source, metric, figures| {
        let is_single = metric == "time_since_last_message_ms";
        !source.is_publisher && has_them(&source.topic) && !is_single && figures.count() > 0
    });
    for distribution in &wire.distributions {
        let expected = due.take(&distribution.key);
        let [count, sum, minimum, maximum] = distribution.figures;
        let is_right = expected.is_some_and(|Figures([average, lowest, highest, _, samples])| {
            let is_same = |one: f64, other: f64| (one - other).abs() <= 1e-9 * other.abs() + 1e-12;
            count == samples
                && distribution.samples == samples
                && is_same(minimum, lowest)
                && is_same(maximum, highest)
                // Sums of different signs cancel out.
                && (sum - average * samples).abs() <= 1e-9 * samples * lowest.abs().max(highest.abs())
        });
        tally.check("count, sum, minimum, maximum", is_right, || {
            format!("{distribution:?}, in the process {expected:?}")
        });
    }
    due.finish("windows", 2, &BTreeSet::new(), tally);
}

/// Compares the sums of the events on `/events/messages_lost` with the losses in the processes. A late message reduces
/// the losses, and not those that were reported.
pub fn losses(wire: &Wire, processes: &[Process], tally: &mut Tally) {
    tally.report("/events/messages_lost");
    let mut reported = BTreeMap::<(String, String), i64>::new();
    for (_, topic, lost) in &wire.losses {
        *reported.entry(topic.clone()).or_default() += *lost as i64;
    }
    let mut expected = BTreeMap::<(String, String), (bool, i64, i64)>::new();
    for process in processes {
        for source in process.sources.values().filter(|source| !source.is_publisher) {
            let node = source.name.split(':').next().unwrap_or_default().to_owned();
            let (is_known, lost, late) = expected.entry((node, source.topic.clone())).or_insert((true, 0, 0));
            // The events of a process that was killed are missing.
            let [_, of_source, of_late, ..] = source.totals.unwrap_or_default();
            *is_known &= source.totals.is_some() && of_source >= 0;
            *lost += of_source;
            *late += of_late;
        }
    }
    for (topic, reported) in &reported {
        tally.check("sources", expected.contains_key(topic), || format!("{topic:?}: {reported}"));
    }
    for (topic, (is_known, lost, late)) in expected {
        let reported = reported.get(&topic).copied().unwrap_or(0);
        let is_right = (lost..=lost + late).contains(&reported);
        tally.check_known("losses", is_known, is_right, || {
            format!("{topic:?}: {reported} were reported, {lost} are lost, {late} were late")
        });
    }
}

/// Compares the lines of `topic_monitor --from-statistics` with the windows in the processes.
pub fn rows(directory: &Path, wire: &Wire, processes: &[Process], tally: &mut Tally) -> Result<()> {
    tally.report("topic_monitor --from-statistics");
    let mut due = Due::new(processes, |_, _, _| true);
    each_object(&directory.join("rows.out"), |row| {
        let time = |key: &str| row[key].as_i64().unwrap_or_default();
        let source = row["topic"].as_str().unwrap_or_default();
        let (start, stop) = (time("window_start"), time("window_stop"));
        for (metric, reported) in row["metrics"].as_object().into_iter().flatten() {
            let (key, figures) = ((source.to_owned(), metric.clone(), start, stop), figures_of(reported));
            let expected = due.take(&key);
            tally.check("figures", expected == Some(figures), || {
                format!("{key:?}: {figures:?}, in the process {expected:?}")
            });
        }
        let fault = || format!("{source}, window until {stop}: {row}");
        let metric = |name: &str| figures_of(&row["metrics"][name]).0;
        let mut compare = |what, value: &Value, expected: f64| {
            tally.check_known(what, expected.is_finite(), is_close(number(value), expected), fault);
        };
        compare("rates", &row["rate"], 1e3 / metric("message_period")[0]);
        let [gap, .., gaps] = metric("publication_seq_gap");
        compare("losses", &row["lost"], gap * gaps);
        let [size, .., sizes] = metric("message_size");
        compare("bytes", &row["bytes"], size * sizes);
    })?;
    // Of windows that are received together, after the link was cut, there is a line of the last one.
    let mut last = BTreeMap::<&str, (i64, i64)>::new();
    let mut skipped = BTreeSet::new();
    for (at, (source, _, _, stop), _) in &wire.statistics {
        if let Some((before, at_before)) =
            last.insert(source, (*stop, *at)).filter(|(before, _)| before != stop)
        {
            if at - at_before < TOGETHER {
                skipped.insert((source.as_str(), before));
            }
        }
    }
    due.finish("windows", 3, &skipped, tally);
    Ok(())
}

/// The totals of a line date from the time when the line is written, so they may include messages of the next window.
/// The totals before the first line have to be one number that fits all lines.
#[derive(Default)]
struct Totals {
    stop: i64,
    total: [i64; 2],
    windows: [i64; 2],
    lowest: [i64; 2],
    highest: [i64; 2],
}

impl Totals {
    fn accept(&mut self, start: i64, stop: i64, total: [i64; 2], window: [i64; 2]) -> bool {
        // A window may have passed without a line.
        let is_next = (start - self.stop).abs() < 1_000_000;
        self.stop = stop;
        for index in 0..2 {
            if !is_next {
                (self.windows[index], self.lowest[index], self.highest[index]) = (0, 0, i64::MAX);
            } else {
                self.windows[index] += window[index];
                self.lowest[index] = self.lowest[index].max(self.total[index] - self.windows[index]);
            }
            self.total[index] = total[index];
            self.highest[index] = self.highest[index].min(total[index] - self.windows[index]);
        }
        (0..2).all(|index| self.lowest[index] <= self.highest[index])
    }
}

/// Returns the messages per second of the fastest publisher of a topic.
fn highest_rate(topic: &str) -> f64 {
    let publishers = PROCESSES.iter().flat_map(|process| process.publishes);
    publishers.filter(|(index, _)| TOPICS[*index].name == topic).map(|(_, rate)| *rate).fold(0.0, f64::max)
}

/// Compares the lines of topic_monitor's own subscriptions with the senders' logs.
pub fn monitor(
    directory: &Path,
    processes: &[Process],
    size: &impl Fn(&str) -> u64,
    tally: &mut Tally,
) -> Result<()> {
    tally.report("topic_monitor");
    let mut totals = BTreeMap::<String, Totals>::new();
    let mut last = BTreeMap::<String, Value>::new();
    // Windows of each topic, and those of which messages were counted without being measured: losses are unknown from
    // the first of these on.
    let mut windows = BTreeMap::<String, [u64; 2]>::new();
    each_object(&directory.join("monitor.out"), |row| {
        let topic = row["topic"].as_str().unwrap_or_default().to_owned();
        let (Some(received), Some(start), Some(stop)) =
            (row["received"].as_u64(), row["window_start"].as_i64(), row["window_stop"].as_i64())
        else {
            return;
        };
        let fault = || {
            let (total, metrics) = (&row["total"], &row["metrics"]);
            let expected =
                ["message_period", "message_size", "publication_seq_gap"].map(|metric| &metrics[metric]);
            format!(
                "{topic}, window until {stop}: {received} received, {} lost, {total}, {expected:?}",
                row["lost"]
            )
        };
        let counts = |value: &Value| ["received", "lost"].map(|key| value[key].as_i64().unwrap_or(0));
        let [total, window] = [counts(&row["total"]), counts(row)];
        let start_by_clock = start - row["clock_step"].as_i64().unwrap_or(0);
        let totals = totals.entry(topic.clone()).or_default();
        tally.check("totals grow by the windows", totals.accept(start_by_clock, stop, total, window), fault);
        let metric = |name: &str| figures_of(&row["metrics"][name]);
        let sizes = metric("message_size");
        // On a busy machine, more messages may come while a window ends than wait for its lock. Then no figure of the
        // window is known, except its count.
        let is_measured = received == 0 || sizes.count() > 0;
        let [all, unmeasured] = windows.entry(topic.clone()).or_default();
        *all += 1;
        *unmeasured += u64::from(!is_measured);
        let has_unmeasured = *unmeasured > 0;
        if row["clock_step"].is_null() {
            let rate = received as f64 * 1e9 / (stop - start) as f64;
            tally.check("rates", (number(&row["rate"]) - rate).abs() <= 1e-4 * rate, fault);
            let bandwidth = rate * size(&topic) as f64;
            let is_right = (number(&row["bandwidth"]) - bandwidth).abs() <= 1e-4 * bandwidth;
            tally.check_known("bytes", is_measured, is_right, fault);
        }
        let is_right = match is_measured {
            true => row["bytes"].as_u64() == Some(received * size(&topic)) && sizes.count() == received,
            false => row["bytes"].is_null() && row["lost"].is_null(),
        };
        tally.check("bytes", is_right, fault);
        let gaps = metric("publication_seq_gap");
        let lost = if gaps.count() == 0 { 0.0 } else { gaps.0[0] * gaps.0[4] };
        // The first message of a sender has no gap, and neither has a late one, which fills a gap.
        let senders = row["senders"].as_array().map_or(0, Vec::len) as u64;
        let late = row["out_of_order"].as_u64().unwrap_or(0);
        let is_counted = (received.saturating_sub(senders + late)..=received - late).contains(&gaps.count());
        let filled = lost - window[1] as f64;
        let is_right = match has_unmeasured {
            true => row["lost"].is_null() && row["total"]["lost"].is_null() && gaps.count() == 0,
            false => is_counted && filled > -1e-3 && filled < late as f64 + 1e-3,
        };
        tally.check("gaps", is_right, fault);
        let periods = metric("message_period");
        // The first one may have begun in the window before.
        let sum = if periods.count() > 0 { periods.0[0] * periods.0[4] - periods.0[2] } else { 0.0 };
        let is_known = row["clock_step"].is_null();
        let is_right = periods.count() <= received && sum <= (stop - start) as f64 / 1e6 + 1.0;
        tally.check_known("periods", is_known, is_right, fault);
        last.insert(topic, row.clone());
    })?;
    for (topic, [all, unmeasured]) in &windows {
        tally.check("windows that are measured", *unmeasured <= 1 + all / 10, || {
            format!("{topic}: {unmeasured} of {all} windows are not measured")
        });
    }
    // For each publisher, received plus lost messages equal its sent ones: it sends as soon as it
    // knows the subscriptions. On a busy machine topic_monitor may know it later; the first messages then reach nobody.
    for (topic, row) in last {
        let first = (highest_rate(&topic) * UNMATCHED) as u64;
        let mut sent = BTreeMap::<u64, u64>::new();
        let sources = || processes.iter().flat_map(|process| process.sources.values());
        for source in sources().filter(|source| source.topic == topic && !source.sent.is_empty()) {
            *sent.entry(source.sent.len() as u64).or_default() += 1;
        }
        for sender in row["senders"].as_array().into_iter().flatten() {
            let count = |key: &str| sender[key].as_u64().unwrap_or(0);
            let all = count("received") + count("lost");
            // The last line of a process that was killed may be missing.
            let found =
                [all, all - 1].into_iter().find(|count| sent.get(count).is_some_and(|left| *left > 0));
            // A message that is 64 or more numbers late is out of order, and stays lost: the sum may exceed the
            // messages sent by one for each. After a step back of the sender's clock, Fast DDS hands over messages that
            // wait in the order of their source timestamps.
            let range = all - count("out_of_order").min(all)..=all + first;
            let near = || sent.range(range).find(|(_, left)| **left > 0).map(|(count, _)| *count);
            let known = found.or_else(near);
            if let Some(left) = known.and_then(|count| sent.get_mut(&count)) {
                *left -= 1;
            }
            let is_known = (found.is_some() || known.is_none()) && windows[&topic][1] == 0;
            tally.check_known("senders", is_known, found.is_some(), || {
                format!("{topic}: {sender}; sent were {sent:?}")
            });
        }
    }
    Ok(())
}
