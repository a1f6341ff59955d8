// SPDX-License-Identifier: Apache-2.0

//! Whether the rows are as the file of `--expect` expects.

mod file;
mod suggest;

pub use file::ExpectationFile;
pub use suggest::suggest;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use topic_statistics_core::{
    condition::Quantity,
    health::{Cause, Change, Expectations, Health, Judge, JudgedWindow, Level, Value},
    Metric, Window,
};

use crate::{require::value_of, row::Row};

/// Judges the windows of the rows.
#[derive(Debug)]
pub struct Expected {
    file: ExpectationFile,
    /// The length of a window of a row that has none.
    period: Duration,
    /// By the name of a row; None: no expectations.
    sources: BTreeMap<String, Option<Source>>,
    /// A time on the monotonic clock, and the same as nanoseconds since the epoch. None: now, on this host's clocks.
    times: Option<(Instant, i64)>,
}

/// A row that was judged.
#[derive(Debug)]
pub struct JudgedRow {
    /// The name of the row.
    pub name: String,
    /// Its health after the window.
    pub health: Health,
    /// The change of its level.
    pub change: Option<Change>,
}

/// A row with expectations.
#[derive(Debug)]
struct Source {
    judge: Judge,
    /// Whether it is judged as a latched topic.
    is_latched: bool,
    /// When the last judged window ended.
    judged_until: Instant,
    /// The lengths of the last two windows. A window that ends late is followed by a shorter one.
    lengths: [Duration; 2],
}

impl Expected {
    /// Creates the judges of rows with windows of that length.
    pub fn new(file: ExpectationFile, period: Duration) -> Self {
        Self { file, period, sources: BTreeMap::new(), times: None }
    }

    /// Sets the times of windows that are not of now: `time` is `nanoseconds` since the epoch.
    pub fn set_times(&mut self, time: Instant, nanoseconds: i64) {
        self.times = Some((time, nanoseconds));
    }

    /// Judges the rows: each new window, and a row without windows as silent. Returns the results.
    pub fn judge(&mut self, new: &[String], rows: &[&Row], now: Instant) -> Vec<JudgedRow> {
        if self.sources.len() > rows.len() {
            self.sources.retain(|name, _| rows.iter().any(|row| row.name == *name));
        }
        let mut judged = vec![];
        for row in rows {
            let source = self.sources.entry(row.name.clone()).or_insert_with(|| {
                let judge = Judge::new(self.file.expectations(&row.name)?);
                Some(Source { judge, is_latched: false, judged_until: now, lengths: [self.period; 2] })
            });
            let Some(source) = source else { continue };
            source.set_latched(row.is_latched, || self.file.expectations(&row.name));
            let window = if new.contains(&row.name) { source.window_of(row) } else { None };
            let is_overdue = window.is_none();
            let silent = || source.silent_window(now, self.times);
            let Some(window) = window.or_else(silent) else { continue };
            source.begin_with_messages_before(&window, row);
            let change = source.judge.accept(&window, |quantity: Quantity| match quantity {
                // The figures of the row belong to a window that ended long ago.
                Quantity::Metric(Metric::TimeSinceLastMessage, _) if is_overdue => row.silence(now).into(),
                _ if is_overdue => Value::Unknown,
                _ => value_of(quantity, row, now),
            });
            judged.push(JudgedRow { name: row.name.clone(), health: source.judge.health().clone(), change });
        }
        judged
    }

    /// Returns the rows with expectations, with their judges.
    pub fn judged<'a>(&'a self, rows: &'a [&Row]) -> impl Iterator<Item = (&'a Row, &'a Judge)> {
        rows.iter().filter_map(|row| Some((*row, &self.sources.get(&row.name)?.as_ref()?.judge)))
    }

    /// Returns the names of the rows that have an error now, with their health.
    pub fn errors(&self) -> impl Iterator<Item = (&str, &Health)> {
        let judged = self.sources.iter().filter_map(|(name, source)| Some((&**name, source.as_ref()?)));
        judged
            .map(|(name, source)| (name, source.judge.health()))
            .filter(|(_, health)| health.level == Level::Error)
    }
}

impl Source {
    /// A row without a window for this number of periods is silent: its node has ended, or it has no publisher yet.
    const LATE: u32 = 3;

    /// Judges it as a latched topic, or no longer: with a new judge.
    fn set_latched(&mut self, is_latched: bool, expectations: impl FnOnce() -> Option<Expectations>) {
        if std::mem::replace(&mut self.is_latched, is_latched) == is_latched {
            return;
        }
        if let Some(expectations) = expectations() {
            self.judge = Judge::new(if is_latched { expectations.latched() } else { expectations });
        }
    }

    /// Has the judge know of messages before the first window. A subscription's first window is not whole, so the row
    /// has none of it; but a map that is published once has no message after it.
    fn begin_with_messages_before(&mut self, first: &JudgedWindow, row: &Row) {
        let start = self.judged_until.checked_sub(first.length);
        let is_before = row.last_message.zip(start).is_some_and(|(message, start)| message < start);
        if self.judge.health().cause == Cause::NoMessageYet && first.messages == Some(0) && is_before {
            let window = Window::new(first.window.start, first.window.start);
            self.judge.accept(&JudgedWindow::new(window, Duration::ZERO, Some(1)), |_| Value::Unknown);
        }
    }

    /// Returns the last window of a row.
    fn window_of(&mut self, row: &Row) -> Option<JudgedWindow> {
        let window = row.window.as_ref()?;
        self.judged_until = window.ended;
        self.lengths = [self.lengths[1], window.length];
        let judged = Window::from_nanoseconds(window.start, window.stop);
        Some(
            JudgedWindow::new(judged, window.length, window.received.or(window.told))
                .with_history(window.has_history),
        )
    }

    /// Returns the time since the last window as one without a message, once a new one is overdue.
    fn silent_window(&mut self, now: Instant, times: Option<(Instant, i64)>) -> Option<JudgedWindow> {
        let period = self.lengths[0].max(self.lengths[1]);
        let silent = now.saturating_duration_since(self.judged_until);
        if silent < period.saturating_mul(Self::LATE) {
            return None;
        }
        self.judged_until = now;
        let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let stop = match times {
            Some((time, at)) => at.saturating_add(nanoseconds(now.saturating_duration_since(time))),
            None => nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
        };
        let window = Window::from_nanoseconds(stop.saturating_sub(nanoseconds(silent)), stop);
        Some(JudgedWindow::new(window, silent, Some(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        row::{self, Window as RowWindow},
        testing::{at, row, window},
    };

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
    fn a_message_before_the_first_whole_window_is_the_first_message() {
        let last_level = |message: i64, silence: &str| {
            let mut expected = expected(&format!("topics: {{/map: {{warn_unless: silent<30s{silence}}}}}"));
            let judged = (102..122).map(|stop| {
                let mut map = row("/map", 0.0, 0);
                map.add_window(window(stop, 0.0, 0));
                map.last_message = Some(at(message)).filter(|_| stop > message);
                expected.judge(&["/map".to_owned()], &[&map], at(stop)).remove(0).health.level
            });
            judged.last()
        };
        assert_eq!(last_level(100, ", stale_after: never"), Some(Level::Ok));
        assert_eq!(
            last_level(100, ", stale_after: 15"),
            Some(Level::Stale),
            "after 15 s without another message"
        );
        assert_eq!(last_level(200, ", stale_after: never"), Some(Level::Stale), "no message yet");
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

    /// Returns the last level of a topic with a message in its first window and then none, by expectations.
    fn level_after_one_message(text: &str, is_latched: bool) -> Level {
        let mut expected = expected(&format!("topics: {{/imu: {text}}}"));
        let judged = (100..160).map(|stop| {
            let mut map = row("/imu", 0.0, 0);
            map.is_latched = is_latched;
            map.add_window(window(stop, if stop == 100 { 1.0 } else { 0.0 }, 0));
            expected.judge(&["/imu".to_owned()], &[&map], at(stop)).remove(0).health.level
        });
        judged.last().unwrap()
    }

    #[test]
    fn a_latched_topic_is_stale_only_if_its_silence_is_limited() {
        for (text, volatile, latched) in [
            ("{}", Level::Stale, Level::Ok),
            ("{warn_unless: age<50ms}", Level::Stale, Level::Ok),
            ("{stale_after: 30}", Level::Stale, Level::Stale),
            ("{warn_unless: rate>=1}", Level::Stale, Level::Stale),
        ] {
            assert_eq!(level_after_one_message(text, false), volatile, "{text}");
            assert_eq!(level_after_one_message(text, true), latched, "{text}");
        }
        let mut expected = expected("topics: {/imu: {}}");
        let silent = Row { is_latched: true, ..Row::new("/imu") };
        let judged =
            (103..130).step_by(3).filter_map(|second| expected.judge(&[], &[&silent], at(second)).pop());
        assert_eq!(judged.last().unwrap().health.level, Level::Stale, "no message at all");
    }

    #[test]
    fn history_of_a_restarted_publisher_is_no_rate() {
        let mut expected = expected("topics: {/imu: {error_unless: rate=1±20%}}");
        for stop in 100..160 {
            let mut status = row("/imu", 1.0, 0);
            status.is_latched = true;
            let messages = if stop == 130 { 11.0 } else { 1.0 };
            status.add_window(RowWindow { has_history: stop == 130, ..window(stop, messages, 0) });
            let judged = expected.judge(&["/imu".to_owned()], &[&status], at(stop));
            assert_eq!(judged[0].health.level, Level::Ok, "{stop}");
        }
    }

    #[test]
    fn silence_in_a_recording_is_at_the_time_of_the_recording() {
        let mut expected = expected("topics: {/imu: {silence: error}}");
        expected.set_times(at(100), 1000);
        let mut judge =
            |second| expected.judge(&[], &[&Row::new("/imu")], at(second)).pop().map(|judged| judged.health);
        assert!(judge(100).is_none());
        (103..130).step_by(3).for_each(|second| drop(judge(second)));
        let health = judge(130).unwrap();
        let since = health.since.unwrap().as_nanoseconds();
        assert_eq!(health.level, Level::Error);
        assert!((1000..1000 + 30_000_000_000).contains(&since), "{since}");
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
    fn a_window_that_is_short_because_the_one_before_ended_late_makes_no_silence() {
        let mut expected = expected("topics: {/imu: {error_unless: rate>=50}}");
        let mut imu = row("/imu", 100.0, 0);
        let time = |milliseconds: u64| at(100) + Duration::from_millis(milliseconds);
        for (ended, length) in [(1000, 1000), (2700, 1700), (3000, 300)] {
            let mut window = window(100, 100.0, 0);
            (window.ended, window.length) = (time(ended), Duration::from_millis(length));
            imu.add_window(window);
            expected.judge(&["/imu".to_owned()], &[&imu], time(ended));
        }
        assert!(expected.judge(&[], &[&imu], time(4100)).is_empty());
        assert_eq!(expected.judge(&[], &[&imu], time(8200))[0].health.level, Level::Stale);
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

    #[test]
    fn what_is_not_known_neither_raises_nor_clears_and_a_stamp_that_is_not_set_raises() {
        let text = "topics: {/imu: {warn_unless: rate=100±10% age<50ms lost=0 age.std<9 period.std<9, \
                    stale_after: never}}";
        let mut expected = expected(text);
        let mut imu = row("/imu", 100.0, 0);
        let mut judge = |stop: i64, change: &dyn Fn(&mut row::Window)| {
            let mut window = window(stop, 100.0, 0);
            change(&mut window);
            imu.add_window(window);
            expected.judge(&["/imu".to_owned()], &[&imu], at(stop)).remove(0).health
        };
        (100..105).for_each(|stop| assert_eq!(judge(stop, &|_| ()).level, Level::Ok));
        let without_samples = |window: &mut row::Window| {
            window.metrics.iter_mut().for_each(|metric| metric.figures = row::Figures::NONE);
        };
        let uncounted = |window: &mut row::Window| {
            (window.received, window.rate, window.lost) = (None, f64::NAN, None);
            without_samples(window);
        };
        for stop in 105..120 {
            let level = judge(stop, if stop % 3 == 0 { &uncounted } else { &without_samples }).level;
            assert_eq!(level, Level::Ok, "{stop}");
        }
        let unstamped = |window: &mut row::Window| {
            without_samples(window);
            window.unstamped = true;
        };
        assert_eq!((judge(120, &unstamped).level, judge(121, &unstamped).level), (Level::Ok, Level::Warn));
        let health = judge(122, &without_samples);
        let text = "age not measured, because the header stamps are not set, expected below 50, since 3 s";
        assert_eq!((health.level, &*health.to_string()), (Level::Warn, text), "it does not clear either");
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
