// SPDX-License-Identifier: Apache-2.0

//! Compares the windows of a process with its log.
//!
//! The library reads the clock before the log's callback does, and after the last sight of the thread. So each time is
//! known as an interval, however busy the machine is, and a figure has to be possible with times in these intervals.
//! Windows have the messages in order, so their counts identify them.

use std::collections::BTreeMap;

use super::{
    log::{Figures, Received, Source, Window},
    reports::{Distribution, Key, Wire},
    tally::Tally,
};

/// How far the library's offset between two clocks may be off, in ns, besides the rounding of a log line.
const OFFSET: f64 = 25_000.0;
/// How long after a step of a clock stamps may be doubtful, besides the step itself, in ns: the other host's clock may
/// be 4 s behind, and messages wait while a callback blocks.
const DOUBT: i64 = 8_000_000_000;

/// A value that lies between two others.
#[derive(Clone, Copy)]
struct Between(f64, f64);

impl Received {
    /// When the library read the monotonic clock. The time of the reception, by the system clock, counts unless a step
    /// is near.
    fn time(&self, near_step: bool) -> Between {
        let offset = (self.system - self.start) as f64;
        let received = self.received as f64 - offset - OFFSET;
        let is_usable = !near_step && self.received > 0 && received < self.start as f64;
        let free = self.free as f64;
        Between(if is_usable { free.max(received) } else { free }, self.start as f64)
    }

    /// The age by the system clock, in ns, of a stamp.
    fn age(&self, near_step: bool, stamp: i64) -> Between {
        let Between(earliest, _) = self.time(near_step);
        let lowest = earliest + (self.system - self.after) as f64;
        Between(lowest - stamp as f64 - OFFSET, (self.system - stamp) as f64 + OFFSET)
    }
}

/// The distributions on `/statistics/distribution`, by window.
#[derive(Default)]
pub struct Percentiles<'a>(BTreeMap<&'a Key, &'a Distribution>);

impl<'a> Percentiles<'a> {
    pub fn of(wire: &'a Wire) -> Self {
        Self(wire.distributions.iter().map(|distribution| (&distribution.key, distribution)).collect())
    }

    /// Compares the percentiles of a window; `unit`: the percentiles' unit in units of the samples. A percentile is off
    /// by a bucket's width at most.
    fn compare(
        &self,
        source: &Source,
        window: &Window,
        metric: &str,
        samples: &[Between],
        unit: f64,
        tally: &mut Tally,
    ) {
        let key = (source.name.clone(), metric.to_owned(), window.start, window.stop);
        let Some(distribution) = self.0.get(&key) else { return };
        let error = 2_f64.powf(2_f64.powi(-distribution.scale)) - 1.0;
        let sorted = |part: fn(&Between) -> f64| {
            let mut all: Vec<f64> = samples.iter().map(part).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (lows, highs) = (sorted(|bounds| bounds.0), sorted(|bounds| bounds.1));
        for (per_mille, value) in [500, 900, 990, 999].into_iter().zip(distribution.percentiles) {
            let rank = (samples.len() * per_mille).div_ceil(1000);
            let has_enough = samples.len() * (1000 - per_mille) >= 1000;
            let is_right = match has_enough {
                true => {
                    let (low, high, value) = (lows[rank - 1], highs[rank - 1], value * unit);
                    value >= low - error * low.abs() - 1.0 && value <= high + error * high.abs() + 1.0
                }
                false => value.is_nan(),
            };
            tally.check("percentiles", is_right, || {
                format!("{key:?}: {value} of rank {rank} in {} samples, {distribution:?}", samples.len())
            });
        }
    }
}

/// Whether figures in ms are possible for samples in ns.
fn can_be(figures: &Figures, samples: &[Between]) -> bool {
    let [average, minimum, maximum, deviation, _] = figures.0;
    let count = samples.len() as f64;
    let limit = |part: fn(&Between) -> f64, fold: fn(f64, f64) -> f64, from| {
        samples.iter().map(part).fold(from, fold)
    };
    let is_in = |value: f64, low: f64, high: f64| value * 1e6 >= low - 1.0 && value * 1e6 <= high + 1.0;
    let sums = (limit(|bounds| bounds.0, |a, b| a + b, 0.0), limit(|bounds| bounds.1, |a, b| a + b, 0.0));
    let (lowest, highest) =
        (limit(|bounds| bounds.0, f64::min, f64::MAX), limit(|bounds| bounds.1, f64::max, f64::MIN));
    let widest = limit(|bounds| bounds.1 - bounds.0, f64::max, 0.0);
    let upper = sums.1 / count;
    let of_upper = (samples.iter().map(|bounds| (bounds.1 - upper).powi(2)).sum::<f64>() / count).sqrt();
    is_in(average, sums.0 / count, sums.1 / count)
        && is_in(minimum, lowest, limit(|bounds| bounds.1, f64::min, f64::MAX))
        && is_in(maximum, limit(|bounds| bounds.0, f64::max, f64::MIN), highest)
        && match samples.len() {
            1 => deviation.is_nan(),
            // The deviation changes by no more than a sample does.
            _ => (deviation * 1e6 - of_upper).abs() <= widest + 1.0,
        }
}

/// Whether these are the figures of no samples.
fn is_nothing(figures: &Figures) -> bool {
    figures.0[..4].iter().all(|figure| figure.is_nan()) && figures.0[4] == 0.0
}

/// Whether all samples have this value.
fn is_constant(figures: &Figures, value: f64, count: usize) -> bool {
    let [average, minimum, maximum, deviation, samples] = figures.0;
    match count {
        0 => is_nothing(figures),
        _ => {
            (average - value).abs() < 1e-6
                && minimum == value
                && maximum == value
                && (if count == 1 { deviation.is_nan() } else { deviation.abs() <= 1e-6 })
                && samples == count as f64
        }
    }
}

/// The gap before each message, by the senders' numbers (none before a sender's first one, and of a late one), and the
/// totals up to it.
struct Numbers {
    gaps: Vec<Option<f64>>,
    totals: Vec<[i64; 5]>,
}

impl Numbers {
    fn of(received: &[Received]) -> Self {
        let mut senders = std::collections::BTreeMap::<u64, u64>::new();
        let (mut gaps, mut totals, mut lost, mut late) = (vec![], vec![], 0, 0);
        for (index, message) in received.iter().enumerate() {
            let is_first = !senders.contains_key(&message.incarnation);
            let last = senders.entry(message.incarnation).or_insert(message.number - 1);
            let gap = message.number as i64 - *last as i64 - 1;
            gaps.push((!is_first && gap >= 0).then_some(gap as f64));
            // A late message fills a gap.
            lost += if gap < 0 { -1 } else { gap };
            late += i64::from(gap < 0);
            *last = message.number.max(*last);
            totals.push([index as i64 + 1, lost, late, 0, senders.len() as i64]);
        }
        Self { gaps, totals }
    }
}

/// Compares the windows and totals of a subscription.
pub fn subscription(source: &Source, size: u64, percentiles: &Percentiles, tally: &mut Tally) {
    let numbers = Numbers::of(&source.received);
    let (mut callbacks, mut is_after_unknown) = (0, false);
    let at = |window: &Window| format!("{}, window until {}", source.name, window.stop);
    let (mut seen, mut until_doubt, mut unrecorded) = (0_usize, 0_i64, 0);
    // How far the clock was stepped since the last message. None: that message and a step are of one window.
    let mut stepped = Some(0);
    for (index, window) in source.windows.iter().enumerate() {
        if index == 0 {
            seen = (window.totals[0] as u64 - window.count) as usize;
        } else {
            let before = &source.windows[index - 1];
            let gap = window.start - before.stop;
            tally.check("windows without a gap", (gap - window.step).abs() <= 30_000, || {
                format!("{}: {gap} ns after the one before, a step of {} ns", at(window), window.step)
            });
        }
        let end = seen + window.count as usize;
        tally.check(
            "messages of a window",
            window.totals[0] == end as i64 && end <= source.received.len(),
            || {
                let (log, totals) = (source.received.len(), window.totals[0]);
                format!(
                    "{}: {end} messages so far by the windows, {totals} by the totals, {log} in the log",
                    at(window)
                )
            },
        );
        let Some(messages) = source.received.get(seen..end) else { return };
        unrecorded += window.unmeasured();
        stepped = match window.count {
            0 => stepped.map(|stepped| stepped + window.step),
            _ => (window.step == 0).then_some(0),
        };
        if window.step != 0 {
            until_doubt = window.step.abs() + DOUBT;
        }
        let next_has_step = source.windows.get(index + 1).is_some_and(|next| next.step != 0);
        let near_step = until_doubt > 0 || next_has_step;
        if !near_step {
            // The clock may have been stepped until a message of a later window.
            let next = source.windows.get(index + 1).filter(|next| next.count > 0);
            let first_after = next.and(source.received.get(end)).map(|message| message.system as f64);
            let earliest =
                |message: &Received| message.time(false).0 + (message.system - message.after) as f64;
            let is_over = messages.last().is_none_or(|last| earliest(last) <= window.stop as f64 + OFFSET);
            tally.check_known(
                "messages of a window",
                window.unmeasured() == 0,
                is_over && first_after.is_none_or(|time| time >= window.stop as f64 - OFFSET),
                || format!("{}: its messages are not those of its time", at(window)),
            );
        }
        if let Some(expected) = end.checked_sub(1).map(|last| numbers.totals[last]) {
            tally.check_known("losses and publishers", unrecorded == 0, window.totals == expected, || {
                format!("{}: {:?}, by the senders' numbers {expected:?}", at(window), window.totals)
            });
        }
        let gaps: Vec<f64> = numbers.gaps[seen..end].iter().flatten().copied().collect();
        for (metric, figures) in &window.metrics {
            let is_known = window.unmeasured() == 0;
            let count = figures.count() as usize;
            let fault = || {
                let lost: f64 = gaps.iter().sum();
                format!("{}: {metric} {figures:?} of {} messages, gaps {lost}", at(window), messages.len())
            };
            match metric.as_str() {
                "message_age"
                | "source_to_callback_ms"
                | "header_to_source_ms"
                | "source_to_receive_ms"
                | "receive_to_callback_ms" => {
                    let age = |message: &Received| {
                        let until = |stamp: i64| message.age(near_step, stamp);
                        let between = |from: i64, to: i64| Between((to - from) as f64, (to - from) as f64);
                        match metric.as_str() {
                            "message_age" => (message.stamp != 0).then(|| until(message.stamp)),
                            "header_to_source_ms" => {
                                (message.stamp != 0).then(|| between(message.stamp, message.sent))
                            }
                            "source_to_receive_ms" => Some(between(message.sent, message.received)),
                            "receive_to_callback_ms" => Some(until(message.received)),
                            _ => Some(until(message.sent)),
                        }
                    };
                    let ages: Vec<Between> = messages.iter().filter_map(age).collect();
                    let is_right = match count {
                        0 => is_nothing(figures) && (ages.is_empty() || until_doubt > 0),
                        _ if count == ages.len() => can_be(figures, &ages),
                        _ => count < ages.len() && until_doubt > 0,
                    };
                    tally.check_known("ages", is_known && (ages.is_empty() || !near_step), is_right, fault);
                    if is_known && near_step {
                        tally.check("ages at steps", is_right, fault);
                    }
                    if count == ages.len() {
                        percentiles.compare(source, window, metric, &ages, 1e6, tally);
                    }
                }
                "message_period" => {
                    let times: Vec<Between> =
                        messages.iter().map(|message| message.time(near_step)).collect();
                    let period =
                        |pair: &[Between]| Between((pair[1].0 - pair[0].1).max(0.0), pair[1].1 - pair[0].0);
                    let mut periods: Vec<Between> = times.windows(2).map(period).collect();
                    let is_right = count == periods.len() && (count == 0 || can_be(figures, &periods));
                    // The sum of the periods is known better than each.
                    if let (Some(first), Some(last), true) = (times.first(), times.last(), count > 1) {
                        let part = periods.len() as f64;
                        let sum = figures.0[0] * 1e6 * part;
                        periods = vec![Between(last.0 - first.1, last.1 - first.0)];
                        let is_sum = sum >= periods[0].0 - part && sum <= periods[0].1 + part;
                        tally.check_known("periods", is_known, is_right && is_sum, fault);
                    } else {
                        tally.check_known(
                            "periods",
                            is_known,
                            is_right && (count > 0 || is_nothing(figures)),
                            fault,
                        );
                    }
                }
                // A callback may end in a later window.
                "callback_duration_ms" => {
                    let ended = |first: usize| {
                        let ended = source.received.get(first..first + count).unwrap_or_default();
                        let duration = |message: &Received| {
                            Between(
                                (message.end - message.start) as f64,
                                (message.next.saturating_sub(message.free)) as f64,
                            )
                        };
                        ended.iter().map(duration).collect::<Vec<Between>>()
                    };
                    let is_right = |first: &usize| {
                        let is_of_window = first + count == end || first + count + 1 == end;
                        is_of_window
                            && match count {
                                0 => is_nothing(figures),
                                _ => ended(*first).len() == count && can_be(figures, &ended(*first)),
                            }
                    };
                    // After messages that were only counted, the last of them may still be in its callback.
                    let firsts = [callbacks, callbacks - usize::from(is_after_unknown && callbacks > 0)];
                    let first = firsts.into_iter().find(is_right);
                    tally.check_known("durations", is_known, first.is_some(), fault);
                    let first = first.unwrap_or(callbacks);
                    percentiles.compare(source, window, metric, &ended(first), 1e6, tally);
                    (callbacks, is_after_unknown) =
                        if is_known { (first + count, false) } else { (end, true) };
                }
                "publication_seq_gap" => {
                    let sum: f64 = gaps.iter().sum();
                    let samples: Vec<Between> = gaps.iter().map(|gap| Between(*gap, *gap)).collect();
                    percentiles.compare(source, window, metric, &samples, 1.0, tally);
                    let (low, high) = gaps
                        .iter()
                        .fold((f64::MAX, 0_f64), |(low, high), gap| (low.min(*gap), high.max(*gap)));
                    let [average, minimum, maximum, ..] = figures.0;
                    let is_right = count == gaps.len()
                        && match count {
                            0 => is_nothing(figures),
                            _ => {
                                (average * count as f64 - sum).abs() < 1e-3
                                    && minimum == low
                                    && maximum == high
                            }
                        };
                    tally.check_known("gaps", unrecorded == 0, is_right, fault);
                }
                "message_size" => {
                    let is_right = is_constant(figures, size as f64, messages.len());
                    tally.check_known("sizes", is_known, is_right, fault);
                }
                "time_since_last_message_ms" => {
                    let last = end.checked_sub(1).map(|last| &source.received[last]);
                    let silence = last.map(|last| {
                        let stop = window.stop - stepped.unwrap_or(0);
                        let Between(low, high) = last.age(near_step, stop);
                        Between(-high, -low)
                    });
                    let is_right = match silence {
                        None => is_nothing(figures),
                        Some(silence) => can_be(figures, &[silence]),
                    };
                    tally.check_known("silences", is_known && stepped.is_some(), is_right, fault);
                }
                _ => tally.check("metrics", false, fault),
            }
        }
        until_doubt = (until_doubt - window.length).max(0);
        seen = end;
    }
    if let (Some(totals), Some(last)) = (source.totals, numbers.totals.last()) {
        tally.check_known("totals at the end", unrecorded == 0, totals == *last, || {
            format!("{}: {totals:?} at the end, by the senders' numbers {last:?}", source.name)
        });
    }
}

/// Compares the windows of a publisher.
pub fn publisher(source: &Source, size: u64, tally: &mut Tally) {
    let mut seen = 0;
    for window in &source.windows {
        let end = seen + window.count as usize;
        // The last line of a process that was killed may be missing.
        let Some(sent) = source.sent.get(seen..end) else {
            tally.check("publications of a window", end <= source.sent.len() + 1, || {
                format!("{}: {end} publications, {} in the log", source.name, source.sent.len())
            });
            return;
        };
        for (metric, figures) in &window.metrics {
            let fault = || {
                format!(
                    "{}, window until {}: {metric} {figures:?} of {} publications",
                    source.name,
                    window.stop,
                    sent.len()
                )
            };
            let count = figures.count() as usize;
            let is_right = match metric.as_str() {
                "publish_period" => {
                    let period = |pair: &[super::log::Sent]| {
                        Between(
                            (pair[1].before - pair[0].after) as f64,
                            (pair[1].after - pair[0].before) as f64,
                        )
                    };
                    let periods: Vec<Between> = sent.windows(2).map(period).collect();
                    count == periods.len()
                        && (if count == 0 { is_nothing(figures) } else { can_be(figures, &periods) })
                }
                "publish_duration_ms" => {
                    let durations: Vec<Between> = sent
                        .iter()
                        .map(|publication| Between(0.0, (publication.after - publication.before) as f64))
                        .collect();
                    count == sent.len()
                        && (if count == 0 { is_nothing(figures) } else { can_be(figures, &durations) })
                }
                _ => is_constant(figures, size as f64, sent.len()),
            };
            tally.check("publications", is_right, fault);
        }
        seen = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::robot::log::Process;

    /// Five messages of 100 bytes with periods of 100 ms and ages of 2 ms, in two windows of 250 ms; the message 3 is
    /// lost.
    const LOG: &str = "\
        L 1 /imu /robot/listener:/imu\n\
        R 1 7 1 1000000000 1000000000 1001990000 1000000 2000000 1002000000 2000100 2050000\n\
        R 1 7 2 1100000000 1100000000 1101990000 2100000 102000000 1102000000 102000100 102050000\n\
        W 1 1000000000 1250000000 250000000 2 1 0 0 2 0 0 0 1 message_age:2:2:2:0:2 message_period:100:100:100:NaN:1 \
        publication_seq_gap:0:0:0:NaN:1 message_size:100:100:100:0:2 time_since_last_message_ms:148:148:148:NaN:1\n\
        R 1 7 4 1300000000 1300000000 1301990000 102100000 302000000 1302000000 302000100 302050000\n\
        R 1 7 5 1400000000 1400000000 1401990000 302100000 402000000 1402000000 402000100 402050000\n\
        W 1 1250000000 1500000000 250000000 2 1 0 0 4 1 0 0 1 message_age:2:2:2:0:2 message_period:100:100:100:NaN:1 \
        publication_seq_gap:0.5:0:1:0.5:2 message_size:100:100:100:0:2 time_since_last_message_ms:98:98:98:NaN:1\n\
        T 1 4 1 0 0 1";

    fn differences(log: &str) -> Vec<String> {
        let mut tally = Tally::default();
        let process = Process::parse("listener", 1, log).unwrap();
        subscription(&process.sources[&1], 100, &Percentiles::default(), &mut tally);
        tally.differences()
    }

    #[test]
    fn right_figures_have_no_difference() {
        assert_eq!(differences(LOG), [] as [String; 0]);
    }

    #[test]
    fn each_wrong_figure_is_a_difference() {
        let changes = [
            ("250000000 2 1 0 0 4", "250000000 3 1 0 0 5", "messages of a window"),
            (" 4 1 0 0 1 message", " 4 0 0 0 1 message", "losses and publishers"),
            ("T 1 4 1", "T 1 4 2", "totals at the end"),
            ("W 1 1250000000", "W 1 1251000000", "windows without a gap"),
            ("message_age:2:2:2:0", "message_age:2.2:2:2:0", "ages"),
            ("message_age:2:2:2:0:2", "message_age:NaN:NaN:NaN:NaN:0", "ages"),
            ("message_period:100:", "message_period:100.2:", "periods"),
            ("gap:0.5:0:1", "gap:0:0:0", "gaps"),
            ("size:100:100:100", "size:104:104:104", "sizes"),
            ("ms:98:98:98", "ms:99:99:99", "silences"),
        ];
        for (right, wrong, what) in changes {
            assert!(LOG.contains(right), "{right}");
            let found = differences(&LOG.replacen(right, wrong, 1));
            assert!(
                found.iter().any(|difference| difference.contains(what)),
                "{right} -> {wrong}: {found:?}"
            );
        }
    }

    #[test]
    fn ages_are_unknown_at_a_step_only() {
        let nothing = "message_age:NaN:NaN:NaN:NaN:0";
        let stepped = LOG.replacen("message_age:2:2:2:0:2", nothing, 1).replacen(
            "1250000000 250000000 2 1 0 0 2",
            "1250000000 250000000 2 1 0 1000 2",
            1,
        );
        assert_eq!(differences(&stepped), [] as [String; 0]);
    }
}
