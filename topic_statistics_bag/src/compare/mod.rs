// SPDX-License-Identifier: Apache-2.0

//! Compares a bag with a baseline, and decides for each difference whether it is a change or could be chance.
//!
//! Consecutive messages are similar, so a sample of the test is a block of windows: the mean of a quantity over 1, 2,
//! 4, ... windows. Blocks are made longer until chance can explain the autocorrelation of their ranks at lag 1. Blocks
//! are compared by the two-sided Mann-Whitney U test (Mann and Whitney 1947), and p-values are adjusted by Holm's method
//! (1979). `docs/bags.md` gives the reasons.

mod blocks;
mod rank_test;

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use topic_statistics_core::Metric;

use crate::session::TopicWindow;
use blocks::Blocks;
use rank_test::{rank_test, ranks};

/// The least number of blocks that each bag needs for a comparison.
const MIN_BLOCKS: usize = 8;

/// A difference is a change if its adjusted p-value is below this value.
const SIGNIFICANCE: f64 = 0.01;

/// The data of a bag for a comparison: blocks of windows for each quantity of each topic. Its size does not depend on
/// the length of the bag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The length of a window, in nanoseconds.
    window: u64,
    topics: BTreeMap<String, BTreeMap<String, Blocks>>,
}

impl Profile {
    pub fn new(window: Duration) -> Self {
        Self { window: u64::try_from(window.as_nanos()).unwrap_or(u64::MAX), topics: BTreeMap::new() }
    }

    pub fn add(&mut self, window: &TopicWindow<'_>) {
        if !window.is_whole {
            return;
        }
        let statistics = &window.statistics;
        let name = window.topic.name();
        let quantities = self.topics.entry(name.to_owned()).or_default();
        let mut add = |quantity: &str, value: f64| {
            if value.is_finite() {
                quantities.entry(quantity.to_owned()).or_default().add(value);
            }
        };
        add(RATE, statistics.rate());
        add(BANDWIDTH, statistics.bandwidth());
        for (metric, summary) in &statistics.metrics {
            if *metric == Metric::TimeSinceLastMessage {
                continue; // this metric depends only on where the window ends between two messages
            }
            add(metric.name(), summary.average);
            if MAXIMA.contains(metric) {
                add(&format!("{}.max", metric.name()), summary.maximum);
            }
        }
    }
}

const RATE: &str = "rate";
const BANDWIDTH: &str = "bandwidth";

/// The metrics whose largest sample of each window is also compared.
const MAXIMA: [Metric; 4] =
    [Metric::MessageAge, Metric::MessagePeriod, Metric::HeaderToSource, Metric::SourceToReceive];

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "The baseline has windows of {baseline:?}, this bag has windows of {now:?}: both have to be the same"
)]
pub struct DifferentWindows {
    baseline: Duration,
    now: Duration,
}

#[derive(Clone, Debug)]
pub struct Comparison {
    pub topic: String,
    /// `rate` (Hz), `bandwidth` (bytes per second), the name of a metric (its mean in each window), or the name of a
    /// metric with `.max` (its largest sample in each window).
    pub quantity: String,
    /// The median of the baseline's blocks. NaN if the baseline has no block.
    pub baseline: f64,
    /// The median of the other bag's blocks. NaN if the other bag has no block.
    pub now: f64,
    /// The numbers of compared blocks: in the baseline, and in the other bag.
    pub blocks: (usize, usize),
    /// The number of windows in a block.
    pub windows: u64,
    /// The probability, from 0 to 1, that a block of the other bag is larger than a block of the baseline. It is 0.5 if
    /// there is no difference, and NaN if there were too few blocks to compare.
    pub superiority: f64,
    /// The p-value, adjusted for the number of all comparisons. NaN if there were too few blocks to compare.
    pub p_value: f64,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Better,
    Worse,
    /// The quantity differs from the baseline, but is neither better nor worse: a bandwidth or a message size.
    Different,
    /// There is no difference, or the difference could be chance.
    CouldBeChance,
    /// One of the bags has fewer than [`MIN_BLOCKS`] blocks that are independent of each other.
    TooFew,
}

/// Compares each quantity of each topic of two bags. The result is sorted by topics and quantities.
pub fn compare(baseline: &Profile, now: &Profile) -> Result<Vec<Comparison>, DifferentWindows> {
    if baseline.window != now.window {
        let [baseline, now] = [baseline, now].map(|profile| Duration::from_nanos(profile.window));
        return Err(DifferentWindows { baseline, now });
    }
    let mut pairs: BTreeMap<(&str, &str), [Blocks; 2]> = BTreeMap::new();
    for (place, profile) in [baseline, now].into_iter().enumerate() {
        for (topic, quantities) in &profile.topics {
            for (quantity, blocks) in quantities {
                pairs.entry((topic, quantity)).or_default()[place] = blocks.clone();
            }
        }
    }
    let mut comparisons: Vec<_> = pairs
        .iter()
        .map(|((topic, quantity), [before, after])| one(topic, quantity, before, after))
        .collect();
    adjust(&mut comparisons);
    Ok(comparisons)
}

/// Compares one quantity. The p-value in the result is not adjusted yet.
fn one(topic: &str, quantity: &str, baseline: &Blocks, now: &Blocks) -> Comparison {
    let mut size = baseline.size().max(now.size());
    let (before, after, is_enough) = loop {
        let (before, after) = (baseline.of_size(size), now.of_size(size));
        if before.len().min(after.len()) < MIN_BLOCKS {
            break (before, after, false);
        }
        if is_independent(&before) && is_independent(&after) {
            break (before, after, true);
        }
        size += 1;
    };
    let test = is_enough.then(|| rank_test(&before, &after));
    Comparison {
        topic: topic.to_owned(),
        quantity: quantity.to_owned(),
        // The medians are also reported if there are too few blocks for a comparison.
        baseline: median(baseline.of_size(baseline.size())),
        now: median(now.of_size(now.size())),
        blocks: (before.len(), after.len()),
        windows: 1 << size.min(63),
        superiority: test.map_or(f64::NAN, |test| test.superiority),
        p_value: test.map_or(f64::NAN, |test| test.p_value),
        verdict: if is_enough { Verdict::CouldBeChance } else { Verdict::TooFew },
    }
}

/// Adjusts the p-values by Holm's method, and sets the verdicts.
fn adjust(comparisons: &mut [Comparison]) {
    let mut tested: Vec<_> =
        comparisons.iter_mut().filter(|comparison| comparison.verdict != Verdict::TooFew).collect();
    tested.sort_by(|one, other| one.p_value.total_cmp(&other.p_value));
    let (count, mut largest) = (tested.len(), 0.0_f64);
    for (rank, comparison) in tested.into_iter().enumerate() {
        largest = largest.max(comparison.p_value * (count - rank) as f64).min(1.0);
        comparison.p_value = largest;
        if largest >= SIGNIFICANCE {
            continue;
        }
        let is_larger = comparison.superiority > 0.5;
        comparison.verdict = match &*comparison.quantity {
            RATE if is_larger => Verdict::Better,
            RATE => Verdict::Worse,
            BANDWIDTH => Verdict::Different,
            quantity if quantity == Metric::MessageSize.name() => Verdict::Different,
            _ if is_larger => Verdict::Worse,
            _ => Verdict::Better,
        };
    }
}

/// Returns whether the blocks can be independent. This is so if the autocorrelation of their ranks at lag 1 does not
/// exceed a limit that 97 of 100 sequences of independent blocks do not exceed.
fn is_independent(blocks: &[f64]) -> bool {
    let ranks = ranks(blocks);
    let count = ranks.len() as f64;
    let mean = ranks.iter().sum::<f64>() / count;
    let squares: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    if squares == 0.0 {
        return true; // all blocks are equal
    }
    let products: f64 = ranks.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    products / squares <= 2.0 / count.sqrt()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => values[count / 2 - 1] / 2.0 + values[count / 2] / 2.0,
    }
}

#[cfg(test)]
mod tests;
