// SPDX-License-Identifier: Apache-2.0

//! Compares the collectors with independent results on twelve recorded series (tests/data/README.md): with the results
//! of the C++ library libstatistics_collector 1.8.0, of exact integer arithmetic, and of numpy
//! (tests/window_statistics.py). And the message with upstream's.

use std::{
    env, fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use rclrs_topic_statistics::{FirstPeriod, Summary, Timestamp, Window};
use serde_json::{json, Value};
use topic_statistics_core::collector::{AgeCollector, PeriodCollector};

/// The tolerance of two values, relative to the second.
const SAME: f64 = 1e-12;

struct Series {
    name: String,
    windows: Vec<Recorded>,
}

struct Recorded {
    messages: Vec<Message>,
    /// The results of libstatistics_collector.
    age: Summary,
    period: Summary,
}

/// Times in nanoseconds. A stamp of 0 means no stamp.
#[derive(Clone, Copy)]
struct Message {
    now: i64,
    stamp: i64,
}

fn recorded_series() -> Vec<Series> {
    let recorded: Value = serde_json::from_str(include_str!("../data/libstatistics_collector.json")).unwrap();
    let time = |text: &Value| text.as_str().unwrap().parse().unwrap();
    let message = |message: &Value| Message { now: time(&message[0]), stamp: time(&message[1]) };
    let window = |window: &Value| Recorded {
        messages: window["messages"].as_array().unwrap().iter().map(message).collect(),
        age: summary(&window["message_age"]),
        period: summary(&window["message_period"]),
    };
    let series: Vec<_> = recorded["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| Series {
            name: case["case"].as_str().unwrap().to_owned(),
            windows: case["windows"].as_array().unwrap().iter().map(window).collect(),
        })
        .collect();
    assert_eq!(series.len(), 12);
    assert_eq!(series.iter().map(|series| series.windows.len()).sum::<usize>(), 27);
    series
}

fn summary(figures: &Value) -> Summary {
    let figure = |name: &str| number(&figures[name]);
    let mut summary = Summary::default();
    summary.average = figure("average");
    summary.minimum = figure("minimum");
    summary.maximum = figure("maximum");
    summary.standard_deviation = figure("standard_deviation");
    summary.sample_count = figures["sample_count"].as_u64().unwrap();
    summary
}

/// Returns a JSON number. `null` is NaN.
fn number(value: &Value) -> f64 {
    if value.is_null() {
        f64::NAN
    } else {
        value.as_f64().unwrap()
    }
}

/// Returns the results of our collectors for each window: age and period.
fn collected(windows: &[Vec<Message>], first: FirstPeriod) -> Vec<[Summary; 2]> {
    let (mut ages, mut periods) = (AgeCollector::default(), PeriodCollector::new(first));
    let mut end_window = |messages: &Vec<Message>| {
        for message in messages {
            ages.accept(message.stamp, message.now);
            periods.accept(message.now);
        }
        [ages.take(), periods.take()]
    };
    windows.iter().map(&mut end_window).collect()
}

/// Returns the samples of each window, ages and periods, in nanoseconds.
fn samples(windows: &[Vec<Message>], first: FirstPeriod) -> Vec<[Vec<i128>; 2]> {
    let mut before = None;
    let mut of_window = |messages: &Vec<Message>| {
        let mut times: Vec<_> = messages.iter().map(|message| i128::from(message.now)).collect();
        let stamped = messages.iter().filter(|message| message.stamp != 0);
        let ages = stamped.map(|message| i128::from(message.now) - i128::from(message.stamp)).collect();
        let last = times.last().copied();
        if let Some(before) = before.filter(|_| first == FirstPeriod::CarriedOver) {
            times.insert(0, before);
        }
        before = last.or(before);
        [ages, times.windows(2).map(|pair| pair[1] - pair[0]).filter(|period| *period >= 0).collect()]
    };
    windows.iter().map(&mut of_window).collect()
}

/// Returns the summary in milliseconds of samples in nanoseconds: computed with integers, rounded once at the end.
fn exact(samples: &[i128]) -> Summary {
    const MILLISECOND: f64 = 1e6;
    let count = samples.len() as i128;
    let Some(first) = samples.first() else { return Summary::default() };
    // Sums of differences to the first sample fit in an i128. An overflow would panic.
    let sum: i128 = samples.iter().map(|sample| sample - first).sum();
    let squares: i128 = samples.iter().map(|sample| (sample - first).pow(2)).sum();
    let variance_times_count_squared = count * squares - sum * sum;
    let deviation = (variance_times_count_squared as f64).sqrt() / count as f64 / MILLISECOND;
    let mut summary = Summary::default();
    summary.average = (count * first + sum) as f64 / (count as f64 * MILLISECOND);
    summary.minimum = *samples.iter().min().unwrap() as f64 / MILLISECOND;
    summary.maximum = *samples.iter().max().unwrap() as f64 / MILLISECOND;
    summary.standard_deviation = if count > 1 { deviation } else { f64::NAN };
    summary.sample_count = samples.len() as u64;
    summary
}

fn are_same(figure: f64, reference: f64, tolerance: f64) -> bool {
    figure == reference
        || (figure.is_nan() && reference.is_nan())
        || (figure - reference).abs() <= tolerance * reference.abs()
}

#[track_caller]
fn assert_same(ours: &Summary, reference: &Summary, label: &str) {
    assert_close(ours, reference, SAME, label);
}

/// Asserts that all values are the same. The standard deviation has a tolerance of its own.
#[track_caller]
fn assert_close(ours: &Summary, reference: &Summary, deviation: f64, label: &str) {
    assert_eq!(ours.sample_count, reference.sample_count, "{label}: sample count");
    for (name, figure, reference, tolerance) in [
        ("average", ours.average, reference.average, SAME),
        ("minimum", ours.minimum, reference.minimum, SAME),
        ("maximum", ours.maximum, reference.maximum, SAME),
        ("standard deviation", ours.standard_deviation, reference.standard_deviation, deviation),
    ] {
        assert!(are_same(figure, reference, tolerance), "{label}: {name} {figure:e} is not {reference:e}");
    }
}

/// Returns the relative tolerance of our standard deviation.
///
/// There is one exception. Welford's algorithm rounds its running mean with every sample. At an age of an hour, the
/// resolution of an f64 of milliseconds is 4.7e-10 ms, and the spread of the samples is 2.8e-4 ms.
fn deviation_tolerance(label: &str) -> f64 {
    if label == "an hour old, spread of a microsecond, window 0, age" {
        5e-7
    } else {
        SAME
    }
}

/// Returns each metric of each window of a series: its name for panic messages, the index of the window, and the index
/// of the metric in `[age, period]`.
fn metrics(series: &Series) -> impl Iterator<Item = (String, usize, usize)> + '_ {
    (0..series.windows.len()).flat_map(move |window| {
        ["age", "period"]
            .into_iter()
            .enumerate()
            .map(move |(metric, name)| (format!("{}, window {window}, {name}", series.name), window, metric))
    })
}

fn messages(series: &Series) -> Vec<Vec<Message>> {
    series.windows.iter().map(|window| window.messages.clone()).collect()
}

/// Returns bounds of the windows such that every message lies in its own window. A window starts at its first message,
/// in the same nanosecond in which the window before it stops.
fn bounds(windows: &[Vec<Message>]) -> Vec<Window> {
    let mut start = windows[0].first().map_or(0, |message| message.now);
    let mut bounds = vec![];
    for (index, messages) in windows.iter().enumerate() {
        let after_last = messages.last().map_or(start, |message| message.now) + 1;
        let next = windows.get(index + 1).and_then(|next| next.first());
        let stop = next.map_or(after_last, |message| message.now);
        bounds.push(Window::from_nanoseconds(start, stop));
        start = stop;
    }
    bounds
}

/// Computes the age and period of each window with tests/window_statistics.py.
fn computed_by_numpy(messages: &[Message], windows: &[Window]) -> Vec<[Summary; 2]> {
    let messages: Vec<_> = messages.iter().map(|message| [message.now, message.stamp]).collect();
    let windows: Vec<_> =
        windows.iter().map(|window| [window.start, window.stop].map(Timestamp::as_nanoseconds)).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/window_statistics.py");
    let mut python = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3, with numpy");
    // The script reads all of its input before it prints. If it fails, it reports the reason on stderr.
    let input = json!({"messages": messages, "windows": windows}).to_string();
    let written = python.stdin.take().unwrap().write_all(input.as_bytes());
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    written.unwrap();

    let computed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let summary = |figures: &Value| {
        let mut summary = Summary::default();
        summary.average = number(&figures[0]);
        summary.maximum = number(&figures[1]);
        summary.minimum = number(&figures[2]);
        summary.sample_count = figures[3].as_u64().unwrap();
        summary.standard_deviation = number(&figures[4]);
        summary
    };
    let of_window = |window: &Value| [summary(&window["age"]), summary(&window["period"])];
    computed.as_array().unwrap().iter().map(of_window).collect()
}

#[test]
fn values_with_carried_over_periods_equal_those_of_libstatistics_collector() {
    let (mut single_samples, mut all_negative) = (0, 0);
    for series in recorded_series() {
        let windows = messages(&series);
        let ours = collected(&windows, FirstPeriod::CarriedOver);
        let samples = samples(&windows, FirstPeriod::CarriedOver);
        for (label, window, metric) in metrics(&series) {
            let (ours, samples) = (ours[window][metric], &samples[window][metric]);
            let theirs = [series.windows[window].age, series.windows[window].period][metric];
            // Where the two differ on purpose, both values are asserted. Theirs is then replaced by the correct one.
            let mut right = theirs;
            if samples.len() == 1 {
                assert_eq!(theirs.standard_deviation, 0.0, "{label}: theirs of a single sample");
                assert!(ours.standard_deviation.is_nan(), "{label}: ours of a single sample");
                right.standard_deviation = f64::NAN;
                single_samples += 1;
            }
            if !samples.is_empty() && samples.iter().all(|sample| *sample < 0) {
                // `std::numeric_limits<double>::min()`, the smallest positive normal number; fixed in 2.0.1.
                assert_eq!(theirs.maximum, 2.2250738585072014e-308, "{label}: theirs of negative samples");
                assert_eq!(ours.maximum, -1.005941, "{label}: ours of negative samples");
                right.maximum = exact(samples).maximum;
                all_negative += 1;
            }
            assert_same(&ours, &right, &label);
        }
    }
    // 20: a single message, and ten ages and nine periods of the 1 Hz series. 1: the ages of the sender whose clock is
    // ahead.
    assert_eq!((single_samples, all_negative), (20, 1));
}

#[test]
fn every_value_equals_the_result_of_exact_integer_arithmetic() {
    for series in recorded_series() {
        let windows = messages(&series);
        for first in [FirstPeriod::NoSample, FirstPeriod::CarriedOver] {
            let (ours, samples) = (collected(&windows, first), samples(&windows, first));
            for (label, window, metric) in metrics(&series) {
                let (ours, exact) = (ours[window][metric], exact(&samples[window][metric]));
                assert_close(&ours, &exact, deviation_tolerance(&label), &format!("{label}, {first:?}"));
            }
        }
    }
}

/// The C++ library and ours lose the same digits in this case: both results are equal, bit for bit.
#[test]
fn a_spread_of_a_microsecond_at_an_age_of_an_hour_is_correct_to_six_digits_as_in_cpp() {
    let series = recorded_series();
    let hour = series.iter().find(|series| series.name.starts_with("an hour old")).unwrap();
    let windows = messages(hour);
    let ours = collected(&windows, FirstPeriod::CarriedOver)[0][0].standard_deviation;
    let theirs = hour.windows[0].age.standard_deviation;
    let exact = exact(&samples(&windows, FirstPeriod::CarriedOver)[0][0]).standard_deviation;

    assert!(are_same(exact, 2.839262622583547e-4, SAME), "{exact:e}"); // the result of Python's fractions
    assert!(are_same(theirs, 2.8392613951295245e-4, SAME), "{theirs:e}");
    assert_eq!(ours, theirs);
    assert!(are_same(ours, exact, 5e-7) && !are_same(ours, exact, 4e-7), "{ours:e} and the exact {exact:e}");
}

#[test]
fn numpy_computes_the_same_windows_from_the_same_messages() {
    for series in recorded_series() {
        let windows = messages(&series);
        let numpy = computed_by_numpy(&windows.concat(), &bounds(&windows));
        assert_eq!(numpy.len(), windows.len(), "{}", series.name);
        let ours = collected(&windows, FirstPeriod::NoSample);
        let samples = samples(&windows, FirstPeriod::NoSample);
        for (label, window, metric) in metrics(&series) {
            let (ours, numpy) = (ours[window][metric], numpy[window][metric]);
            let exact = exact(&samples[window][metric]);
            assert_same(&numpy, &exact, &format!("numpy: {label}"));
            assert_close(&ours, &numpy, deviation_tolerance(&label), &label);
        }
    }
}

#[test]
fn numpy_and_the_collectors_follow_the_same_rules() {
    const MILLISECOND: i64 = 1_000_000;
    let message = |now: i64, stamp: i64| Message { now: now * MILLISECOND, stamp: stamp * MILLISECOND };
    let windows = [
        // The first has no stamp. The clock steps back before the third.
        vec![message(10, 0), message(30, 20), message(20, 25), message(26, 8)],
        vec![message(100, 99)], // exactly at the start of its window
        vec![],
        vec![message(111, 114), message(115, 119)], // negative ages
    ];
    let bounds = [(10, 100), (100, 101), (101, 102), (102, 116)]
        .map(|(start, stop)| Window::from_nanoseconds(start * MILLISECOND, stop * MILLISECOND));

    let nan = f64::NAN;
    let expected = [
        [(23.0 / 3.0, -5.0, 18.0, (818.0_f64 / 9.0).sqrt(), 3), (13.0, 6.0, 20.0, 7.0, 2)],
        [(1.0, 1.0, 1.0, nan, 1), (nan, nan, nan, nan, 0)],
        [(nan, nan, nan, nan, 0), (nan, nan, nan, nan, 0)],
        [(-3.5, -4.0, -3.0, 0.5, 2), (4.0, 4.0, 4.0, nan, 1)],
    ];
    let numpy = computed_by_numpy(&windows.concat(), &bounds);
    let ours = collected(&windows, FirstPeriod::NoSample);
    assert_eq!((numpy.len(), ours.len()), (4, 4));
    for (window, expected) in expected.iter().enumerate() {
        for (metric, name) in ["age", "period"].into_iter().enumerate() {
            let mut figures = Summary::default();
            (
                figures.average,
                figures.minimum,
                figures.maximum,
                figures.standard_deviation,
                figures.sample_count,
            ) = expected[metric];
            let expected = figures;
            assert_same(&numpy[window][metric], &expected, &format!("numpy: window {window}, {name}"));
            assert_same(&ours[window][metric], &expected, &format!("ours: window {window}, {name}"));
        }
    }
}

/// statistics_msgs is the interface package of the sourced ROS 2, or of this project if ROS 2 has none.
#[test]
fn metrics_message_has_upstreams_type_hash() {
    let prefixes = env::var_os("AMENT_PREFIX_PATH").expect("a sourced ROS 2");
    let file = env::split_paths(&prefixes)
        .map(|prefix| prefix.join("share/statistics_msgs/msg/MetricsMessage.json"))
        .find(|file| file.is_file())
        .expect("statistics_msgs in a prefix on AMENT_PREFIX_PATH");

    let description: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();

    let hashes = description["type_hashes"].as_array().unwrap();
    let own = hashes.iter().find(|hash| hash["type_name"] == "statistics_msgs/msg/MetricsMessage").unwrap();
    assert_eq!(
        own["hash_string"],
        "RIHS01_36a67fb499fc2a11b8b9ff9ac735ed76e8d5a1f7775d6d5b97b625188ec68e20",
        "{}",
        file.display()
    );
}
