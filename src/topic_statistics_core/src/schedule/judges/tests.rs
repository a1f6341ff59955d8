// SPDX-License-Identifier: Apache-2.0

//! The state matrix: tests conditions on each quantity and figure with each kind of window. There is one kind of window
//! for each reason why a value may be unknown or missing.

use super::*;
use crate::{
    collector::Followed,
    condition::Conditions,
    distributions::Distributions,
    metric_set::MetricSet,
    record::{code::Durations, windowed::Windowed},
    summary::Summary,
    timestamp::ClockStep,
    window::Window,
};

/// The kind of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Good,
    /// The system clock was stepped in the window.
    Step,
    /// After a step back, stamps are not used for a while.
    DoubtfulStamps,
    /// Samples were lost in the window.
    Incomplete,
    /// Samples were lost, and the messages of these samples may belong to another window.
    UnknownCount,
    OneMessage,
    CallbacksRun,
    /// The middleware reports neither sequence numbers nor timestamps, and the sizes are unknown.
    NotReported,
    /// The publisher does not set the header stamps.
    Unstamped,
    Silence,
}

use State::*;

const STATES: [State; 10] = [
    Good,
    Step,
    DoubtfulStamps,
    Incomplete,
    UnknownCount,
    OneMessage,
    CallbacksRun,
    NotReported,
    Unstamped,
    Silence,
];

/// The number of messages in a good window of 1 s.
const MESSAGES: u64 = 2000;

/// The value of a quantity, as docs/health.md defines it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Is(f64),
    Missing,
    NotKnown,
}

use Answer::*;

/// Returns the value of a quantity in a good window, and its value in a window with one message, if the quantity can be
/// computed from the number of messages. `None` for other quantities.
fn counted(quantity: &str) -> Option<(f64, f64)> {
    Some(match quantity {
        "rate" => (2000.0, 1.0),
        "message_period" | "message_period.min" | "message_period.max" => (0.5, 1000.0),
        "bandwidth" => (20_000.0, 10.0),
        _ => return None,
    })
}

/// Returns the expected answer: a second implementation of the table in docs/health.md.
fn answer(state: State, quantity: &str) -> Answer {
    let (metric, figure) = quantity.split_once('.').unwrap_or((quantity, "mean"));
    let is_age = ["message_age", "header_to_source_ms", "header_to_callback_ms"].contains(&metric);
    let of_transport =
        ["header_to_source_ms", "source_to_receive_ms", "receive_to_callback_ms", "source_to_callback_ms"];
    let is_of_transport = of_transport.contains(&metric);
    let is_per_window = ["time_since_last_message_ms", "clock_offset_ms"].contains(&metric);
    if let Some((good, one)) = counted(quantity) {
        return match state {
            UnknownCount => NotKnown,
            Incomplete | NotReported if metric == "bandwidth" => NotKnown,
            OneMessage => Is(one),
            // A window without messages proves a low rate. The bandwidth is counted over a longer time, with the last
            // messages whose size is known.
            Silence => match (metric, figure) {
                ("rate", _) => Is(0.0),
                ("bandwidth", _) => Is(5000.0),
                _ => Is(1e9),
            },
            _ => Is(good),
        };
    }
    match (state, metric) {
        (UnknownCount, "received") => NotKnown,
        (OneMessage, "received") => Is(1.0),
        (_, "received") => Is(MESSAGES as f64),
        (OneMessage, "bytes") => Is(10.0),
        (Incomplete | UnknownCount | NotReported, "bytes") => NotKnown,
        (_, "bytes") => Is(20_000.0),
        (Incomplete | UnknownCount | NotReported, "lost" | "out_of_order") => NotKnown,
        (_, "lost" | "out_of_order") => Is(0.0),
        _ if is_per_window => match (state, figure) {
            (Incomplete | UnknownCount, _) if metric == "time_since_last_message_ms" => NotKnown,
            (_, "count") => Is(1.0),
            _ => Is(10.0),
        },
        (Step | DoubtfulStamps, _) if is_age || is_of_transport => NotKnown,
        (Incomplete | UnknownCount, _) => NotKnown,
        (CallbacksRun, "callback_duration_ms") => NotKnown,
        (NotReported, "publication_seq_gap" | "message_size") => NotKnown,
        (NotReported, _) if is_of_transport => NotKnown,
        (Unstamped, _) if is_age => Missing,
        (OneMessage, "message_period") if figure == "count" => Is(0.0),
        (OneMessage, "message_period") => NotKnown,
        (OneMessage, _) => match figure {
            "count" => Is(1.0),
            "std" => NotKnown,
            "p50" => Is(10.0), // the samples of two windows are enough for the median
            "p90" | "p99" | "p999" => NotKnown,
            _ => Is(10.0),
        },
        _ => match (figure, metric) {
            ("count", _) => Is(MESSAGES as f64),
            ("std", _) => Is(2.0),
            ("min", _) => Is(5.0),
            ("max", _) => Is(20.0),
            _ => Is(10.0),
        },
    }
}

/// Returns a window of this kind, as a recorder would return it: a metric whose value is unknown has no sample.
fn window(state: State) -> WindowStatistics {
    let count = match state {
        Silence => 0,
        OneMessage => 1,
        _ => MESSAGES,
    };
    let has_samples = |metric: Metric| {
        let name = metric.name();
        let lacks_samples = match state {
            Incomplete | UnknownCount => metric != Metric::ClockOffset,
            Silence => metric.has_distribution(),
            _ => match answer(state, name) {
                Is(_) => state == OneMessage && name == "message_period",
                Missing | NotKnown => true,
            },
        };
        !lacks_samples
    };
    let summary = |metric: Metric| match (has_samples(metric), metric) {
        (false, _) => Summary::default(),
        (true, Metric::TimeSinceLastMessage | Metric::ClockOffset) => one_sample(),
        (true, _) if count == 1 => one_sample(),
        (true, Metric::MessagePeriod) => {
            Summary { average: 0.5, minimum: 0.5, maximum: 0.5, standard_deviation: 2.0, sample_count: count }
        }
        (true, _) => Summary {
            average: 10.0,
            minimum: 5.0,
            maximum: 20.0,
            standard_deviation: 2.0,
            sample_count: count,
        },
    };
    let metrics: Vec<_> = Metric::OF_SUBSCRIPTIONS.iter().map(|metric| (*metric, summary(*metric))).collect();
    let mut distributions = Distributions::new(MetricSet::of(Metric::OF_SUBSCRIPTIONS));
    for (metric, summary) in &metrics {
        (0..summary.sample_count).for_each(|_| distributions.accept(*metric, 10.0));
    }
    let lost = (!matches!(state, Incomplete | UnknownCount | NotReported)).then_some(0);
    let totals = Totals { received: MESSAGES, lost, out_of_order: lost, ..Totals::default() };
    let window = Window::from_nanoseconds(0, 1_000_000_000);
    WindowStatistics {
        clock_step: (state == Step).then(|| ClockStep::from_nanoseconds(-3_000_000_000)),
        is_count_known: state != UnknownCount,
        unrecorded: if matches!(state, Incomplete | UnknownCount) { 40 } else { 0 },
        unstamped: state == Unstamped,
        distributions: distributions.of_window(&metrics),
        totals: Some(totals),
        ..WindowStatistics::new(window, Duration::from_secs(1), count, metrics)
    }
}

fn one_sample() -> Summary {
    Summary { average: 10.0, minimum: 10.0, maximum: 10.0, standard_deviation: f64::NAN, sample_count: 1 }
}

type Fulfils = Box<dyn Fn(f64) -> bool>;

/// Returns conditions with a limit below or above `value`, and conditions with a range around it. For each condition:
/// whether `value` fulfills it, its text, and a function that returns whether another value fulfills it.
fn conditions_on(value: f64) -> Vec<(bool, String, Fulfils)> {
    let width = if value == 0.0 { 1.0 } else { value / 2.0 };
    let (low, high) = (value - width, value + width);
    vec![
        (true, format!("<{high}"), Box::new(move |x| x < high)),
        (true, format!(">={low}"), Box::new(move |x| x >= low)),
        (true, format!("={low}..{high}"), Box::new(move |x| low <= x && x <= high)),
        (false, format!("<{low}"), Box::new(move |x| x < low)),
        (false, format!(">={high}"), Box::new(move |x| x >= high)),
        (false, format!("!={low}..{high}"), Box::new(move |x| x < low || x > high)),
    ]
}

#[test]
fn each_quantity_in_each_state_raises_and_clears_what_is_known() {
    let figures = ["mean", "min", "max", "std", "count", "p50", "p90", "p99", "p999"];
    let mut quantities: Vec<String> =
        ["rate", "bandwidth", "received", "bytes", "lost", "out_of_order"].map(str::to_owned).into();
    for metric in Metric::OF_SUBSCRIPTIONS {
        quantities.push(metric.name().to_owned());
        let of_it = figures[1..].iter().map(|figure| format!("{metric}.{figure}"));
        // Quantities that the parser rejects are not tested.
        quantities.extend(of_it.filter(|quantity| format!("{quantity}<1").parse::<Conditions>().is_ok()));
    }
    assert_eq!(quantities.len(), 6 + 10 * 9 + 2 * 4);
    let source = Source::new("/node:/imu".to_owned(), Arc::new(Windowed::new(Durations::default())), None);
    let source = Arc::new(source);
    let windows = STATES.map(|state| (state, window(state)));
    let (mut cells, mut skipped) = (0, 0);
    for quantity in &quantities {
        let Is(good) = answer(Good, quantity) else { panic!("{quantity}") };
        for (is_fulfilled, condition, fulfils) in conditions_on(good) {
            for state in STATES {
                // For the shortest and the longest period, only one limit can be computed from the number of messages,
                // so these cases are skipped.
                let is_bounded = ["message_period.min", "message_period.max"].contains(&quantity.as_str());
                if is_bounded && matches!(state, Incomplete | OneMessage | Silence) {
                    skipped += 1;
                    continue;
                }
                let expectations = Expectations::new()
                    .warn_unless(format!("{quantity}{condition}").parse().unwrap())
                    .stale_after(Duration::MAX);
                let mut judged = Judged::new(&source, Judge::new(expectations));
                judged.totals = windows[0].1.totals;
                let mut judge = |state| {
                    let (_, window) = windows.iter().find(|(kind, _)| *kind == state).unwrap();
                    judged.judge(window);
                    judged.judge.health().level
                };
                let before = (0..4).map(|_| judge(Good)).last().unwrap();
                let raised = if is_fulfilled { Level::Ok } else { Level::Warn };
                assert_eq!(before, raised, "{quantity}{condition}: the window is good");
                let after = (0..6).map(|_| judge(state)).last().unwrap();
                let is_measured_in_silence = ["time_since_last_message_ms", "clock_offset_ms"]
                    .iter()
                    .any(|metric| quantity.starts_with(metric));
                let answer = match answer(state, quantity) {
                    // A window without a message proves nothing about quantities that are neither counted nor measured
                    // in silence.
                    _ if state == Silence && counted(quantity).is_none() && !is_measured_in_silence => {
                        NotKnown
                    }
                    answer => answer,
                };
                let expected = match answer {
                    Is(value) if fulfils(value) => Level::Ok,
                    Is(_) | Missing => Level::Warn,
                    NotKnown => before,
                };
                assert_eq!(after, expected, "{quantity}{condition} in {state:?}: {answer:?}");
                cells += 1;
            }
        }
    }
    assert_eq!((cells + skipped, skipped), (quantities.len() * 6 * STATES.len(), 2 * 6 * 3));
}

#[test]
fn losses_of_a_window_are_known_where_only_the_totals_are_not() {
    let totals = |lost, evictions| Totals {
        received: MESSAGES,
        followed: Some(Followed { lost, out_of_order: 2 * lost, evictions }),
        ..Totals::default()
    };
    let value = |quantity, before: &Totals, now| {
        let window = WindowStatistics { totals: Some(now), ..window(Good) };
        value(quantity, &window, Some(MESSAGES), Some(before), &[])
    };
    assert_eq!(value(Quantity::Lost, &totals(5, 1), totals(8, 1)), Value::from(3.0));
    assert_eq!(value(Quantity::OutOfOrder, &totals(5, 1), totals(8, 1)), Value::from(6.0));
    assert_eq!(value(Quantity::Lost, &totals(5, 1), totals(8, 2)), Value::Unknown, "a further publisher");
    let uncounted = Totals { received: MESSAGES, ..Totals::default() };
    assert_eq!(value(Quantity::Lost, &totals(5, 1), uncounted), Value::Unknown, "messages without numbers");
    assert_eq!(value(Quantity::Lost, &Totals::default(), totals(8, 0)), Value::from(8.0), "the first window");
}
