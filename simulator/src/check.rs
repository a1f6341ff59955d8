// SPDX-License-Identifier: Apache-2.0

//! Compares what was published with what the oracle knows.

use crate::{
    faults::Tally,
    oracle::{self, Expected},
    window::{Summary, WindowStatistics},
};

/// Returns whether two figures are the same: to 1e-9 of the samples' size, or both NaN.
pub fn is_same(ours: f64, expected: f64, size: f64) -> bool {
    (ours.is_nan() && expected.is_nan()) || (ours - expected).abs() <= 1e-9 * size.abs().max(1.0)
}

/// Compares a summary with the samples.
pub fn summary(ours: &Summary, expected: &Expected, tally: &mut Tally) -> Result<(), String> {
    for figure in
        [ours.average, ours.minimum, ours.maximum, ours.standard_deviation, ours.sample_count as f64]
    {
        tally.digest(figure);
    }
    match expected {
        Expected::Samples(samples) => {
            let size = samples.iter().copied().map(f64::abs).fold(1.0, f64::max);
            let of = |samples: &[f64]| {
                let count = samples.len() as f64;
                let average = samples.iter().sum::<f64>() / count;
                let variance = samples.iter().map(|sample| (sample - average).powi(2)).sum::<f64>() / count;
                let deviation = if samples.len() > 1 { variance.sqrt() } else { f64::NAN };
                let minimum = samples.iter().copied().reduce(f64::min).unwrap_or(f64::NAN);
                let maximum = samples.iter().copied().reduce(f64::max).unwrap_or(f64::NAN);
                [average, minimum, maximum, deviation, count]
            };
            let expected = of(samples);
            let ours =
                [ours.average, ours.minimum, ours.maximum, ours.standard_deviation, ours.sample_count as f64];
            let names = ["average", "minimum", "maximum", "standard deviation", "sample count"];
            for ((ours, expected), name) in ours.into_iter().zip(expected).zip(names) {
                if !is_same(ours, expected, size) {
                    return Err(format!("{name} {ours}, expected {expected}"));
                }
                tally.figures += 1;
            }
            Ok(())
        }
        Expected::SomeOf(samples) => {
            let lowest = samples.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let is_within = |figure: f64| figure >= lowest - 1e-6 && figure <= highest + 1e-6;
            let has_samples = ours.sample_count > 0;
            if ours.sample_count > samples.len() as u64 {
                return Err(format!("{} samples, at most {} are good", ours.sample_count, samples.len()));
            }
            if has_samples && !(is_within(ours.minimum) && is_within(ours.average) && is_within(ours.maximum))
            {
                return Err(format!("{ours:?}, good samples are from {lowest} to {highest}"));
            }
            if !has_samples && !ours.average.is_nan() {
                return Err(format!("{ours:?} without a sample"));
            }
            Ok(())
        }
    }
}

/// Compares a window of a subscription.
pub fn window(ours: &WindowStatistics, expected: &oracle::Window, tally: &mut Tally) -> Result<(), String> {
    let equal = |name: &str, ours: i64, expected: i64| {
        if ours == expected {
            Ok(())
        } else {
            Err(format!("{name} {ours}, expected {expected}"))
        }
    };
    equal("start", ours.window.start, expected.start + expected.offset)?;
    equal("stop", ours.window.stop, expected.stop + expected.offset)?;
    equal("length", ours.length.as_nanos() as i64, expected.stop - expected.start)?;
    equal("clock step", ours.clock_step.unwrap_or(0), expected.step.unwrap_or(0))?;
    equal("count", ours.count as i64, expected.count as i64)?;
    equal("unrecorded", ours.unrecorded as i64, 0)?;
    let is_bounded = expected.metrics.iter().any(|(_, expected)| matches!(expected, Expected::SomeOf(_)));
    tally.bounded += u64::from(is_bounded);
    equal("number of metrics", ours.metrics.len() as i64, expected.metrics.len() as i64)?;
    for ((metric, ours), (of, expected)) in ours.metrics.iter().zip(&expected.metrics) {
        if metric != of {
            return Err(format!("metric {metric}, expected {of}"));
        }
        summary(ours, expected, tally).map_err(|error| format!("{metric}: {error}"))?;
    }
    let totals = ours.totals.ok_or("no totals")?;
    let unknown = |count: Option<u64>| count.map_or(-1, |count| count as i64);
    let expected = &expected.totals;
    equal("total received", totals.received as i64, expected.received as i64)?;
    equal("total lost", unknown(totals.lost), unknown(expected.lost))?;
    equal("total out of order", unknown(totals.out_of_order), unknown(expected.out_of_order))?;
    equal("total duplicates", unknown(totals.duplicates), unknown(expected.duplicates))?;
    equal("publishers", unknown(totals.publishers), unknown(expected.publishers))?;
    equal("first message", totals.first_message.unwrap_or(0), expected.first.unwrap_or(0))?;
    equal("last message", totals.last_message.unwrap_or(0), expected.last.unwrap_or(0))?;
    equal("active", totals.active.as_nanos() as i64, expected.active)?;
    let rate = if expected.active > 0 {
        expected.intervals as f64 / (expected.active as f64 * 1e-9)
    } else {
        f64::NAN
    };
    if !is_same(totals.rate(), rate, rate) {
        return Err(format!("total rate {}, expected {rate}", totals.rate()));
    }
    tally.figures += 9;
    Ok(())
}
