// SPDX-License-Identifier: Apache-2.0

use super::finite_or_nan;
use crate::summary::Summary;

/// Collects the summary of samples in constant memory.
///
/// The mean and the standard deviation use Welford's algorithm (B. P. Welford, "Note on a method for calculating
/// corrected sums of squares and products", Technometrics 4 (1962)). The algorithm loses no precision if the spread of
/// the samples is small compared with their values.
///
/// ```
/// use topic_statistics_core::collector::SummaryCollector;
///
/// let mut collector = SummaryCollector::default();
/// for sample in [1.0, 2.0, 3.0, 6.0] {
///     collector.accept(sample);
/// }
/// let summary = collector.summary();
/// assert_eq!((summary.average, summary.minimum, summary.maximum), (3.0, 1.0, 6.0));
/// assert_eq!((summary.standard_deviation, summary.sample_count), (3.5_f64.sqrt(), 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SummaryCollector {
    // The fields of the minimum and the maximum are not adjacent: the compiler would compare adjacent fields together,
    // in ten instructions instead of two.
    minimum: f64,
    mean: f64,
    /// The sum of the squares of the differences from the mean.
    squares: f64,
    maximum: f64,
    count: u64,
}

impl Default for SummaryCollector {
    fn default() -> Self {
        Self { mean: 0.0, squares: 0.0, minimum: f64::INFINITY, maximum: f64::NEG_INFINITY, count: 0 }
    }
}

impl SummaryCollector {
    /// Accepts a sample. Returns false and ignores the sample if it is NaN or infinite.
    #[inline]
    pub fn accept(&mut self, sample: f64) -> bool {
        if !sample.is_finite() {
            return false;
        }
        self.accept_finite(sample);
        true
    }

    #[inline]
    pub(super) fn accept_finite(&mut self, sample: f64) {
        self.count += 1;
        let difference = sample - self.mean;
        // The count is converted through `i64`, because this conversion is one instruction. An `i64` has room for one
        // sample per nanosecond in 292 years.
        self.mean += difference / self.count as i64 as f64;
        self.squares += difference * (sample - self.mean);
        // Each comparison is one instruction. `f64::min` needs more instructions, because it handles NaN.
        self.minimum = if sample < self.minimum { sample } else { self.minimum };
        self.maximum = if sample > self.maximum { sample } else { self.maximum };
    }

    /// Returns the summary of the samples so far. A figure is NaN if the differences of the samples, or the squares of
    /// these differences, are too large for an `f64`.
    pub fn summary(&self) -> Summary {
        Summary {
            average: if self.count > 0 { finite_or_nan(self.mean) } else { f64::NAN },
            // If there is no sample, the minimum and the maximum are infinite, so the result is NaN.
            minimum: finite_or_nan(self.minimum),
            maximum: finite_or_nan(self.maximum),
            standard_deviation: match self.count {
                0 | 1 => f64::NAN,
                count => finite_or_nan((self.squares / count as f64).sqrt()),
            },
            sample_count: self.count,
        }
    }

    /// Ends a window: returns the window's summary, and starts the next window.
    pub fn take(&mut self) -> Summary {
        std::mem::take(self).summary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collect(samples: &[f64]) -> Summary {
        let mut collector = SummaryCollector::default();
        for sample in samples {
            assert!(collector.accept(*sample));
        }
        collector.summary()
    }

    /// Computes the summary by definition, in two passes over all samples.
    fn two_pass(samples: &[f64]) -> Summary {
        let count = samples.len() as f64;
        let average = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - average).powi(2)).sum();
        Summary {
            average,
            minimum: samples.iter().copied().reduce(f64::min).unwrap(),
            maximum: samples.iter().copied().reduce(f64::max).unwrap(),
            standard_deviation: (squares / count).sqrt(),
            sample_count: samples.len() as u64,
        }
    }

    fn assert_close(ours: Summary, theirs: Summary, scale: f64) -> Result<(), TestCaseError> {
        prop_assert_eq!(ours.sample_count, theirs.sample_count);
        prop_assert_eq!((ours.minimum, ours.maximum), (theirs.minimum, theirs.maximum));
        prop_assert!((ours.average - theirs.average).abs() <= 1e-12 * scale, "{:?} {:?}", ours, theirs);
        let error = (ours.standard_deviation - theirs.standard_deviation).abs();
        prop_assert!(error <= 1e-9 * scale, "{:?} {:?}", ours, theirs);
        Ok(())
    }

    #[test]
    fn no_sample_is_nan_and_count_zero() {
        let summary = SummaryCollector::default().summary();
        assert_eq!(summary.sample_count, 0);
        let figures = [summary.average, summary.minimum, summary.maximum, summary.standard_deviation];
        assert!(figures.iter().all(|figure| figure.is_nan()), "{summary:?}");
    }

    #[test]
    fn the_figures_are_those_of_the_samples() {
        for (samples, minimum, maximum, average, standard_deviation) in [
            (&[4.5][..], 4.5, 4.5, 4.5, f64::NAN), // one sample has no standard deviation
            (&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 2.0, 9.0, 5.0, 2.0), // the standard deviation of the population
            (&[-3.0, -1.5, -1.5], -3.0, -1.5, -2.0, 0.5_f64.sqrt()),
            // A figure that is too large for an `f64` is NaN, and not infinite.
            (&[f64::MAX, f64::MIN, 1.0], f64::MIN, f64::MAX, f64::NAN, f64::NAN),
            (&[1e200, -1e200], -1e200, 1e200, 0.0, f64::NAN),
        ] {
            let summary = collect(samples);
            assert_eq!(summary.sample_count, samples.len() as u64);
            assert_eq!((summary.minimum, summary.maximum), (minimum, maximum));
            let is = |ours: f64, expected: f64| ours == expected || ours.is_nan() && expected.is_nan();
            assert!(is(summary.average, average), "{summary:?}");
            assert!(is(summary.standard_deviation, standard_deviation), "{summary:?}");
        }
    }

    #[test]
    fn nan_and_infinities_are_refused_and_change_nothing() {
        let mut collector = SummaryCollector::default();
        collector.accept(1.0);
        let before = collector;
        for sample in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!collector.accept(sample));
        }
        assert_eq!(collector, before);
    }

    /// The number of samples. It is smaller for Miri, which is slow.
    const SAMPLES: usize = if cfg!(miri) { 20 } else { 500 };

    proptest! {
        #[test]
        fn any_samples_agree_with_two_passes(samples in prop::collection::vec(-1e6..1e6, 2..SAMPLES)) {
            assert_close(collect(&samples), two_pass(&samples), 1e6)?;
        }

        #[test]
        fn an_offset_does_not_change_the_spread(spread in prop::collection::vec(-1e-3..1e-3, 2..SAMPLES)) {
            // Adding the offset rounds the samples, so The exact result is computed from the rounded values, too.
            // `samples` has the rounded values.
            let samples: Vec<f64> = spread.iter().map(|sample| sample + 1e9).collect();
            let centred: Vec<f64> = samples.iter().map(|sample| sample - 1e9).collect();
            let ours = collect(&samples).standard_deviation;
            let exact = two_pass(&centred).standard_deviation;
            prop_assert!((ours - exact).abs() <= 1e-6, "{} {}", ours, exact);
        }
    }
}
