// SPDX-License-Identifier: Apache-2.0

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use prost::encoding::{decode_key, decode_varint, WireType};
use rclrs_topic_statistics::{Distribution, Metric};
use ros_env::topic_statistics_interfaces::msg::MessagesLostEventTopicStat;

use topic_statistics_core::Window;
use topic_statistics_observe::ros::{
    testing::{distribution, message, status},
    wire::{Diagnostic, Losses, MetricDistribution, MetricWindow},
};

use super::{
    super::{
        model::Received,
        state::{Limits, Now, ProcessFigures, PushCounts},
    },
    metric_families::{MetricFamilies, Shape, OF_METRICS},
    *,
};

#[test]
fn the_format_is_the_one_that_the_scraper_prefers() {
    // The Accept headers of Prometheus 2.42, without and with native histograms.
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

/// The values of time series, by the name and labels as the text format writes them.
type Values = BTreeMap<String, f64>;

/// Reads the text format without strict checks. The fuzz target `exposition` and promtool check the format strictly.
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

/// Returns the fields of a protobuf message: the field number, and the value or the content.
fn fields(mut bytes: &[u8]) -> Vec<(u32, u64, &[u8])> {
    let (mut all, bytes) = (vec![], &mut bytes);
    while !bytes.is_empty() {
        let (tag, wire_type) = decode_key(bytes).unwrap();
        let (number, length) = match wire_type {
            WireType::Varint => (decode_varint(bytes).unwrap(), 0),
            WireType::SixtyFourBit => (u64::from_le_bytes(bytes[..8].try_into().unwrap()), 8),
            _ => (0, decode_varint(bytes).unwrap() as usize),
        };
        let (content, rest) = bytes.split_at(length);
        all.push((tag, number, content));
        *bytes = rest;
    }
    all
}

fn families(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut all = vec![];
    while !bytes.is_empty() {
        let length = decode_varint(&mut bytes).unwrap() as usize;
        let (family, rest) = bytes.split_at(length);
        all.push(family);
        bytes = rest;
    }
    all
}

fn contents(message: &[u8], field: u32) -> Vec<&[u8]> {
    fields(message).into_iter().filter(|(tag, ..)| *tag == field).map(|(.., content)| content).collect()
}

/// Returns a state with all kinds of entries: two windows of each metric, distributions, losses and statuses.
fn everything() -> (State, Now) {
    let start = Now::read();
    let limits = Limits { classic_buckets: "0.001,0.1".parse().unwrap(), ..Limits::default() };
    let mut state = State::new(limits, start);
    for (stop, min) in [(100, 1.0), (101, -2.0)] {
        for (metric, unit) in
            Metric::ALL.iter().map(|metric| (metric.name(), metric.unit())).chain([("ji\"tter\\", "ms")])
        {
            let window = message("/listener:/im\"u", metric, unit, stop, [1.5, 4.0, min, 50.0, 0.5]);
            state.accept(MetricWindow::new(&window).map(Received::from), start);
        }
    }
    let ages = MetricDistribution::new(&distribution("/listener:/im\"u", 100));
    state.accept(ages.map(Received::from), start);
    let lost = MessagesLostEventTopicStat { topic_name: "/imu".to_owned(), messages_lost: 1 };
    state.accept(Losses::new("/listener", &lost).map(Received::from), start);
    let conditions =
        "rate>=1 age.p99<1 age.count>1 lost=0 bandwidth>0 bytes>0 received>0 out_of_order=0 publishers>0";
    let values =
        [("measurement_source_name", "/a:/b"), ("Actual frequency (Hz)", "1.0"), ("warn_unless", conditions)];
    state.accept(Diagnostic::new(&status("x", 0, &values)).map(Received::from), start);
    state.push = Some(PushCounts::default());
    state.process = ProcessFigures::read();
    (state, start)
}

/// `tests/cli/prometheus.rs` compares the time series of a real Prometheus, which reads protobuf, with the text format.
#[test]
fn all_formats_have_all_families_and_the_same_series() {
    let (state, start) = everything();
    let encode = |format: Format| format.encode(&state, start.monotonic, 1e9, b"the last response".to_vec());
    let text = encode(Format::Text);
    assert_eq!(read_text(encode(Format::OpenMetrics)), read_text(text.clone()));
    let text = String::from_utf8(text).unwrap();
    let names: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut in_protobuf = vec![];
    for family in families(&encode(Format::Protobuf)) {
        in_protobuf.push(String::from_utf8(contents(family, 1)[0].to_vec()).unwrap());
        assert!(!contents(family, 2)[0].is_empty(), "{in_protobuf:?} has no help");
        // Counters, summaries and histograms contain the time of their creation, which is after 2020 (1.6e9 s).
        for metric in contents(family, 4) {
            for (kind, created) in [(3, 3), (4, 4), (7, 15)] {
                for value in contents(metric, kind) {
                    let (_, seconds, _) = fields(contents(value, created)[0])[0];
                    assert!(seconds > 1_600_000_000, "{in_protobuf:?}");
                }
            }
        }
    }
    assert_eq!(in_protobuf, names);
}

/// The gauges of an ended node are left out, because they would show old values as if they were current.
#[test]
fn gauges_end_before_counters_when_windows_are_missing() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let mut window = message("/listener:/imu", "message_age", "ms", 100, [1.5, 4.0, 1.0, 50.0, 0.5]);
    window.window_start.sec = 95;
    state.accept(MetricWindow::new(&window).map(Received::from), start);
    let ages = MetricDistribution::new(&distribution("/listener:/imu", 100));
    state.accept(ages.map(Received::from), start);
    let count = |after, text: &str| {
        let now = start.monotonic + Duration::from_secs_f64(after);
        let values = read_text(Format::Text.encode(&state, now, 1e9, vec![]));
        values.keys().filter(|name| name.contains(text)).count()
    };
    // The gauges end after three missing windows of 5 s each. The quantiles have windows of 1 s. But they end only
    // after 10 s, because all figures are kept for at least 10 s.
    for (after, gauges, quantiles) in [(0.0, 1, 2), (10.0, 1, 2), (10.1, 1, 0), (15.0, 1, 0), (15.1, 0, 0)] {
        assert_eq!((count(after, "age_mean"), count(after, "quantile")), (gauges, quantiles), "{after} s");
        assert_eq!((count(after, "age_seconds_count"), count(after, "windows_total")), (1, 1), "{after} s");
    }
}

/// The test fails if a shared metric gets a wrong label `kind`. Services, clients and timers share some metrics with
/// subscriptions. Action servers share most metrics with action clients.
#[test]
fn a_metric_has_the_kind_of_its_source() {
    let start = Now::read();
    let mut state = State::new(Limits::default(), start);
    let mut receive = |source: &str, metric: Metric, stop, value: f64| {
        let figures = [value, value, value, 1.0, f64::NAN];
        let window = message(source, metric.name(), metric.unit(), stop, figures);
        state.accept(MetricWindow::new(&window).map(Received::from), start);
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
        // The number of active requests is a gauge, not a counter.
        r#"active_requests{node="/planner",topic="/plan",kind="service"} 2.0"#,
    ] {
        assert!(text.contains(&format!("\ntopic_statistics_{line}\n")), "no {line} in {text}");
    }
    assert_eq!(text.matches("\ntopic_statistics_messages_received_total{").count(), 1, "of the subscription");
}

/// With the environment variable `BLESS=1`, this test writes the table into the page.
#[test]
fn docs_have_the_table_of_names() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/fleet.md");
    const HEAD: &str = "| `metrics_source` | name | unit |\n|---|---|---|\n";
    let row = |families: &MetricFamilies| {
        let metric = families.metric?;
        let name = match families.shape {
            Shape::Count => format!("{}_total", families.summary.name),
            _ => format!("topic_statistics_{}", families.base_name),
        };
        Some(format!("| `{metric}` | `{name}` | {} |\n", families.mean.unit))
    };
    let other = "| any other | `topic_statistics_other`, with the labels `metric` and `unit` | |\n";
    let table = (OF_METRICS.iter().filter_map(row).collect::<String>() + other).replace("|  |", "| |");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rows) = page.split_once(HEAD).expect(HEAD);
    let (rows, after) = rows.split_once("\n\n").unwrap();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(PAGE, format!("{before}{HEAD}{table}\n{after}")).unwrap();
    } else {
        assert_eq!(format!("{rows}\n"), table, "BLESS=1 writes the table of docs/fleet.md");
    }
}

#[test]
fn all_names_are_documented_and_none_is_there_twice() {
    let docs = include_str!("../../../docs/fleet.md");
    let (state, start) = everything();
    let text = String::from_utf8(Format::Text.encode(&state, start.monotonic, 1e9, vec![])).unwrap();
    let mut names = BTreeSet::new();
    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(names.insert(name), "{name} comes twice");
    }
    assert!(names.len() > 90, "{names:?}");
    // A name is documented if it is on the page, or if it consists of a documented name, a part such as `_mean`, and
    // the unit in the row of this documented name.
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
        let (source, metric) = (format!("/a:{topic}"), Metric::MessageAge);
        let window = Window::from_nanoseconds(0, 1);
        let message = MetricDistribution { source, metric, window, distribution };
        state.accept(Ok(message.into()), start);
    };
    // The samples are in milliseconds. If a bound is inside a bucket, all samples of the bucket are counted as samples
    // above the bound.
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
    // In text, a histogram with negative samples has no sum, because the sum could fall.
    let sums = text.lines().filter(|line| line.contains("distribution_seconds_sum"));
    assert_eq!(sums.map(|line| line.contains("\"/b\"")).collect::<Vec<_>>(), [true]);
    assert!(text.lines().filter(|line| line.contains("node=\"/a\"")).count() <= state.series());
    // In protobuf, the first histogram has the same cumulative counts and bounds as in text.
    let encoded = Format::Protobuf.encode(&state, start.monotonic, 1e9, vec![]);
    let mut histograms =
        families(&encoded).into_iter().flat_map(|family| contents(contents(family, 4)[0], 7));
    let buckets = contents(histograms.next().unwrap(), 3).into_iter().map(fields);
    let buckets: Vec<_> = buckets.map(|fields| (fields[0].1, f64::from_bits(fields[1].1))).collect();
    assert_eq!(buckets, [(3, 0.001), (6, 0.1), (9, 10.0)]);
}
