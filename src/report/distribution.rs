// SPDX-License-Identifier: Apache-2.0

//! Converts a distribution of a finished window to a `MetricsDistribution`.

use crate::interfaces::topic_statistics_interfaces::msg::MetricsDistribution;

use topic_statistics_core::{collector::Distribution, Metric, Window};

use super::message::time;

/// Returns the topic on which distributions are published, for windows that are published on `publish_topic`.
pub(crate) fn topic(publish_topic: &str) -> String {
    format!("{}/distribution", publish_topic.trim_end_matches('/'))
}

pub(crate) fn message(
    source: &str,
    metric: Metric,
    window: Window,
    distribution: &Distribution,
) -> MetricsDistribution {
    let (positive_offset, positive_counts) = distribution.positive_counts();
    let (negative_offset, negative_counts) = distribution.negative_counts();
    MetricsDistribution {
        measurement_source_name: source.to_owned(),
        metrics_source: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        window_start: time(window.start.as_nanoseconds()),
        window_stop: time(window.stop.as_nanoseconds()),
        count: distribution.count(),
        sum: distribution.sum(),
        minimum: distribution.minimum(),
        maximum: distribution.maximum(),
        scale: distribution.scale(),
        zero_threshold: distribution.zero_threshold(),
        zero_count: distribution.zero_count(),
        positive_offset,
        positive_counts,
        negative_offset,
        negative_counts,
        p50: distribution.quantile(0.5),
        p90: distribution.quantile(0.9),
        p99: distribution.quantile(0.99),
        p99_9: distribution.quantile(0.999),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::builtin_interfaces::msg::Time;

    #[test]
    fn a_message_has_the_counts_of_all_buckets_from_the_first_to_the_last() {
        let mut distribution = Distribution::default();
        // The samples span twelve orders of magnitude, so the scale is 2: the buckets end at powers of 2^(1/4).
        for sample in [1e-9, 1.0, 1.5, 1.5, 1e3, 0.0, -3.0] {
            assert!(distribution.accept(sample));
        }
        let window = Window::from_nanoseconds(1_500_000_000, 2_500_000_001);

        let message = message("/listener:/imu", Metric::MessageAge, window, &distribution);

        assert_eq!(message.measurement_source_name, "/listener:/imu");
        assert_eq!((&*message.metrics_source, &*message.unit), ("message_age", "ms"));
        assert_eq!(message.window_start, Time { sec: 1, nanosec: 500_000_000 });
        assert_eq!(message.window_stop, Time { sec: 2, nanosec: 500_000_001 });
        assert_eq!((message.count, message.minimum, message.maximum), (7, -3.0, 1e3));
        assert_eq!((message.sum, message.scale), (1e-9 + 1.0 + 3.0 + 1e3 - 3.0, 2));
        assert_eq!((message.zero_count, message.zero_threshold), (1, 0.0));
        // log2(1e-9) * 4 = -119.6; log2(1) * 4 = 0 (1 ends bucket -1); log2(1.5) * 4 = 2.3; log2(1e3) * 4 = 39.9
        let mut positive = vec![0; 160];
        for (bucket, count) in [(-120, 1), (-1, 1), (2, 2), (39, 1)] {
            positive[(bucket + 120) as usize] = count;
        }
        assert_eq!((message.positive_offset, &message.positive_counts), (-120, &positive));
        assert_eq!((message.negative_offset, &message.negative_counts[..]), (6, &[1][..]));
        assert_eq!(message.p50, distribution.quantile(0.5));
        assert!((0.84..=1.0).contains(&message.p50), "the sample of rank 4 is 1: {}", message.p50);
        assert!(message.p90.is_nan() && message.p99.is_nan() && message.p99_9.is_nan(), "too few samples");
    }

    #[test]
    fn without_samples_of_a_sign_there_are_no_counts() {
        let mut distribution = Distribution::default();
        assert!(distribution.accept(-1.5));
        let message = message("/n:call", Metric::Duration, Window::from_nanoseconds(0, 1), &distribution);
        assert_eq!((message.positive_offset, &message.positive_counts[..]), (0, &[][..]));
        assert_eq!(message.negative_counts, [1]);
    }
}
