// SPDX-License-Identifier: Apache-2.0

//! The HTML page of `--report`: one file with HTML and SVG, without scripts and without resources from the network.
//!
//! Names from the network are escaped twice: the function `name` escapes control characters, and maud escapes markup.

mod chart;
mod file;

pub use file::PageFile;

use std::time::{Duration, Instant, SystemTime};

use jiff::{tz::TimeZone, Timestamp};
use maud::{html, Markup, PreEscaped, DOCTYPE};
use topic_statistics_core::Metric;

use crate::{
    format::{count, figure, name, number_of},
    histogram::bars,
    recording::{Failure, RecordedMetric, RecordedTopic, Recording, Slot, Verdict},
    require::Condition,
    row::Status,
};
use chart::Line;

/// The subject of the page, and the command that created the page.
#[derive(Debug)]
pub struct Origin {
    /// The title of the page, for example `ROS 2 topics on robot7`.
    pub title: String,
    /// Pairs of a name and a value for the head of the page, for example `Host` and `robot7`.
    pub facts: Vec<(&'static str, String)>,
    pub program: &'static str,
    pub arguments: Vec<String>,
}

/// The maximum number of bars of a distribution.
const BARS: usize = 48;
/// The maximum number of publishers listed for a topic.
const PUBLISHERS: usize = 32;
/// The maximum number of other charts of a topic, and also of its histograms, because other nodes can have many
/// metrics.
const OTHER_CHARTS: usize = 8;
const PERIOD: &str = "message_period";
const AGE: &str = "message_age";
/// The metrics whose sum is the message age, with and without times of reception.
const DELAYS: [&str; 3] = ["header_to_source_ms", "source_to_receive_ms", "receive_to_callback_ms"];
const DELAYS_WITHOUT_RECEPTION: [&str; 2] = ["header_to_source_ms", "source_to_callback_ms"];
/// Metrics that another chart shows, or whose chart is not useful.
const NOT_ALONE: [&str; 10] = [
    PERIOD,
    AGE,
    DELAYS[0],
    DELAYS[1],
    DELAYS[2],
    DELAYS_WITHOUT_RECEPTION[1],
    "header_to_callback_ms",
    "publication_seq_gap",
    "time_since_last_message_ms",
    "clock_offset_ms",
];

/// Returns the HTML page of a recording that ends at `now`.
pub fn render(recording: &Recording, origin: &Origin, now: Instant) -> String {
    let duration = now.saturating_duration_since(recording.started);
    let topics = recording.topics(now);
    let started = clock(recording.started_at);
    let title = name(&origin.title);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // With this policy, a browser runs no script and loads no resource, even if a name contains markup.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) ", " (started) }
                style { (PreEscaped(style())) }
            }
            body {
                h1 { (title) }
                dl {
                    dt { "Started" } dd { (started) }
                    dt { "Duration" } dd { (length(duration)) }
                    @for (fact, value) in &origin.facts { dt { (fact) } dd { (name(value)) } }
                    dt { "Command" } dd { (origin.program) " " (command(&origin.arguments)) }
                    dt { "Topics" } dd { (topics.len()) }
                }
                @if recording.left_out > 0 {
                    p.bad {
                        "Left out, because there are too many topics: "
                        (number_of(recording.left_out, "window")) " of further topics."
                    }
                }
                (conditions(recording))
                h2 { "Topics" }
                p.soft {
                    "Failed conditions and losses first. Figures are of the whole run; p99 is the age or period that "
                    "99 % do not exceed."
                }
                (overview(&topics, now))
                p.soft {
                    "In the charts, a line is the mean of each window, and the area around it reaches from the minimum "
                    "to the maximum. Neighbouring windows are merged in a long run. A gap means that nothing was "
                    "measured. The ranges of a distribution are logarithmic: each is the same factor wide."
                }
                @for (number, topic) in topics.iter().enumerate() {
                    (section(number, topic, duration, now))
                }
            }
        }
    };
    page.into_string()
}

fn style() -> String {
    let keys = chart::LINES.iter().enumerate();
    let light: String = keys
        .clone()
        .map(|(number, colour)| format!(".k{number}{{background:{}}}", chart::hex(&colour.light)))
        .collect();
    let dark: String =
        keys.map(|(number, colour)| format!(".k{number}{{background:{}}}", colour.dark)).collect();
    format!(
        "{}{light}@media screen and (prefers-color-scheme: dark) {{{dark}{}}}",
        include_str!("page/page.css"),
        chart::dark_style()
    )
}

fn conditions(recording: &Recording) -> Markup {
    let verdicts = recording.verdicts();
    let failed: Vec<_> = verdicts.iter().filter(|(_, _, verdict)| verdict.is_failed()).collect();
    let unmatched: Vec<_> = recording.unmatched().collect();
    let all = recording.conditions.len();
    html! {
        h2 { "Conditions" }
        @if all == 0 {
            p { "None were given (" code { "--require" } ")." }
        } @else if failed.is_empty() && unmatched.is_empty() {
            p.good { "Fulfilled in each window: " (all) " of " (all) "." }
        } @else {
            p.bad { (failed.len() + unmatched.len()) " failed." }
            .scroll { table {
                tr {
                    th.text { "condition" } th.text { "topic" } th { "failed windows" } th { "of" }
                    th.text { "first failed" } th { "value" } th.text { "last failed" } th { "value" } th.text { "" }
                }
                @for condition in unmatched {
                    tr {
                        td.text { (name(&condition.to_string())) } td.name { "no topic matches" }
                        td { "-" } td { "-" } td.text { "-" } td { "-" } td.text { "-" } td { "-" } td.text {}
                    }
                }
                @for (condition, topic, verdict) in failed {
                    (failure(condition, topic, verdict))
                }
            } }
        }
        @if all > 0 {
            p.soft {
                "Given: "
                (recording
                    .conditions
                    .iter()
                    .map(|condition| name(&condition.to_string()))
                    .collect::<Vec<_>>()
                    .join(", "))
            }
        }
    }
}

fn failure(condition: &Condition, topic: &RecordedTopic, verdict: &Verdict) -> Markup {
    let when = |failure: &Option<Failure>| match failure {
        Some(Failure { ended, stop, .. }) => format!("{} (after {})", time_of_day(*stop), length(*ended)),
        None => "-".to_owned(),
    };
    let value = |failure: &Option<Failure>| failure.map_or(f64::NAN, |failure| failure.value);
    html! {
        tr data-topic=(name(&topic.row.name)) data-condition=(condition.requirement()) {
            td.text { (condition.requirement()) }
            td.name { (name(&topic.row.name)) }
            td { (whole("failed", verdict.failed)) }
            td { (whole("judged", verdict.judged)) }
            td.text { (when(&verdict.first)) }
            td { (number("first", value(&verdict.first))) }
            td.text { (when(&verdict.last)) }
            td { (number("last", value(&verdict.last))) }
            td.name { (verdict.missing.as_deref().map(name).unwrap_or_default()) }
        }
    }
}

fn overview(topics: &[&RecordedTopic], now: Instant) -> Markup {
    let kind = topics.first().map(|topic| topic.row.kind).unwrap_or_default();
    let titles = kind.titles().map(|title| title.trim_end_matches(" ms"));
    html! {
        .scroll { table {
            tr {
                th.text { (kind.noun()) } th.text { "state at the end" } th { "rate" br; "Hz" } th { "lowest" br; "Hz" }
                @for title in titles {
                    th { (title) br; "mean ms" } th { "p99" br; "ms" } th { "max" br; "ms" }
                }
                th { "received" } th { "lost" }
            }
            @for (position, topic) in topics.iter().enumerate() {
                tr data-topic=(name(&topic.row.name)) {
                    td.name { a href=(format!("#t{position}")) { (name(&topic.row.name)) } }
                    td.state { (state(topic, now)) }
                    td { (number("rate", topic.rate.mean())) }
                    td { (number("lowest_rate", topic.rate.min())) }
                    @for metric in topic.row.metrics() {
                        @let metric = topic.metric(metric.name());
                        @let figure_of = |figure: fn(&RecordedMetric) -> f64| metric.map_or(f64::NAN, figure);
                        td { (number("mean", figure_of(|metric| metric.figures.mean()))) }
                        td { (number("p99", figure_of(|metric| metric.quantile(0.99)))) }
                        td { (number("max", figure_of(|metric| metric.figures.max()))) }
                    }
                    td { (whole("received", topic.row.received)) }
                    td { (known("lost", topic.row.lost)) }
                }
            }
        } }
    }
}

fn state(topic: &RecordedTopic, now: Instant) -> Markup {
    let (status, is_failed) = (topic.row.status(now), topic.is_failed());
    let text = match status {
        Status::Good | Status::Ok => "good".to_owned(),
        other => other.text(),
    };
    let class =
        if is_failed || !matches!(status, Status::Good | Status::Ok | Status::Waiting) { "bad" } else { "" };
    html! { span class=(class) { (text) @if is_failed { ", condition failed" } } }
}

fn section(position: usize, topic: &RecordedTopic, duration: Duration, now: Instant) -> Markup {
    let row = &topic.row;
    let nodes: Vec<String> = row.nodes.iter().take(PUBLISHERS).map(|node| name(node)).collect();
    html! {
        section id=(format!("t{position}")) {
            h2 { (name(&row.name)) }
            dl {
                @if let Some(message_type) = &row.message_type { dt { "Type" } dd { (name(message_type)) } }
                dt { "State" } dd { (state(topic, now)) }
                @if let Some(problem) = &row.problem { dt { "Problem" } dd { (problem.text()) } }
                @if let Some(publishers) = row.publisher_count {
                    dt { "Publishers" } dd { (publishers) @if !nodes.is_empty() { ": " (nodes.join(" ")) } }
                }
                @if !row.qos.is_empty() { dt { "Subscribed" } dd { (row.qos) } }
                dt { "Totals" }
                dd {
                    (whole("received", row.received)) " received, " (known("lost", row.lost)) " lost, "
                    (known("out_of_order", row.out_of_order)) " out of order, in " (number_of(topic.windows, "window"))
                }
                @if topic.stepped > 0 {
                    dt { "Clock" }
                    dd.bad {
                        "The system clock was stepped in " (number_of(topic.stepped, "window")) ", without ages."
                     }
                }
            }
            @if topic.metrics.iter().any(|metric| metric.figures.count() > 0) {
                (charts(topic, duration))
                (metrics(topic))
            } @else {
                p.soft { "Nothing was measured." }
            }
            (publishers(topic))
        }
    }
}

fn charts(topic: &RecordedTopic, duration: Duration) -> Markup {
    let parts = topic.timeline.parts();
    let until = duration.as_secs_f64().max(1e-3);
    let line = |metric: &str| {
        let position = topic.position(metric)?;
        let line = Line::new(&parts, |slot: &Slot| slot.metric(position));
        (!line.is_empty()).then_some(line)
    };
    let alone = |caption: &str, metric: &str| {
        let unit = name(&topic.metric(metric)?.unit);
        Some(figure_of(html! { (caption) ", " (unit) }, chart::lines(&[line(metric)?], false, until)?))
    };
    let rate = Line::new(&parts, |slot| slot.rate);
    let rate = chart::lines(&[rate], true, until).map(|svg| figure_of(html! { "Rate, Hz" }, svg));
    let losses = chart::losses(&parts, until).map(|svg| figure_of(html! { "Messages lost" }, svg));

    let has_reception = line(DELAYS[1]).is_some();
    let delays: &[&str] = if has_reception { &DELAYS } else { &DELAYS_WITHOUT_RECEPTION };
    let (names, delays): (Vec<_>, Vec<_>) =
        delays.iter().filter_map(|delay| Some((delay.strip_suffix("_ms")?, line(delay)?))).unzip();
    let delays = chart::lines(&delays, false, until).map(|svg| {
        let keys = html! {
            "Delays, ms:"
            @for (number, name) in names.iter().enumerate() {
                " " span.key { i class=(format!("k{number}")) {} (name) }
            }
        };
        figure_of(keys, svg)
    });

    let others = topic.metrics.iter().filter(|metric| metric.is_other() && metric.is_varied());
    let others = others.filter_map(|metric| alone(&name(&metric.name), &metric.name));
    let distributed = topic
        .metrics
        .iter()
        .filter(|metric| [PERIOD, AGE].contains(&&*metric.name) || metric.is_other() && metric.is_varied());
    let distributions = distributed.filter_map(|metric| {
        let svg = chart::histogram(&bars(&metric.distribution, BARS))?;
        let (name, unit) = (name(&metric.name), name(&metric.unit));
        Some(figure_of(html! { "Distribution of " (name) ": samples per range, " (unit) }, svg))
    });
    let charts = [rate, alone("Period", PERIOD), alone("Age", AGE), delays, losses].into_iter().flatten();
    html! {
        .charts {
            @for chart in charts.chain(others.take(OTHER_CHARTS)).chain(distributions.take(OTHER_CHARTS)) { (chart) }
        }
    }
}

impl RecordedMetric {
    /// Returns whether the metric gets a chart of its own, because no other chart shows it.
    fn is_other(&self) -> bool {
        !NOT_ALONE.contains(&&*self.name)
    }

    /// Returns whether the samples of the metric differ. A chart of equal message sizes would be useless.
    fn is_varied(&self) -> bool {
        self.name != Metric::MessageSize.name() || self.figures.min() < self.figures.max()
    }
}

fn figure_of(caption: Markup, svg: String) -> Markup {
    // The SVG is inserted without escaping, because a chart contains no text from the network.
    html! { figure { figcaption { (caption) } (PreEscaped(svg)) } }
}

/// Returns the table of a topic's metrics, and the names of the metrics without samples.
fn metrics(topic: &RecordedTopic) -> Markup {
    let (measured, other): (Vec<_>, Vec<_>) =
        topic.metrics.iter().partition(|metric| metric.figures.count() > 0);
    let other: Vec<String> = other.iter().map(|metric| name(&metric.name)).collect();
    html! {
        .scroll { table {
            tr {
                th.text { "metric" } th.text { "unit" } th { "mean" } th { "min" } th { "max" } th { "std dev" }
                th { "p50" } th { "p90" } th { "p99" } th { "p99.9" } th { "samples" }
            }
            @for metric in measured {
                tr data-topic=(name(&topic.row.name)) data-metric=(name(&metric.name)) {
                    td.text { (name(&metric.name)) }
                    td.text { (name(&metric.unit)) }
                    td { (number("mean", metric.figures.mean())) }
                    td { (number("min", metric.figures.min())) }
                    td { (number("max", metric.figures.max())) }
                    td { (number("std_dev", metric.figures.std_dev())) }
                    @for (label, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999)] {
                        td { (number(label, metric.quantile(quantile))) }
                    }
                    td {
                        (whole("count", metric.figures.count()))
                        @let distributed = metric.distribution.count();
                        @if distributed > 0 && distributed != metric.figures.count() {
                            " (percentiles: " (whole("distributed", distributed)) ")"
                        }
                    }
                }
            }
        } }
        @if !other.is_empty() {
            p.soft { "Not measured: " (other.join(", ")) "." }
        }
    }
}

fn publishers(topic: &RecordedTopic) -> Markup {
    let publishers = &topic.row.publishers;
    html! {
        @if !publishers.is_empty() {
            .scroll { table {
                tr {
                    th.text { "publisher (GID)" }
                    th.text { "node" }
                    th { "received" }
                    th { "lost" }
                    th { "out of order" }
                }
                @for publisher in publishers.iter().take(PUBLISHERS) {
                    tr {
                        td.text { (publisher.gid) }
                        td.text { (publisher.node.as_deref().map_or("-".to_owned(), name)) }
                        td { (whole("received", publisher.received)) }
                        td { (known("lost", publisher.lost)) }
                        td { (known("out_of_order", publisher.out_of_order)) }
                    }
                }
            } }
            @if publishers.len() > PUBLISHERS { p.soft { (publishers.len() - PUBLISHERS) " more publishers." } }
        }
    }
}

/// Returns a number as an HTML element; `-` for NaN. The `value` attribute of the element has all digits, for programs.
fn number(class: &str, value: f64) -> Markup {
    html! {
        @if value.is_nan() { "-" } @else { data class=(class) value=(format!("{value:?}")) { (figure(value)) } }
    }
}

fn whole(class: &str, value: u64) -> Markup {
    html! { data class=(class) value=(value) { (count(value)) } }
}

fn known(class: &str, value: Option<u64>) -> Markup {
    html! { @match value { Some(value) => { (whole(class, value)) } None => { "-" } } }
}

/// Returns the arguments as one line, quoted for a shell.
fn command(arguments: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,".contains(c);
    let quoted = arguments.iter().map(|argument| match name(argument) {
        plain if !plain.is_empty() && plain.chars().all(is_plain) => plain,
        other => format!("'{}'", other.replace('\'', "'\\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Returns a time of the system clock in the time zone of this host.
fn clock(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or_default().to_zoned(TimeZone::system());
    time.strftime("%Y-%m-%d %H:%M:%S UTC%:z").to_string()
}

/// Returns the time of day of a time in nanoseconds since the Unix epoch, in the time zone of this host.
fn time_of_day(nanoseconds: i64) -> String {
    let time = Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default();
    time.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// Returns a duration as text with at most two units.
fn length(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 59.95 => format!("{seconds:.1} s"),
        0..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3600 % 24),
    }
}

#[cfg(test)]
mod tests;
