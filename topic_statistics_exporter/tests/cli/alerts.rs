// SPDX-License-Identifier: Apache-2.0

//! Tests the alerts in the situations of `situations.txt` with promtool: only the expected alerts fire.

use std::{collections::BTreeSet, fs, ops::Range, process::Command};

use serde_json::{json, Value};

use crate::{common::folder, mixin::alerts, prometheus::find};

const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
const DAY: u32 = 24 * HOUR;

/// The labels that each `$NAME` in `situations.txt` stands for.
const LABELS: [(&str, &str); 7] = [
    ("$SCAN", "$R1 node=/n topic=/scan"),
    ("$PLAN", "$R1 node=/n topic=/plan"),
    ("$MAP", "$R1 node=/n topic=/map"),
    ("$TIMER", "$R1 node=/n name=timer/10ms"),
    ("$EXECUTOR", "$R1 node=/n name=executor"),
    ("$R1", "job=topic_statistics instance=r1"),
    ("$R2", "job=topic_statistics instance=r2"),
];

/// A situation: the time series over some time, and the alerts that fire during this time.
struct Situation {
    name: String,
    length: u32,
    /// The time between two scrapes, in seconds.
    interval: u32,
    /// Values that exist while the robot is on. The robot is off while one of these values is missing.
    is_on: Vec<Values>,
    series: Vec<Value>,
    /// The alerts that fire: the name, the severity, and a time (s) when the alert fires. No other alert ever fires.
    fires: Vec<(String, String, u32)>,
    /// The names of alerts, and a time (s) at which each alert does not fire.
    rests: Vec<(String, u32)>,
}

impl Situation {
    fn new(name: &str, length: u32, interval: u32) -> Self {
        let name = format!("{name}, scraped every {interval} s");
        Self { name, length, interval, is_on: vec![], series: vec![], fires: vec![], rests: vec![] }
    }

    /// Adds a time series. `value` returns the value at a time, or `None` while the time series does not exist.
    fn series(&mut self, series: &str, value: impl Fn(u32) -> Option<f64>) {
        let (name, labels) = series.trim_end_matches('}').split_once('{').unwrap();
        let labels = LABELS.iter().fold(labels.to_owned(), |labels, (name, list)| labels.replace(name, list));
        // A space separates labels, unless the space is inside quotes.
        let mut is_quoted = false;
        let pairs = labels.split(|c| {
            is_quoted ^= c == '"';
            c == ' ' && !is_quoted
        });
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap());
        let pairs: Vec<_> =
            pairs.map(|(name, value)| format!("{name}=\"{}\"", value.trim_matches('"'))).collect();
        let is_whole = name == "up" || name.starts_with("process_") || name.contains(':');
        let prefix = if is_whole { "" } else { "topic_statistics_" };
        let is_on = |time: &u32| self.is_on.iter().all(|is_on| is_on.at(*time).is_some());
        let times = (0..=self.length / self.interval).map(|scrape| scrape * self.interval);
        let samples: Vec<_> = times.map(|time| Some(time).filter(is_on).and_then(&value)).collect();
        let series = format!("{prefix}{name}{{{}}}", pairs.join(", "));
        self.series.push(json!({"series": series, "values": notation(&samples)}));
    }

    /// Adds the time series of a subscription. The series count the messages up to the end of the last window.
    fn topic(&mut self, topic: &str, received: &Values) {
        // The windows are 1 s long, except for two topics whose names say that their windows are shorter or longer.
        let window = if topic == "/fast_windows" { 0.1 } else { 1.0 };
        let window = if topic == "/long_windows" { 300.0 } else { window };
        let labels = format!("$R1 node=/n topic={topic}");
        let ended = |time: u32| (f64::from(time) / window).floor();
        self.series(&format!("windows_total{{{labels}}}"), |time| received.at(time).map(|_| ended(time)));
        let total = format!("messages_received_total{{{labels} kind=subscription}}");
        self.series(&total, |time| received.at(time).and(received.at((ended(time) * window) as u32)));
    }

    /// Parses a line of `situations.txt`, and adds its content to the situation.
    fn line(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        let alert = || format!("TopicStatistics{}", words[1]);
        match words[0] {
            "fires" => return self.fires.push((alert(), words[2].to_owned(), time(words[3]))),
            "rests" => return self.rests.push((alert(), time(words[2]))),
            _ => {}
        }
        let (series, text) = line.rsplit_once(": ").unwrap();
        let values = Values::read(text);
        // A range such as `[0-9]` stands for one time series per character.
        if let Some(at) = series.find('[') {
            let [first, last] = [1, 3].map(|offset| series.as_bytes()[at + offset]);
            for place in first..=last {
                let place = char::from(place);
                self.line(&format!("{}{place}{}: {text}", &series[..at], &series[at + 5..]));
            }
        } else if series == "on" {
            self.is_on.push(values);
        } else if let Some(topic) = series.strip_prefix("topic ") {
            self.topic(topic, &values);
        } else if let Some(labels) = series.strip_prefix("exporter{") {
            let is_up = |time| values.at(time).filter(|is_up| *is_up == 1.0);
            self.series(&format!("exporter_build_info{{{labels}"), is_up);
            // While the robot is off, the exporter cannot be scraped, so Prometheus writes 0 for `up`.
            let gates = std::mem::take(&mut self.is_on);
            let is_on = |time| gates.iter().all(|is_on| is_on.at(time).is_some());
            let up = |time| is_up(time).filter(|_| is_on(time)).or(Some(0.0));
            self.series(&format!("up{{{labels}"), up);
            self.is_on = gates;
        } else {
            self.series(series, |time| values.at(time));
        }
    }

    /// Returns the input of `promtool test` for this situation.
    fn test(&self) -> Value {
        let firing = |expression: &str, time: u32, alerts: BTreeSet<(&str, &str)>| {
            let sample = |(name, severity): (&str, &str)| {
                let labels = format!("{{alertname=\"{name}\", severity=\"{severity}\"}}");
                json!({"labels": labels, "value": 1})
            };
            let expected: Vec<_> = alerts.into_iter().map(sample).collect();
            let expression = format!("group by (alertname, severity) ({expression})");
            json!({"expr": expression, "eval_time": format!("{time}s"), "exp_samples": expected})
        };
        let alert =
            |name: &str, more: &str| format!("ALERTS{{alertstate=\"firing\", alertname=\"{name}\"{more}}}");
        let fires = self.fires.iter().map(|(name, severity, time)| {
            let severity_is = format!(", severity=\"{severity}\"");
            firing(&alert(name, &severity_is), *time, BTreeSet::from([(&**name, &**severity)]))
        });
        let rests = self.rests.iter().map(|(name, time)| firing(&alert(name, ""), *time, BTreeSet::new()));
        let all = self.fires.iter().map(|(name, severity, _)| (&**name, &**severity)).collect();
        let ever = format!("last_over_time(ALERTS{{alertstate=\"firing\"}}[{}s])", self.length);
        let tests: Vec<_> = fires.chain(rests).chain([firing(&ever, self.length, all)]).collect();
        json!({
            "name": self.name,
            "interval": format!("{}s", self.interval),
            "input_series": self.series,
            "promql_expr_test": tests,
        })
    }
}

/// Converts a duration such as `1d2h3m4s` to seconds.
fn time(text: &str) -> u32 {
    let parts = text.split_inclusive(|c: char| c.is_ascii_alphabetic());
    parts
        .map(|part| {
            let (number, unit) = part.split_at(part.len() - 1);
            let unit = match unit {
                "d" => DAY,
                "h" => HOUR,
                "m" => MINUTE,
                "s" => 1,
                _ => panic!("{text} is no time"),
            };
            number.parse::<u32>().unwrap() * unit
        })
        .sum()
}

/// The values of a time series over time. `situations.txt` describes the notation.
struct Values {
    /// The parts: the start time, the value at the start, the growth at each step, and the length of a step.
    parts: Vec<(u32, Option<f64>, f64, u32)>,
    period: u32,
}

impl Values {
    fn read(text: &str) -> Self {
        let (text, period) = text.split_once(" @").map_or((text, u32::MAX), |(text, end)| (text, time(end)));
        let mut all = Self { parts: vec![], period };
        for part in text.split(", ") {
            let (start, value) = part.split_once(' ').unwrap_or(("0s", part));
            let (value, growth) = value.split_once('+').unwrap_or((value, "0"));
            let (growth, each) = growth.split_once('/').unwrap_or((growth, "1s"));
            let start = time(start);
            let value = match value {
                "_" => None,
                "~" => all.at(start),
                number => Some(number.parse().unwrap()),
            };
            all.parts.push((start, value, growth.parse().unwrap(), time(each)));
        }
        all
    }

    fn at(&self, time: u32) -> Option<f64> {
        let time = time % self.period;
        let (start, value, growth, each) = *self.parts.iter().rfind(|(start, ..)| *start <= time)?;
        Some(value? + growth * f64::from((time - start) / each))
    }
}

/// Writes samples in promtool's notation: `0+15x3` means 0 15 30 45, and `_x2` means two missing samples.
fn notation(samples: &[Option<f64>]) -> String {
    let (mut words, mut rest) = (vec![], samples);
    while let [first, more @ ..] = rest {
        let step = first.zip(more.first().copied().flatten()).map_or(0.0, |(value, next)| next - value);
        let at = |index: usize| first.map(|value| value + step * index as f64);
        let is_same = |(index, sample): &(usize, &Option<f64>)| match (at(*index), sample) {
            (Some(expected), Some(sample)) => (sample - expected).abs() < 1e-9 * sample.abs().max(1.0),
            (expected, sample) => expected.is_none() && sample.is_none(),
        };
        let length = rest.iter().enumerate().take_while(is_same).count();
        words.push(match first {
            Some(value) => format!("{value}{step:+}x{}", length - 1),
            None => format!("_x{length}"),
        });
        rest = &rest[length..];
    }
    words.join(" ")
}

/// Returns the situations whose duration is in the range `length`, and which have this scrape interval.
fn situations(interval: u32, length: Range<u32>) -> Vec<Situation> {
    let text = include_str!("situations.txt");
    let lines = |text: &'static str| text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (healthy, text) = text.split_once("\n\n== ").unwrap();
    let mut all = vec![];
    for text in text.split("\n\n== ") {
        let (head, text) = text.split_once('\n').unwrap_or((text, ""));
        let (name, of) = head.rsplit_once(": ").unwrap();
        let (takes, with) = of.split_once(' ').unwrap_or((of, "exporter"));
        let mut situation = Situation::new(name, time(takes), interval);
        let (gates, others): (Vec<_>, Vec<_>) = lines(text).partition(|line| line.starts_with("on: "));
        gates.iter().for_each(|line| situation.line(line));
        match with {
            "exporter" => situation.line("exporter{$R1}: 1"),
            "healthy" => lines(healthy).for_each(|line| situation.line(line)),
            _ => {}
        }
        others.iter().for_each(|line| situation.line(line));
        all.push(situation);
    }
    all.retain(|situation| length.contains(&situation.length));
    all
}

fn run(situations: &[Situation], evaluation: u32) {
    let Some(promtool) = find("promtool", "the alerts with promtool") else { return };
    let rules =
        ["alerts.yml", "rules.yml"].map(|name| fs::canonicalize(folder("grafana").join(name)).unwrap());
    let groups = [
        "rates",
        "objective_5m",
        "objective_1h",
        "objective_28d",
        "exporters",
        "health",
        "topics",
        "waiting",
    ];
    let test = json!({
        "rule_files": rules,
        "evaluation_interval": format!("{evaluation}s"),
        // The order of the groups is fixed. Without this setting, promtool evaluates the groups in a random order, and
        // an alert can see a recorded value one evaluation too late.
        "group_eval_order": groups.map(|name| format!("topic_statistics_{name}")),
        "tests": situations.iter().map(Situation::test).collect::<Vec<_>>(),
    });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.yml");
    // promtool reads YAML, and JSON is valid YAML.
    fs::write(&path, test.to_string()).unwrap();
    let mut promtool = Command::new(promtool);
    // With the default `GOGC`, Go's garbage collector would use a fifth of promtool's time.
    let output = promtool.args(["test", "rules"]).arg(path).env("GOGC", "800").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn each_alert_fires_in_time_and_no_other_one() {
    run(&situations(MINUTE, 0..DAY), MINUTE);
}

#[test]
fn alerts_with_scrapes_each_5_s() {
    run(&situations(5, 0..DAY), MINUTE);
}

#[test]
fn alerts_that_take_days() {
    run(&situations(MINUTE, DAY..10 * DAY), 5 * MINUTE);
}

#[test]
fn a_month_without_a_false_alert() {
    run(&situations(MINUTE, 10 * DAY..u32::MAX), 10 * MINUTE);
}

#[test]
fn each_alert_has_a_situation() {
    let fired = situations(MINUTE, 0..u32::MAX).into_iter().flat_map(|situation| situation.fires);
    let fired: BTreeSet<_> = fired.map(|(name, severity, _)| (name, severity)).collect();
    assert_eq!(fired, alerts().into_iter().collect());
    let Some(promtool) = find("promtool", "the rules with promtool") else { return };
    let rules = ["alerts.yml", "rules.yml"].map(|name| folder("grafana").join(name));
    let mut check = Command::new(promtool);
    let output = check.args(["check", "rules", "--lint=all", "--lint-fatal"]).args(rules).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
