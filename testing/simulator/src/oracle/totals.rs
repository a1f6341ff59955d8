// SPDX-License-Identifier: Apache-2.0

//! Messages received and lost since the creation.

use super::Bounds;

/// Messages received and lost since the creation.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    pub received: u64,
    pub lost: Option<u64>,
    pub out_of_order: Option<u64>,
    pub duplicates: Option<u64>,
    pub publishers: Option<u64>,
    pub bytes: Option<u64>,
    pub first: Option<Bounds>,
    pub last: Option<Bounds>,
    /// From the first message to the last while the statistics were enabled, and the intervals in it, if they are
    /// known.
    pub active: i64,
    pub intervals: Option<u64>,
}

impl Totals {
    /// Returns the average rate in Hz.
    pub fn rate(&self) -> f64 {
        match self.intervals {
            Some(intervals) if self.active > 0 => intervals as f64 / (self.active as f64 * 1e-9),
            _ => f64::NAN,
        }
    }

    /// Returns the sum of subscriptions with the same names. One that received nothing lost nothing.
    pub fn sum(all: &[Self]) -> Option<Self> {
        let heard: Vec<&Self> = all.iter().filter(|totals| totals.received > 0).collect();
        if heard.is_empty() {
            return all.last().cloned();
        }
        let sum =
            |count: fn(&Self) -> Option<u64>| heard.iter().map(|totals| count(totals)).sum::<Option<u64>>();
        let firsts = || heard.iter().filter_map(|totals| totals.first);
        let lasts = || heard.iter().filter_map(|totals| totals.last);
        let bounds = |earliest: Option<i64>, latest: Option<i64>| {
            earliest.zip(latest).map(|(earliest, latest)| Bounds { earliest, latest })
        };
        Some(Self {
            received: heard.iter().map(|totals| totals.received).sum(),
            lost: sum(|totals| totals.lost),
            out_of_order: sum(|totals| totals.out_of_order),
            duplicates: sum(|totals| totals.duplicates),
            publishers: sum(|totals| totals.publishers),
            bytes: sum(|totals| totals.bytes),
            first: bounds(
                firsts().map(|first| first.earliest).min(),
                firsts().map(|first| first.latest).min(),
            ),
            last: bounds(lasts().map(|last| last.earliest).max(), lasts().map(|last| last.latest).max()),
            active: heard.iter().map(|totals| totals.active).sum(),
            intervals: sum(|totals| totals.intervals),
        })
    }
}
