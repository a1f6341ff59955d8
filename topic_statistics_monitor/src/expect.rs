// SPDX-License-Identifier: Apache-2.0

//! Whether the rows are as the file of `--expect` expects.

mod diagnostics;
mod file;
mod suggest;

pub use diagnostics::Diagnostics;
pub use file::ExpectationFile;
pub use suggest::suggest;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rclrs_topic_statistics::{
    condition::Quantity,
    health::{Change, Health, Judge, JudgedWindow, Level},
    Metric, Window,
};

use crate::{
    require::{missing_samples, value_of},
    row::{self, Row},
};

/// Judges the windows of the rows.
pub struct Expected {
    file: ExpectationFile,
    /// The length of a window of a row that has none.
    period: Duration,
    /// By the name of a row; None: nothing is expected of it.
    sources: BTreeMap<String, Option<Source>>,
}

/// A row that was judged.
pub struct JudgedRow {
    pub name: String,
    pub health: Health,
    /// The change of its level.
    pub change: Option<Change>,
}

/// A row of which something is expected.
struct Source {
    judge: Judge,
    /// When the last judged window ended.
    judged_until: Instant,
    /// What its windows have told of messages so far.
    told: Told,
}

/// How a source that does not tell the number of its messages tells whether there are any.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    Nothing,
    /// By periods, at least two of which fit a window: a window without a period has one message at most.
    Periods,
    /// By a sample for each message.
    Samples,
}

impl Expected {
    pub fn new(file: ExpectationFile, period: Duration) -> Self {
        Self { file, period, sources: BTreeMap::new() }
    }

    /// Judges the rows: each new window, and a row without windows as silent. Returns what was judged.
    pub fn judge(&mut self, new: &[String], rows: &[&Row], now: Instant) -> Vec<JudgedRow> {
        if self.sources.len() > rows.len() {
            self.sources.retain(|name, _| rows.iter().any(|row| row.name == *name));
        }
        let mut judged = vec![];
        for row in rows {
            let source = self.sources.entry(row.name.clone()).or_insert_with(|| {
                let judge = Judge::new(self.file.expectations(&row.name)?);
                Some(Source { judge, judged_until: now, told: Told::Nothing })
            });
            let Some(source) = source else { continue };
            let window = if new.contains(&row.name) { source.window_of(row) } else { None };
            let period = row.window.as_ref().map_or(self.period, |window| window.length);
            let is_overdue = window.is_none();
            let Some(window) = window.or_else(|| source.silent_window(period, now)) else { continue };
            let change = source.judge.accept(&window, |quantity: Quantity| match quantity {
                // The figures of the row are those of a window that ended long ago.
                Quantity::Metric(Metric::TimeSinceLastMessage, _) if is_overdue => {
                    Some(row.silence(now)).filter(|silence| !silence.is_nan())
                }
                _ if is_overdue => None,
                _ => missing_samples(quantity, row, now).is_none().then(|| value_of(quantity, row, now)),
            });
            judged.push(JudgedRow { name: row.name.clone(), health: source.judge.health().clone(), change });
        }
        judged
    }

    /// Returns those of the rows of which something is expected, with their judges.
    pub fn judged<'a>(&'a self, rows: &'a [&Row]) -> impl Iterator<Item = (&'a Row, &'a Judge)> {
        rows.iter().filter_map(|row| Some((*row, &self.sources.get(&row.name)?.as_ref()?.judge)))
    }

    /// Returns the names of the rows that have an error now, with their health.
    pub fn errors(&self) -> impl Iterator<Item = (&str, &Health)> {
        let judged = self.sources.iter().filter_map(|(name, source)| Some((&**name, source.as_ref()?)));
        judged.map(|(name, source)| (name, source.judge.health())).filter(|(_, of)| of.level == Level::Error)
    }
}

impl Source {
    /// A row without a window for so many periods is silent: its node has ended, or it has no publisher yet.
    const LATE: u32 = 3;

    /// Returns the last window of a row. None if it is not known whether it has messages.
    fn window_of(&mut self, row: &Row) -> Option<JudgedWindow> {
        let window = row.window.as_ref()?;
        self.judged_until = window.ended;
        Some(JudgedWindow {
            window: Window { start: window.start, stop: window.stop },
            length: window.length,
            messages: window.received.or_else(|| self.messages_told(window))?,
        })
    }

    /// Returns the number of messages by the metrics of a window.
    fn messages_told(&mut self, window: &row::Window) -> Option<u64> {
        let seconds = window.length.as_secs_f64();
        let (mut samples, mut by_rate) = (0, None);
        for row::MetricFigures { name, figures, .. } in &window.metrics {
            match name.parse::<Metric>() {
                // n messages have n or n - 1 periods.
                Ok(Metric::MessagePeriod | Metric::PublishPeriod) if figures.mean > 0.0 => {
                    by_rate = Some(1000.0 / figures.mean * seconds);
                }
                Ok(Metric::Frequency) if figures.mean >= 0.0 => {
                    (samples, self.told) = (whole(figures.mean * seconds), Told::Samples);
                }
                // A window has one sample of time and clock, whether it has messages or not.
                Ok(
                    Metric::MessagePeriod
                    | Metric::PublishPeriod
                    | Metric::Frequency
                    | Metric::TimeSinceLastMessage
                    | Metric::ClockOffset,
                )
                | Err(_) => {}
                Ok(_) => samples = samples.max(figures.count),
            }
        }
        let by_rate = by_rate.filter(|_| samples == 0);
        if samples > 0 {
            self.told = Told::Samples;
        } else if by_rate.is_some_and(|messages| messages >= 2.0) && self.told == Told::Nothing {
            self.told = Told::Periods;
        }
        match by_rate {
            Some(messages) => Some(whole(messages).max(1)),
            None => (self.told != Told::Nothing).then_some(samples),
        }
    }

    /// Returns the time since the last window as one without a message, once a new one is overdue.
    fn silent_window(&mut self, period: Duration, now: Instant) -> Option<JudgedWindow> {
        let silent = now.saturating_duration_since(self.judged_until);
        if silent < period.saturating_mul(Self::LATE) {
            return None;
        }
        self.judged_until = now;
        let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let stop = nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let window = Window { start: stop.saturating_sub(nanoseconds(silent)), stop };
        Some(JudgedWindow { window, length: silent, messages: 0 })
    }
}

/// Returns a number of messages. Figures of other nodes can be anything.
fn whole(messages: f64) -> u64 {
    const MOST: f64 = 1e12;
    messages.round().clamp(0.0, MOST) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::{at, row, window};

    fn expected(text: &str) -> Expected {
        Expected::new(ExpectationFile::parse(text).unwrap(), Duration::from_secs(1))
    }

    /// Judges a new window of /imu at that rate which ends at that time (s). Returns its level and the change.
    fn judge_window(expected: &mut Expected, stop: i64, rate: f64) -> (Level, Option<Change>) {
        let mut row = row("/imu", 100.0, 0);
        row.add_window(window(stop, rate, 0));
        let mut judged = expected.judge(&["/imu".to_owned()], &[&row], at(stop));
        assert_eq!(judged.len(), 1);
        let JudgedRow { health, change, .. } = judged.remove(0);
        (health.level, change)
    }

    #[test]
    fn a_topic_is_raised_and_cleared_by_its_windows() {
        let mut expected = expected("topics: {/imu: {warn_unless: rate=100±10%, error_unless: rate>=50}}");
        for stop in 100..105 {
            assert_eq!(judge_window(&mut expected, stop, 100.0).0, Level::Ok);
        }
        assert_eq!(judge_window(&mut expected, 105, 40.0).0, Level::Ok);
        let (level, change) = judge_window(&mut expected, 106, 40.0);
        assert_eq!((level, change.unwrap().before), (Level::Error, Level::Ok));
        assert_eq!(expected.errors().map(|(name, _)| name).collect::<Vec<_>>(), ["/imu"]);
        for (stop, level) in [(107, Level::Error), (108, Level::Error), (109, Level::Ok)] {
            assert_eq!(judge_window(&mut expected, stop, 100.0).0, level, "{stop}");
        }
        assert_eq!(expected.errors().count(), 0);
    }

    #[test]
    fn a_row_without_windows_becomes_silent_once_and_only_if_something_is_expected_of_it() {
        let mut expected = expected("topics: {/imu: {error_unless: rate>=50, silence: error}}");
        judge_window(&mut expected, 100, 100.0);
        judge_window(&mut expected, 101, 100.0);
        let (mut imu, other) = (row("/imu", 100.0, 0), row("/odom", 100.0, 0));
        imu.add_window(window(101, 100.0, 0));
        let mut judge = |at: Instant| expected.judge(&["/odom".to_owned()], &[&imu, &other], at);
        assert!(judge(at(102)).is_empty(), "its next window may come yet");
        let judged = judge(at(104)).remove(0);
        assert_eq!((&*judged.name, judged.health.level), ("/imu", Level::Error));
        assert_eq!(judged.health.lasting, Duration::from_secs(3));
        assert!(judged.change.is_some() && judge(at(105)).is_empty());
        assert!(judge(at(107)).remove(0).change.is_none());
    }

    #[test]
    fn a_row_without_windows_is_judged_by_its_silence_now_and_not_by_its_last_window() {
        let mut expected = expected("topics: {/imu: {error_unless: silent<2s}}");
        let mut imu = row("/imu", 100.0, 0);
        for stop in 100..103 {
            let mut window = window(stop, 100.0, 0);
            window.metrics[0].name = Metric::TimeSinceLastMessage.name().to_owned();
            imu.add_window(window);
            imu.last_message = Some(at(stop));
            let judged = expected.judge(&["/imu".to_owned()], &[&imu], at(stop)).remove(0);
            assert_eq!(judged.health.level, Level::Ok);
        }
        let judged = expected.judge(&[], &[&imu], at(105)).remove(0);
        assert_eq!(judged.health.level, Level::Error, "{}", judged.health);
    }

    #[test]
    fn a_topic_that_appears_late_has_the_time_of_one_that_was_there() {
        let mut expected = expected("topics: {'/**': {error_unless: rate>=50}}");
        let new = Row::new("/new");
        let mut judge = |time: i64| {
            let judged = expected.judge(&[], &[&new], at(time));
            judged.first().map(|judged| judged.health.level)
        };
        assert_eq!((judge(1000), judge(1003), judge(1006)), (None, Some(Level::Ok), Some(Level::Ok)));
        assert_eq!((judge(1009), judge(1012)), (Some(Level::Ok), Some(Level::Stale)));
    }

    /// Judges windows of 1 s of a source that tells only these metrics, by name with mean and count. Returns the last level.
    fn judge_told(windows: &[&[(&str, f64, u64)]]) -> Level {
        let mut expected = expected("topics: {/imu: {error_unless: rate>=0.5}}");
        let (mut row, mut level) = (row("/imu", 1.0, 0), Level::Ok);
        for (stop, metrics) in (100..).zip(windows) {
            let figures =
                |mean: f64, count| row::Figures { mean, min: mean, max: mean, std_dev: f64::NAN, count };
            let metric = |&(name, mean, count): &(&str, f64, u64)| row::MetricFigures {
                name: name.to_owned(),
                unit: String::new(),
                figures: figures(mean, count),
            };
            let metrics = metrics.iter().map(metric).collect();
            row.add_window(row::Window { received: None, metrics, ..window(stop, 1.0, 0) });
            for judged in expected.judge(&["/imu".to_owned()], &[&row], at(stop)) {
                level = judged.health.level;
            }
        }
        level
    }

    #[test]
    fn a_source_that_does_not_tell_its_messages_is_silent_only_if_its_metrics_say_so() {
        const NONE: f64 = f64::NAN;
        let repeat = |one: &'static [(&str, f64, u64)], other: &'static [(&str, f64, u64)]| {
            judge_told(&[[one; 10], [other; 10]].concat())
        };
        let aged: &[_] = &[("message_age", 2.0, 1), ("message_period", NONE, 0)];
        let silent: &[_] =
            &[("message_age", NONE, 0), ("time_since_last_message_ms", 5.0, 1), ("other", 1.0, 9)];
        assert_eq!((repeat(aged, aged), repeat(aged, silent)), (Level::Ok, Level::Stale));
        // Without a header, at 50 Hz, and then silent.
        let periods: &[_] = &[("message_age", NONE, 0), ("message_period", 20.0, 49)];
        let no_period: &[_] = &[("message_age", NONE, 0), ("message_period", NONE, 0)];
        assert_eq!((repeat(periods, periods), repeat(periods, no_period)), (Level::Ok, Level::Stale));
        // At 1 Hz, a window has one message and no period: nothing is known.
        assert_eq!(repeat(no_period, no_period), Level::Ok);
        let counter: &[_] = &[("frequency_hz", 3.0, 1)];
        assert_eq!(
            (repeat(counter, counter), repeat(counter, &[("frequency_hz", 0.0, 1)])),
            (Level::Ok, Level::Stale)
        );
    }

    #[test]
    fn rows_that_are_gone_are_forgotten() {
        let mut expected = expected("topics: {'/**': {error_unless: rate>=50}}");
        let rows: Vec<Row> = (0..100).map(|number| Row::new(&format!("/topic{number}"))).collect();
        expected.judge(&[], &rows.iter().collect::<Vec<_>>(), at(0));
        expected.judge(&[], &[&rows[0]], at(1));
        assert_eq!(expected.sources.len(), 1);
    }
}
