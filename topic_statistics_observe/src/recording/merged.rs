// SPDX-License-Identifier: Apache-2.0

//! The merged statistics of several windows.

use std::time::Duration;

use topic_statistics_core::Summary;

/// The statistics of the samples of several windows, computed from the statistics of each window, as if all samples
/// were in one window.
///
/// Mean and standard deviation are merged with the weights of the windows (Chan, Golub and LeVeque 1979). Minimum and
/// maximum are exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Merged {
    /// The number of samples. For rates, the total length of the windows in seconds.
    weight: f64,
    mean: f64,
    /// The weighted sum of the squares of the differences from the mean.
    squares: f64,
    min: f64,
    max: f64,
}

impl Merged {
    /// Statistics without a sample.
    pub const NONE: Self =
        Self { weight: 0.0, mean: f64::NAN, squares: f64::NAN, min: f64::NAN, max: f64::NAN };

    /// Returns the rate of one window, weighted by the length of the window.
    pub fn of_rate(rate: f64, length: Duration) -> Self {
        if !rate.is_finite() || length.is_zero() {
            return Self::NONE;
        }
        Self { weight: length.as_secs_f64(), mean: rate, squares: 0.0, min: rate, max: rate }
    }

    pub fn merge(&mut self, other: &Self) {
        if other.is_none() {
            return;
        }
        if self.is_none() {
            *self = *other;
            return;
        }
        let weight = self.weight + other.weight;
        let (share, difference) = (other.weight / weight, other.mean - self.mean);
        *self = Self {
            weight,
            mean: self.mean + difference * share,
            squares: self.squares + other.squares + difference * difference * share * self.weight,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        };
    }

    /// Returns whether there is no sample.
    pub fn is_none(&self) -> bool {
        self.weight <= 0.0
    }

    pub fn mean(&self) -> f64 {
        finite(self.mean)
    }

    /// Returns the smallest sample, or the smallest rate of a window. NaN without a sample.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// Returns the largest sample, or the largest rate of a window. NaN without a sample.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Returns the standard deviation of the samples. NaN with fewer than two samples.
    pub fn std_dev(&self) -> f64 {
        if self.weight < 2.0 {
            return f64::NAN;
        }
        finite((self.squares / self.weight).sqrt())
    }

    pub fn count(&self) -> u64 {
        self.weight as u64
    }

    /// Returns the merged statistics in the form of one window's statistics.
    pub fn summary(&self) -> Summary {
        Summary::new(self.mean(), self.min, self.max, self.std_dev(), self.count())
    }
}

impl From<&Summary> for Merged {
    fn from(summary: &Summary) -> Self {
        let Summary { average: mean, minimum: min, maximum: max, sample_count: count, .. } = *summary;
        if count == 0 || mean.is_nan() {
            return Self::NONE;
        }
        let weight = count as f64;
        // The standard deviation of one sample is NaN, but the difference of the sample from its mean is 0.
        let squares = if count == 1 { 0.0 } else { summary.standard_deviation.powi(2) * weight };
        Self { weight, mean, squares, min, max }
    }
}

/// Returns the value, or NaN if the value is infinite, because a sum overflowed.
fn finite(value: f64) -> f64 {
    if value.is_finite() {
        value
    } else {
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merged_of(samples: &[f64]) -> Merged {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / count;
        Merged::from(&Summary::new(
            mean,
            samples.iter().copied().fold(f64::NAN, f64::min),
            samples.iter().copied().fold(f64::NAN, f64::max),
            if samples.len() < 2 { f64::NAN } else { variance.sqrt() },
            samples.len() as u64,
        ))
    }

    #[test]
    fn a_rate_counts_by_the_length_of_its_window() {
        let mut rate = Merged::of_rate(100.0, Duration::from_secs(1));
        rate.merge(&Merged::of_rate(10.0, Duration::from_secs(2)));
        rate.merge(&Merged::of_rate(f64::NAN, Duration::from_secs(10)));
        assert!((rate.mean() - 40.0).abs() < 1e-12, "{rate:?}");
        assert_eq!((rate.min(), rate.max()), (10.0, 100.0));
        // If a sum overflows, the mean is NaN.
        let mut huge = merged_of(&[f64::MAX]);
        huge.merge(&merged_of(&[f64::MIN]));
        assert!(huge.mean().is_nan() && huge.std_dev().is_nan() && huge.count() == 2, "{huge:?}");
    }

    proptest! {
        #[test]
        fn merged_windows_have_the_figures_of_all_samples(
            windows in prop::collection::vec(prop::collection::vec(-1e3..1e3, 0..20), 1..20)
        ) {
            let (mut merged, all) = (Merged::NONE, merged_of(&windows.concat()));
            windows.iter().for_each(|window| merged.merge(&merged_of(window)));
            prop_assert_eq!((merged.count(), merged.is_none()), (all.count(), all.is_none()));
            if all.is_none() {
                prop_assert!(merged.mean().is_nan() && merged.std_dev().is_nan());
            } else {
                prop_assert_eq!((merged.min(), merged.max()), (all.min(), all.max()));
                prop_assert!((merged.mean() - all.mean()).abs() < 1e-9, "{:?} {:?}", merged, all);
            }
            if all.count() > 1 {
                prop_assert!((merged.std_dev() - all.std_dev()).abs() < 1e-9, "{:?} {:?}", merged, all);
            }
        }
    }
}
