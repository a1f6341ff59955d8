// SPDX-License-Identifier: Apache-2.0

//! Histograms: a distribution as lines of text with bars.

use topic_statistics_core::{collector::Distribution, Metric};

use crate::format::{count, figure};

/// The maximum number of lines with a bar.
const BARS: usize = 12;
/// The width of a line without its bar, in characters.
const LABEL: usize = 32;

/// A bar of a histogram: the number of samples in a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// The start of the range, in the unit of the metric.
    pub from: f64,
    pub to: f64,
    pub count: u64,
}

/// Returns the lines of a metric's histogram: the percentiles, and a bar for each range of samples. All ranges are
/// equally wide on a logarithmic scale, as the buckets of a distribution are.
pub fn lines(metric: Metric, distribution: Option<&Distribution>, width: usize) -> Vec<String> {
    let Some(distribution) = distribution else {
        return vec![format!("{metric}: no sample in the last minute")];
    };
    let (all, unit) = (distribution.count(), metric.unit());
    let samples = if all == 1 { "sample" } else { "samples" };
    let percentile = |quantile| figure(distribution.quantile(quantile));
    let mut lines = vec![
        format!("{metric} in the last minute, {unit}: {} {samples}", count(all)),
        format!(
            "min {}  p50 {}  p90 {}  p99 {}  p99.9 {}  max {}",
            figure(distribution.minimum()),
            percentile(0.5),
            percentile(0.9),
            percentile(0.99),
            percentile(0.999),
            figure(distribution.maximum()),
        ),
    ];
    let bars = bars(distribution, BARS);
    let highest = bars.iter().map(|bar| bar.count).max().unwrap_or_default().max(1);
    for Bar { from, to, count: samples } in bars {
        let share = 100.0 * samples as f64 / all as f64;
        let length = (width.saturating_sub(LABEL) * 8) as f64 * samples as f64 / highest as f64;
        lines.push(format!(
            "{:>7} to {:>7} {:>5} {share:>5.1}% {}",
            figure(from),
            figure(to),
            count(samples),
            bar(length.ceil() as usize),
        ));
    }
    lines
}

/// Returns a bar whose length is `eighths` eighths of a character.
fn bar(eighths: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

/// Returns at most `max` bars, from the smallest to the largest samples. Buckets share a bar if needed.
pub fn bars(distribution: &Distribution, max: usize) -> Vec<Bar> {
    let ends = |first: Option<(i32, u64)>, last: Option<(i32, u64)>| {
        first.zip(last).map(|(first, last)| (first.0, last.0))
    };
    let negative = ends(distribution.negative().next(), distribution.negative().next_back());
    let positive = ends(distribution.positive().next(), distribution.positive().next_back());
    let zero = distribution.zero_count();
    let number = |(first, last): (i32, i32), buckets: i32| (last - first) / buckets + 1;
    let room = (max - usize::from(zero > 0)) as i32;
    let buckets = (1..)
        .find(|buckets| {
            [negative, positive].into_iter().flatten().map(|ends| number(ends, *buckets)).sum::<i32>() <= room
        })
        .unwrap_or(i32::MAX);

    let boundary = |index: i32| (f64::from(index) / f64::from(1 << distribution.scale())).exp2();
    // Returns the bars of the negative or the positive samples, in the order of absolute values.
    let side = |ends: Option<(i32, i32)>, counts: &mut dyn Iterator<Item = (i32, u64)>| {
        let Some((first, last)) = ends else { return vec![] };
        let start = |number: i32| first + number * buckets;
        let bar = |number| Bar {
            from: boundary(start(number)),
            to: boundary(start(number + 1).min(last + 1)),
            count: 0,
        };
        let mut bars: Vec<Bar> = (0..number((first, last), buckets)).map(bar).collect();
        for (index, count) in counts {
            bars[((index - first) / buckets) as usize].count += count;
        }
        bars
    };
    let negative = side(negative, &mut distribution.negative());
    let positive = side(positive, &mut distribution.positive());
    let threshold = distribution.zero_threshold();
    let near_zero = (zero > 0).then_some(Bar { from: -threshold, to: threshold, count: zero });
    let (minimum, maximum) = (distribution.minimum(), distribution.maximum());
    let within = |bar: Bar| Bar { from: bar.from.max(minimum), to: bar.to.min(maximum), ..bar };
    let mirrored = negative.iter().rev().map(|bar| Bar { from: -bar.to, to: -bar.from, ..*bar });
    mirrored.chain(near_zero).chain(positive).map(within).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::distribution as of;

    #[test]
    fn two_groups_of_samples_are_two_groups_of_bars() {
        // At scale 4, the samples are in buckets -1 to 101, so nine buckets share a bar. The first bar ends at 2^(8/16)
        // = 1.414, and the last bar starts at 2^(98/16) = 69.79.
        let ages = of(&[[1.0; 980].as_slice(), &[81.0; 20]].concat());
        let lines = lines(Metric::MessageAge, Some(&ages), 60);
        assert_eq!(lines[0], "message_age in the last minute, ms: 1000 samples");
        assert!(lines[1].starts_with("min 1.000  p50 1.000  p90 1.000  p99 "), "{lines:#?}");
        assert!(lines[1].ends_with("max 81.00"), "{lines:#?}");
        assert_eq!(lines.len(), 2 + BARS);
        assert_eq!(lines[2], format!("  1.000 to   1.414   980  98.0% {}", "█".repeat(28)), "{lines:#?}");
        assert_eq!(lines[13], "  69.79 to   81.00    20   2.0% ▋", "{lines:#?}");
        assert!(lines[3..13].iter().all(|line| line.ends_with("0   0.0% ")), "{lines:#?}");
    }

    #[test]
    fn every_sample_is_in_the_bar_of_its_range() {
        for (negative, orders) in [(0, 1), (1, 1), (2, 3), (2, 30), (3, 300)] {
            let sample = |n: i32| {
                let magnitude = 10_f64.powf(f64::from(n * 737 % 2000) / 2000.0 * f64::from(orders));
                if negative > 0 && n % negative == 0 {
                    -magnitude
                } else {
                    magnitude
                }
            };
            let samples: Vec<f64> = (0..2000).map(sample).chain([0.0]).collect();
            let bars = bars(&of(&samples), BARS);
            assert!(bars.len() <= BARS && bars.iter().map(|bar| bar.count).sum::<u64>() == 2001, "{bars:#?}");
            assert!(bars.windows(2).all(|pair| pair[0].to <= pair[1].from), "{bars:#?}");
            for bar in &bars {
                // A sample at the boundary of two bars may be in either bar.
                let of = |is: &dyn Fn(&&f64) -> bool| samples.iter().filter(is).count() as u64;
                let inside = of(&|sample| **sample > bar.from && **sample <= bar.to);
                let with_ends = of(&|sample| **sample >= bar.from && **sample <= bar.to);
                assert!((inside..=with_ends).contains(&bar.count), "{bar:?}: {inside} {bars:#?}");
            }
        }
    }
}
