// SPDX-License-Identifier: Apache-2.0

//! The check whether rows meet the expectations in the file of `--expect`.

mod suggest;

pub use suggest::suggest;
pub use topic_statistics_core::expectation_file::ExpectationFile;

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use topic_statistics_core::{
    condition::Quantity,
    health::{Cause, Change, Expectations, Health, Judge, JudgedWindow, Level, Value},
    Metric, Window,
};

use crate::{
    format,
    pattern::Namespace,
    require::value_of,
    row::{Row, Rows},
};

/// Reads the file of `--expect`. Names without a slash at their start are relative to `namespace`.
pub fn read(path: &Path, namespace: &Namespace) -> Result<ExpectationFile, String> {
    ExpectationFile::read(path, namespace).map_err(|error| format!("--expect {error}"))
}

/// Compares the windows of rows with the expectations. Other comments in this file say "judge" for this comparison.
#[derive(Debug)]
pub struct Expected {
    file: ExpectationFile,
    /// The assumed length of a window for a row without windows.
    period: Duration,
    /// The state of the comparison for each row, by the name of the row. `None` if a row has no expectations.
    sources: BTreeMap<String, Option<Source>>,
    /// A time on the monotonic clock, and the nanoseconds since the Unix epoch that correspond to it. `None` to use the
    /// present time on the clocks of this host.
    times: Option<(Instant, i64)>,
    /// The time of the last comparison.
    last_compared: Option<Instant>,
}

/// The result of the comparison of one row with its expectations.
#[derive(Debug)]
pub struct JudgedRow {
    pub name: String,
    pub health: Health,
    pub change: Option<Change>,
}

#[derive(Debug)]
struct Source {
    judge: Judge,
    /// Whether the row is judged as a latched topic, whose publishers keep their last messages.
    is_latched: bool,
    judged_until: Instant,
    /// The lengths of the last two windows. The longer one counts, because a window after a late window is too short.
    lengths: [Duration; 2],
}

impl Expected {
    /// A live program compares many times a second. If this time passes between two comparisons, the program was
    /// stopped.
    pub const STOPPED: Duration = Duration::from_secs(2);

    pub fn new(file: ExpectationFile, period: Duration) -> Self {
        Self { file, period, sources: BTreeMap::new(), times: None, last_compared: None }
    }

    /// Sets a monotonic time, and the same time in nanoseconds since the Unix epoch, to judge windows of the past.
    pub fn set_times(&mut self, time: Instant, nanoseconds: i64) {
        self.times = Some((time, nanoseconds));
    }

    /// Compares the new windows of the rows named in `new` with the expectations, and judges rows without a recent
    /// window as silent.
    pub fn judge(&mut self, new: &[String], rows: &[&Row], now: Instant) -> Vec<JudgedRow> {
        if self.sources.len() > rows.len() {
            self.sources.retain(|name, _| rows.iter().any(|row| row.name == *name));
        }
        self.begin_after_stop(now);
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
                // The statistics of the row belong to a window that ended long ago, so they are not used.
                Quantity::Metric(Metric::TimeSinceLastMessage, _) if is_overdue => row.silence(now).into(),
                _ if is_overdue => Value::Unknown,
                _ => value_of(quantity, row, now),
            });
            judged.push(JudgedRow { name: row.name.clone(), health: source.judge.health().clone(), change });
        }
        judged
    }

    /// If the program was stopped, for example by Ctrl-Z, it does not know the windows of this time. So this time is
    /// not a silence of the rows, and no rate is counted over it.
    fn begin_after_stop(&mut self, now: Instant) {
        let between = self.last_compared.replace(now).map(|last| now.saturating_duration_since(last));
        let is_live = self.times.is_none();
        if is_live && between.is_some_and(|between| between >= Self::STOPPED) {
            for source in self.sources.values_mut().flatten() {
                source.judged_until = now;
                if let Some(window) = source.judge.health().window {
                    let unknown = JudgedWindow::new(window, Duration::ZERO, None).with_count(0);
                    source.judge.accept(&unknown, |_| Value::Unknown);
                }
            }
        }
    }

    /// Compares the rows and sets their health. Returns the names of the rows whose level changed, with the change.
    pub fn update(&mut self, new: &[String], rows: &mut impl Rows, now: Instant) -> Vec<(String, Change)> {
        let mut changes = vec![];
        for JudgedRow { name, health, change } in self.judge(new, &rows.rows(), now) {
            if let Some(row) = rows.row_mut(&name) {
                row.health = Some(health);
            }
            changes.extend(change.map(|change| (name, change)));
        }
        changes
    }

    /// Returns the rows that have expectations, each with the [`Judge`] that compares its windows with them.
    pub fn judged<'a>(&'a self, rows: &'a [&Row]) -> impl Iterator<Item = (&'a Row, &'a Judge)> {
        rows.iter().filter_map(|row| Some((*row, &self.sources.get(&row.name)?.as_ref()?.judge)))
    }

    /// Calls `report` with a line for each row whose level is ERROR now. Returns whether no row has this level.
    pub fn report_errors(&self, report: impl Fn(&str)) -> bool {
        let judged =
            self.sources.iter().filter_map(|(name, source)| Some((name, source.as_ref()?.judge.health())));
        let errors = judged.filter(|(_, health)| health.level == Level::Error);
        errors.map(|(name, health)| report(&format!("{}: ERROR: {health}", format::name(name)))).count() == 0
    }
}

impl Source {
    /// A row is judged as silent if it has had no new window for this number of window lengths.
    const LATE: u32 = 3;

    /// Sets whether the row is judged as a latched topic. If this changes, the comparison starts again.
    fn set_latched(&mut self, is_latched: bool, expectations: impl FnOnce() -> Option<Expectations>) {
        if std::mem::replace(&mut self.is_latched, is_latched) == is_latched {
            return;
        }
        if let Some(expectations) = expectations() {
            self.judge = Judge::new(if is_latched { expectations.latched() } else { expectations });
        }
    }

    /// Tells the judge that the topic had messages before the row's first window. The first window of a subscription is
    /// incomplete, so the row does not get it. But this window can have the only message of a topic, for example of a
    /// map.
    fn begin_with_messages_before(&mut self, first: &JudgedWindow, row: &Row) {
        let start = self.judged_until.checked_sub(first.length);
        let is_before = row.last_message.zip(start).is_some_and(|(message, start)| message < start);
        if self.judge.health().cause == Cause::NoMessageYet && first.messages == Some(0) && is_before {
            let window = Window::new(first.window.start, first.window.start);
            let window = JudgedWindow::new(window, Duration::ZERO, Some(1)).with_count(0);
            self.judge.accept(&window, |_| Value::Unknown);
        }
    }

    /// Returns the last window of a row in the form that [`Judge::accept`] needs.
    fn window_of(&mut self, row: &Row) -> Option<JudgedWindow> {
        let window = row.window.as_ref()?;
        self.judged_until = window.ended;
        self.lengths = [self.lengths[1], window.length];
        let judged = window.times;
        Some(
            JudgedWindow::new(judged, window.length, window.received.or(window.inferred))
                .with_history(window.has_history),
        )
    }

    /// Returns the time since the last window as a window without messages. `None` if a new window is not overdue yet.
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
        let missing = (silent.as_nanos() + period.as_nanos() / 2).checked_div(period.as_nanos());
        let count = missing.and_then(|missing| u64::try_from(missing).ok()).unwrap_or(1);
        Some(JudgedWindow::new(window, silent, Some(0)).with_count(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        row::Window as RowWindow,
        testing::{at, row, window, without_samples},
    };

    fn expected(topic: &str, expectations: &str) -> Expected {
        let file = ExpectationFile::parse(&format!("topics: {{{topic}: {{{expectations}}}}}")).unwrap();
        Expected::new(file, Duration::from_secs(1))
    }

    fn judge(expected: &mut Expected, row: &mut Row, window: RowWindow) -> Health {
        let ended = window.ended;
        row.add_window(window);
        expected.last_compared = None; // not stopped since the last comparison
        expected.judge(std::slice::from_ref(&row.name), &[row], ended).remove(0).health
    }

    fn judge_silent(expected: &mut Expected, row: &Row, second: i64) -> Option<JudgedRow> {
        expected.last_compared = None; // not stopped since the last comparison
        expected.judge(&[], &[row], at(second)).pop()
    }

    #[test]
    fn a_topic_is_raised_and_cleared_by_its_windows() {
        let mut expected = expected("/imu", "warn_unless: rate=100±10%, error_unless: rate>=50");
        let mut imu = row("/imu", 100.0, 0);
        for (stop, rate, before, level) in [
            (101, 100.0, None, Level::Ok),
            (102, 40.0, None, Level::Ok),
            (103, 40.0, Some(Level::Ok), Level::Error),
            (104, 100.0, None, Level::Error),
            (105, 100.0, None, Level::Error),
            (106, 100.0, Some(Level::Error), Level::Ok),
        ] {
            imu.add_window(window(stop, rate, 0));
            let judged = expected.judge(&["/imu".to_owned()], &[&imu], at(stop)).remove(0);
            assert_eq!((judged.health.level, judged.change.map(|change| change.before)), (level, before));
            assert_eq!(expected.report_errors(|_| ()), level != Level::Error, "{stop}");
        }
    }

    #[test]
    fn a_topic_with_one_message_is_stale_as_expected_of_it() {
        // The only message is received at the time `message`: 100 is in the first window, and 99 is before the first
        // window. 200 means that no message is received.
        for (expectations, message, is_latched, level) in [
            ("", 100, false, Level::Stale),
            ("", 100, true, Level::Ok),
            ("warn_unless: age<50ms", 100, false, Level::Stale),
            ("warn_unless: age<50ms", 100, true, Level::Ok),
            ("stale_after: 30", 100, false, Level::Stale),
            ("stale_after: 30", 100, true, Level::Stale),
            ("warn_unless: rate>=1", 100, false, Level::Stale),
            ("warn_unless: rate>=1", 100, true, Level::Stale),
            ("warn_unless: silent<60s, stale_after: never", 99, false, Level::Ok),
            ("warn_unless: silent<60s, stale_after: 15", 99, false, Level::Stale),
            ("warn_unless: silent<60s, stale_after: never", 200, false, Level::Stale),
        ] {
            let mut expected = expected("/map", expectations);
            let levels = (100..150).map(|stop| {
                let mut map = Row { is_latched, ..row("/map", 0.0, 0) };
                map.last_message = Some(at(message)).filter(|_| stop > message);
                judge(&mut expected, &mut map, window(stop, f64::from(u8::from(stop == message)), 0)).level
            });
            assert_eq!(levels.last(), Some(level), "{expectations} {message} {is_latched}");
        }
        let mut expected = expected("/map", "");
        let silent = Row { is_latched: true, ..Row::new("/map") };
        let judged = (103..130).step_by(3).filter_map(|second| judge_silent(&mut expected, &silent, second));
        assert_eq!(judged.last().unwrap().health.level, Level::Stale, "the topic never had a message");
    }

    #[test]
    fn history_of_a_restarted_publisher_is_no_rate() {
        let mut expected = expected("/imu", "error_unless: rate=1±20%");
        for stop in 100..160 {
            let mut status = Row { is_latched: true, ..row("/imu", 1.0, 0) };
            let messages = if stop == 130 { 11.0 } else { 1.0 };
            let window = RowWindow { has_history: stop == 130, ..window(stop, messages, 0) };
            assert_eq!(judge(&mut expected, &mut status, window).level, Level::Ok, "{stop}");
        }
    }

    #[test]
    fn a_row_without_windows_is_silent_now() {
        // Fails if a silence gets times of the present instead of times of the recording.
        let mut recorded = expected("/imu", "silence: error");
        recorded.set_times(at(100), 1000);
        let new = Row::new("/imu");
        assert!(judge_silent(&mut recorded, &new, 100).is_none());
        let judged = (103..=130).step_by(3).filter_map(|second| judge_silent(&mut recorded, &new, second));
        let health = judged.last().unwrap().health;
        assert_eq!(health.level, Level::Error);
        assert!((1000..30_000_001_000).contains(&health.since.unwrap().as_nanoseconds()), "{health}");

        // A silent row is judged every three window lengths, and only if the row has expectations.
        let mut expected = expected("/imu", "error_unless: rate>=50, silence: error");
        let (mut imu, other) = (row("/imu", 100.0, 0), row("/odom", 100.0, 0));
        judge(&mut expected, &mut imu, window(100, 100.0, 0));
        judge(&mut expected, &mut imu, window(101, 100.0, 0));
        let mut judge_both = |second| {
            expected.last_compared = None; // not stopped since the last comparison
            expected.judge(&["/odom".to_owned()], &[&imu, &other], at(second)).pop()
        };
        assert!(judge_both(102).is_none(), "the next window is not overdue yet");
        let judged = judge_both(104).unwrap();
        assert_eq!((&*judged.name, judged.health.level), ("/imu", Level::Error));
        assert_eq!((judged.health.lasting, judged.change.is_some()), (Duration::from_secs(3), true));
        assert!(judge_both(105).is_none() && judge_both(107).unwrap().change.is_none());

        // A silence counts as the windows that are missing, so that an outage has its full weight in a service level.
        let judged = expected.judged(&[&imu]).map(|(_, judge)| judge.windows()).collect::<Vec<_>>();
        assert_eq!(judged, [[2, 0, 6, 0]], "two windows OK, then six seconds of silence");

        // After the last window, the time since the last message is computed anew, not taken from the window.
        let mut expected = self::expected("/imu", "error_unless: silent<2s");
        let mut imu = row("/imu", 100.0, 0);
        for stop in 100..103 {
            let mut window = window(stop, 100.0, 0);
            window.metrics[0].name = Metric::TimeSinceLastMessage.name().to_owned();
            imu.last_message = Some(at(stop));
            assert_eq!(judge(&mut expected, &mut imu, window).level, Level::Ok);
        }
        assert_eq!(judge_silent(&mut expected, &imu, 105).unwrap().health.level, Level::Error);

        // A topic that appears late has as much time for its first message as a topic that exists from the start.
        let mut expected = self::expected("'/**'", "error_unless: rate>=50");
        let levels = [1000, 1003, 1006, 1009, 1012]
            .map(|second| judge_silent(&mut expected, &new, second).map(|judged| judged.health.level));
        let ok = Some(Level::Ok);
        assert_eq!(levels, [None, ok, ok, ok, Some(Level::Stale)]);
        // If a row is removed, the comparison also removes the state of this row.
        let rows: Vec<Row> = (0..100).map(|number| Row::new(&format!("/topic{number}"))).collect();
        expected.judge(&[], &rows.iter().collect::<Vec<_>>(), at(1013));
        expected.judge(&[], &[&rows[0]], at(1014));
        assert_eq!(expected.sources.len(), 1);
    }

    #[test]
    fn the_time_in_which_the_program_was_stopped_is_no_silence() {
        let mut expected = expected("/imu", "error_unless: rate>=50");
        let mut imu = row("/imu", 100.0, 0);
        judge(&mut expected, &mut imu, window(100, 100.0, 0));
        assert!(expected.judge(&[], &[&imu], at(3700)).is_empty(), "stopped for an hour");
        assert!(judge_silent(&mut expected, &imu, 3702).is_none(), "the next window is not overdue yet");
        let health = judge_silent(&mut expected, &imu, 3703).unwrap().health;
        assert_eq!((health.level, health.lasting), (Level::Stale, Duration::from_secs(3)), "{health}");
        let windows = expected.judged(&[&imu]).map(|(_, judge)| judge.windows()).collect::<Vec<_>>();
        assert_eq!(windows, [[1, 0, 0, 3]]);

        let (mut unseen, new) = (self::expected("/imu", ""), Row::new("/imu"));
        for second in [100, 3700] {
            assert!(unseen.judge(&[], &[&new], at(second)).is_empty());
        }
        assert_eq!(unseen.judged(&[&new]).next().unwrap().1.health().window, None, "no window yet");
    }

    #[test]
    fn no_rate_is_counted_over_the_time_in_which_the_program_was_stopped() {
        let mut expected = expected("/gps", "error_unless: rate>=0.15");
        let mut gps = row("/gps", 0.2, 0);
        // Each time that a message arrives, the program is stopped for 2 s. It does not read the window of this time.
        for stop in (100..140).chain((140..160).filter(|stop| stop % 5 != 0)).chain(160..180) {
            gps.add_window(window(stop, f64::from(u8::from(stop % 5 == 0)), 0));
            let judged = expected.judge(&["/gps".to_owned()], &[&gps], at(stop)).remove(0);
            assert_eq!(judged.health.level, Level::Ok, "{stop}");
        }
    }

    #[test]
    fn a_short_window_after_a_late_one_makes_no_silence() {
        let mut expected = expected("/imu", "error_unless: rate>=50");
        let mut imu = row("/imu", 100.0, 0);
        let time = |milliseconds: u64| at(100) + Duration::from_millis(milliseconds);
        for (ended, length) in [(1000, 1000), (2700, 1700), (3000, 300)] {
            let (ended, length) = (time(ended), Duration::from_millis(length));
            judge(&mut expected, &mut imu, RowWindow { ended, length, ..window(100, 100.0, 0) });
        }
        assert!(expected.judge(&[], &[&imu], time(4100)).is_empty());
        expected.last_compared = None; // not stopped since the last comparison
        assert_eq!(expected.judge(&[], &[&imu], time(8200))[0].health.level, Level::Stale);
    }

    #[test]
    fn unknown_values_change_no_level_and_unset_stamps_raise_it() {
        let conditions = "rate=100±10% age<50ms lost=0 age.std<9 period.std<9";
        let mut expected = expected("/imu", &format!("warn_unless: {conditions}, stale_after: never"));
        let mut imu = row("/imu", 100.0, 0);
        let without_samples = |stop| without_samples(window(stop, 100.0, 0));
        let unknown =
            |stop| RowWindow { received: None, rate: f64::NAN, lost: None, ..without_samples(stop) };
        for stop in 100..120 {
            let known: fn(i64) -> RowWindow = |stop| window(stop, 100.0, 0);
            let next = if stop < 105 {
                known(stop)
            } else if stop % 3 == 0 {
                unknown(stop)
            } else {
                without_samples(stop)
            };
            assert_eq!(judge(&mut expected, &mut imu, next).level, Level::Ok, "{stop}");
        }
        let unstamped = |stop| RowWindow { unstamped: true, ..without_samples(stop) };
        assert_eq!(judge(&mut expected, &mut imu, unstamped(120)).level, Level::Ok);
        assert_eq!(judge(&mut expected, &mut imu, unstamped(121)).level, Level::Warn);
        let health = judge(&mut expected, &mut imu, without_samples(122));
        let text = "age not measured, because the header stamps are not set, expected below 50, since 3 s";
        assert_eq!((health.level, &*health.to_string()), (Level::Warn, text), "the level stays");
    }
}
