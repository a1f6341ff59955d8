// SPDX-License-Identifier: Apache-2.0

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use prost::Message;
use rclrs_topic_statistics::{Distribution, Metric};
use ros_env::{
    diagnostic_msgs::msg::{DiagnosticStatus, KeyValue},
    topic_statistics_interfaces::msg::MessagesLostEventTopicStat,
};

use super::{
    super::{
        model::{
            tests::{distribution, message},
            Diagnostic, Losses, MetricDistribution, MetricWindow, Received, SourceName, Window,
        },
        state::{Limits, Now, ProcessFigures, PushCounts},
    },
    protobuf::messages::{MetricFamily, NativeHistogram},
    *,
};

#[test]
fn the_format_is_the_one_that_the_scraper_prefers() {
    // Prometheus 2.42 with and without native histograms.
    let text =
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                    encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1";
    for (accept, format) in [
        (text, Format::OpenMetrics),
        (protobuf, Format::Protobuf),
        ("", Format::Text),
        ("*/*", Format::Text),
        ("application/vnd.google.protobuf", Format::Text),
        (
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
            Format::Text,
        ),
        ("text/plain;q=0.5, application/openmetrics-text;q=NaN", Format::Text),
        ("text/html,;;q==,=,\u{1b}", Format::Text),
    ] {
        assert_eq!(Format::negotiate(accept), format, "{accept}");
    }
}

/// The values of time series, by name and labels as they are written in text.
type Values = BTreeMap<String, f64>;

/// Reads text; the fuzz target `exposition` and promtool read it strictly.
fn read_text(text: Vec<u8>) -> Values {
    let text = String::from_utf8(text).unwrap();
    let mut values = Values::new();
    for (name, value) in
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '))
    {
        assert_eq!(values.insert(name.to_owned(), value.parse().unwrap()), None, "{name} comes twice");
    }
    values
}

fn families(state: &State, now: Instant) -> Vec<MetricFamily> {
    let encoded = Format::Protobuf.encode(state, now, 1e9, vec![]);
    let (mut bytes, mut families) = (&*encoded, vec![]);
    while !bytes.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut bytes).unwrap());
    }
    families
}

/// Returns the time series of protobuf. Histograms are checked, and left out.
fn of_families(families: &[MetricFamily]) -> Values {
    let mut values = Values::new();
    for (family, metric) in
        families.iter().flat_map(|family| family.metric.iter().map(move |metric| (family, metric)))
    {
        assert!(!family.help().is_empty());
        let mut insert = |end: &str, quantile: Option<f64>, value| {
            let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let pairs =
                metric.label.iter().map(|pair| format!("{}=\"{}\"", pair.name(), escaped(pair.value())));
            let labels: Vec<_> =
                pairs.chain(quantile.map(|quantile| format!("quantile=\"{quantile}\""))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            assert_eq!(values.insert(format!("{}{end}{labels}", family.name()), value), None);
        };
        if let Some(counter) = &metric.counter {
            insert("", None, counter.value());
        } else if let Some(gauge) = &metric.gauge {
            insert("", None, gauge.value());
        } else if let Some(summary) = &metric.summary {
            insert("_count", None, summary.sample_count() as f64);
            insert("_sum", None, summary.sample_sum());
            summary
                .quantile
                .iter()
                .for_each(|quantile| insert("", Some(quantile.quantile()), quantile.value()));
        } else if let Some(histogram) = &metric.histogram {
            let mut sum = histogram.zero_count() as i64;
            for deltas in [&histogram.positive_delta, &histogram.negative_delta] {
                sum += deltas
                    .iter()
                    .scan(0, |count, delta| {
                        *count += delta;
                        Some(*count)
                    })
                    .sum::<i64>();
            }
            assert_eq!(histogram.sample_count() as i64, sum);
        }
        // All are of this test; 1.6e9 s is in 2020.
        let created = [
            metric.counter.as_ref().map(|counter| counter.created_timestamp),
            metric.summary.as_ref().map(|summary| summary.created_timestamp),
            metric.histogram.as_ref().map(|histogram| histogram.created_timestamp),
        ];
        assert!(created.into_iter().flatten().all(|created| created.unwrap().seconds > 1_600_000_000));
    }
    values
}

/// The state with everything that there is, from two windows of each metric.
fn everything() -> (State, Now) {
    let start = Now::read();
    let limits = Limits { classic_buckets: "0.001,0.1".parse().unwrap(), ..Limits::default() };
    let mut state = State::new(limits, start);
    for (stop, min) in [(100, 1.0), (101, -2.0)] {
        for (metric, unit) in
            Metric::ALL.iter().map(|metric| (metric.name(), metric.unit())).chain([("ji\"tter\\", "ms")])
        {
            let window = message("/listener:/im\"u", metric, unit, stop, [1.5, 4.0, min, 50.0, 0.5]);
            state.accept(MetricWindow::new(&window).map(Received::Window), start);
        }
    }
    let ages = MetricDistribution::new(&distribution("/listener:/im\"u", 100));
    state.accept(ages.map(Received::Distribution), start);
    let lost = MessagesLostEventTopicStat { topic_name: "/imu".to_owned(), messages_lost: 1 };
    state.accept(Losses::new("/listener", &lost).map(Received::Losses), start);
    let conditions =
        "rate>=1 age.p99<1 age.count>1 lost=0 bandwidth>0 bytes>0 received>0 out_of_order=0 publishers>0";
    let values =
        [("measurement_source_name", "/a:/b"), ("Actual frequency (Hz)", "1.0"), ("warn_unless", conditions)];
    let values = values.map(|(key, value)| KeyValue { key: key.to_owned(), value: value.to_owned() });
    let status = DiagnosticStatus { name: "x".to_owned(), values: values.into(), ..Default::default() };
    state.accept(Diagnostic::new(&status).map(Received::Diagnostic), start);
    state.set_push(PushCounts::default());
    state.set_process(ProcessFigures::read());
    (state, start)
}

#[test]
fn all_formats_have_the_same_series() {
    let (state, start) = everything();
    let now = start.monotonic + Duration::from_secs(1);
    let encode = |format: Format| format.encode(&state, now, 1e9, b"the last response".to_vec());
    let text = read_text(encode(Format::Text));
    assert_eq!(text, read_text(encode(Format::OpenMetrics)));
    let protobuf = of_families(&families(&state, now));
    let text = text.into_iter().filter(|(name, _)| !name.contains("distribution_seconds")).collect();
    assert_eq!(protobuf, text);
}

/// A gauge of a node that has ended would tell how things were.
#[test]
fn gauges_end_before_counters_when_windows_are_missing() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let mut window = message("/listener:/imu", "message_age", "ms", 100, [1.5, 4.0, 1.0, 50.0, 0.5]);
    window.window_start.sec = 95;
    state.accept(MetricWindow::new(&window).map(Received::Window), start);
    let ages = MetricDistribution::new(&distribution("/listener:/imu", 100)).unwrap();
    state.accept(Ok(Received::Distribution(ages)), start);
    let count = |after, text: &str| {
        let now = start.monotonic + Duration::from_secs_f64(after);
        let values = read_text(Format::Text.encode(&state, now, 1e9, vec![]));
        values.keys().filter(|name| name.contains(text)).count()
    };
    // Three windows of 5 s may be missing, and ten of the distribution, which was of 1 s.
    for (after, gauges, quantiles) in [(0.0, 1, 2), (10.0, 1, 2), (10.1, 1, 0), (15.0, 1, 0), (15.1, 0, 0)] {
        assert_eq!((count(after, "age_mean"), count(after, "quantile")), (gauges, quantiles), "{after} s");
        assert_eq!((count(after, "age_seconds_count"), count(after, "windows_total")), (1, 1), "{after} s");
    }
}

/// Services, clients and timers have some metrics of subscriptions, and are none. The two ends of an action share most.
#[test]
fn a_metric_has_the_kind_of_its_source() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let mut receive = |source: &str, metric: Metric, stop, value: f64| {
        let figures = [value, value, value, 1.0, f64::NAN];
        let window = message(source, metric.name(), metric.unit(), stop, figures);
        state.accept(MetricWindow::new(&window).map(Received::Window), start);
    };
    for stop in [100, 101] {
        for (source, shared, own) in [
            ("/planner:/plan", Metric::SourceToCallback, Metric::Requests),
            ("/planner:/map", Metric::SourceToCallback, Metric::Calls),
            ("/planner:timer/10ms", Metric::CallbackDuration, Metric::SkippedPeriods),
            ("/planner:/imu", Metric::SourceToCallback, Metric::MessageAge),
            ("/planner:/go", Metric::GoalSucceeded, Metric::CancelDelay),
            ("/planner:/dock", Metric::GoalSucceeded, Metric::DroppedGoals),
        ] {
            receive(source, shared, stop, 20.0);
            receive(source, own, stop, 3.0);
        }
        receive("/planner:/plan", Metric::ActiveRequests, stop, 2.0);
    }
    let text = String::from_utf8(Format::Text.encode(&state, start.monotonic, 1e9, vec![])).unwrap();
    for line in [
        r#"source_to_callback_mean_seconds{node="/planner",topic="/plan",kind="service"} 0.02"#,
        r#"source_to_callback_mean_seconds{node="/planner",topic="/map",kind="client"} 0.02"#,
        r#"callback_duration_mean_seconds{node="/planner",name="timer/10ms",kind="timer"} 0.02"#,
        r#"source_to_callback_mean_seconds{node="/planner",topic="/imu",kind="subscription"} 0.02"#,
        r#"goal_succeeded_mean_seconds{node="/planner",topic="/go",kind="action_server"} 0.02"#,
        r#"goal_succeeded_mean_seconds{node="/planner",topic="/dock",kind="action_client"} 0.02"#,
        r#"requests_total{node="/planner",topic="/plan",kind="service"} 6.0"#,
        r#"calls_total{node="/planner",topic="/map",kind="client"} 6.0"#,
        r#"skipped_periods_total{node="/planner",name="timer/10ms",kind="timer"} 6.0"#,
        // It is no sum.
        r#"active_requests{node="/planner",topic="/plan",kind="service"} 2.0"#,
    ] {
        assert!(text.contains(&format!("\ntopic_statistics_{line}\n")), "no {line} in {text}");
    }
    assert_eq!(text.matches("\ntopic_statistics_messages_received_total{").count(), 1, "of the subscription");
}

#[test]
fn all_names_are_documented_and_none_is_there_twice() {
    let docs = include_str!("../../../docs/fleet.md");
    let (state, start) = everything();
    let mut names = BTreeSet::new();
    for family in families(&state, start.monotonic) {
        assert!(names.insert(family.name().to_owned()), "{} comes twice", family.name());
    }
    assert!(names.len() > 90, "{names:?}");
    // A name that is in no table consists of a metric's name, a part and a unit.
    let is_documented = |name: &str| {
        let parts = ["_mean", "_min", "_max", "_stddev", "_distribution", "_negative_windows_total", ""];
        let units = ["_seconds", "_bytes", "_messages", "_hertz", ""];
        let family = |part: &str, unit: &str| {
            let base = name.strip_suffix(unit)?.strip_suffix(part)?;
            let row = docs.lines().find(|line| line.contains(&format!("| `{base}`")))?;
            Some(row.trim_end_matches([' ', '|']).ends_with(unit.trim_start_matches('_')))
        };
        docs.contains(&format!("`{name}`"))
            || parts.iter().any(|part| units.iter().any(|unit| family(part, unit) == Some(true)))
    };
    for name in &names {
        assert!(is_documented(name), "{name} is not in docs/fleet.md");
    }
    for word in docs.split(|c: char| !c.is_ascii_lowercase() && c != '_') {
        let is_total = word.starts_with("topic_statistics_") && word.ends_with("_total");
        assert!(!is_total || names.contains(word), "{word} is in docs/fleet.md, and does not exist");
    }
}

#[test]
fn classic_buckets_count_the_samples_up_to_their_bounds() {
    let start = Now::read();
    let limits = Limits { classic_buckets: "0.001,0.1,10".parse().unwrap(), ..Limits::default() };
    let mut state = State::new(limits, start);
    let mut add = |topic: &str, samples: &[f64]| {
        let mut distribution = Box::<Distribution>::default();
        samples.iter().for_each(|sample| assert!(distribution.accept(*sample)));
        let (source, metric) = (SourceName::new(&format!("/a:{topic}")), Metric::MessageAge);
        let window = Window { start: 0, stop: 1 };
        let message = MetricDistribution { source, metric, window, distribution };
        state.accept(Ok(Received::Distribution(message)), start);
    };
    // In milliseconds. A bucket that contains a bound counts as above it.
    add("/b", &[0.0, 0.5, 0.9, 2.0, 50.0, 95.0, 101.0, 110.0, 5000.0, 20_000.0]);
    add("/c", &[-3.0, 50.0]);
    let text = String::from_utf8(Format::Text.encode(&state, start.monotonic, 1e9, vec![])).unwrap();
    for (topic, counts) in [("/b", [3, 6, 9, 10]), ("/c", [1, 2, 2, 2])] {
        let labels = format!("node=\"/a\",topic=\"{topic}\",kind=\"subscription\"");
        for (le, count) in ["0.001", "0.1", "10.0", "+Inf"].iter().zip(counts) {
            let line = format!("age_distribution_seconds_bucket{{{labels},le=\"{le}\"}} {count}\n");
            assert!(text.contains(&line), "no {line} in {text}");
        }
    }
    // A sum with negative samples would fall.
    let sums = text.lines().filter(|line| line.contains("distribution_seconds_sum"));
    assert_eq!(sums.map(|line| line.contains("\"/b\"")).collect::<Vec<_>>(), [true]);
    assert!(text.lines().filter(|line| line.contains("node=\"/a\"")).count() <= state.series());
    let histogram = first_histogram(&state, start);
    let bounds = histogram.bucket.iter().map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
    assert_eq!(bounds.collect::<Vec<_>>(), [(0.001, 3), (0.1, 6), (10.0, 9)]);
}

fn first_histogram(state: &State, now: Now) -> NativeHistogram {
    let metrics = families(state, now.monotonic).into_iter().flat_map(|family| family.metric);
    metrics.filter_map(|metric| metric.histogram).next().unwrap()
}
