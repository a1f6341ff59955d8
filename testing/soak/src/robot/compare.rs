// SPDX-License-Identifier: Apache-2.0

//! Compares all reports with the windows in the logs of the processes. Each process has checked its windows.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{ensure, Context, Result};
use rclrs_topic_statistics::Metric;
use serde_json::Value;

use super::{period, topics};

/// The number of windows that may be missing in a report: at the start of a source, because of discovery, and at the
/// end of a killed process.
const UNSEEN: usize = 4;
/// The number of consecutive windows that may have no status on `/diagnostics`. A status is due once per second, but
/// the network is cut for 10 s, and the machine may be busy.
const WITHOUT_STATUS: usize = 20;

/// The average, minimum, maximum, standard deviation and sample count of a metric; NaN if unknown.
type Figures = [f64; 5];

#[derive(Default)]
struct Window {
    stop: i64,
    length: f64,
    received: f64,
    /// For each metric, its figures, and how often `/statistics` has reported the figures.
    metrics: BTreeMap<String, (Figures, usize)>,
    /// The level and the cause of the health after the window; `None` if the process has not compared the window.
    health: Option<[String; 2]>,
}

impl Window {
    fn get(&self, metric: &str) -> Figures {
        self.metrics.get(metric).map_or([f64::NAN; 5], |(figures, _)| *figures)
    }
}

/// The name of a counter on `/metrics`, and the number that each window adds to this counter.
type Counter = (&'static str, fn(&Window) -> f64);

const COUNTERS: [Counter; 3] = [
    ("windows_total", |_| 1.0),
    ("messages_received_total", |window| {
        // In a window with a step of the clock, some metrics lack samples. So the largest sample count of these metrics
        // is taken as the number of messages.
        let all = ["message_age", "header_to_source_ms", "source_to_callback_ms", "message_period"];
        all.iter().chain(&["publication_seq_gap"]).map(|metric| window.get(metric)[4]).fold(0.0, f64::max)
    }),
    ("messages_lost_total", |window| {
        let gap = window.get("publication_seq_gap");
        (gap[0] * gap[4]).max(0.0).round()
    }),
];

const LEVELS: [&str; 4] = ["OK", "WARN", "ERROR", "STALE"];

type Windows = BTreeMap<(i64, i64), Window>;

/// The windows of a source in one run of its process, by source name and incarnation of the process.
type Sources = BTreeMap<(String, u32), Windows>;

#[derive(Default)]
struct Day {
    sources: Sources,
    /// For each topic, the number of messages of each publisher. Publishers of killed processes are missing.
    sent: BTreeMap<String, Vec<u64>>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    compared: BTreeMap<&'static str, u64>,
    differences: Vec<String>,
}

impl Tally {
    fn check(&mut self, report: &'static str, is_right: bool, fault: impl FnOnce() -> String) {
        *self.compared.entry(report).or_default() += 1;
        if !is_right {
            self.differences.push(format!("{report}: {}", fault()));
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs().max(1e-3) || (one.is_nan() && other.is_nan())
}

/// Returns the figures of each metric in a row. The figures are an array, or an object with names.
fn metrics(row: &Value) -> impl Iterator<Item = (String, Figures)> + '_ {
    let names = ["mean", "min", "max", "std_dev", "count"];
    row["metrics"].as_object().into_iter().flatten().map(move |(metric, value)| {
        let figure = |index: usize| if value.is_array() { &value[index] } else { &value[names[index]] };
        (metric.clone(), std::array::from_fn(|index| number(figure(index))))
    })
}

/// Returns the objects in a file of JSON lines. An incomplete last line is ignored.
fn objects(path: &Path) -> Result<Vec<Value>> {
    let lines = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

pub fn run(directory: &Path) -> Result<()> {
    let mut day = Day::default();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".log")?.split_once('.'));
        if let Some((_, incarnation)) = name {
            day.read_log(&objects(&path)?, incarnation.parse()?);
        }
    }
    let [rows, read, monitored] =
        ["rows", "reader", "monitor"].map(|tool| objects(&directory.join(format!("{tool}.out"))));
    let read = read?;
    day.windows("topic_monitor --from-statistics", &rows?);
    day.windows("/statistics", &read);
    day.diagnostics(&read);
    day.monitor(&monitored?);
    day.metrics(directory)?;
    println!("| report | compared |\n|---|---|");
    for (report, compared) in &day.tally.compared {
        println!("| {report} | {compared} |");
    }
    let all = &day.tally.differences;
    fs::write(directory.join("differences.txt"), all.join("\n"))?;
    let shown = all[..all.len().min(40)].join("\n");
    ensure!(all.is_empty(), "{} differences; the first:\n{shown}", all.len());
    println!("\npassed");
    Ok(())
}

fn find<'a>(sources: &'a Sources, source: &'a str) -> impl Iterator<Item = (&'a (String, u32), &'a Windows)> {
    sources.iter().filter(move |((name, _), _)| name == source)
}

impl Day {
    fn read_log(&mut self, lines: &[Value], incarnation: u32) {
        for line in lines {
            let (stop, key) = (integer(&line["stop"]), |source: &Value| (text(source), incarnation));
            if line["window"].is_string() {
                let (length, received) = (number(&line["length"]), number(&line["received"]));
                let metrics = metrics(line).map(|(metric, figures)| (metric, (figures, 0))).collect();
                let window = Window { stop, length, received, metrics, health: None };
                let windows = self.sources.entry(key(&line["window"])).or_default();
                windows.insert((integer(&line["start"]), stop), window);
            } else if line["compared"].is_string() {
                *self.tally.compared.entry("windows in the process").or_default() += 1;
                let windows = self.sources.entry(key(&line["compared"])).or_default();
                if let Some(window) = windows.values_mut().rev().find(|window| window.stop == stop) {
                    window.health = Some([text(&line["level"]), text(&line["cause"])]);
                }
            } else if line["sent"].is_string() {
                let all = self.sent.entry(text(&line["sent"])).or_default();
                all.push(line["count"].as_u64().unwrap_or_default());
            } else {
                self.tally.differences.push(line.to_string());
            }
        }
    }

    /// Checks that the figures on `/statistics` and in topic_monitor's lines equal the processes' figures.
    /// `/statistics` must report each window once. topic_monitor may skip windows: if it receives several windows
    /// together, it prints only the last one.
    fn windows(&mut self, report: &'static str, rows: &[Value]) {
        for row in rows {
            let key = (integer(&row["window_start"]), integer(&row["window_stop"]));
            let source = text(&row["topic"]);
            for (metric, reported) in metrics(row) {
                let named = self.sources.iter_mut().filter(|((name, _), _)| *name == source);
                let found = named.filter_map(|(_, windows)| windows.get_mut(&key)?.metrics.get_mut(&metric));
                let expected = found.last().map(|(figures, count)| {
                    *count += 1;
                    *figures
                });
                let is_right = expected.is_some_and(|expected| {
                    reported.iter().zip(expected).all(|(one, other)| is_close(*one, other))
                });
                self.tally.check(report, is_right, || {
                    format!("{source} {metric} until {}: {reported:?}, not {expected:?}", key.1)
                });
            }
        }
        for (name, windows) in &mut self.sources {
            let end = windows.len().saturating_sub(UNSEEN);
            for (index, window) in windows.values_mut().enumerate() {
                let may_miss = index < UNSEEN || index >= end || report != "/statistics";
                let counts: Vec<usize> =
                    window.metrics.values_mut().map(|(_, count)| std::mem::take(count)).collect();
                let is_right = counts.iter().all(|count| *count == 1 || (may_miss && *count == 0));
                self.tally
                    .check(report, is_right, || format!("{name:?} until {}: {counts:?} times", window.stop));
            }
        }
    }

    /// Checks that each status has the figures of a window, and the level and the cause after this window.
    fn diagnostics(&mut self, lines: &[Value]) {
        const REPORT: &str = "/diagnostics";
        let mut found = BTreeMap::<(String, u32), BTreeSet<usize>>::new();
        for status in lines.iter().filter(|line| line["name"].is_string()) {
            let values = &status["values"];
            let is = |key: &str, expected: f64| {
                let value = values[key].as_str().and_then(|value| value.parse::<f64>().ok());
                value.map_or(expected.is_nan(), |value| (value - expected).abs() <= 1e-6)
            };
            let has_figures = |window: &Window| {
                is("Events since startup", window.received)
                    && is("Duration of window (s)", window.length)
                    && window.metrics.iter().all(|(metric, ([average, _, maximum, ..], _))| {
                        is(&format!("{metric}.average"), *average)
                            && is(&format!("{metric}.maximum"), *maximum)
                    })
            };
            let level = LEVELS[integer(&status["level"]) as usize % 4];
            let failing = text(&values["failing"]);
            let is_health = |[found, cause]: &[String; 2]| {
                let is_cause = if cause.contains(['<', '=', '>']) {
                    failing.contains(cause)
                } else {
                    failing.is_empty()
                };
                found == level && (level == "OK" || is_cause)
            };
            // Before the first window, a status has no figures.
            let mut is_right = status["level"] == 0 && is("Duration of window (s)", f64::NAN);
            let source = text(&values["measurement_source_name"]);
            for (key, windows) in find(&self.sources, &source) {
                let mut all = windows.values().enumerate();
                if let Some((index, window)) = all.find(|(_, window)| has_figures(window)) {
                    found.entry(key.clone()).or_default().insert(index);
                    is_right |= window.health.as_ref().is_none_or(is_health);
                }
            }
            self.tally.check(REPORT, is_right, || status.to_string());
        }
        for (key, windows) in
            self.sources.iter().filter(|(_, windows)| windows.values().any(|one| one.received > 0.0))
        {
            let seen = found.get(key).into_iter().flatten().copied();
            let indices: Vec<usize> = [0].into_iter().chain(seen).chain([windows.len()]).collect();
            let is_right = indices.windows(2).all(|pair| pair[1] - pair[0] <= WITHOUT_STATUS);
            self.tally.check(REPORT, is_right, || format!("{key:?} has a status of the windows {indices:?}"));
        }
    }

    /// Checks topic_monitor's own lines: for each sender, messages received plus messages lost are the messages sent.
    fn monitor(&mut self, rows: &[Value]) {
        const REPORT: &str = "topic_monitor";
        let mut last = BTreeMap::new();
        for row in rows.iter().filter(|row| row["received"].is_u64()) {
            last.insert(text(&row["topic"]), row);
            let length = number(&row["window_stop"]) - number(&row["window_start"]);
            let rate = number(&row["received"]) * 1e9 / length;
            let is_right = (number(&row["rate"]) - rate).abs() <= 1e-4 * rate;
            let is_known = row["clock_step"].is_null() && !row["rate"].is_null();
            self.tally.check(REPORT, is_right || !is_known, || row.to_string());
        }
        for (topic, row) in last {
            let mut sent = self.sent.get(&topic).cloned().unwrap_or_default();
            let period = topics().find(|row| row.name == topic).map_or(i64::MAX, |row| period(row, 1));
            // A publisher may have sent messages for up to 2 s before topic_monitor's subscription discovered it, so
            // this many messages may be missing.
            let first = (2_000_000_000 / period) as u64;
            for sender in row["senders"].as_array().into_iter().flatten() {
                let all = ["received", "lost"].iter().filter_map(|count| sender[count].as_u64()).sum();
                let near = || sent.iter().position(|sent| (all..=all + first).contains(sent));
                let place = sent.iter().position(|sent| *sent == all).or_else(near);
                place.map(|place| sent.swap_remove(place));
            }
            let is_known = row["total"]["lost"].is_u64();
            self.tally
                .check(REPORT, sent.is_empty() || !is_known, || format!("{row}: no sender of {sent:?}"));
        }
    }

    /// Checks `/metrics`: each gauge is a figure of a window. At the end, a counter is the sum over all windows.
    fn metrics(&mut self, directory: &Path) -> Result<()> {
        const REPORT: &str = "/metrics";
        let mut end = BTreeMap::new();
        for number in 0.. {
            let Ok(scrape) = fs::read_to_string(directory.join(format!("metrics.{number:04}"))) else {
                break;
            };
            end.clear();
            for line in scrape.lines().filter(|line| !line.starts_with('#')) {
                let Some((series, value)) = line.rsplit_once(' ') else { continue };
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                let label = |name: &str| Some(labels.split_once(name)?.1.split_once('"')?.0);
                let [node, topic] = ["node=\"", "topic=\""].map(|name| label(name).unwrap_or_default());
                let (source, value) = (format!("{node}:{topic}"), value.parse::<f64>()?);
                end.insert((name.to_owned(), source.clone()), value);
                let Some(metric) = Metric::ALL.iter().find(|metric| gauge(**metric) == name) else {
                    continue;
                };
                let factor = if metric.unit() == "ms" { 1e-3 } else { 1.0 };
                let mut windows = find(&self.sources, &source).flat_map(|(_, windows)| windows.values());
                let is_right = windows.any(|window| is_close(window.get(metric.name())[0] * factor, value));
                self.tally.check(REPORT, is_right, || format!("scrape {number}: {line}"));
            }
        }
        let names: BTreeSet<&String> = self.sources.keys().map(|(name, _)| name).collect();
        for source in names {
            let value = |name: &str| end.get(&(format!("topic_statistics_{name}"), source.clone())).copied();
            self.tally.check(REPORT, value("windows_total").is_some(), || format!("{source} is not there"));
            for (name, counted) in COUNTERS {
                let sum = |skipped: usize| -> f64 {
                    let each = |(_, windows): (_, &Windows)| -> f64 {
                        let kept = windows.len().saturating_sub(skipped);
                        windows.values().take(kept).skip(skipped).map(counted).sum()
                    };
                    find(&self.sources, source).map(each).sum()
                };
                let (value, range) = (value(name), sum(UNSEEN)..=sum(0));
                let is_right = value.is_none_or(|value| range.contains(&value));
                self.tally.check(REPORT, is_right, || format!("{source} {name} {value:?}, not {range:?}"));
            }
            let all = find(&self.sources, source);
            let mut last = all.flat_map(|(_, windows)| windows.values().rev().take(WITHOUT_STATUS));
            let level = value("health_level").map(|level| LEVELS[level as usize % 4]);
            let has_level =
                |window: &Window| window.health.as_ref().is_some_and(|[own, _]| Some(&**own) == level);
            self.tally
                .check(REPORT, level.is_none() || last.any(has_level), || format!("{source} is {level:?}"));
        }
        Ok(())
    }
}

fn gauge(metric: Metric) -> String {
    let unit = if metric.unit() == "ms" { "seconds" } else { metric.unit() };
    let short = metric.name().strip_suffix("_ms").unwrap_or(metric.name());
    format!("topic_statistics_{short}_mean_{unit}")
}
