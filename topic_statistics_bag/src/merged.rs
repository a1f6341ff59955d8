// SPDX-License-Identifier: Apache-2.0

//! The figures of several windows together.

use topic_statistics_core::Summary;

/// The figures of the samples of several windows, as if they had been one window. Mean and standard deviation are
/// merged by their weights (Chan, Golub and LeVeque 1979).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Merged {
    count: u64,
    mean: f64,
    /// The sum of the squares of the differences from the mean.
    squares: f64,
    minimum: f64,
    maximum: f64,
}

impl Merged {
    pub(crate) fn merge(&mut self, window: &Summary) {
        if window.sample_count == 0 || window.average.is_nan() {
            return;
        }
        let count = window.sample_count as f64;
        // One sample has no standard deviation, and differs by 0 from its mean.
        let squares = match window.sample_count {
            1 => 0.0,
            _ => window.standard_deviation * window.standard_deviation * count,
        };
        if self.count == 0 {
            *self = Self {
                count: window.sample_count,
                mean: window.average,
                squares,
                minimum: window.minimum,
                maximum: window.maximum,
            };
            return;
        }
        let before = self.count as f64;
        let (share, difference) = (count / (before + count), window.average - self.mean);
        self.count += window.sample_count;
        self.mean += difference * share;
        self.squares += squares + difference * difference * share * before;
        self.minimum = self.minimum.min(window.minimum);
        self.maximum = self.maximum.max(window.maximum);
    }

    /// Returns the figures. NaN without a sample, and where a sum was too large for a number.
    pub(crate) fn summary(&self) -> Summary {
        let finite = |value: f64| if value.is_finite() { value } else { f64::NAN };
        let mut summary = Summary::default();
        if self.count > 0 {
            summary.average = finite(self.mean);
            summary.minimum = self.minimum;
            summary.maximum = self.maximum;
            summary.sample_count = self.count;
        }
        if self.count > 1 {
            summary.standard_deviation = finite((self.squares / self.count as f64).sqrt());
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use topic_statistics_core::collector::SummaryCollector;

    proptest! {
        #[test]
        fn windows_together_have_the_figures_of_their_samples(
            windows in prop::collection::vec(prop::collection::vec(-1e6..1e6_f64, 0..20), 0..10),
        ) {
            let (mut merged, mut all) = (Merged::default(), SummaryCollector::default());
            for window in &windows {
                let mut collector = SummaryCollector::default();
                for sample in window {
                    collector.accept(*sample);
                    all.accept(*sample);
                }
                merged.merge(&collector.summary());
            }
            let (merged, all) = (merged.summary(), all.summary());
            prop_assert_eq!(merged.sample_count, all.sample_count);
            let close = |one: f64, other: f64| one.is_nan() && other.is_nan() || (one - other).abs() <= 1e-6;
            prop_assert!(close(merged.average, all.average), "{:?} {:?}", merged, all);
            prop_assert!(close(merged.standard_deviation, all.standard_deviation), "{:?} {:?}", merged, all);
            prop_assert!(close(merged.minimum, all.minimum) && close(merged.maximum, all.maximum));
        }
    }
}
