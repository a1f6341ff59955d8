// SPDX-License-Identifier: Apache-2.0

//! Sets of metrics.

use std::borrow::Borrow;

use crate::metric::Metric;

/// A set of metrics, stored as one bit for each metric. The default set is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricSet(u64);

impl MetricSet {
    /// Returns the set of these metrics.
    pub const fn of(metrics: &[Metric]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < metrics.len() {
            bits |= Self::bit(metrics[index]);
            index += 1;
        }
        Self(bits)
    }

    const fn bit(metric: Metric) -> u64 {
        1 << metric as u32
    }

    /// Returns whether the set contains the metric.
    #[inline]
    pub const fn contains(self, metric: Metric) -> bool {
        self.0 & Self::bit(metric) != 0
    }

    /// Returns whether the set contains at least one of the metrics in `others`.
    pub const fn intersects(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns the number of metrics in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns whether the set contains no metric.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the position of a metric in [`iter`](Self::iter); `None` if the set does not contain the metric.
    #[inline]
    pub const fn position(self, metric: Metric) -> Option<usize> {
        match self.contains(metric) {
            true => Some((self.0 & (Self::bit(metric) - 1)).count_ones() as usize),
            false => None,
        }
    }

    /// Returns the metrics of the set, in the order of [`Metric::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Metric> + Clone {
        Metric::ALL.iter().copied().filter(move |metric| self.contains(*metric))
    }
}

impl<M: Borrow<Metric>> FromIterator<M> for MetricSet {
    fn from_iter<I: IntoIterator<Item = M>>(metrics: I) -> Self {
        Self(metrics.into_iter().fold(0, |bits, metric| bits | Self::bit(*metric.borrow())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_each_metric_once_in_the_order_of_all() {
        let set = MetricSet::of(&[Metric::MessageSize, Metric::MessageAge, Metric::MessageSize]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Metric::MessageAge, Metric::MessageSize]);
        assert_eq!((set.len(), set.is_empty(), MetricSet::default().is_empty()), (2, false, true));
        assert_eq!(set, set.iter().collect());
        let positions =
            [Metric::MessageAge, Metric::MessagePeriod, Metric::MessageSize].map(|m| set.position(m));
        assert_eq!(positions, [Some(0), None, Some(1)]);
        assert!(set.intersects(MetricSet::of(&[Metric::MessageAge])));
        assert!(!set.intersects(MetricSet::of(&[Metric::MessagePeriod])));
    }

    #[test]
    fn there_is_a_bit_for_each_metric() {
        let all = MetricSet::of(Metric::ALL);
        assert_eq!(all.len(), Metric::ALL.len());
        assert!(all.iter().eq(Metric::ALL.iter().copied()));
        assert!(all.iter().map(|metric| all.position(metric)).eq((0..all.len()).map(Some)));
    }
}
