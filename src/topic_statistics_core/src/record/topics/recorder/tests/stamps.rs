// SPDX-License-Identifier: Apache-2.0

//! Header stamps: unset ones, those on another clock, and simulated time without `/clock`.

use super::*;

#[test]
fn a_window_is_unstamped_if_the_stamps_of_its_ages_are_zero() {
    let receive_unstamped = |test: &Test| {
        test.start(&test.take(0, test.info(FAST_DDS, 1, 1)));
    };
    let imu = Test::new(RecorderOptions::new());
    receive_unstamped(&imu);
    assert!(imu.end().unstamped);
    assert!(!imu.end().unstamped, "the window has no message");
    imu.receive_one(1);
    assert!(!imu.end().unstamped);
    let before_step = imu.take(imu.clock.system(), imu.info(FAST_DDS, 1, 1));
    imu.clock.step(-3 * S);
    imu.end();
    imu.start(&before_step);
    let window = imu.end();
    assert_eq!(samples(&window, Metric::MessageAge), 0, "the stamp is from the clock before the step");
    assert!(!window.unstamped);

    let without_header = Test::new(RecorderOptions::new());
    without_header.accept_no_header();
    let can_measure = [Metric::MessageAge, Metric::MessagePeriod].map(|it| without_header.can_measure(it));
    assert_eq!(can_measure, [false, true]);
    let from_source = Test::new(RecorderOptions::new().age_source(AgeSource::SourceTimestamp));
    for (test, ages) in [(without_header, 0), (from_source, 1)] {
        receive_unstamped(&test);
        let window = test.end();
        assert!(!window.unstamped);
        let age = window.get(Metric::MessageAge).unwrap();
        assert!(age.sample_count == ages && (ages == 0 || age.average == 30.0), "{age:?}");
    }
}

/// A `/clock` whose time a test sets.
#[derive(Clone, Default)]
struct SetClock(Arc<AtomicI64>);

impl RosClock for SetClock {
    fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A header stamp in simulated time and a source timestamp in system time must not give a delay.
#[test]
fn between_a_simulated_stamp_and_the_source_is_no_delay() {
    for (simulated, expected) in [(None, [true; 3]), (Some(SetClock::default()), [false, true, true])] {
        let simulated = simulated.map(|clock| Arc::new(SimulatedTime::new(clock)));
        let test = Test::on(RecorderOptions::new(), simulated);
        let metrics = [Metric::HeaderToSource, Metric::MessageAge, Metric::HeaderToCallback];
        assert_eq!(metrics.map(|metric| test.can_measure(metric)), expected);
    }
}

/// Returns a recorder that uses simulated time, and a function that receives a message. The function's arguments are
/// the simulated time and the time after the start, in seconds.
fn simulated(options: RecorderOptions) -> (Test, impl Fn(&Test, i64, i64)) {
    let clock = SetClock::default();
    let test = Test::on(options, Some(Arc::new(SimulatedTime::new(clock.clone()))));
    let receive = move |test: &Test, now: i64, at: i64| {
        clock.0.store(now * S, Ordering::Relaxed);
        test.clock.set(at * S);
        test.start(&test.take((now + 1000) * S, test.info(FAST_DDS, 1, 1)));
    };
    (test, receive)
}

#[test]
fn without_a_clock_windows_are_marked_until_it_begins() {
    let (test, receive) = simulated(RecorderOptions::new());
    receive(&test, 0, 0);
    let window = test.end();
    assert_eq!((window.without_clock, samples(&window, Metric::MessageAge)), (true, 0));
    assert!(!test.end().without_clock, "the window has no message");
    receive(&test, 5000, 1);
    let window = test.end();
    assert_eq!((window.without_clock, samples(&window, Metric::MessageAge)), (false, 1));

    let (test, receive) = simulated(RecorderOptions::new().age_source(AgeSource::SourceTimestamp));
    receive(&test, 0, 0);
    assert!(!test.end().without_clock);
}

/// A stamp on simulated time and a callback on the system clock would give an age of decades.
#[test]
fn stamps_on_another_clock_have_no_age() {
    const SYSTEM: &str = "The ages of messages on /imu are NaN: the header stamps are on another clock: only one of \
                          the stamps and the system clock is before the year 2000; if the stamps are on simulated \
                          time, set use_sim_time";
    const SIMULATED: &str = "The ages of messages on /imu are NaN: the node uses simulated time, but the header \
                             stamps are on the system clock; set use_sim_time in the node that publishes them";
    let metrics = [Metric::HeaderToSource, Metric::HeaderToCallback, Metric::SourceToCallback];
    let with_delays = RecorderOptions::new().metrics([Metric::MessageAge].into_iter().chain(metrics));
    for options in [RecorderOptions::new(), with_delays] {
        let has_delays = options.metrics.contains(Metric::SourceToCallback);
        let test = Test::new(options);
        if has_delays {
            test.set_distributions(true);
            test.restart();
        }
        // The stamps in seconds after the start of a simulation or of the test; the number of ages; whether the last
        // stamp is on another clock.
        let (simulated, system) = (|seconds| seconds * S, |seconds| TestClock::EPOCH + seconds * S);
        let mut logged = vec![];
        for (second, (stamps, ages, other_clock)) in (1..).zip([
            (&[system(0)][..], 1, false),
            (&[simulated(100), simulated(101)], 0, true),
            (&[simulated(102), system(0)], 1, false),
            (&[system(0), system(0), simulated(103)], 2, true),
            (&[0], 0, false),
            (&[-simulated(1)], 0, true),
            (&[], 0, false),
        ]) {
            test.clock.pass(S);
            for stamp in stamps {
                test.start(&test.take(*stamp, test.info(FAST_DDS, 1, 1)));
            }
            let FinishedWindow { statistics: window, warnings, .. } = test.window();
            logged.extend(warnings);
            let unstamped = stamps.last() == Some(&0);
            assert_eq!((window.unstamped, window.other_clock), (unstamped, other_clock), "{stamps:?}");
            assert_eq!(samples(&window, Metric::MessageAge), ages, "{stamps:?}");
            let age = window.get(Metric::MessageAge).unwrap().average;
            assert!(
                if ages == 0 { age.is_nan() } else { age == f64::from(second) * 1000.0 },
                "{age} {stamps:?}"
            );
            if has_delays {
                let counts = metrics.map(|metric| samples(&window, metric));
                assert_eq!(counts, [ages, ages, stamps.len() as u64], "{stamps:?}");
                let counted = window.distribution(Metric::MessageAge).map(Distribution::count);
                assert_eq!(counted, (ages > 0).then_some(ages), "{stamps:?}");
            }
        }
        assert_eq!(logged, [SYSTEM]);

        // The host has no battery, and its clock is not set yet.
        test.clock.step(-TestClock::EPOCH);
        assert!(!test.end().other_clock);
        test.clock.pass(20 * S);
        test.end();
        for (stamp, ages) in [(test.clock.system() - MS, 1), (TestClock::EPOCH, 0)] {
            test.clock.pass(S);
            test.start(&test.take(stamp, test.info(FAST_DDS, 1, 1)));
            let window = test.end();
            assert_eq!((samples(&window, Metric::MessageAge), window.other_clock), (ages, ages == 0));
        }
    }

    let clock = SetClock::default();
    let test = Test::on(RecorderOptions::new(), Some(Arc::new(SimulatedTime::new(clock.clone()))));
    for (now, stamp, ages, other_clock, warning) in [
        (0, TestClock::EPOCH, 0, false, None),
        (100, TestClock::EPOCH, 0, true, Some(SIMULATED)),
        (101, 100 * S, 1, false, None),
    ] {
        clock.0.store(now * S, Ordering::Relaxed);
        test.clock.pass(S);
        test.start(&test.take(stamp, test.info(FAST_DDS, 1, 1)));
        let FinishedWindow { statistics: window, warnings, .. } = test.window();
        assert_eq!((samples(&window, Metric::MessageAge), window.other_clock), (ages, other_clock), "{now}");
        assert_eq!(
            (window.without_clock, warnings),
            (now == 0, warning.into_iter().map(str::to_owned).collect())
        );
    }
}

#[test]
fn stamps_that_are_unusable_for_more_than_30_s_are_one_warning() {
    let (test, receive) = simulated(RecorderOptions::new());
    let text = "The ages of messages on /imu are NaN: the node uses simulated time, and there is no /clock";
    for (at, expected) in [(0, None), (10, None), (30, None), (31, Some(text)), (70, None)] {
        receive(&test, 0, at);
        assert_eq!(test.window().warnings, Vec::from_iter(expected), "{at}");
    }

    // Two publishers of `/clock` make simulated time jump, except during 13 s with only one publisher. So stamps are
    // usable again in the last three of these seconds, 10 s after the last jump.
    let (test, receive) = simulated(RecorderOptions::new());
    let mut logged = vec![];
    for at in 0..75 {
        let is_the_first = at % 2 == 0 || (18..31).contains(&at);
        receive(&test, if is_the_first { 5000 + at } else { 9000 + at }, at);
        logged.extend(test.window().warnings.into_iter().map(|text| (at, text)));
    }
    let [(62, text)] = &logged[..] else { panic!("{logged:?}") };
    assert!(text.contains("simulated time jumps again and again"), "{text}");

    let (test, receive) = simulated(RecorderOptions::new().age_source(AgeSource::SourceTimestamp));
    (0..40).for_each(|at| receive(&test, 0, at));
    assert_eq!(test.window().warnings, [""; 0]);
}
