// SPDX-License-Identifier: Apache-2.0

//! The summary of a window's samples.

/// The summary of a window's samples. The default summary has no samples.
///
/// All figures except the count are in the unit of the samples. All figures are NaN if there is no sample. The standard
/// deviation is also NaN if there is only one sample, as StatisticDataPoint.msg defines ("standard deviation is only
/// available when there are two or more data points").
///
/// ```
/// # extern crate topic_statistics_core as rclrs_topic_statistics;
/// use rclrs_topic_statistics::Summary;
///
/// fn range(summary: &Summary) -> Option<f64> {
///     (summary.sample_count > 0).then_some(summary.maximum - summary.minimum)
/// }
/// assert_eq!(range(&Summary::default()), None); // nothing was measured: each figure is NaN
/// assert!(Summary::default().average.is_nan());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The arithmetic mean.
    pub average: f64,
    /// The smallest sample.
    pub minimum: f64,
    /// The largest sample, which may be negative.
    pub maximum: f64,
    /// The standard deviation of the population (the sum of squares is divided by the count), as in
    /// libstatistics_collector.
    pub standard_deviation: f64,
    /// The number of samples.
    pub sample_count: u64,
}

impl Summary {
    /// Creates a summary from these figures. The arguments have the order of rclcpp's data points: the minimum comes
    /// before the maximum.
    #[doc(hidden)] // for code outside this crate that has its own samples
    pub const fn new(
        average: f64,
        minimum: f64,
        maximum: f64,
        standard_deviation: f64,
        sample_count: u64,
    ) -> Self {
        Self { average, minimum, maximum, standard_deviation, sample_count }
    }
}

impl Default for Summary {
    fn default() -> Self {
        Self::new(f64::NAN, f64::NAN, f64::NAN, f64::NAN, 0)
    }
}
