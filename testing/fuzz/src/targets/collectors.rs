// SPDX-License-Identifier: Apache-2.0

//! Passes streams of samples to the collectors, and compares the figures with an oracle that keeps every sample.

use std::collections::BTreeMap;

use topic_statistics_core::{
    collector::{
        AgeCollector, Distribution, FirstPeriod, PeriodCollector, Sequence, SequenceTracker, SummaryCollector,
    },
    Summary,
};

use crate::input::Input;

/// Every figure may differ from the oracle's figure by at most 1e-9 of the largest sample; a figure without a value
/// must be NaN. No figure may be infinite.
pub fn collectors(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.below(4) {
        0 => summary(&mut input),
        1 | 2 => times(&mut input),
        _ => sequences(&mut input),
    }
}

fn check_summary(summary: &Summary, samples: &[f64], what: &str) {
    assert_eq!(summary.sample_count, samples.len() as u64, "{what}: {summary:?} of {samples:?}");
    // The oracle divides the samples by the largest sample, so that its sums do not overflow.
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
            // The standard deviation needs the squares of the samples: they underflow for samples below 1e-150, and
            // overflow for samples above 1e150.
            (ours - expected * divisor).abs() <= (1e-9 * size).max(1e-150) || (ours.is_nan() && size > 1e150)
        };
        assert!(is_same, "{what}: {name} {ours}, expected {expected} times {divisor}, of {samples:?}");
    }
}

/// Panics if the number of samples differs, or if a quantile is neither within the documented error nor NaN.
fn check_distribution(distribution: &Distribution, samples: &[f64]) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    assert_eq!(distribution.count(), sorted.len() as u64);
    for thousandths in [1, 500, 900, 999] {
        let ours = distribution.quantile(thousandths as f64 / 1000.0);
        let exact = sorted.get((sorted.len() * thousandths).div_ceil(1000).max(1) - 1);
        let error = exact.map(|exact| distribution.relative_error() * exact.abs() + 5e-324);
        let is_near = exact.zip(error).is_some_and(|(exact, error)| (ours - exact).abs() <= error);
        assert!(ours.is_nan() || is_near, "p{thousandths} {ours}: {sorted:?}");
    }
}

fn summary(input: &mut Input) {
    let (mut collector, mut samples) = (SummaryCollector::default(), vec![]);
    let (mut distribution, mut merged, mut all) = (Distribution::default(), Distribution::default(), vec![]);
    while !input.is_empty() {
        if input.below(32) == 31 {
            check_summary(&collector.take(), &samples, "a summary");
            check_distribution(&distribution, &samples);
            assert!(merged.merge(&distribution.take()));
            all.append(&mut samples);
        }
        let sample = input.f64();
        let is_accepted = collector.accept(sample);
        assert_eq!(is_accepted, sample.is_finite());
        assert_eq!(distribution.accept(sample), is_accepted);
        samples.extend(is_accepted.then_some(sample));
    }
    check_summary(&collector.summary(), &samples, "a summary");
    check_distribution(&distribution, &samples);
    assert!(merged.merge(&distribution));
    all.append(&mut samples);
    check_distribution(&merged, &all);
}

fn milliseconds(from: i64, to: i64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64 / 1e6
}

/// Passes times of callbacks, and stamps of messages, to the collectors of ages and periods.
fn times(input: &mut Input) {
    let first = if input.bool() { FirstPeriod::CarriedOver } else { FirstPeriod::NoSample };
    let (mut ages, mut periods) = (AgeCollector::default(), PeriodCollector::new(first));
    // `samples` are the ages in the window, and `messages` the times of its messages. With `CarriedOver`, `messages`
    // begins with the last message of the previous window.
    let (mut samples, mut messages) = (vec![], vec![]);
    let mut last = 1_790_000_000_000_000_000;
    loop {
        if input.is_empty() || input.below(16) == 15 {
            check_summary(&ages.take(), &samples, "ages");
            samples.clear();
            let pairs = messages.windows(2).filter(|pair| pair[0] <= pair[1]);
            let expected: Vec<f64> = pairs.map(|pair| milliseconds(pair[0], pair[1])).collect();
            check_summary(&periods.take(), &expected, "periods");
            let carried = messages.last().copied().filter(|_| first == FirstPeriod::CarriedOver);
            messages = carried.into_iter().collect();
        }
        if input.is_empty() {
            break;
        }
        // For the collector of periods, the largest time means "no message". A real clock reaches this time only after
        // 292 years.
        let now = input.time(last).min(i64::MAX - 1);
        let stamp = input.time(now);
        ages.accept(stamp, now);
        samples.extend((stamp != 0 && now != 0).then(|| milliseconds(stamp, now)));
        periods.accept(now);
        messages.push(now);
        last = now;
    }
}

/// Passes sequence numbers of some publishers to the tracker of losses. The totals must be the sums of the results for
/// the messages. (The simulator compares the losses with a model.)
fn sequences(input: &mut Input) {
    let mut tracker = SequenceTracker::default();
    let (mut latest, mut publishers) = (BTreeMap::<u8, u64>::new(), BTreeMap::<u8, u64>::new());
    let (mut lost, mut duplicates, mut late, mut is_known) = (0_u128, 0, 0, true);
    while !input.is_empty() {
        match input.below(64) {
            0 => tracker.pause(),
            1 => {
                tracker.lose_track();
                is_known = false;
            }
            _ => {}
        }
        let gid = input.u8() % 8;
        let last = *latest.entry(gid).or_default();
        let number = match input.below(8) {
            0 => input.time(last as i64) as u64,
            1 => last.wrapping_sub(input.below(80) as u64),
            2 => last.wrapping_add(u64::MAX / 2).wrapping_add(input.below(4) as u64),
            3 => last.wrapping_add(input.below(80) as u64),
            _ => last.wrapping_add(1),
        };
        *publishers.entry(gid).or_default() += 1;
        match tracker.accept(gid, number, 0) {
            Sequence::Next { gap } => lost += u128::from(gap),
            Sequence::Duplicate => duplicates += 1,
            Sequence::Late => late += 1,
            Sequence::Unsupported => is_known = false,
            Sequence::First => {}
        }
        latest.insert(gid, number);
        let totals = tracker.totals();
        // A late message is subtracted from the losses, except if it was sent before the first received message or long
        // ago. So the oracle knows only bounds of the total.
        if let Some(ours) = totals.lost.map(u128::from) {
            assert!(is_known && (lost.saturating_sub(late)..=lost).contains(&ours), "{ours} of {lost}");
        }
        if is_known {
            assert_eq!(totals.out_of_order.map(u128::from), Some(late));
            assert_eq!(totals.duplicates, Some(duplicates));
        }
    }
    let received = tracker.publishers().iter().map(|publisher| (publisher.gid, publisher.received));
    assert_eq!(received.collect::<BTreeMap<_, _>>(), publishers);
}
