// SPDX-License-Identifier: Apache-2.0

//! Compares distributions with all samples.

use topic_statistics_core::{collector::Distribution, Summary};

use crate::{
    equal::{ensure, equal, is_same},
    faults::Tally,
    oracle::{Expected, Naive},
};

/// Compares the distribution of a window with its samples.
pub fn check(
    ours: &Distribution,
    summary: &Summary,
    expected: &Expected,
    tally: &mut Tally,
) -> Result<(), String> {
    equal("count", ours.count(), summary.sample_count)?;
    equal("minimum", ours.minimum(), summary.minimum)?;
    equal("maximum", ours.maximum(), summary.maximum)?;
    let samples = match expected {
        Expected::Samples(samples) => samples,
        Expected::SomeOf(samples, _) if samples.len() as u64 == summary.sample_count => samples,
        Expected::SomeOf(samples, _) => return check_subset(ours, summary, samples),
        _ => return Ok(()),
    };
    let size: f64 = samples.iter().map(|sample| sample.abs()).sum();
    check_sum(ours, samples.iter().sum(), size)?;
    let naive = Naive::new(samples);
    equal("scale", ours.scale(), naive.scale)?;
    equal("zero count", ours.zero_count(), naive.zero_count)?;
    let [positive, negative] = &naive.counts;
    equal("positive buckets", ours.positive().collect(), positive.clone())?;
    equal("negative buckets", ours.negative().collect(), negative.clone())?;
    let base = 2_f64.powf(1.0 / f64::from(1 << naive.scale));
    let zero_threshold = naive.threshold.map_or(0.0, |threshold| base.powi(threshold));
    ensure(is_same(ours.zero_threshold(), zero_threshold, 0.0), || {
        format!("zero threshold {}, expected {zero_threshold}", ours.zero_threshold())
    })?;
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    for (quantile, per_mille) in [(0.5, 500), (0.9, 900), (0.99, 990), (0.999, 999)] {
        let rank = (sorted.len() * per_mille).div_ceil(1000);
        let has_enough = sorted.len() * (1000 - per_mille) >= 1000;
        let exact = sorted[rank - 1];
        let is_near_zero = naive.threshold.is_some() && exact.abs() <= zero_threshold;
        let ours = ours.quantile(quantile);
        let is_good = match has_enough && !is_near_zero {
            true => (ours - exact).abs() <= exact.abs() * (base - 1.0) * (1.0 + 1e-9),
            false => ours.is_nan(),
        };
        ensure(is_good, || {
            format!("quantile {quantile} is {ours}, expected {exact} of {} samples", sorted.len())
        })?;
        tally.digest(ours);
    }
    tally.figures += 11;
    Ok(())
}

/// Compares a distribution with `samples`; the distribution may contain only some of these samples. So only bounds can
/// be checked.
fn check_subset(ours: &Distribution, summary: &Summary, samples: &[f64]) -> Result<(), String> {
    let most = Naive::with_any_buckets(ours.scale(), samples);
    let buckets = ours.positive().map(|bucket| (0, bucket)).chain(ours.negative().map(|bucket| (1, bucket)));
    for (sign, (bucket, count)) in buckets {
        let most = most.counts[sign].get(&bucket).copied().unwrap_or(0);
        ensure(count <= most, || format!("{count} samples in bucket {bucket}, expected at most {most}"))?;
    }
    let has_threshold = ours.zero_threshold() > 0.0;
    ensure(has_threshold || ours.zero_count() <= most.zero_count, || {
        format!("{} zeros, expected at most {}", ours.zero_count(), most.zero_count)
    })?;
    let size = samples.iter().map(|sample| sample.abs()).sum();
    check_sum(ours, summary.average * summary.sample_count as f64, size)
}

fn check_sum(ours: &Distribution, expected: f64, size: f64) -> Result<(), String> {
    ensure(is_same(ours.sum(), expected, size), || format!("sum {}, expected {expected}", ours.sum()))
}
