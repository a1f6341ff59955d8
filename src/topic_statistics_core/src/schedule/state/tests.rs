// SPDX-License-Identifier: Apache-2.0

use std::sync::Mutex;

use super::*;
use crate::{
    collector::{Distribution, FirstPeriod},
    condition::Conditions,
    record::{
        code::{Count, Durations},
        publications::Publications,
        recorder::{Recorder, RecorderOptions},
        test_clock::{HeldUp, TestClock, S},
        windowed::Windowed,
    },
    schedule::outbox::{PublishError, PublishWindows},
    summary::Summary,
    window::Window,
};

const SECOND: Duration = Duration::from_secs(1);

/// A reader of `/statistics` and `/statistics/distribution`. It keeps the source name of each message, in the order of
/// the messages.
#[derive(Default)]
struct Reader {
    metrics: Mutex<Vec<String>>,
    distributions: Mutex<Vec<String>>,
}

impl PublishWindows for Reader {
    fn publish_metric(&self, source: &str, _: Metric, _: Window, _: &Summary) -> Result<(), PublishError> {
        self.metrics.lock().unwrap().push(source.to_owned());
        Ok(())
    }

    fn publish_distribution(
        &self,
        source: &str,
        _: Metric,
        _: Window,
        _: &Distribution,
    ) -> Result<(), PublishError> {
        self.distributions.lock().unwrap().push(source.to_owned());
        Ok(())
    }
}

struct Rig {
    schedule: Schedule,
    clock: TestClock,
    reader: Arc<Reader>,
    /// The times at which health was published, with the sources and their levels.
    diagnosed: Vec<(Duration, Vec<(String, Level)>)>,
    changed: Vec<(String, Option<Level>, Level)>,
    warned: Vec<String>,
}

fn schedule(has_tables: bool) -> Schedule {
    Schedule::new(SourceDefaults::default(), has_tables, LossEvents::new("/node".to_owned(), 1.0))
}

/// Returns a stopwatch that is not yet added to the schedule.
fn stopwatch(name: &str) -> (Arc<Source>, Arc<Windowed<Durations>>) {
    let durations = Arc::new(Windowed::new(Durations::default()));
    (Arc::new(Source::new(name.to_owned(), Arc::clone(&durations) as _, None)), durations)
}

/// Returns a subscription to `/imu` that is not yet added to the schedule.
fn subscription(name: &str, clock: &TestClock) -> Arc<Source> {
    let recorder = Arc::new(Recorder::new("/imu", RecorderOptions::new(), None, clock));
    Arc::new(Source::new(name.to_owned(), recorder, Some(Box::new("/imu".to_owned()))))
}

impl Rig {
    fn new() -> Self {
        let (schedule, clock, reader) = (schedule(false), TestClock::new(), Arc::default());
        Self { schedule, clock, reader, diagnosed: vec![], changed: vec![], warned: vec![] }
    }

    /// Returns a rig whose windows are compared with expectations. `is_published` is whether health is published.
    fn judging(is_published: bool) -> Self {
        let mut rig = Self::new();
        rig.schedule.judge_by(NodeExpectations::default(), is_published);
        rig
    }

    fn pass(&self, time: Duration) -> Instant {
        self.clock.pass(time.as_nanos() as i64);
        self.clock.now()
    }

    fn passed(&self) -> Duration {
        Duration::from_nanos(self.clock.passed() as u64)
    }

    fn begin(
        &mut self,
        source: &Source,
        options: impl Into<SourceOptions>,
        publisher: Option<WindowPublisher>,
    ) {
        self.schedule.add(&source.collector, options.into(), publisher, self.clock.now(), &self.clock);
    }

    fn complete(&mut self, source: &Arc<Source>) {
        self.schedule.complete(source, self.clock.now());
    }

    /// Adds sources whose options have the default values. The windows of these sources are not published.
    fn create<'a>(&mut self, sources: impl IntoIterator<Item = &'a Arc<Source>>) {
        for source in sources {
            self.begin(source, SourceOptions::default(), None);
            self.complete(source);
        }
    }

    fn add(
        &mut self,
        name: &str,
        options: impl Into<SourceOptions>,
    ) -> (Arc<Source>, Arc<Windowed<Durations>>) {
        let (source, durations) = stopwatch(name);
        let publisher = Arc::clone(&self.reader) as _;
        self.begin(&source, options, Some(publisher));
        self.complete(&source);
        (source, durations)
    }

    fn add_many(&mut self, count: usize) -> Vec<(Arc<Source>, Arc<Windowed<Durations>>)> {
        (0..count).map(|number| self.add(&format!("/node:{number}"), SourceOptions::default())).collect()
    }

    /// Adds a subscription whose windows are not published.
    fn subscribe(&mut self, name: &str) -> Arc<Source> {
        let source = subscription(name, &self.clock);
        self.create([&source]);
        source
    }

    fn change_defaults(&mut self, change: impl FnOnce(&mut SourceDefaults)) {
        self.schedule.change_defaults(change, self.clock.now(), &self.clock);
    }

    fn set_state(&mut self, source: &Arc<Source>, state: StatisticsState) {
        self.schedule.set_state(source, state, self.clock.now(), &self.clock);
    }

    fn next(&mut self, pass: Duration) -> Action {
        let now = self.pass(pass);
        self.schedule.next(now, &self.clock)
    }

    fn published(&self) -> (usize, usize) {
        (self.reader.metrics.lock().unwrap().len(), self.reader.distributions.lock().unwrap().len())
    }

    /// Lets `seconds` pass. Returns the warnings that were given during this time.
    fn warned_after(&mut self, seconds: u64) -> Vec<String> {
        for _ in 0..seconds {
            self.pass(SECOND);
            self.run();
        }
        std::mem::take(&mut self.warned)
    }

    /// Carries out the actions of the schedule until the schedule waits. Returns the finished windows, and the time at
    /// which the wait ends.
    fn run(&mut self) -> (Vec<(String, Arc<WindowStatistics>)>, Option<Duration>) {
        let mut finished = vec![];
        loop {
            match self.schedule.next(self.clock.now(), &self.clock) {
                Action::HandOut(out) => {
                    self.warned.extend(out.warnings);
                    let changed = out.changed.into_iter().filter(|change| change.is_change);
                    self.changed.extend(
                        changed.map(|change| {
                            (change.source.name.to_string(), change.before, change.health.level)
                        }),
                    );
                    finished.extend(
                        out.finished.into_iter().map(|(source, window)| (source.name.to_string(), window)),
                    );
                }
                Action::Publish { batch, .. } => {
                    let mut failures = Failures::default();
                    batch.into_iter().for_each(|message| message.publish(&mut failures));
                    self.schedule.add_failures(failures);
                }
                Action::PublishDiagnostics(diagnosed) => {
                    let levels = diagnosed
                        .iter()
                        .map(|judged| (judged.source.name.to_string(), judged.judge.health().level));
                    self.diagnosed.push((self.passed(), levels.collect()));
                }
                Action::CheckPublishers(_) => self.schedule.add_publisher_check(vec![], None),
                Action::Wait(wake) => {
                    return (finished, wake.map(|wake| wake - (self.clock.now() - self.passed())))
                }
                Action::End { .. } => panic!("the schedule is not closed"),
            }
        }
    }

    /// Lets the time `pass` pass, ends the windows that are due, and publishes them. Returns the windows.
    fn windows(&mut self, pass: Duration) -> Vec<(String, Arc<WindowStatistics>)> {
        self.pass(pass);
        let (mut windows, mut wake) = self.run();
        while wake.is_some_and(|wake| wake < self.passed() + SECOND / 2) {
            self.pass(Duration::from_millis(10));
            let (more, next) = self.run();
            windows.extend(more);
            wake = next;
        }
        windows
    }
}

#[test]
fn it_waits_for_the_windows_end_then_hands_out_and_publishes() {
    let mut rig = Rig::new();
    assert_eq!(rig.run(), (vec![], None), "without a source there is nothing to wait for");
    let (_source, durations) = rig.add("stopwatch", StatisticsState::NodeDefault);
    assert_eq!(rig.run(), (vec![], Some(SECOND)));
    durations.record(|| 5.0);
    rig.pass(SECOND - Duration::from_nanos(1));
    assert_eq!(rig.run(), (vec![], Some(SECOND)), "a nanosecond before the end, no window ends");

    let windows = rig.windows(Duration::from_nanos(1));
    let [(name, window)] = &windows[..] else { panic!("{windows:?}") };
    assert_eq!((name.as_str(), window.count, window.length), ("stopwatch", 1, SECOND));
    assert_eq!(window.window, Window::from_nanoseconds(TestClock::EPOCH, TestClock::EPOCH + S));
    assert_eq!(*rig.reader.metrics.lock().unwrap(), ["stopwatch"]);
}

#[test]
fn windows_are_periodic_and_missed_periods_make_a_longer_one() {
    let mut rig = Rig::new();
    let (_source, _) = rig.add("stopwatch", StatisticsState::NodeDefault);
    let first = rig.windows(SECOND * 11 / 10);
    assert_eq!(rig.run().1, Some(2 * SECOND), "the ends stay periodic although the last end was late");
    let second = rig.windows(SECOND * 34 / 10);
    assert_eq!((first.len(), second.len()), (1, 1), "missed periods have no empty windows");
    assert_eq!(first[0].1.window.stop, second[0].1.window.start);
    assert_eq!(second[0].1.length, SECOND * 34 / 10);
    assert_eq!(rig.run().1, Some(SECOND * 55 / 10), "the next end is one period after the late end");
    rig.change_defaults(|defaults| defaults.publish_period = 3 * SECOND);
    assert_eq!(rig.run().1, Some(SECOND * 75 / 10), "a new period begins immediately");
}

#[test]
fn the_window_after_an_end_that_was_held_up_is_not_empty() {
    let mut rig = Rig::new();
    let (_source, _) = rig.add("stopwatch", StatisticsState::NodeDefault);
    rig.windows(SECOND);
    let now = rig.pass(SECOND);
    // The clock is delayed before its second reading, which is the reading at the window's end.
    let held_up = HeldUp::new(&rig.clock, 1, || {
        rig.clock.pass(3 * S);
    });
    let Action::HandOut(out) = rig.schedule.next(now, &held_up) else { panic!("no window") };
    assert_eq!(out.finished[0].1.length, 4 * SECOND);
    drop(out);
    assert_eq!(rig.run(), (vec![], Some(6 * SECOND)), "the next end is one period after the late end");
    assert_eq!(rig.windows(SECOND)[0].1.length, SECOND);
}

#[test]
fn publishers_are_checked_soon_after_a_subscription_is_complete() {
    let mut rig = Rig::new();
    let source = subscription("/node:/imu", &rig.clock);
    rig.begin(&source, StatisticsState::NodeDefault, None);
    rig.windows(SECOND / 2); // the check is due before the creation of the subscription is complete
    rig.complete(&source);
    let next = rig.next(Schedule::CHECK_TOGETHER / 2);
    assert!(!matches!(next, Action::CheckPublishers(_)), "other subscriptions may be created soon");
    let Action::CheckPublishers(sources) = rig.next(Schedule::CHECK_TOGETHER) else { panic!("no check") };
    assert!(matches!(&sources[..], [checked] if Arc::ptr_eq(checked, &source)));
    rig.schedule.add_publisher_check(vec![], None);

    let checks = |rig: &mut Rig, pass: Duration| matches!(rig.next(pass), Action::CheckPublishers(_));
    assert!(!checks(&mut rig, SECOND / 4), "the publishers are checked once");
    rig.change_defaults(|defaults| defaults.enabled = false);
    let (_stopwatch, _) = rig.add("stopwatch", StatisticsState::NodeDefault); // the stopwatch is now the last source
    rig.change_defaults(|defaults| defaults.enabled = true);
    assert!(!checks(&mut rig, Schedule::CHECK_TOGETHER / 2));
    assert!(checks(&mut rig, Schedule::CHECK_TOGETHER), "a subscription was enabled");

    let again = rig.clock.now() + SECOND / 4;
    rig.schedule.add_publisher_check(vec!["a publisher".to_owned()], Some(again));
    let Action::HandOut(out) = rig.next(Duration::ZERO) else { panic!("no warning") };
    assert_eq!(out.warnings, ["a publisher"]);
    assert!(!checks(&mut rig, SECOND / 8));
    assert!(checks(&mut rig, SECOND / 8), "the last check returned this time");
}

#[test]
fn the_totals_of_ended_subscriptions_are_kept_up_to_a_bound() {
    let mut rig = Rig::new();
    let _live = rig.subscribe("/node:/live");
    let (stopwatch, _) = rig.add("stopwatch", StatisticsState::NodeDefault);
    assert!(!rig.schedule.remove(&stopwatch));
    assert!(rig.schedule.ended.as_ref().is_some_and(Vec::is_empty), "a stopwatch has no totals");
    let mut warned = vec![];
    for number in 0..Schedule::ENDED + 2 {
        let source = rig.subscribe(&format!("/node:/{number}"));
        if rig.schedule.remove(&source) {
            warned.push(number);
        }
    }
    assert_eq!(warned, [1000], "the warning is given for the first totals that have no room");
    let totals = rig.schedule.totals();
    assert_eq!(totals.len(), 1 + Schedule::ENDED);
    assert_eq!((&totals[0].source_name, &totals[1].source_name), (&"/node:/live".into(), &"/node:/2".into()));
}

#[test]
fn what_is_dropped_without_a_word_leaves_the_lists() {
    let mut rig = Rig::new();
    let lengths = |rig: &Rig| [rig.schedule.entries.len(), rig.schedule.new_entries.len()];
    let (kept, _) = rig.add("kept", StatisticsState::NodeDefault);
    drop(rig.add("dropped", StatisticsState::NodeDefault));
    let (new, _) = stopwatch("new");
    rig.begin(&new, SourceOptions::default(), None);
    drop(new);
    assert_eq!(lengths(&rig), [1, 1], "the drop is noticed at the next change");
    rig.change_defaults(|defaults| defaults.enabled = true);
    assert_eq!(lengths(&rig), [1, 0]);
    drop(kept);
    rig.windows(SECOND);
    assert_eq!(lengths(&rig), [0, 0], "the drop is noticed at the end of a window");
}

#[test]
fn a_step_of_the_clock_is_one_warning_for_all_sources() {
    let mut warned = Warned::default();
    let (offset, by) = (1_790_000_000 * S, 5 * S / 2);
    let warning = warned.clock_step(by, offset).unwrap();
    assert!(warning.contains("stepped by +2.500000 s"), "{warning}");
    assert_eq!(warned.clock_step(by, offset + 50_000), None, "another source has read the same clock");
    assert!(warned.clock_step(-by, offset + 50_000 + 50_001).is_some(), "another step is another warning");
}

#[test]
fn a_closed_schedule_returns_what_is_left_and_enables_nothing() {
    let mut rig = Rig::new();
    let (source, durations) = rig.add("stopwatch", StatisticsState::NodeDefault);
    let Action::HandOut(_) = rig.next(SECOND) else { panic!("no finished window") };
    let (new, new_durations) = stopwatch("new");
    rig.begin(&new, SourceOptions::default(), None);
    assert!(new_durations.is_enabled());
    rig.schedule.close();
    rig.set_state(&source, StatisticsState::Enable);
    assert!(!durations.is_enabled() && !new_durations.is_enabled());
    let Action::End { messages, .. } = rig.next(Duration::ZERO) else { panic!("no end") };
    assert_eq!(messages.len(), 1, "the finished window is published");
}

#[test]
fn windows_messages_and_health_have_turns_if_all_takes_too_long() {
    for has_health in [false, true] {
        let mut rig = if has_health { Rig::judging(true) } else { Rig::new() };
        let _sources = rig.add_many(20);
        if has_health {
            rig.schedule.set_conditions(Level::Warn, conditions("0: duration<5"));
        }
        rig.schedule.check_publishers_by(rig.clock.now());
        let (mut handed_out, mut batches, mut diagnosed, mut checked) = (0, 0, 0, 0);
        for _ in 0..300 {
            match rig.next(2 * SECOND) {
                Action::HandOut(_) => handed_out += 1,
                Action::Publish { batch, .. } => {
                    batches += 1;
                    batch.into_iter().for_each(|message| message.publish(&mut Failures::default()));
                }
                Action::PublishDiagnostics(_) => diagnosed += 1,
                Action::CheckPublishers(_) => checked += 1,
                _ => {}
            }
        }
        let text = format!("{handed_out} {batches} {diagnosed} {checked}");
        assert!(checked > 0, "{text}");
        let least = if has_health { 90 } else { 100 };
        assert!(handed_out.min(batches) >= least, "a batch after each end of windows: {text}");
        assert!(rig.published().0 >= least * Outbox::BATCH, "{text}");
        assert!(diagnosed >= if has_health { least } else { 0 }, "{text}");
    }
}

#[test]
fn a_failed_message_is_repeated_once_and_the_others_of_its_batch_are_not() {
    /// A middleware that takes no message: counts the attempts to publish each source.
    #[derive(Default)]
    struct Full(Mutex<Vec<String>>);

    impl PublishWindows for Full {
        fn publish_metric(
            &self,
            source: &str,
            _: Metric,
            _: Window,
            _: &Summary,
        ) -> Result<(), PublishError> {
            self.0.lock().unwrap().push(source.to_owned());
            Err(format!("{source} is full").into())
        }
    }

    let (mut rig, full) = (Rig::new(), Arc::new(Full::default()));
    let sources = ["first", "second", "third"].map(|name| stopwatch(name).0);
    for source in &sources {
        rig.begin(source, SourceOptions::default(), Some(Arc::clone(&full) as _));
        rig.complete(source);
    }
    rig.windows(SECOND);
    assert_eq!(*full.0.lock().unwrap(), ["first", "first", "second", "third"]);
    let text = "3 messages of topic statistics could not be published: duration_ms of first: first is full";
    assert_eq!(rig.warned_after(1), [text]);
}

#[test]
fn windows_beyond_the_bound_of_the_outbox_are_discarded() {
    let mut rig = Rig::new();
    let _sources = rig.add_many(100);
    let mut warnings = vec![];
    for round in 0..2 * Outbox::BOUND / 90 {
        // Windows end in every second round, and their 100 messages are added to the outbox. In the rounds between
        // these, 5 messages are published.
        if let Action::HandOut(out) = rig.next(SECOND) {
            warnings.extend(out.warnings);
        }
        assert!(warnings.is_empty() || round > 2 * Outbox::BOUND / 100, "there is room: {warnings:?}");
    }
    assert!(matches!(&warnings[..], [one] if one.contains("more than 20000 messages wait")), "{warnings:?}");

    // If a window is discarded, no message of this window may stay in the outbox, not even a distribution.
    let mut rig = Rig::new();
    rig.change_defaults(|defaults| defaults.distributions = true);
    let (_source, durations) = rig.add("stopwatch", StatisticsState::NodeDefault);
    for _ in 0..=Outbox::BOUND / 2 {
        durations.record(|| 5.0);
        let now = rig.pass(SECOND);
        rig.schedule.end_windows(now, &rig.clock);
    }
    assert_eq!(rig.schedule.outbox.discarded, 1);
    let waiting = rig.schedule.outbox.take();
    assert_eq!(waiting.len(), Outbox::BOUND);
    assert!(!waiting[0].is_distribution && waiting[1].is_distribution);
}

#[test]
fn batches_are_10_ms_apart_or_end_by_the_middle_of_a_window() {
    let nanosecond = Duration::from_nanos(1);
    for (period, count, gap) in [
        (SECOND, 12, Duration::from_millis(10)),
        // The 20 batches have to be published within half of the window (50 ms), so the time between two batches is 50
        // ms / 20.
        (SECOND / 10, 100, Duration::from_micros(2500)),
    ] {
        let mut rig = Rig::new();
        rig.change_defaults(|defaults| defaults.publish_period = period);
        let _sources = rig.add_many(count);
        rig.pass(period);
        for batch in 1..=count.div_ceil(Outbox::BATCH) {
            let wake = rig.run().1;
            let published = count.min(batch * Outbox::BATCH);
            assert_eq!(rig.published().0, published, "{period:?}, batch {batch}");
            let next = if published == count { 2 * period } else { rig.passed() + gap };
            assert_eq!(wake, Some(next), "{period:?}, batch {batch}");
            rig.pass(gap - nanosecond);
            rig.run();
            assert_eq!(rig.published().0, published, "{period:?}, batch {batch}: too early");
            rig.pass(nanosecond);
        }
    }
}

fn conditions(text: &str) -> Vec<Condition> {
    text.parse::<Conditions>().unwrap().0
}

#[test]
fn health_is_published_once_per_second_and_an_error_at_once() {
    let mut rig = Rig::judging(true);
    let tenth = Duration::from_millis(100);
    rig.change_defaults(|defaults| defaults.publish_period = tenth);
    let (_good, _) = rig.add("/node:good", SourceOptions::default());
    let (bad, durations) = rig.add("/node:bad", SourceOptions::default());
    let run = |rig: &mut Rig, windows: usize, milliseconds: f64| {
        for _ in 0..windows {
            durations.record(|| milliseconds);
            rig.pass(tenth);
            rig.run();
        }
    };
    run(&mut rig, 30, 1.0);
    assert!(rig.diagnosed.is_empty() && rig.changed.is_empty(), "no source has expectations");

    rig.schedule.set_conditions(Level::Error, conditions("bad: duration<5"));
    let ok = ("/node:bad".to_owned(), Level::Ok);
    run(&mut rig, 32, 1.0);
    let times = |rig: &Rig| rig.diagnosed.iter().map(|(time, _)| time.as_millis()).collect::<Vec<_>>();
    assert_eq!(times(&rig), [3100, 4100, 5100, 6100]);
    assert!(rig.diagnosed.iter().all(|(_, levels)| *levels == [ok.clone()]), "{:?}", rig.diagnosed);
    assert_eq!(rig.changed, [], "a new judge is not a change");

    run(&mut rig, 2, 9.0);
    assert_eq!(times(&rig)[4..], [6400], "an error is published immediately");
    assert_eq!(rig.diagnosed[4].1, [("/node:bad".to_owned(), Level::Error)]);
    assert_eq!(rig.changed, [("/node:bad".to_owned(), Some(Level::Ok), Level::Error)]);

    // A disabled source has no health. When the source is enabled again, its judge restarts.
    rig.set_state(&bad, StatisticsState::Disable);
    rig.run();
    assert_eq!(rig.changed[1..], [("/node:bad".to_owned(), Some(Level::Error), Level::Ok)]);
    for (state, levels) in [(StatisticsState::Disable, vec![]), (StatisticsState::Enable, vec![ok])] {
        rig.set_state(&bad, state);
        rig.pass(SECOND);
        rig.run();
        assert_eq!(rig.diagnosed.last().unwrap().1, levels);
    }

    // Without conditions, no source has a judge, so from now on the health must not be published.
    rig.schedule.set_conditions(Level::Error, vec![]);
    let (count, wake) = (rig.diagnosed.len(), rig.run().1);
    assert_eq!((rig.diagnosed.len(), wake), (count, Some(rig.passed() + tenth)));
}

#[test]
fn errors_are_published_at_most_every_50_ms() {
    let mut rig = Rig::judging(true);
    rig.change_defaults(|defaults| defaults.publish_period = Duration::from_millis(100));
    rig.schedule.set_conditions(Level::Error, conditions("first: duration<5 second: duration<5"));
    let (_first, first) = rig.add("/node:first", SourceOptions::default());
    let options = SourceOptions { publish_period: Some(Duration::from_millis(110)), ..Default::default() };
    let (_second, second) = rig.add("/node:second", options);
    for step in 0..150 {
        let duration = if step < 100 { 1.0 } else { 9.0 };
        [&first, &second].iter().for_each(|durations| durations.record(|| duration));
        rig.pass(Duration::from_millis(10));
        rig.run();
    }
    let errors =
        |levels: &[(String, Level)]| levels.iter().filter(|(_, level)| *level == Level::Error).count();
    let published: Vec<_> =
        rig.diagnosed.iter().map(|(time, levels)| (time.as_millis(), errors(levels))).collect();
    let first = published.iter().position(|(_, errors)| *errors > 0).unwrap();
    let at_once = published[first].0;
    assert_eq!(published[first..first + 2], [(at_once, 1), (at_once + 50, 2)], "{published:?}");
}

#[test]
fn a_table_has_the_windows_that_end_together() {
    let mut rig = Rig { schedule: schedule(true), ..Rig::new() };
    let sources = ["/node:call", "/node:other"].map(|name| rig.add(name, SourceOptions::default()));
    let tables = |rig: &mut Rig| {
        rig.pass(SECOND);
        let mut tables = vec![];
        loop {
            match rig.next(Duration::ZERO) {
                Action::HandOut(out) => tables.extend(out.tables),
                Action::Wait(_) => return tables,
                _ => {}
            }
        }
    };
    let table = tables(&mut rig);
    assert!(table.len() == 1 && ["call", "other"].iter().all(|name| table[0].contains(name)), "{table:?}");
    drop(sources);
    assert_eq!(tables(&mut rig), [""; 0]);
}

#[test]
fn the_options_of_a_source_replace_what_the_node_expects_of_it() {
    let mut rig = Rig::new();
    rig.schedule.set_conditions(Level::Warn, conditions("/node:call: duration<5"));
    let (source, durations) = stopwatch("/node:call");
    rig.begin(&source, SourceOptions::default(), None);
    rig.schedule.expect(&source, Expectations::new().warn_unless("duration<50".parse().unwrap()));
    rig.complete(&source);
    assert!(rig.schedule.check_measured(&conditions("/node:call: lost=0")).is_ok(), "it has expectations");
    let (other, _) = rig.add("/node:other", SourceOptions::default());
    assert_eq!(
        rig.schedule.check_measured(&conditions("other: lost=0")).unwrap_err(),
        "other: lost=0: /node:other is a stopwatch, which does not measure publication_seq_gap"
    );
    assert!(rig.schedule.check_measured(&conditions("other: duration<5")).is_ok(), "durations are measured");
    let is_about =
        |source: &Source| rig.schedule.expectations().select(source.names(), source.kind()).is_some();
    assert!(is_about(&source) && !is_about(&other));
    for _ in 0..5 {
        durations.record(|| 20.0);
        rig.windows(SECOND);
    }
    assert!(rig.changed.iter().all(|(.., level)| *level == Level::Ok), "{:?}", rig.changed);
}

#[test]
fn a_condition_applies_to_sources_of_its_name_that_measure_it() {
    let mut rig = Rig::new();
    let relay = |collector| Arc::new(Source::new("/relay:/imu".to_owned(), collector, None));
    let sources = [
        subscription("/relay:/imu", &rig.clock),
        relay(Arc::new(Windowed::new(Publications::new(FirstPeriod::NoSample, false)))),
        stopwatch("/relay:/imu").0,
        relay(Arc::new(Windowed::new(Count::default()))),
    ];
    rig.create(&sources);
    let all = ["subscription", "publisher", "stopwatch", "counter"];
    for (text, expected) in [
        ("/imu: age<100ms", &all[..1]),
        ("/imu: age.p99<100ms", &all[..1]),
        ("/imu: lost=0", &all[..1]),
        ("/imu: out_of_order=0", &all[..1]),
        ("/imu: bandwidth>1", &all[..2]),
        ("/imu: message_size.max<1kB", &all[..2]),
        ("/imu: publish_period.max<20ms", &all[1..2]),
        ("/imu: duration.max<5ms", &all[2..3]),
        ("/imu: frequency_hz>5", &all[3..]),
        ("/imu: rate>=90", &all),
        ("/imu: publishers>=1", &[]),
        ("age<100ms", &all[..1]),
        ("rate>=90", &all[..1]),
    ] {
        let expectations = NodeExpectations::default().with(Level::Error, conditions(text));
        let kinds = sources.iter().map(|source| source.kind());
        let is_expected = |kind: &_| expectations.select(sources[0].names(), *kind).is_some();
        let kinds: Vec<_> = kinds.filter(is_expected).map(|kind| kind.to_string()).collect();
        assert_eq!(kinds, expected, "{text}");
    }
}

#[test]
fn a_condition_that_is_judged_nowhere_is_a_warning_after_15_s() {
    let mut rig = Rig::judging(false);
    let text = "rate>=1 /imuu: rate>=90 /imu: rate>=90 lost=0 duration<5 late: duration<5 call: duration<5";
    rig.schedule.set_conditions(Level::Warn, conditions(text));
    let _imu = rig.subscribe("/node:/imu");
    let (_call, _) = rig.add("/node:call", SourceOptions::default());
    assert_eq!(rig.warned_after(14), [""; 0], "sources may be created later");
    let (_late, _) = rig.add("/node:late", SourceOptions::default());
    let expected = [
        "/imuu: rate>=90 is not judged: no source of the node has that name",
        "/imu: lost=0 is not judged: /node:/imu does not measure publication_seq_gap; a metric is enabled when its \
         source is created, so set this at the start, with the topic as the code has it, or enable the metric",
        "/imu: duration<5 is not judged: /node:/imu is a subscription, which does not measure duration_ms",
    ];
    assert_eq!(rig.warned_after(3), expected);
    assert_eq!(rig.warned_after(60), [""; 0], "each warning is given once");
    rig.schedule.set_conditions(Level::Error, conditions("/scan: rate>=9"));
    rig.schedule.set_conditions(Level::Warn, vec![]);
    assert_eq!(rig.warned_after(20).len(), 1, "only the conditions that are set now are checked");
}

#[test]
fn a_condition_on_no_subscription_is_a_warning_of_its_level() {
    let mut rig = Rig::judging(false);
    rig.schedule.set_conditions(Level::Warn, conditions("/imuu: rate>=90"));
    rig.schedule.set_conditions(Level::Error, conditions("rate>=1 age<50ms"));
    let (_stopwatch, _) = rig.add("/node:call", SourceOptions::default()); // a stopwatch has no topic
    let expected = [
        "rate>=1 is not judged: the node has no subscription",
        "age<50ms is not judged: the node has no subscription",
        "/imuu: rate>=90 is not judged: no source of the node has that name",
    ];
    assert_eq!(rig.warned_after(16), expected);
    let recorder = Recorder::new("/chatter", RecorderOptions::new(), None, &rig.clock);
    recorder.accept_no_header();
    let chatter = Arc::new(Source::new("/node:/chatter".to_owned(), Arc::new(recorder), None));
    rig.create([&chatter]);
    rig.schedule.set_conditions(Level::Error, conditions("rate>=1 age<60ms"));
    let without_header =
        "age<60ms is not judged: /node:/chatter does not measure message_age, because its type has no header";
    assert_eq!(rig.warned_after(16), [without_header], "the conditions for WARN were already reported");
    let _imu = rig.subscribe("/node:/imu");
    rig.schedule.set_conditions(Level::Error, conditions("age<70ms"));
    assert_eq!(rig.warned_after(60), [""; 0], "one subscription measures it");
}

#[test]
fn distributions_end_with_the_last_condition_on_a_percentile() {
    let mut rig = Rig::judging(false);
    let (_stopwatch, durations) = rig.add("/node:call", SourceOptions::default());
    for (text, has_some) in [(None, false), (Some("call: duration.p99<5"), true), (None, false)] {
        rig.schedule.set_conditions(Level::Warn, text.map_or(vec![], conditions));
        rig.windows(SECOND); // the change does not apply to the current window
        let before = rig.published().1;
        for _ in 0..3 {
            durations.record(|| 1.0);
            rig.windows(SECOND);
        }
        assert_eq!(rig.published().1 > before, has_some, "{text:?}");
    }
}
