// SPDX-License-Identifier: Apache-2.0

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::condition::ConditionError;

const SECOND: Duration = Duration::from_secs(1);

fn conditions(text: &str) -> Conditions {
    text.parse().unwrap_or_else(|error: ConditionError| panic!("{error}"))
}

fn warn_unless(text: &str) -> Expectations {
    Expectations::new().warn_unless(conditions(text))
}

struct Windows {
    judge: Judge,
    length: Duration,
    stop: i64,
    changes: Vec<Change>,
}

impl Windows {
    fn new(expectations: Expectations, length: Duration) -> Self {
        Self { judge: Judge::new(expectations), length, stop: 0, changes: vec![] }
    }

    /// Ends a window with `messages` messages. Every quantity that is not counted has the value `value`.
    fn end(&mut self, messages: u64, value: impl Into<Value>) -> Level {
        self.end_of(Some(messages), value.into())
    }

    fn end_of(&mut self, messages: Option<u64>, value: Value) -> Level {
        let start = self.stop;
        self.stop += self.length.as_nanos() as i64;
        let window = Window::from_nanoseconds(start, self.stop);
        let window = JudgedWindow::new(window, self.length, messages);
        self.changes.extend(self.judge.accept(&window, |_| value));
        self.judge.health().level
    }

    fn levels(&mut self, windows: impl IntoIterator<Item = (u64, f64)>) -> Vec<Level> {
        windows.into_iter().map(|(messages, value)| self.end(messages, value)).collect()
    }

    /// Ends windows. Each step says which level the windows lead to: `3x100:10=W` means three windows with 100 messages
    /// and a value of 10, with WARN after each window. `?` is an unknown number of messages, `-` is an unknown value,
    /// `!` is a missing value, `*` is any level, and `~S` is any level other than STALE.
    fn follow(&mut self, steps: &str) {
        for step in steps.split_whitespace() {
            let (windows, level) = step.split_once('=').unwrap();
            let (count, window) = windows.split_once('x').unwrap_or(("1", windows));
            let (messages, value) = window.split_once(':').unwrap();
            let messages = (messages != "?").then(|| messages.parse().unwrap());
            let value = match value {
                "-" => Value::Unknown,
                "!" => Value::Missing(Missing::HeaderStamps),
                number => number.parse::<f64>().unwrap().into(),
            };
            for window in 1..=count.parse().unwrap() {
                let found = format!("{:?}", self.end_of(messages, value));
                let is_as_said = match level.strip_prefix('~') {
                    Some(other) => !found.starts_with(other),
                    None => level == "*" || found.starts_with(level),
                };
                assert!(is_as_said, "{found}: window {window} of {step} in {steps}");
            }
        }
    }
}

/// The times of a topic's messages, in seconds.
struct Topic {
    random: fastrand::Rng,
    time: f64,
    period: f64,
    jitter: f64,
}

impl Topic {
    fn new(seed: u64, rate: f64, jitter: f64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self { time: random.f64() / rate, random, period: 1.0 / rate, jitter }
    }

    /// Returns the messages of the windows until the time `until`: their number, and the mean period in milliseconds as
    /// a subscription measures it.
    fn windows(&mut self, window: f64, from: f64, until: f64) -> Vec<(u64, f64)> {
        let count = ((until - from) / window).round() as usize;
        let windows = (1..=count).map(|index| {
            let stop = from + index as f64 * window;
            let (mut first, mut last, mut messages) = (f64::NAN, f64::NAN, 0_u64);
            while self.time < stop {
                first = if messages == 0 { self.time } else { first };
                (last, messages) = (self.time, messages + 1);
                self.time += self.period * (1.0 + self.jitter * (2.0 * self.random.f64() - 1.0));
            }
            let period = if messages > 1 { (last - first) * 1e3 / (messages - 1) as f64 } else { f64::NAN };
            (messages, period)
        });
        windows.collect()
    }
}

const RATES: [f64; 4] = [0.3, 1.0, 30.0, 1000.0];

#[test]
fn a_rate_that_halves_is_found_when_the_messages_prove_it() {
    // The windows last for 1 s. At 30 Hz and 1000 Hz, one window is enough to prove that the rate is too low, so two
    // windows raise the level.
    for (rate, until_warn, until_ok) in [(1000.0, 2, 3), (30.0, 2, 3), (1.0, 8, 24), (0.3, 30, 80)] {
        let mut windows = Windows::new(warn_unless(&format!("rate>={}", 0.9 * rate)), SECOND);
        let mut topic = Topic::new(7, rate, 0.05);
        windows.levels(topic.windows(1.0, 0.0, 100.0));
        topic.period *= 2.0;
        let found = windows.levels(topic.windows(1.0, 100.0, 400.0));
        let raised = found.iter().position(|level| *level == Level::Warn).expect("the low rate is found") + 1;
        assert!(found[raised..].iter().all(|level| *level == Level::Warn), "{rate} Hz: it lasts");
        topic.period /= 2.0;
        let found = windows.levels(topic.windows(1.0, 400.0, 800.0));
        let cleared = found.iter().position(|level| *level == Level::Ok).expect("it ends") + 1;
        assert!(raised <= until_warn && cleared <= until_ok, "{rate} Hz: {raised} and {cleared} windows");
        assert_eq!(windows.changes.len(), 2, "{rate} Hz");
    }
}

#[test]
fn a_rate_that_misses_its_limit_by_two_percent_is_found() {
    for rate in RATES {
        let mut windows = Windows::new(warn_unless(&format!("rate>={}", rate / 0.98)), SECOND);
        let levels = windows.levels(Topic::new(3, rate, 0.0).windows(1.0, 0.0, 100.0 / rate + 300.0));
        assert!(levels.contains(&Level::Warn), "{rate} Hz");
    }
}

/// A window without a length must be ignored. Otherwise the previous window would be counted twice. On a clock that
/// stands still, a window can begin and end at the same time.
#[test]
fn a_window_without_a_length_is_no_evidence_of_a_rate() {
    for expected in ["rate>=50", "rate=50±10%", "message_period<=20"] {
        let mut windows = Windows::new(warn_unless(expected).raise_after(2), SECOND);
        assert_eq!(windows.levels([(50, f64::NAN), (50, f64::NAN), (10, f64::NAN)]), [Level::Ok; 3]);
        windows.length = Duration::ZERO;
        assert_eq!(
            windows.levels([(0, f64::NAN), (1, f64::NAN), (2, f64::NAN)]),
            [Level::Ok; 3],
            "{expected}"
        );
        windows.length = SECOND;
        assert_eq!(windows.end(10, f64::NAN), Level::Warn, "{expected}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Finds false alarms: a topic whose periods all keep the limit must never get the level WARN, whatever the
    /// periods, the length of the windows and their phase are.
    #[test]
    fn a_topic_that_keeps_the_limit_is_never_in_alarm(
        seed: u64,
        period in 0.001_f64..20.0,
        tolerance in 0.0_f64..0.9,
        window in 0.05_f64..5.0,
    ) {
        let count = 300_usize;
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut time, mut counts) = (random.f64() * period, vec![0_u64; count]);
        while time < window * count as f64 {
            counts[(time / window) as usize] += 1;
            time += period * (1.0 - tolerance * random.f64());
        }
        let (lower, upper) = (1.0 / period, 1.0 / (period * (1.0 - tolerance)));
        // A rounded value can be equal to a limit, so the limits get a small tolerance.
        let (longest, shortest) = (1e3 * period * (1.0 + 1e-9), 1e3 * period * (1.0 - tolerance) * (1.0 - 1e-9));
        for expected in [
            format!("rate>={}", lower * (1.0 - 1e-9)),
            format!("rate<={}", upper * (1.0 + 1e-9)),
            format!("period={shortest}..{longest}"),
            format!("period.max<={longest}"),
            format!("period.min>={shortest}"),
        ] {
            let expectations = warn_unless(&expected).stale_after(seconds(4.0 * period));
            let expectations = expectations.first_message_within(Duration::MAX);
            let mut windows = Windows::new(expectations, Duration::from_secs_f64(window));
            counts.iter().for_each(|messages| { windows.end(*messages, Value::Unknown); });
            prop_assert_eq!(windows.changes.len(), 0, "{}: {:?}", expected, windows.changes);
        }
    }

    /// Whatever the windows contain, the judge must not panic, silence must lead to STALE, and nothing else must lead
    /// to STALE.
    #[test]
    fn stale_is_silence_and_nothing_else(
        windows_of in prop::collection::vec(
            (prop::option::of(0_u64..4), prop::option::of(prop::num::f64::ANY)),
            1..200,
        ),
        text in prop::sample::select(vec!["rate>=2 age<5", "age.p99<5 lost=0", "silent<3s period.max>=2", "bandwidth>1",
            "rate!=1 frequency_hz<2", "rate=0"]),
    ) {
        let expectations = warn_unless(text).error_unless(conditions(text)).first_message_within(3 * SECOND);
        let mut windows = Windows::new(expectations, SECOND);
        for (messages, value) in windows_of {
            let before = windows.judge.health().level;
            let level = windows.end_of(messages, value.map_or(Value::Missing(Missing::HeaderStamps), Value::from));
            prop_assert!(level != Level::Stale || messages == Some(0) || (messages.is_none() && before == level));
            prop_assert!(windows.changes.windows(2).all(|pair| pair[0].health.level == pair[1].before));
        }
    }
}

#[test]
fn silence_is_stale_after_three_of_the_longest_periods() {
    for (text, windows) in [
        ("rate>=90", 1),
        ("rate=90..110 age<50", 1),
        ("rate>=0.9", 4),     // 3.33 s
        ("rate=0.3±10%", 12), // 11.1 s
        ("period<2s", 6),
        ("silent<4s", 12),
        ("age<50", 10),
        ("age<50 rate<=0.1", 30),
        ("rate>=90 silent<2s", 6),
    ] {
        let mut judged = Windows::new(warn_unless(text), SECOND);
        judged.follow(&format!("2x100:10=O {}x0:-=~S 0:-=S", windows - 1));
        let health = judged.judge.health();
        let since = Some(Timestamp::from_nanoseconds(2_000_000_000));
        assert_eq!((&health.cause, health.since), (&Cause::Silence, since), "{text}: since the last message");
    }
    for text in ["rate=0 age<5", "rate>=0"] {
        Windows::new(warn_unless(text), SECOND).follow("2x1:1=O 1000x0:-=O");
    }
}

#[test]
fn after_silence_it_is_warn_until_enough_windows_are_good() {
    let mut judged = Windows::new(warn_unless("rate>=90 age<50"), SECOND);
    // The first window after silence is not a whole window, so it is not compared. A bad window restarts the count of
    // good windows.
    judged.follow("2x100:10=O 0:-=S 40:10=W 2x100:10=W 100:90=W 2x100:10=W 100:10=O");
    let last = &judged.changes.last().unwrap().health;
    let since = Some(Timestamp::from_nanoseconds(7_000_000_000));
    assert_eq!((last.since, last.lasting), (since, 3 * SECOND), "since the first good window");
    let levels: Vec<_> = judged.changes.iter().map(|change| (change.before, change.health.level)).collect();
    let [ok, warn, stale] = [Level::Ok, Level::Warn, Level::Stale];
    assert_eq!(levels, [(ok, stale), (stale, warn), (warn, ok)]);
    let expectations = Expectations::new().error_unless(conditions("rate>=90 age<50"));
    Windows::new(expectations, SECOND).follow("2x100:90=* 100:90=E 0:0=S 2x100:10=W");
}

#[test]
fn windows_are_counted_by_the_level_that_they_led_to() {
    let mut judged = Windows::new(warn_unless("rate>=90").first_message_within(3 * SECOND), SECOND);
    // The first two windows are not compared with the expectations. In the third window, the first message is overdue.
    judged.levels([(0, f64::NAN); 3]);
    assert_eq!(judged.judge.windows(), [0, 0, 0, 1]);
    judged.levels([(100, 1.0); 10]);
    assert_eq!(judged.judge.windows(), [7, 3, 0, 1]);
}

#[test]
fn a_window_says_of_samples_only_what_is_known() {
    let mut judged = Windows::new(warn_unless("age<50 lost=0").stale_after(Duration::MAX), SECOND);
    // First, the windows without messages prove nothing. In the windows after these, the value is unknown, as it would
    // be after a step of the clock.
    judged.follow("1:10=O 1:0=O 0:90=O 0:-=O 0:90=O 100x1:-=O 1:!=O 0:!=O 1:-=O 1:!=W");
    assert_eq!(judged.judge.health().lasting, 4 * SECOND, "since the first violation");
    judged.follow("100x1:-=W 1:0=W 1:-=W 1:0=W 1:0=O"); // unknown values do not clear the level, either
}

#[test]
fn the_cause_names_why_the_value_is_missing() {
    let mut judged = Windows::new(warn_unless("age<50"), SECOND);
    judged.follow("3x1:10=O 1:90=O");
    let (clock, stamps) = (Missing::Clock, Missing::HeaderStamps);
    for (value, text) in [
        (Value::Missing(clock), "age not measured, because there is no /clock, expected"),
        (Value::Missing(stamps), "age not measured, because the header stamps are not set, expected"),
        (Value::Missing(clock), "age not measured, because there is no /clock, expected"),
        (Value::Measured(60.0), "age 60 ms, expected"),
    ] {
        assert_eq!(judged.end(1, value), Level::Warn);
        let health = judged.judge.health().to_string();
        assert!(health.starts_with(text), "{health}");
    }
}

#[test]
fn without_a_clock_or_with_another_one_ages_are_missing() {
    let value = |metric, flags| Value::without_sample(metric, Figure::Average, Some(1), flags);
    for &metric in Metric::OF_SUBSCRIPTIONS {
        let missing = |is_missing, reason| if is_missing { Value::Missing(reason) } else { Value::Unknown };
        let needs_clock = matches!(metric, Metric::MessageAge | Metric::HeaderToCallback);
        let starts_at_stamp = needs_clock || metric == Metric::HeaderToSource;
        assert_eq!(value(metric, [false, true, false]), missing(needs_clock, Missing::Clock), "{metric}");
        let other_clock = missing(starts_at_stamp, Missing::OtherClock);
        assert_eq!(value(metric, [false, false, true]), other_clock, "{metric}");
        assert_eq!(value(metric, [false; 3]), Value::Unknown, "{metric}");
    }
}

#[test]
fn windows_of_unknown_messages_neither_raise_nor_clear() {
    // `2x?` are two windows that counted 132 and 68 messages, because some messages of the second window were counted
    // in the first window. So both numbers are unknown, and must not violate the condition.
    let mut judged = Windows::new(warn_unless("rate=100±10%"), SECOND);
    judged.follow("3x100:0=O 2x?:-=O 3x100:0=O 50:0=O 50:0=W ?:-=W 2x100:0=W ?:-=W 100:0=O");

    // At 1 Hz, a decision needs the messages of several windows in a row. A window with an unknown number of messages
    // must not be one of these windows.
    let mut slow = Windows::new(warn_unless("rate>=0.9"), SECOND);
    slow.follow("30x1:0=O");
    slow.follow(&"1:0=* 0:0=* ".repeat(15));
    slow.follow("?:-=W 9x1:0=W 19x1:0=* 1:0=O"); // 9 messages do not prove a rate of at least 0.9 Hz

    // A window with an unknown number of messages must not count as silence.
    Windows::new(warn_unless("age<50"), SECOND).follow("2x1:0=O 100x?:-=O 9x0:0=O 0:0=S");
}

/// A map is published once, perhaps late. After that, it is published rarely. Windows with an unknown number of
/// messages do not clear the level.
#[test]
fn a_topic_that_may_be_silent_needs_no_second_message() {
    let mut map = Windows::new(warn_unless("silent<5min"), SECOND);
    map.follow("9x0:-=O 11x0:-=S 1:500=W 10x?:-=W 0:1500=W 0:2500=W 0:3500=O");
    map.follow("896x0:290000=O 0:290000=S 1:500=W 0:1500=W 0:2500=W 0:3500=O");

    let never_silent = Expectations { stale_after: Some(Duration::MAX), ..warn_unless("age<50") };
    Windows::new(never_silent, SECOND).follow("20x0:-=* 1:10=W 2x0:-=W 0:-=O");
}

#[test]
fn the_worst_condition_that_fails_gives_the_level_and_the_cause() {
    let expectations = warn_unless("rate=90..110 age<50").error_unless(conditions("rate>=50"));
    let mut judged = Windows::new(expectations, SECOND);
    judged.levels([(100, 10.0), (100, 10.0), (41, 90.0), (41, 90.0), (41, 90.0)]);
    let health = judged.judge.health();
    let since = Some(Timestamp::from_nanoseconds(2_000_000_000));
    assert_eq!((health.level, health.since), (Level::Error, since));
    assert_eq!(health.to_string(), "rate 41 Hz, expected at least 50, since 3 s");
    let failing: Vec<_> = judged
        .judge
        .conditions()
        .map(|condition| (condition.level, condition.fails, condition.value))
        .collect();
    let (error, warn) = (Level::Error, Level::Warn);
    assert_eq!(failing, [(error, true, Some(41.0)), (warn, true, Some(41.0)), (warn, true, Some(90.0))]);
    judged.levels([(80, 10.0); 3]);
    assert_eq!(judged.judge.health().to_string(), "rate 80 Hz, expected 90 to 110, since 6 s");
    judged.levels([(100, 10.0); 3]);
    assert_eq!(judged.judge.health().to_string(), "as expected, since 3 s");
    let levels: Vec<_> = judged.changes.iter().map(|change| change.health.level).collect();
    assert_eq!(levels, [error, warn, Level::Ok]);

    // A new cause with the same level has to be reported as a change, too.
    judged.levels([(80, 10.0), (80, 90.0), (80, 90.0), (100, 90.0), (100, 90.0), (100, 90.0)]);
    let texts: Vec<_> = judged.changes[3..].iter().map(|change| change.health.to_string()).collect();
    assert_eq!(
        texts,
        ["rate 80 Hz, expected 90 to 110, since 2 s", "age 90 ms, expected below 50, since 5 s"]
    );
}

#[test]
fn bandwidth_is_counted_with_the_messages_that_were_received() {
    let mut judged = Windows::new(warn_unless("bandwidth>=250"), SECOND);
    let mut topic = Topic::new(1, 0.3, 0.05);
    for (messages, _) in topic.windows(1.0, 0.0, 300.0) {
        judged.end(messages, messages as f64 * 1000.0);
    }
    assert_eq!(judged.changes, []);
    for (messages, _) in topic.windows(1.0, 300.0, 400.0) {
        judged.end(messages, messages as f64 * 500.0);
    }
    assert_eq!(judged.judge.health().level, Level::Warn, "messages of half the size have half the bandwidth");
    // The bandwidth is 20.4 MB/s, 2 % above the limit. A window with unknown bytes is ignored, and the windows before
    // this window are ignored, too.
    let mut camera = Windows::new(warn_unless("bandwidth>=20MB/s"), SECOND);
    camera.follow("20x30:20.4e6=O 30:-=O 100x30:20.4e6=O 15:10.2e6=O 15:10.2e6=W 50x30:-=W");
}

#[test]
fn a_source_that_may_be_silent_is_stale_where_that_is_limited() {
    let expected = |text: &str| Expectations::new().error_unless(conditions(text));
    let unlimited = expected("oldest_call<1s round_trip.p99<50ms").with_silence();
    assert_eq!(
        (unlimited.stale_after, unlimited.first_message_within),
        (Some(Duration::MAX), Some(Duration::MAX))
    );
    let limited = expected("rate>=1").with_silence();
    assert_eq!((limited.stale_after, limited.first_message_within), (None, None));
    let own = expected("round_trip<50ms").stale_after(SECOND).with_silence();
    assert_eq!(own.stale_after, Some(SECOND));
}

/// A client calls a service once. The service is stuck at first, and responds later.
#[test]
fn a_call_without_a_response_is_judged_in_windows_without_calls() {
    let expectations = Expectations::new().error_unless(conditions("oldest_call<1500ms")).with_silence();
    // A client may be silent, so windows without a call must not make it STALE.
    Windows::new(expectations, SECOND).follow("0:0=O 1:500=O 0:1500=O 0:2500=E 0:3500=E 2x0:0=E 100x0:0=O");
}
