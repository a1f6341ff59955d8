// SPDX-License-Identifier: Apache-2.0

//! Compares published messages with the oracle.

use topic_statistics_core::{
    health::Missing,
    timestamp::{ClockStep, Timestamp},
    totals::{PublisherTotals, Totals},
    Metric, Summary, WindowStatistics,
};

use crate::{
    equal::{ensure, equal, is_same},
    faults::Tally,
    oracle::{self, Bounds, Counts, Expected, WindowTimes},
};

mod distribution;

fn figures(summary: &Summary) -> [f64; 5] {
    [
        summary.average,
        summary.minimum,
        summary.maximum,
        summary.standard_deviation,
        summary.sample_count as f64,
    ]
}

/// Computes the figures of samples in the simplest way.
fn naive(samples: &[f64]) -> [f64; 5] {
    let count = samples.len() as f64;
    let average = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|sample| (sample - average).powi(2)).sum::<f64>() / count;
    let deviation = if samples.len() > 1 { variance.sqrt() } else { f64::NAN };
    let minimum = samples.iter().copied().reduce(f64::min).unwrap_or(f64::NAN);
    let maximum = samples.iter().copied().reduce(f64::max).unwrap_or(f64::NAN);
    [average, minimum, maximum, deviation, count]
}

fn check_summary(ours: &Summary, expected: &Expected, tally: &mut Tally) -> Result<(), String> {
    if !matches!(expected, Expected::Kernel) {
        figures(ours).into_iter().for_each(|figure| tally.digest(figure));
    }
    let (expected, size) = match expected {
        Expected::Samples(samples) => {
            (naive(samples), samples.iter().copied().map(f64::abs).fold(1.0, f64::max))
        }
        Expected::Frequency { count, length } => {
            let frequency = *count as f64 / (*length as f64 * 1e-9);
            ([frequency, frequency, frequency, f64::NAN, *count as f64], frequency)
        }
        Expected::SomeOf(samples, at_least) => return check_subset(ours, samples, *at_least as u64),
        Expected::Kernel => {
            return ensure(ours.sample_count <= 1, || {
                format!("{} samples, expected one or none", ours.sample_count)
            })
        }
    };
    let names = ["average", "minimum", "maximum", "standard deviation", "sample count"];
    for ((ours, expected), name) in figures(ours).into_iter().zip(expected).zip(names) {
        ensure(is_same(ours, expected, size), || format!("{name} {ours}, expected {expected}"))?;
        tally.figures += 1;
    }
    Ok(())
}

fn check_subset(ours: &Summary, samples: &[f64], at_least: u64) -> Result<(), String> {
    let lowest = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_within = |figure: f64| figure >= lowest - 1e-6 && figure <= highest + 1e-6;
    let has_samples = ours.sample_count > 0;
    let possible = at_least..=samples.len() as u64;
    ensure(possible.contains(&ours.sample_count), || {
        format!("{} samples, expected {possible:?}", ours.sample_count)
    })?;
    let is_good = match has_samples {
        true => is_within(ours.minimum) && is_within(ours.average) && is_within(ours.maximum),
        false => ours.average.is_nan(),
    };
    ensure(is_good, || format!("{ours:?}, good samples are from {lowest} to {highest}"))
}

/// Compares a window of a source with the oracle's window. `period` is the source's publish period, in nanoseconds.
pub fn window(
    ours: &WindowStatistics,
    expected: &oracle::Window,
    period: i64,
    tally: &mut Tally,
) -> Result<(), String> {
    let length = expected.stop - expected.start;
    ensure(!expected.is_first || length >= period, || {
        format!("the first window has {length} ns, less than its period of {period} ns")
    })?;
    equal("start", ours.window.start.as_nanoseconds(), expected.start + expected.offset)?;
    equal("stop", ours.window.stop.as_nanoseconds(), expected.stop + expected.offset)?;
    equal("length", ours.length.as_nanos() as i64, length)?;
    equal("clock step", ours.clock_step.map(ClockStep::as_nanoseconds), expected.step)?;
    equal("count", ours.is_count_known.then_some(ours.count), expected.count)?;
    equal("unrecorded", ours.unrecorded, expected.unrecorded)?;
    let is_missing = |reason| expected.missing == Some(reason);
    equal("whether stamps are missing", ours.unstamped, is_missing(Missing::HeaderStamps))?;
    equal("whether stamps are on another clock", ours.other_clock, is_missing(Missing::OtherClock))?;
    equal("whether /clock is missing", ours.without_clock, false)?;
    let rate = expected.count.map_or(f64::NAN, |count| count as f64) / (length as f64 * 1e-9);
    ensure(is_same(ours.rate(), rate, rate), || format!("rate {}, expected {rate}", ours.rate()))?;
    let is_bounded = expected.metrics.iter().any(|(_, expected)| matches!(expected, Expected::SomeOf(..)));
    tally.bounded += u64::from(is_bounded);
    equal("number of metrics", ours.metrics.len(), expected.metrics.len())?;
    for ((metric, summary), (expected_metric, samples)) in ours.metrics.iter().zip(&expected.metrics) {
        equal("metric", metric, expected_metric)?;
        check_summary(summary, samples, tally).map_err(|error| format!("{metric}: {error}"))?;
        let distribution = ours.distribution(*metric);
        // As docs/distributions.md says, a metric with one sample per window has no distribution.
        let is_one_sample = metric.is_count()
            || matches!(
                metric,
                Metric::TimeSinceLastMessage
                    | Metric::ClockOffset
                    | Metric::Frequency
                    | Metric::ActiveRequests
                    | Metric::MaxActiveRequests
                    | Metric::OldestCall
                    | Metric::ActiveGoals
                    | Metric::MaxActiveGoals
                    | Metric::OldestGoal
            );
        let is_expected = expected.has_distributions && summary.sample_count > 0 && !is_one_sample;
        equal("whether there is a distribution", distribution.is_some(), is_expected)?;
        if let Some(distribution) = distribution {
            distribution::check(distribution, summary, samples, tally)
                .map_err(|error| format!("distribution of {metric}: {error}"))?;
        }
    }
    match (&ours.totals, &expected.totals) {
        (Some(ours), Some(expected)) => totals(ours, expected, tally),
        (None, None) => Ok(()),
        (ours, expected) => Err(format!("totals {ours:?}, expected {expected:?}")),
    }
}

pub fn totals(ours: &Totals, expected: &oracle::Totals, tally: &mut Tally) -> Result<(), String> {
    equal("total received", ours.received, expected.received)?;
    equal("total lost", ours.lost, expected.lost)?;
    equal("total out of order", ours.out_of_order, expected.out_of_order)?;
    equal("total duplicates", ours.duplicates, expected.duplicates)?;
    equal("total bytes", ours.bytes, expected.bytes)?;
    equal("publishers", ours.publishers, expected.publishers)?;
    time("first message", ours.first_message.map(Timestamp::as_nanoseconds), expected.first)?;
    time("last message", ours.last_message.map(Timestamp::as_nanoseconds), expected.last)?;
    equal("active", ours.active.as_nanos() as i64, expected.active)?;
    let rate = expected.rate();
    ensure(is_same(ours.rate(), rate, rate), || format!("total rate {}, expected {rate}", ours.rate()))?;
    tally.figures += 10;
    Ok(())
}

fn time(name: &str, ours: Option<i64>, expected: Option<Bounds>) -> Result<(), String> {
    let is_good = match (ours, expected) {
        (Some(ours), Some(expected)) => expected.contain(ours),
        (None, None) => true,
        _ => false,
    };
    ensure(is_good, || format!("{name} {ours:?}, expected {expected:?}"))
}

/// Compares the messages received and lost of each publisher with the oracle's counts. Both lists are sorted by GID.
pub fn publishers(ours: &[PublisherTotals], expected: &[Counts], times: &WindowTimes) -> Result<(), String> {
    equal("number of publishers", ours.len(), expected.len())?;
    for (ours, expected) in ours.iter().zip(expected) {
        let if_numbered = |count: u64| expected.is_numbered.then_some(count);
        equal("publisher", ours.gid, expected.gid)?;
        equal("received of a publisher", ours.received, expected.received)?;
        equal("lost of a publisher", ours.lost, if_numbered(expected.lost))?;
        equal("out of order of a publisher", ours.out_of_order, if_numbered(expected.out_of_order))?;
        let last = Some(times.system(expected.last));
        time("last message of a publisher", Some(ours.last_message.as_nanoseconds()), last)?;
    }
    Ok(())
}
