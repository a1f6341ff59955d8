// SPDX-License-Identifier: Apache-2.0

//! Compares each time series of the exporter with the messages it has read: in each scrape of `/metrics`, and in each
//! request of OTLP.
//!
//! The exporter publishes its number of windows of each source; each value then follows, and which values are missing,
//! by docs/fleet.md. The metrics of a window arrive one by one, so the last window may have only some.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Result;
use rclrs_topic_statistics::Metric;

use super::{
    exported_health::{self as health, Healths, Labels, KEPT},
    log::{Figures, Process},
    reports::{each_object, number, Distribution, Wire, UNSEEN},
    tally::Tally,
};

const SECOND: i64 = 1_000_000_000;
/// The lateness on a busy machine, unless it stalls.
const LATENESS: i64 = 3 * SECOND;
/// How long a gauge stays without another message.
const CURRENT: i64 = 10 * SECOND;

/// Time series of a source by name. A quantile follows the name, as `{0.5}`.
type Values = BTreeMap<String, f64>;

/// The least and the greatest value that time series can have.
type Ranges = BTreeMap<String, (f64, f64)>;

/// The time series at a moment, by the monotonic and the system clock.
struct Scrape {
    at: [i64; 2],
    /// How much later the exporter received a message than the reader, or earlier.
    lateness: i64,
    /// Whether histograms are among them.
    is_otlp: bool,
    series: Vec<(String, Labels, f64)>,
    /// The counters that the scrape before had not, by source and name: they are 0, so that a scraper sees their first
    /// increase.
    begin: BTreeSet<(String, String)>,
}

/// A window as it was read.
struct Window {
    at: i64,
    metrics: BTreeMap<Metric, Figures>,
}

/// The messages read of a source.
#[derive(Default)]
struct Source<'a> {
    windows: Vec<Window>,
    /// How many windows the reader has received and the exporter has not: one number for each process that had the
    /// source.
    offsets: BTreeSet<i64>,
    distributions: BTreeMap<Metric, Vec<&'a Distribution>>,
}

/// Compares the scrapes and the requests of OTLP.
pub fn compare(directory: &Path, wire: &Wire, processes: &[Process], tally: &mut Tally) -> Result<()> {
    let mut sources = BTreeMap::<&str, Source>::new();
    let mut windows = BTreeMap::<(&str, i64, i64), usize>::new();
    for (at, (name, metric, start, stop), figures) in &wire.statistics {
        let Ok(metric) = metric.parse() else { continue };
        let source = sources.entry(name).or_default();
        let index = *windows.entry((name, *start, *stop)).or_insert_with(|| {
            source.windows.push(Window { at: *at, metrics: BTreeMap::new() });
            source.windows.len() - 1
        });
        source.windows[index].metrics.insert(metric, *figures);
    }
    for distribution in &wire.distributions {
        let (Some(source), Ok(metric)) = (sources.get_mut(&*distribution.key.0), distribution.key.1.parse())
        else {
            continue;
        };
        source.distributions.entry(metric).or_default().push(distribution);
    }
    tally.report("/metrics");
    let mut before = BTreeSet::new();
    for number in 0.. {
        let Ok(text) = fs::read_to_string(directory.join(format!("metrics.{number:04}"))) else { break };
        let mut scrape = Scrape::read(&text, wire);
        let counters = scrape.counters_that_begin_at_0();
        scrape.begin = counters.difference(&before).cloned().collect();
        scrape.compare(&mut sources, wire, tally);
        before = counters;
    }
    tally.report("OTLP");
    each_object(&directory.join("otlp.out"), |request| {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let series = request["series"].as_array().into_iter().flatten().map(|series| {
            let labels = series[1].as_object().into_iter().flatten();
            (
                text(&series[0]),
                labels.map(|(name, value)| (name.clone(), text(value))).collect(),
                number(&series[2]),
            )
        });
        let at = [0, 1].map(|clock| request["at"][clock].as_i64().unwrap_or_default());
        let lateness = LATENESS + wire.stalled(at[0]);
        Scrape { at, lateness, is_otlp: true, series: series.collect(), begin: BTreeSet::new() }.compare(
            &mut sources,
            wire,
            tally,
        );
    })?;
    tally.report("/metrics");
    for (name, source) in &sources {
        let all = processes
            .iter()
            .filter(|process| process.sources.values().any(|source| source.name == *name))
            .count();
        tally
            .check("windows", source.offsets.len() <= all.max(1), || format!("{name}: {:?}", source.offsets));
    }
    Ok(())
}

impl Scrape {
    /// Reads the text format. Its first line has the clocks.
    fn read(text: &str, wire: &Wire) -> Self {
        let mut at =
            text.lines().next().unwrap_or_default().split(' ').skip(2).map(|word| word.parse().unwrap_or(0));
        let at = [at.next().unwrap_or(0), at.next().unwrap_or(0)];
        let line = |line: &str| {
            let (name, rest) = line.split_once('{').or_else(|| line.split_once(' '))?;
            let (labels, value) = rest.rsplit_once("} ").unwrap_or(("", rest));
            let label = |label: &str| {
                let (name, value) = label.split_once("=\"")?;
                Some((name.to_owned(), value.trim_end_matches('"').to_owned()))
            };
            Some((
                name.to_owned(),
                labels.split("\",").filter_map(label).collect(),
                value.trim().parse().ok()?,
            ))
        };
        Self {
            at,
            lateness: LATENESS + wire.stalled(at[0]),
            is_otlp: false,
            series: text.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect(),
            begin: BTreeSet::new(),
        }
    }

    /// Returns the counters whose first increase a scraper has to see, by source and name.
    fn counters_that_begin_at_0(&self) -> BTreeSet<(String, String)> {
        let ends = ["_negative_windows_total", "messages_lost_total", "messages_reported_lost_total"];
        let counters = self.series.iter().filter(|(name, ..)| ends.iter().any(|end| name.ends_with(end)));
        counters.map(|(name, labels, _)| (health::source_of(labels), name.clone())).collect()
    }

    fn compare(&self, sources: &mut BTreeMap<&str, Source>, wire: &Wire, tally: &mut Tally) {
        let mut of_sources = BTreeMap::<String, Values>::new();
        let (mut levels, mut reported) = (BTreeMap::new(), BTreeMap::new());
        let mut healths = Healths::default();
        for (name, labels, value) in &self.series {
            let fault = || format!("{:?}: {name} {labels:?} {value}", self.at);
            let label = |label: &str| labels.get(label).map(String::as_str).unwrap_or_default();
            let (node, topic, short) =
                (label("node"), label("topic"), name.strip_prefix("topic_statistics_").unwrap_or(""));
            match short {
                "diagnostic_level" => {
                    levels.insert((label("name"), label("hardware_id")), *value);
                }
                "messages_reported_lost_total" => {
                    reported.insert((node.to_owned(), topic.to_owned()), *value);
                    tally.check("labels", labels.len() == 2, fault);
                }
                "exporter_messages_refused_total" => tally.check("nothing is refused", *value == 0.0, fault),
                "exporter_messages_accepted_total" => {
                    let times: Vec<i64> = match label("kind") {
                        "window" => wire.statistics.iter().map(|message| message.0).collect(),
                        "distribution" => wire.distributions.iter().map(|message| message.at).collect(),
                        "losses" => wire.losses.iter().map(|message| message.0).collect(),
                        _ => wire.statuses.iter().map(|status| status.at).collect(),
                    };
                    let up_to = |time: i64| times.iter().filter(|at| **at <= time).count() as f64;
                    // Those that only one of the two has received, because it was discovered earlier.
                    let few = 0.01 * value + 200.0;
                    let range =
                        up_to(self.at[0] - self.lateness) - few..=up_to(self.at[0] + self.lateness) + few;
                    tally.check("messages accepted", range.contains(value), fault);
                }
                "exporter_sources" => {
                    let known = |time: i64| {
                        sources.values().filter(|source| source.windows[0].at <= time).count() as f64
                    };
                    let range = known(self.at[0] - self.lateness)..=known(self.at[0] + self.lateness);
                    tally.check("sources", range.contains(value), fault);
                }
                _ if short.starts_with("exporter_") => {}
                _ if name.starts_with("process_") => tally.check("labels", labels.is_empty(), fault),
                _ if health::is_of_health(short) => healths.add(short, labels, *value),
                _ => {
                    let quantile =
                        labels.get("quantile").map(|quantile| format!("{{{quantile}}}")).unwrap_or_default();
                    let mut expected = vec!["node", "topic"];
                    expected.extend(kind_of(short).map(|_| "kind"));
                    expected.extend(labels.get("quantile").map(|_| "quantile"));
                    expected.sort_unstable();
                    let is_right = labels.keys().eq(expected)
                        && labels.get("kind").map(String::as_str) == kind_of(short);
                    tally.check("labels", is_right, fault);
                    let values = of_sources.entry(format!("{node}:{topic}")).or_default();
                    let twice = values.insert(format!("{name}{quantile}"), *value);
                    tally.check("time series are there once", twice.is_none(), fault);
                }
            }
        }
        let known: BTreeSet<&str> =
            of_sources.keys().map(String::as_str).chain(sources.keys().copied()).collect();
        for name in known {
            let values = of_sources.get(name).cloned().unwrap_or_default();
            match sources.get_mut(name) {
                Some(source) => self.compare_source(name, source, values, tally),
                None => tally.check("sources", false, || format!("{:?}: {name} {values:?}", self.at)),
            }
        }
        self.compare_levels(&levels, wire, tally);
        healths.compare(self.at[0], self.lateness, wire, tally);
        self.compare_reported(&reported, wire, tally);
    }

    /// Compares the levels with the last statuses that were read.
    fn compare_levels(&self, levels: &BTreeMap<(&str, &str), f64>, wire: &Wire, tally: &mut Tally) {
        let mut statuses = BTreeMap::<(&str, &str), Vec<(i64, &str)>>::new();
        for status in wire.statuses.iter().filter(|status| status.at <= self.at[0] + self.lateness) {
            statuses.entry((&status.name, &status.hardware_id)).or_default().push((status.at, status.level));
        }
        for (name, statuses) in statuses {
            let before =
                statuses.partition_point(|(at, _)| *at <= self.at[0] - self.lateness).saturating_sub(1);
            let possible = &statuses[before..];
            let age = self.at[0] - statuses.last().map_or(0, |(at, _)| *at);
            let may_be_absent = age > KEPT - self.lateness || statuses[0].0 > self.at[0] - self.lateness;
            let is_right = match levels.get(&name) {
                Some(level) => {
                    let word = ["OK", "WARN", "ERROR", "STALE"][*level as usize % 4];
                    possible.iter().any(|(_, status_level)| *status_level == word)
                        && age < KEPT + self.lateness
                }
                None => may_be_absent,
            };
            tally.check("diagnostic levels", is_right, || {
                format!("{:?}: {name:?} {:?}, read were {possible:?}", self.at, levels.get(&name))
            });
        }
    }

    /// Compares the losses that events have reported.
    fn compare_reported(&self, reported: &BTreeMap<(String, String), f64>, wire: &Wire, tally: &mut Tally) {
        let mut sums = BTreeMap::<&(String, String), (f64, f64)>::new();
        for (at, topic, lost) in &wire.losses {
            let (least, most) = sums.entry(topic).or_default();
            *least += if *at <= self.at[0] - self.lateness { *lost as f64 } else { 0.0 };
            *most += if *at <= self.at[0] + self.lateness { *lost as f64 } else { 0.0 };
        }
        for (topic, (least, most)) in sums {
            let value = reported.get(topic).copied().unwrap_or(0.0);
            let series = (
                format!("{}:{}", topic.0, topic.1),
                "topic_statistics_messages_reported_lost_total".to_owned(),
            );
            let is_right =
                if self.begin.contains(&series) { value == 0.0 } else { (least..=most).contains(&value) };
            tally.check("reported losses", is_right, || {
                format!("{:?}: {topic:?} {value}, read were {least} to {most}", self.at)
            });
        }
    }

    fn compare_source(&self, name: &str, source: &mut Source, mut values: Values, tally: &mut Tally) {
        let now = self.at[0];
        let read = |time: i64| source.windows.partition_point(|window| window.at <= time);
        let last = source.windows[..read(now)].last().map_or(i64::MIN, |window| window.at);
        let Some(count) = values.remove("topic_statistics_windows_total") else {
            // Unknown yet, or ended.
            let may_be_absent =
                read(now - self.lateness) == 0 || now.saturating_sub(last) > KEPT - self.lateness;
            tally
                .check("sources", may_be_absent && values.is_empty(), || format!("{:?}: no {name}", self.at));
            return;
        };
        // The exporter and the reader may have known a publisher at different times.
        let offsets = (0..=UNSEEN as i64).chain(-(UNSEEN as i64)..0);
        let at = |offset: i64| {
            usize::try_from(count as i64 + offset).ok().filter(|index| *index <= source.windows.len())
        };
        let is_it = |index: &usize| {
            *index > 0 && (read(now - self.lateness)..=read(now + self.lateness)).contains(index)
        };
        let begins = |series: &str| self.begin.contains(&(name.to_owned(), series.to_owned()));
        let expected = |index: usize| source.expected(index, self, &begins);
        let differences = |index: usize, has_sums: bool| differences(&expected(index), &values, has_sums);
        let mut all = offsets.filter_map(|offset| Some((offset, at(offset).filter(is_it)?)));
        // If the values fit without the last window, the exporter has not received that window.
        let is_one_too_many = |index: usize| index > 1 && differences(index - 1, false).is_empty();
        let found = all.find(|(offset, index)| match offset {
            0 => differences(*index, true).is_empty(),
            _ => differences(*index, false).is_empty() && !is_one_too_many(*index),
        });
        let (offset, index) = found.unwrap_or((0, (count as usize).clamp(1, source.windows.len())));
        let compared = expected(index);
        let (differing, is_gauge) = (differences(index, offset == 0), |name: &str| !is_sum(name));
        for (what, is_of) in
            [("gauges", &is_gauge as &dyn Fn(&str) -> bool), ("counters", &|name| !is_gauge(name))]
        {
            let is_known = what == "gauges" || offset == 0;
            for _ in compared.iter().flat_map(|group| group.names()).filter(|name| is_of(name)).skip(1) {
                tally.check_known(what, is_known, true, String::new);
            }
            let faults: Vec<&String> = differing.iter().filter(|difference| is_of(difference)).collect();
            tally.check_known(what, is_known, faults.is_empty(), || {
                format!("{:?}: {name}, after {count} windows: {faults:?}", self.at)
            });
        }
        // The rest: the time of the last window.
        let since = self.at[1] - (now - source.windows[index - 1].at).max(0);
        let time = values.get("topic_statistics_last_window_timestamp_seconds");
        let is_right =
            time.is_some_and(|time| (time - since as f64 / 1e9).abs() <= self.lateness as f64 / 1e9);
        tally
            .check("time of the last window", is_right, || format!("{:?}: {name} {time:?} {since}", self.at));
        source.offsets.insert(offset);
    }
}

/// The alternatives of some time series that belong together: of one metric, or of one counter of a source. A value is
/// possible from its first number to the second.
struct Group {
    prefix: String,
    alternatives: Vec<Ranges>,
}

impl Group {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.alternatives.first().into_iter().flatten().map(|(name, _)| name.as_str())
    }

    fn owns(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
    }
}

/// Whether a name's value depends on all windows.
fn is_sum(name: &str) -> bool {
    let name = name.split(' ').next().unwrap_or_default();
    ["_total", "_sum", "_samples"].iter().any(|end| name.ends_with(end)) || (name.ends_with("_count"))
}

/// Returns the differences between the expected and the actual values.
fn differences(expected: &[Group], values: &Values, has_sums: bool) -> Vec<String> {
    let is_compared = |name: &str| has_sums || !is_sum(name);
    let mut unknown: BTreeSet<&String> = values.keys().collect();
    unknown.remove(&"topic_statistics_last_window_timestamp_seconds".to_owned());
    let mut found = vec![];
    for group in expected {
        let there: BTreeMap<&str, f64> = values
            .iter()
            .filter(|(name, _)| group.owns(name) && is_compared(name))
            .map(|(name, value)| (&**name, *value))
            .collect();
        unknown.retain(|name| !group.owns(name));
        let differing = |alternative: &Ranges| {
            let expected = alternative.iter().filter(|(name, _)| is_compared(name));
            let names: BTreeSet<&str> =
                expected.clone().map(|(name, _)| name.as_str()).chain(there.keys().copied()).collect();
            let is_right = |name: &str| match (alternative.get(name), there.get(name)) {
                (Some((least, most)), Some(value)) => {
                    *value >= least - 1e-9 * least.abs() - 1e-12 && *value <= most + 1e-9 * most.abs() + 1e-12
                }
                _ => false,
            };
            let difference =
                |name: &str| format!("{name} {:?}, not {:?}", there.get(name), alternative.get(name));
            names.into_iter().filter(|name| !is_right(name)).map(difference).collect::<Vec<_>>()
        };
        found.extend(group.alternatives.iter().map(differing).min_by_key(Vec::len).unwrap_or_default());
    }
    found.extend(unknown.into_iter().map(|name| format!("{name} is unknown")));
    found
}

/// The kind of the sources of a family.
fn kind_of(short: &str) -> Option<&'static str> {
    let publisher = ["publish_", "messages_published"];
    let neither = ["message_size", "windows", "last_window_timestamp"];
    let is_of = |starts: &[&str]| starts.iter().any(|start| short.starts_with(start));
    match short {
        _ if is_of(&neither) => None,
        _ if is_of(&publisher) => Some("publisher"),
        _ => Some("subscription"),
    }
}

/// The name of a metric's families, the unit in them, and the factor to it.
fn family(metric: Metric) -> (String, &'static str, f64) {
    let (unit, factor) = match metric.unit() {
        "ms" => ("seconds", 1e-3),
        unit => (unit, 1.0),
    };
    let short = match metric {
        Metric::PublicationSeqGap => "publication_gap",
        _ => metric.name().strip_suffix("_ms").unwrap_or(metric.name()),
    };
    (format!("topic_statistics_{short}"), unit, factor)
}

impl Source<'_> {
    /// Returns the possible values after this number of windows; the last one may be incomplete.
    ///
    /// `begins`: whether a counter has its first scrape.
    fn expected(&self, count: usize, scrape: &Scrape, begins: &dyn Fn(&str) -> bool) -> Vec<Group> {
        let metrics: BTreeSet<Metric> =
            self.windows[..count].iter().flat_map(|window| window.metrics.keys().copied()).collect();
        let age = scrape.at[0] - self.windows[count - 1].at;
        // The exporter may have received it at another time.
        let current: &[bool] = match age {
            age if age < CURRENT - scrape.lateness => &[true],
            age if age > CURRENT + scrape.lateness => &[false],
            _ => &[true, false],
        };
        let counts = [count, count - 1];
        let mut groups: Vec<Group> =
            metrics.iter().map(|metric| self.of_metric(*metric, &counts, current, scrape, begins)).collect();
        let single = |name: &str, alternatives: Vec<Option<(f64, f64)>>| {
            let prefix = format!("topic_statistics_{name}");
            let ranges =
                |value: Option<(f64, f64)>| value.map(|value| (prefix.clone(), value)).into_iter().collect();
            Group { alternatives: alternatives.into_iter().map(ranges).collect(), prefix }
        };
        for (name, is_publisher) in [("messages_received_total", false), ("messages_published_total", true)] {
            let counted = |metric: &Metric| {
                let is_of_publisher = matches!(metric, Metric::PublishPeriod | Metric::PublishDuration);
                let is_single = matches!(
                    metric,
                    Metric::TimeSinceLastMessage | Metric::MessageSize | Metric::CallbackDuration
                );
                is_of_publisher == is_publisher && !is_single
            };
            let most = |window: &Window| {
                let counts = window
                    .metrics
                    .iter()
                    .filter(|(metric, _)| counted(metric))
                    .map(|(_, figures)| figures.count());
                counts.max().unwrap_or(0) as f64
            };
            let sum = |count: usize| self.windows[..count].iter().map(most).sum::<f64>();
            let range = metrics.iter().any(counted).then(|| (sum(count - 1), sum(count)));
            groups.push(single(name, vec![range]));
        }
        let lost = |count: usize| {
            let gaps = self.windows[..count]
                .iter()
                .filter_map(|window| window.metrics.get(&Metric::PublicationSeqGap));
            let gaps: Vec<f64> = gaps
                .filter(|gaps| gaps.count() > 0)
                .map(|figures| (figures.0[0] * figures.0[4]).round())
                .collect();
            let lost = if begins("topic_statistics_messages_lost_total") { 0.0 } else { gaps.iter().sum() };
            (!gaps.is_empty()).then_some((lost, lost))
        };
        groups.push(single("messages_lost_total", counts.map(lost).into()));
        for (name, period) in
            [("receive_rate_hertz", Metric::MessagePeriod), ("publish_rate_hertz", Metric::PublishPeriod)]
        {
            let rate = |count: &usize| {
                let figures = self.windows[..*count].last()?.metrics.get(&period)?;
                let rate = 1e3 / figures.0[0];
                rate.is_finite().then_some((rate, rate))
            };
            let rates = current
                .iter()
                .flat_map(|is_current| counts.iter().map(move |count| rate(count).filter(|_| *is_current)));
            groups.push(single(name, rates.collect()));
        }
        groups
    }

    fn of_metric(
        &self,
        metric: Metric,
        counts: &[usize],
        current: &[bool],
        scrape: &Scrape,
        begins: &dyn Fn(&str) -> bool,
    ) -> Group {
        let (name, unit, factor) = family(metric);
        let is_single = metric == Metric::TimeSinceLastMessage;
        let mut alternatives = vec![];
        for count in counts {
            let figures_of = |window: &Window| window.metrics.get(&metric).copied();
            let windows: Vec<Figures> = self.windows[..*count].iter().filter_map(figures_of).collect();
            let last = self.windows[..*count].last().and_then(figures_of);
            let (mut samples, mut sum, mut negative) = (0.0, 0.0, 0.0);
            for Figures([average, minimum, _, _, count]) in
                windows.iter().filter(|figures| figures.count() > 0)
            {
                match *minimum < 0.0 || *average < 0.0 {
                    true => negative += 1.0,
                    false => (samples, sum) = (samples + count, sum + average * count * factor),
                }
            }
            let mut counters = BTreeMap::new();
            let mut add = |name: String, value: f64| counters.insert(name, (value, value));
            if samples > 0.0 && !is_single {
                add(format!("{name}_{unit}_count"), samples);
                counters.insert(format!("{name}_{unit}_sum"), (sum * (1.0 - 1e-6), sum * (1.0 + 1e-6)));
            }
            if negative > 0.0 && !is_single {
                let name = format!("{name}_negative_windows_total");
                let negative = if begins(&name) { 0.0 } else { negative };
                counters.insert(name, (negative, negative));
            }
            for is_current in current {
                let mut all = counters.clone();
                for (part, figure) in ["mean", "min", "max", "stddev"]
                    .iter()
                    .zip(last.map_or([f64::NAN; 5], |figures| figures.0))
                {
                    let full = match is_single {
                        true => format!("{name}_{unit}"),
                        false => format!("{name}_{part}_{unit}"),
                    };
                    if *is_current && !figure.is_nan() && (*part == "mean" || !is_single) {
                        all.insert(full, (figure * factor, figure * factor));
                    }
                }
                for (quantiles, histogram) in self.of_distribution(metric, scrape) {
                    let histogram = histogram.into_iter().filter(|_| scrape.is_otlp);
                    let quantiles = quantiles.into_iter().filter(|_| samples > 0.0);
                    alternatives.push(all.clone().into_iter().chain(quantiles).chain(histogram).collect());
                }
            }
        }
        Group { prefix: format!("{name}_"), alternatives }
    }

    /// Returns the quantiles of the last distribution, and the histogram of all. They are received separately from the
    /// windows.
    fn of_distribution(&self, metric: Metric, scrape: &Scrape) -> Vec<(Ranges, Ranges)> {
        let (name, unit, factor) = family(metric);
        let all = self.distributions.get(&metric).map(Vec::as_slice).unwrap_or_default();
        let up_to = |time: i64| all.partition_point(|distribution| distribution.at <= time);
        let mut alternatives = vec![];
        for count in up_to(scrape.at[0] - scrape.lateness)..=up_to(scrape.at[0] + scrape.lateness) {
            let Some(last) = all[..count].last() else {
                alternatives.push(Default::default());
                continue;
            };
            let quantiles =
                ["0.5", "0.9", "0.99"].iter().zip(last.percentiles).filter(|(_, value)| !value.is_nan());
            let quantile = |(quantile, value): (&&str, f64)| {
                (format!("{name}_{unit}{{{quantile}}}"), (value * factor, value * factor))
            };
            let quantiles: Ranges = quantiles.map(|(name, value)| quantile((name, value))).collect();
            let sum = |index: usize| {
                all[..count].iter().map(|distribution| distribution.figures[index]).sum::<f64>()
            };
            let part = |part: &str, value: f64| {
                let error = 1e-6 * value.abs();
                (format!("{name}_distribution_{unit}_{part}"), (value - error, value + error))
            };
            let mut histogram = Ranges::from([part("count", sum(0)), part("samples", sum(0))]);
            // With negative samples it has no sum.
            if all[..count].iter().all(|distribution| distribution.figures[2] >= 0.0) {
                histogram.extend([part("sum", sum(1) * factor)]);
            }
            let age = scrape.at[0] - last.at;
            if age > CURRENT - scrape.lateness {
                alternatives.push((Ranges::new(), histogram.clone()));
            }
            if age < CURRENT + scrape.lateness {
                alternatives.push((quantiles, histogram));
            }
        }
        alternatives
    }
}
