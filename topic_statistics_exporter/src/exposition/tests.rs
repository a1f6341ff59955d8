// SPDX-License-Identifier: Apache-2.0

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;
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
    protobuf::messages::{LabelPair, MetricFamily, MetricType},
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

/// The time series of a format: its name, labels and value.
type Values = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// Reads text strictly, as `expfmt` of Prometheus does. Panics if it is not in the format.
fn read_text(text: &str, is_open_metrics: bool) -> Values {
    let (mut values, mut types, mut last) = (Values::new(), BTreeSet::new(), String::new());
    assert!(text.ends_with('\n'));
    let mut lines = text.lines();
    if is_open_metrics {
        assert_eq!(lines.next_back(), Some("# EOF"));
    }
    for line in lines {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (keyword, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            match keyword {
                "TYPE" => {
                    assert!(types.insert(name.to_owned()), "{name} comes twice");
                    last = name.to_owned();
                }
                "UNIT" => assert!(is_open_metrics && name.ends_with(&format!("_{rest}")), "{line}"),
                "HELP" => assert!(!rest.contains('\\') && rest.len() > 20, "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let end = line.find(['{', ' ']).unwrap();
        let name = line[..end].to_owned();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
        assert!(name.starts_with(&last), "{name} is not of {last}");
        let (mut labels, mut rest) = (BTreeMap::new(), line[end..].chars().peekable());
        if rest.next_if_eq(&'{').is_some() {
            loop {
                let label: String =
                    std::iter::from_fn(|| rest.next_if(|c| c.is_ascii_lowercase() || *c == '_')).collect();
                assert_eq!((rest.next(), rest.next()), (Some('='), Some('"')), "{line}");
                let mut value = String::new();
                loop {
                    match rest.next().unwrap() {
                        '"' => break,
                        '\\' => value.push(match rest.next() {
                            Some('n') => '\n',
                            Some(c @ ('\\' | '"')) => c,
                            other => panic!("{other:?} in {line}"),
                        }),
                        c => value.push(c),
                    }
                }
                assert!(!value.is_empty() && labels.insert(label, value).is_none(), "{line}");
                match rest.next().unwrap() {
                    '}' => break,
                    c => assert_eq!(c, ','),
                }
            }
        }
        assert_eq!(rest.next(), Some(' '));
        let value: f64 = rest.collect::<String>().parse().unwrap();
        assert!(value.is_finite(), "{line}");
        assert!(values.insert((name, labels), value).is_none(), "{line} comes twice");
    }
    values
}

/// Reads protobuf, and checks that it is written as prost writes it. Histograms are checked, and left out.
fn read_protobuf(mut bytes: &[u8]) -> Values {
    let mut values = Values::new();
    while !bytes.is_empty() {
        let before = bytes;
        let mut family = MetricFamily::decode_length_delimited(&mut bytes).unwrap();
        // The metrics are the last field.
        let metrics = MetricFamily { metric: std::mem::take(&mut family.metric), ..Default::default() };
        let encoded = [family.encode_to_vec(), metrics.encode_to_vec()].concat();
        assert!(before[..before.len() - bytes.len()].ends_with(&encoded));
        family.metric = metrics.metric;
        let name = family.name().to_owned();
        assert!(!family.help().is_empty() && !family.metric.is_empty());
        for metric in &family.metric {
            let created = [
                metric.counter.as_ref().map(|counter| counter.created_timestamp),
                metric.summary.as_ref().map(|summary| summary.created_timestamp),
                metric.histogram.as_ref().map(|histogram| histogram.created_timestamp),
            ];
            // All are of this test; 1.6e9 s is in 2020.
            assert!(created.into_iter().flatten().all(|created| created.unwrap().seconds > 1_600_000_000));
            let label = |pair: &LabelPair| (pair.name().to_owned(), pair.value().to_owned());
            let labels: BTreeMap<String, String> = metric.label.iter().map(label).collect();
            let mut insert = |name: String, labels: &BTreeMap<String, String>, value| {
                assert!(values.insert((name, labels.clone()), value).is_none());
            };
            match family.r#type() {
                MetricType::Counter => {
                    insert(name.clone(), &labels, metric.counter.as_ref().unwrap().value())
                }
                MetricType::Gauge => insert(name.clone(), &labels, metric.gauge.as_ref().unwrap().value()),
                MetricType::Summary => {
                    let summary = metric.summary.as_ref().unwrap();
                    insert(format!("{name}_count"), &labels, summary.sample_count() as f64);
                    insert(format!("{name}_sum"), &labels, summary.sample_sum());
                    for quantile in &summary.quantile {
                        let mut labels = labels.clone();
                        labels.insert("quantile".to_owned(), quantile.quantile().to_string());
                        insert(name.clone(), &labels, quantile.value());
                    }
                }
                MetricType::Histogram => {
                    let histogram = metric.histogram.as_ref().unwrap();
                    let mut sum = histogram.zero_count();
                    for deltas in [&histogram.positive_delta, &histogram.negative_delta] {
                        let mut count = 0;
                        sum += deltas
                            .iter()
                            .map(|delta| {
                                count += delta;
                                count
                            })
                            .sum::<i64>() as u64;
                    }
                    assert_eq!(histogram.sample_count(), sum);
                }
            }
        }
    }
    values
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("/listener:/imu".to_owned()),
        Just("cpp_listener".to_owned()),
        "[ab:/]{0,3}",
        "\\PC{0,8}:\\PC{0,8}",
        any::<String>(),
    ]
}

fn any_metric() -> impl Strategy<Value = String> {
    let known = Metric::ALL.iter().map(|metric| metric.name().to_owned()).collect::<Vec<_>>();
    prop_oneof![prop::sample::select(known), any::<String>()]
}

fn any_received() -> impl Strategy<Value = Received> {
    let extreme = vec![0.0, -0.0, -1.0, 1e15, 1e300, f64::INFINITY, f64::NAN, 1e-320];
    let figure = || prop_oneof![prop::num::f64::ANY, (-1e3..1e3_f64), prop::sample::select(extreme.clone())];
    let figures =
        (figure(), figure(), figure(), prop_oneof![figure(), (0..100_u32).prop_map(f64::from)], figure());
    let unit = prop_oneof![Just("ms".to_owned()), Just("messages".to_owned()), any::<String>()];
    let window = (any_name(), any_metric(), unit, 1..100_i32, figures).prop_filter_map(
        "refused",
        |(source, metric, unit, stop, figures)| {
            // Figures in order, so that not all are refused.
            let mut sorted = [figures.0, figures.1, figures.2];
            sorted.sort_by(f64::total_cmp);
            let [min, mean, max] = sorted;
            let message = message(&source, &metric, &unit, stop, [mean, max, min, figures.3, figures.4]);
            MetricWindow::new(&message).ok().map(Received::Window)
        },
    );
    let ages = (any_name(), 1..100_i32).prop_filter_map("refused", |(source, stop)| {
        MetricDistribution::new(&distribution(&source, stop)).ok().map(Received::Distribution)
    });
    let diagnostic = (any::<String>(), any::<String>(), 0..4_u8).prop_filter_map(
        "refused",
        |(name, hardware_id, level)| {
            let status = DiagnosticStatus { level, name, hardware_id, ..Default::default() };
            Diagnostic::new(&status).ok().map(Received::Diagnostic)
        },
    );
    prop_oneof![6 => window, 2 => ages, 1 => diagnostic]
}

proptest! {
    // Each case is three formats of many series.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_formats_have_the_same_series_whatever_was_received(
        received in prop::collection::vec(any_received(), 0..60),
        max_series in 20..400_usize,
    ) {
        let start = Now::read();
        let mut state = State::new(Limits { max_series, ..Limits::default() }, start);
        for received in received {
            state.accept(Ok(received), start);
        }
        let now = start.monotonic + Duration::from_secs(1);
        let encode = |format: Format| format.encode(&state, now, 1e9, b"the last response".to_vec());
        let text = read_text(&String::from_utf8(encode(Format::Text)).unwrap(), false);
        let open_metrics = read_text(&String::from_utf8(encode(Format::OpenMetrics)).unwrap(), true);
        prop_assert_eq!(&text, &open_metrics);
        prop_assert_eq!(&text, &read_protobuf(&encode(Format::Protobuf)));
        let of_sources = text.keys().filter(|(name, _)| !name.contains("_exporter_")).count();
        prop_assert!(of_sources <= state.series() && state.series() <= max_series, "{of_sources}");
    }
}

/// A gauge of a node that has ended would tell how things were.
#[test]
fn gauges_end_before_counters_when_windows_are_missing() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    for metric in ["message_age", "message_period"] {
        let mut window = message("/listener:/imu", metric, "ms", 100, [1.5, 4.0, 1.0, 50.0, 0.5]);
        window.window_start.sec = 95;
        state.accept(MetricWindow::new(&window).map(Received::Window), start);
    }
    let ages = MetricDistribution::new(&distribution("/listener:/imu", 100)).unwrap();
    state.accept(Ok(Received::Distribution(ages)), start);
    let names = |after| {
        let now = start.monotonic + Duration::from_secs_f64(after);
        let values =
            read_text(&String::from_utf8(Format::Text.encode(&state, now, 1e9, vec![])).unwrap(), false);
        let of_sources = values.keys().filter(|(name, _)| !name.contains("_exporter_"));
        of_sources
            .map(|(name, labels)| (name.clone(), labels.contains_key("quantile")))
            .collect::<BTreeSet<_>>()
    };
    let all = names(0.0);
    let is_lasting = |name: &&(String, bool)| {
        ["_sum", "_count", "_total", "_timestamp_seconds"].iter().any(|end| name.0.ends_with(end))
    };
    let lasting: BTreeSet<_> = all.iter().filter(is_lasting).cloned().collect();
    let quantiles = all.iter().filter(|(_, is_quantile)| *is_quantile).cloned().collect();
    assert!(all.len() - lasting.len() == 10 && lasting.len() == 7, "{all:?}");
    assert_eq!(names(10.0), all);
    assert_eq!(names(10.1), &all - &quantiles, "its distribution was of a window of 1 s");
    assert_eq!(names(15.0), &all - &quantiles);
    assert_eq!(names(15.1), lasting, "three windows of 5 s are missing");
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
    let text = Format::Text.encode(&state, start.monotonic, 1e9, vec![]);
    let values = read_text(&String::from_utf8(text).unwrap(), false);
    let value = |name: &str, labels: &[(&str, &str)]| {
        let labels = [("node", "/planner")].iter().chain(labels);
        let labels = labels.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        values.get(&(format!("topic_statistics_{name}"), labels)).copied()
    };
    for (kind, name, of_source, family) in [
        ("service", "topic", "/plan", "source_to_callback"),
        ("client", "topic", "/map", "source_to_callback"),
        ("timer", "name", "timer/10ms", "callback_duration"),
        ("subscription", "topic", "/imu", "source_to_callback"),
        ("action_server", "topic", "/go", "goal_succeeded"),
        ("action_client", "topic", "/dock", "goal_succeeded"),
    ] {
        let labels = [("kind", kind), (name, of_source)];
        assert_eq!(value(&format!("{family}_mean_seconds"), &labels), Some(0.02), "{kind}: {values:#?}");
    }
    let [plan, map] =
        [("service", "/plan"), ("client", "/map")].map(|(kind, topic)| [("kind", kind), ("topic", topic)]);
    assert_eq!((value("requests_total", &plan), value("calls_total", &map)), (Some(6.0), Some(6.0)));
    assert_eq!(value("skipped_periods_total", &[("kind", "timer"), ("name", "timer/10ms")]), Some(6.0));
    assert_eq!(value("active_requests", &plan), Some(2.0), "it is no sum");
    let received = values.keys().filter(|(name, _)| name.contains("messages_received"));
    assert_eq!(received.count(), 1, "of the subscription");
}

#[test]
fn all_names_are_documented_and_none_is_there_twice() {
    let docs = include_str!("../../../docs/fleet.md");
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let mut receive = |metric: &str, unit: &str, stop, min: f64| {
        let window = message("/listener:/imu", metric, unit, stop, [1.5, 4.0, min, 50.0, 0.5]);
        state.accept(MetricWindow::new(&window).map(Received::Window), start);
    };
    for metric in Metric::ALL {
        receive(metric.name(), metric.unit(), 100, 1.0);
        receive(metric.name(), metric.unit(), 101, -2.0);
    }
    receive("jitter", "ms", 100, 1.0);
    let lost = MessagesLostEventTopicStat { topic_name: "/imu".to_owned(), messages_lost: 1 };
    state.accept(Losses::new("/listener", &lost).map(Received::Losses), start);
    state.accept(
        MetricDistribution::new(&distribution("/listener:/imu", 100)).map(Received::Distribution),
        start,
    );
    let conditions =
        "rate>=1 age.p99<1 age.count>1 lost=0 bandwidth>0 bytes>0 received>0 out_of_order=0 publishers>0";
    let values =
        [("measurement_source_name", "/a:/b"), ("Actual frequency (Hz)", "1.0"), ("warn_unless", conditions)];
    let values = values.map(|(key, value)| KeyValue { key: key.to_owned(), value: value.to_owned() });
    let status = DiagnosticStatus { name: "x".to_owned(), values: values.into(), ..Default::default() };
    state.accept(Diagnostic::new(&status).map(Received::Diagnostic), start);
    state.set_push(PushCounts::default());
    state.set_process(ProcessFigures::read());
    let (mut bytes, mut names) =
        (&*Format::Protobuf.encode(&state, start.monotonic, 1e9, vec![]), BTreeSet::new());
    while !bytes.is_empty() {
        let family = MetricFamily::decode_length_delimited(&mut bytes).unwrap();
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
    let series = |topic: &str| {
        let labels = format!("{{node=\"/a\",topic=\"{topic}\",kind=\"subscription\"");
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("topic_statistics_message_age_distribution_seconds"));
        lines.filter(|line| line.contains(&labels)).map(|line| line.replace(&labels, "")).collect::<Vec<_>>()
    };
    let buckets = [
        "_bucket,le=\"0.001\"} 3",
        "_bucket,le=\"0.1\"} 6",
        "_bucket,le=\"10.0\"} 9",
        "_bucket,le=\"+Inf\"} 10",
    ];
    let of_b = series("/b");
    assert_eq!(of_b[..4], buckets);
    assert!(of_b[4].starts_with("_sum} 25.35") && of_b[5] == "_count} 10", "{of_b:?}");
    let negative = ["_bucket,le=\"0.001\"} 1", "_bucket,le=\"0.1\"} 2", "_bucket,le=\"10.0\"} 2"];
    assert_eq!(series("/c")[..3], negative);
    assert_eq!(series("/c")[4], "_count} 2", "a sum with negative samples would fall");
    assert_eq!(
        text.lines().filter(|line| line.starts_with("# TYPE") && line.ends_with(" histogram")).count(),
        1
    );
    assert!(text.lines().filter(|line| line.contains("node=\"/a\"")).count() <= state.series());
    let (mut bytes, mut buckets) = (&*Format::Protobuf.encode(&state, start.monotonic, 1e9, vec![]), vec![]);
    while !bytes.is_empty() {
        let family = MetricFamily::decode_length_delimited(&mut bytes).unwrap();
        let histograms = family.metric.iter().flat_map(|metric| &metric.histogram);
        buckets.extend(histograms.map(|histogram| histogram.bucket.clone()));
    }
    let of_b: Vec<_> =
        buckets[0].iter().map(|bucket| (bucket.upper_bound(), bucket.cumulative_count())).collect();
    assert_eq!(of_b, [(0.001, 3), (0.1, 6), (10.0, 9)]);
}

proptest! {
    /// In Prometheus, bucket `i` of the schema `s` ends at 2^(i * 2^-s).
    #[test]
    fn the_buckets_of_seconds_have_the_samples_of_milliseconds(
        exponents in prop::collection::vec(-8.0..8.0_f64, 1..4), spread in 0.0..1.0_f64, is_negative: bool
    ) {
        // Few samples, close together or far apart: all scales.
        let mut samples: Vec<f64> = exponents.iter().map(|exponent| 10_f64.powf(exponent * spread)).collect();
        samples.sort_by(f64::total_cmp);
        let mut window = Distribution::default();
        for sample in &samples {
            let is_accepted = window.accept(if is_negative { -sample } else { *sample });
            prop_assert!(is_accepted);
        }
        prop_assume!(window.zero_threshold() == 0.0);
        let start = Now::read();
        let mut state = State::new(Limits::default(), start);
        let (source, metric) = (SourceName::new("/a:/b"), Metric::MessageAge);
        let message = MetricDistribution {
            source,
            metric,
            window: Window { start: 0, stop: 1 },
            distribution: Box::new(window),
        };
        state.accept(Ok(Received::Distribution(message)), start);
        let (mut bytes, mut histogram) = (&*Format::Protobuf.encode(&state, start.monotonic, 1e9, vec![]), None);
        while !bytes.is_empty() {
            let family = MetricFamily::decode_length_delimited(&mut bytes).unwrap();
            histogram = histogram.or(family.metric[0].histogram.clone());
        }
        let histogram = histogram.unwrap();
        let (spans, deltas) = if is_negative {
            (&histogram.negative_span, &histogram.negative_delta)
        } else {
            (&histogram.positive_span, &histogram.positive_delta)
        };
        let indices = spans.iter().scan(0, |next, span| {
            let first = *next + span.offset();
            *next = first + span.length() as i32;
            Some(first..*next)
        });
        let counts = deltas.iter().scan(0, |count, delta| { *count += delta; Some(*count) });
        let mut buckets: Vec<(i32, i64)> = indices.flatten().zip(counts).collect();
        let end = |index: f64| (index * (-f64::from(histogram.schema())).exp2()).exp2();
        for sample in samples {
            // A bucket has the sample, within half a bucket and rounding.
            let has = |(index, count): &&mut (i32, i64)| {
                let index = f64::from(*index);
                *count > 0
                    && end(index - 1.5) < sample * 1e-3 * (1.0 + 1e-9)
                    && sample * 1e-3 * (1.0 - 1e-9) < end(index + 0.5)
            };
            let bucket = buckets.iter_mut().find(has);
            prop_assert!(
                bucket.is_some(),
                "{sample} ms is in none of {buckets:?} of the schema {}",
                histogram.schema()
            );
            bucket.unwrap().1 -= 1;
        }
        prop_assert!(buckets.iter().all(|(_, count)| *count == 0), "{buckets:?}");
    }
}
