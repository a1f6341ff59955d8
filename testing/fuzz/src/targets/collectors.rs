// SPDX-License-Identifier: Apache-2.0

//! Any streams of samples into the collectors, beside an oracle that keeps every sample.

use std::collections::{BTreeMap, BTreeSet};

use topic_statistics_core::{
    collector::{
        AgeCollector, Distribution, FirstPeriod, PeriodCollector, Sequence, SequenceTracker, SummaryCollector,
    },
    Summary,
};

use crate::input::Input;

/// Every figure equals the oracle's, to 1e-9 of the samples' size, or is NaN if it has no value. None is infinite.
pub fn collectors(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.below(4) {
        0 => summary(&mut input),
        1 => ages(&mut input),
        2 => periods(&mut input),
        _ => sequences(&mut input),
    }
}

/// Panics unless a summary fits the samples.
fn is_of(summary: &Summary, samples: &[f64], what: &str) {
    assert_eq!(summary.sample_count, samples.len() as u64, "{what}: {summary:?} of {samples:?}");
    // Divided by the largest, so that no sum of the oracle overflows.
    let size = samples.iter().copied().map(f64::abs).fold(0.0, f64::max);
    let divisor = if size > 0.0 { size } else { 1.0 };
    let scaled: Vec<f64> = samples.iter().map(|sample| sample / divisor).collect();
    let count = samples.len() as f64;
    let average = scaled.iter().sum::<f64>() / count;
    let variance = scaled.iter().map(|sample| (sample - average).powi(2)).sum::<f64>() / count;
    let deviation = if samples.len() > 1 { variance.sqrt() } else { f64::NAN };
    let minimum = scaled.iter().copied().reduce(f64::min).unwrap_or(f64::NAN);
    let maximum = scaled.iter().copied().reduce(f64::max).unwrap_or(f64::NAN);
    let figures = [
        ("average", summary.average, average),
        ("minimum", summary.minimum, minimum),
        ("maximum", summary.maximum, maximum),
        ("standard deviation", summary.standard_deviation, deviation),
    ];
    for (name, ours, expected) in figures {
        let is_same = if expected.is_nan() {
            ours.is_nan()
        } else {
            // The squares of samples below 1e-150 vanish, and above 1e150 they overflow.
            (ours - expected * divisor).abs() <= (1e-9 * size).max(1e-150) || (ours.is_nan() && size > 1e150)
        };
        assert!(is_same, "{what}: {name} {ours}, expected {expected} times {divisor}, of {samples:?}");
    }
}

/// Panics unless a distribution fits the samples: each quantile is within its error, or is NaN for a reason.
fn is_distribution_of(distribution: &Distribution, samples: &[f64], what: &str) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (count, threshold) = (sorted.len() as u64, distribution.zero_threshold());
    let near_zero = sorted.iter().filter(|sample| sample.abs() <= threshold).count() as u64;
    assert_eq!((distribution.count(), distribution.zero_count()), (count, near_zero), "{what}: {sorted:?}");
    // The buckets of a sign span 12 orders of magnitude. Only a larger range of one of them has samples near zero.
    let is_large = |sign: f64| {
        let magnitudes = sorted.iter().map(|sample| sample * sign).filter(|magnitude| *magnitude > 0.0);
        let (smallest, largest) = magnitudes.fold((f64::MAX, 0.0), |(s, l), m| (m.min(s), m.max(l)));
        largest.log10() - smallest.log10() > 11.9
    };
    assert!(threshold == 0.0 || is_large(1.0) || is_large(-1.0), "{what}: near zero {threshold}: {sorted:?}");
    for thousandths in [0, 1, 500, 900, 990, 999] {
        let ours = distribution.quantile(thousandths as f64 / 1000.0);
        let rank = (count * thousandths).div_ceil(1000);
        let exact = if rank < count { sorted[rank.max(1) as usize - 1] } else { f64::NAN };
        if exact.is_nan() || (threshold > 0.0 && exact.abs() <= threshold) {
            assert!(ours.is_nan(), "{what}: p{thousandths} {ours}, but {exact}: {sorted:?}");
        } else {
            let error = distribution.relative_error() * exact.abs() + 5e-324;
            assert!((ours - exact).abs() <= error, "{what}: p{thousandths} {ours}, but {exact}: {sorted:?}");
        }
    }
}

fn summary(input: &mut Input) {
    let (mut collector, mut samples) = (SummaryCollector::default(), vec![]);
    let (mut distribution, mut merged, mut all) = (Distribution::default(), Distribution::default(), vec![]);
    while !input.is_empty() {
        if input.below(32) == 31 {
            is_of(&collector.take(), &samples, "a summary");
            is_distribution_of(&distribution, &samples, "a distribution");
            assert!(merged.merge(&distribution.take()));
            all.append(&mut samples);
        }
        let sample = input.f64();
        let is_accepted = collector.accept(sample);
        assert_eq!(is_accepted, sample.is_finite());
        assert_eq!(distribution.accept(sample), is_accepted);
        samples.extend(is_accepted.then_some(sample));
    }
    is_of(&collector.summary(), &samples, "a summary");
    is_distribution_of(&distribution, &samples, "a distribution");
    assert!(merged.merge(&distribution));
    all.append(&mut samples);
    is_distribution_of(&merged, &all, "a merged distribution");
}

/// Returns the milliseconds from one time to another, in nanoseconds.
fn milliseconds(from: i64, to: i64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64 / 1e6
}

fn ages(input: &mut Input) {
    let (mut collector, mut samples, mut last) = (AgeCollector::default(), vec![], 1_790_000_000_000_000_000);
    while !input.is_empty() {
        if input.below(32) == 31 {
            is_of(&collector.take(), &samples, "ages");
            samples.clear();
        }
        let now = input.time(last);
        let stamp = input.time(now);
        collector.accept(stamp, now);
        samples.extend((stamp != 0 && now != 0).then(|| milliseconds(stamp, now)));
        last = now;
    }
    is_of(&collector.take(), &samples, "ages");
}

fn periods(input: &mut Input) {
    let first = if input.bool() { FirstPeriod::CarriedOver } else { FirstPeriod::NoSample };
    let mut collector = PeriodCollector::new(first);
    // All messages of the window; before them the last one, if its period is carried over.
    let mut messages: Vec<i64> = vec![];
    let check = |collector: &mut PeriodCollector, messages: &mut Vec<i64>| {
        let pairs = messages.windows(2).filter(|pair| pair[0] <= pair[1]);
        let samples: Vec<f64> = pairs.map(|pair| milliseconds(pair[0], pair[1])).collect();
        is_of(&collector.take(), &samples, "periods");
        let last = messages.last().copied();
        messages.clear();
        messages.extend(last.filter(|_| first == FirstPeriod::CarriedOver));
    };
    while !input.is_empty() {
        if input.below(16) == 15 {
            check(&mut collector, &mut messages);
        }
        let last = messages.last().copied().unwrap_or(1_000_000_000);
        // The collector uses the last of all times for no message; a monotonic clock reaches it after 292 years.
        let now = input.time(last).min(i64::MAX - 1);
        collector.accept(now);
        messages.push(now);
    }
    check(&mut collector, &mut messages);
}

/// The numbers received of a publisher since its first message, or since a pause.
struct Publisher {
    /// Numbers as positions, which do not wrap: the first one's is 0.
    latest: i128,
    number: u64,
    received: BTreeSet<i128>,
    is_numbered: bool,
    is_paused: bool,
    messages: u64,
    lost: i128,
}

/// How many numbers there are: `u64::MAX` is none.
const NUMBERS: i128 = u64::MAX as i128;

impl Publisher {
    fn new(number: u64) -> Self {
        Self {
            latest: 0,
            number,
            received: [0].into(),
            is_numbered: number != u64::MAX,
            is_paused: false,
            messages: 1,
            lost: 0,
        }
    }

    /// Returns the meaning of a number, by RFC 1982 and the documentation of `SequenceTracker`.
    fn accept(&mut self, number: u64) -> Sequence {
        self.messages += 1;
        if number == u64::MAX || !self.is_numbered {
            self.is_numbered = false;
            return Sequence::Unsupported;
        }
        if self.is_paused {
            let (messages, lost) = (self.messages, self.lost);
            *self = Self { messages, lost, ..Self::new(number) };
            return Sequence::First;
        }
        let ahead = (i128::from(number) - i128::from(self.number)).rem_euclid(NUMBERS);
        if ahead == 0 {
            return Sequence::Duplicate;
        }
        if ahead <= NUMBERS / 2 {
            (self.latest, self.number) = (self.latest + ahead, number);
            self.received.insert(self.latest);
            self.lost += ahead - 1;
            return Sequence::Next { gap: (ahead - 1) as u64 };
        }
        let behind = NUMBERS - ahead;
        let position = self.latest - behind;
        if behind >= 64 || position < 0 {
            return Sequence::Late;
        }
        if !self.received.insert(position) {
            return Sequence::Duplicate;
        }
        self.lost -= 1;
        Sequence::Late
    }
}

fn sequences(input: &mut Input) {
    let mut tracker = SequenceTracker::default();
    let mut publishers: BTreeMap<u8, Publisher> = BTreeMap::new();
    let (mut out_of_order, mut duplicates, mut has_unnumbered, mut has_numbers) = (0, 0, false, false);
    let (mut has_lost_track, mut has_room) = (false, true);
    let start = input.time(0) as u64;
    while !input.is_empty() {
        match input.below(64) {
            0 => {
                tracker.pause();
                publishers.values_mut().for_each(|publisher| publisher.is_paused = true);
            }
            1 => {
                tracker.lose_track();
                has_lost_track = true;
            }
            _ => {}
        }
        let gid = input.u8() % 8;
        let latest = publishers.get(&gid).map_or(start, |publisher| publisher.number);
        let number = match input.below(8) {
            0 => input.time(latest as i64) as u64,
            1 => latest.wrapping_sub(input.below(80) as u64),
            2 => latest.wrapping_add(u64::MAX / 2).wrapping_add(input.below(4) as u64),
            3 => latest.wrapping_add(input.below(80) as u64),
            4 => latest,
            _ => latest.wrapping_add(1),
        };
        let number = if number == u64::MAX && input.below(4) != 0 { 0 } else { number };
        has_unnumbered |= number == u64::MAX;
        has_numbers |= number != u64::MAX;
        let expected = match publishers.get_mut(&gid) {
            Some(publisher) => publisher.accept(number),
            None => {
                publishers.insert(gid, Publisher::new(number));
                if number == u64::MAX {
                    Sequence::Unsupported
                } else {
                    Sequence::First
                }
            }
        };
        assert_eq!(tracker.accept(gid, number, 0), expected, "{gid} {number}");
        out_of_order += u64::from(expected == Sequence::Late);
        duplicates += u64::from(expected == Sequence::Duplicate);

        let totals = tracker.totals();
        let is_known = has_numbers && !has_unnumbered && !has_lost_track;
        let lost: i128 = publishers.values().map(|publisher| publisher.lost).sum();
        // A count that overflowed is unknown from then on.
        has_room &= lost < NUMBERS;
        match totals.lost {
            Some(ours) => assert_eq!((true, i128::from(ours)), (is_known && has_room, lost)),
            None => assert!(!(is_known && has_room), "{lost} lost"),
        }
        assert_eq!(totals.out_of_order.is_some(), is_known);
        if is_known {
            assert_eq!((totals.out_of_order, totals.duplicates), (Some(out_of_order), Some(duplicates)));
        }
    }
    assert_eq!(tracker.publishers().len(), publishers.len());
    for publisher in tracker.publishers() {
        let expected = &publishers[&publisher.gid];
        assert_eq!(publisher.received, expected.messages);
        match publisher.lost() {
            Some(lost) => assert_eq!((i128::from(lost), true), (expected.lost, expected.is_numbered)),
            None => assert!(!expected.is_numbered || !has_room),
        }
    }
}
