// SPDX-License-Identifier: Apache-2.0

//! A step of the system clock makes no value wrong: a value is correct or NaN.
//!
//! Talker and listener are processes whose clock is stepped while they run. The listener prints each window, together
//! with the measurements of its callbacks on a clock that is not stepped: the truth. Other processes, on the machine's
//! clock, read the messages, the service and the log.

mod check;
mod listener;
mod monitor;
mod waiting;

use std::{
    collections::BTreeSet,
    sync::{Arc, Condvar, Mutex},
    thread::available_parallelism,
    time::Instant,
};

use check::{Check, Expected, HELD_UP};
use listener::{Figures, Listener, Settings, TotalTruth, Window, SECOND, TENTH};
use rclrs::*;
use ros_env::{rcl_interfaces::msg::Log, sensor_msgs::msg::Imu};
use serde_json::Value;
use test_support::{clock::SteppedClock, context, domain, node, Process, Program, Reader, Spinning};

/// A second, in nanoseconds.
const S: i64 = 1_000_000_000;

/// Steps in both directions: shorter than a window and much longer.
const STEPS: [i64; 4] = [-60 * S, -S / 2, S / 2, 3600 * S];

/// The clock of the talker.
#[derive(Clone, Copy, PartialEq)]
enum Talker {
    /// The clock of the listener, which is stepped: both are on one host.
    OnTheSameHost,
    /// A clock that is not stepped.
    OnAnotherHost,
}

/// A listener whose clock is stepped, and the readers of its statistics.
struct Rig {
    clock: SteppedClock,
    domain: u32,
    listener: Listener,
    talker: Option<Process>,
    reader: Reader,
    service: Program,
    rosout: Arc<Mutex<Vec<Log>>>,
    _rosout_subscription: (Subscription<Log>, Spinning),
    /// The steps so far, in nanoseconds.
    steps: Vec<i64>,
    /// The part of the steps during which the host was suspended, so that the time did pass.
    suspended: i64,
    /// Descriptions of all wrong values.
    faults: Vec<String>,
    _turn: Turn,
}

/// One of as many rigs as there are processors. Each is four processes that compute; with more of them, windows would
/// be held up for longer than the checks allow for.
struct Turn;

static RIGS: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

impl Turn {
    /// Waits until there are fewer rigs.
    fn take() -> Self {
        let most = available_parallelism().map_or(1, usize::from);
        let (rigs, ended) = &RIGS;
        *ended.wait_while(rigs.lock().unwrap(), |rigs| *rigs >= most).unwrap() += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (rigs, ended) = &RIGS;
        *rigs.lock().unwrap() -= 1;
        ended.notify_one();
    }
}

impl Rig {
    /// Returns `None` if clocks cannot be stepped.
    fn start(settings: &Settings) -> Option<Rig> {
        let (clock, domain, turn) = (SteppedClock::new()?, domain(), Turn::take());
        let rosout = Arc::new(Mutex::new(vec![]));
        let to = Arc::clone(&rosout);
        let store = move |log: Log| to.lock().unwrap().push(log);
        let (executor, node) = node("operator", &[]);
        let options = "/rosout".keep_last(100).transient_local();
        let subscription = node.create_subscription(options, store).unwrap();
        let rosout_subscription = (subscription, Spinning::start(executor));
        let reader = Reader::start_with_depth(domain, 2000); // deep enough for a pause of the reader
        let service = Program::start("losses.py", &[], domain);
        let listener = Listener::start(domain, settings, &clock);
        let (talker, steps, suspended, faults) = (None, vec![], 0, vec![]);
        Some(Rig {
            clock,
            domain,
            listener,
            talker,
            reader,
            service,
            rosout,
            _rosout_subscription: rosout_subscription,
            steps,
            suspended,
            faults,
            _turn: turn,
        })
    }

    fn start_talker(&mut self, talker: Talker, rate: f64) {
        let clock = (talker == Talker::OnTheSameHost).then_some(&self.clock);
        self.talker = Some(listener::start_talker(self.domain, rate, clock));
        self.wait_for_messages();
    }

    /// Waits until each source has three windows with messages.
    fn wait_for_messages(&mut self) {
        self.listener.read_until("windows with messages", |windows| {
            let number = |source| {
                let windows = windows.iter().filter(|window| window.source == source);
                windows.filter(|window| window.metrics["message_period"].count > 0).count()
            };
            number(SECOND) >= 3 && number(TENTH) >= 3
        });
        self.reader.read_until("windows on /statistics", |metrics| {
            [SECOND, TENTH].iter().all(|source| metrics.iter().any(|metric| metric.source == *source))
        });
    }

    /// Steps the clock. Waits for the end of the window of the step and of the two windows after it.
    fn step(&mut self, by: i64) {
        // Each step is at a different time within a second.
        self.listener.wait_for_windows(TENTH, 3 * self.steps.len() % 10);
        self.clock.step(by);
        self.settle(by);
    }

    /// Suspends the host. Waits as [`step`](Self::step) does.
    fn suspend(&mut self, by: i64) {
        self.clock.suspend(by);
        self.suspended += by;
        self.settle(by);
    }

    fn settle(&mut self, step: i64) {
        self.steps.push(step);
        self.listener.wait_for_windows(SECOND, 3);
        self.check_service();
    }

    /// Compares the totals of the service with those of the callbacks.
    fn check_service(&mut self) {
        // The service answers between these two readings.
        let before = self.listener.truth();
        let answer: Value = serde_json::from_str(&self.service.request("totals /clocked")).unwrap();
        let truth = [before, self.listener.truth()];
        assert_eq!(answer["totals"].as_array().unwrap().len(), truth[1].len(), "{answer}");
        for total in answer["totals"].as_array().unwrap() {
            let when = format!("service after steps of {:?} ns", self.steps);
            self.check_totals(
                &when,
                &total["source"],
                [&total["rate"], &total["first"], &total["last"]],
                &truth,
            );
        }
    }

    /// Compares totals (rate, first message and last message) with those of the callbacks, read before and after.
    fn check_totals(
        &mut self,
        report: &str,
        source: &Value,
        totals: [&Value; 3],
        [before, after]: &[Vec<TotalTruth>; 2],
    ) {
        let truth = |truths: &[TotalTruth]| truths.iter().position(|truth| truth.source == *source).unwrap();
        let (before, truth) = (&before[truth(before)], &after[truth(after)]);
        let [shortest, active] = [before, truth].map(|truth| truth.received as f64 / truth.rate);
        let rate = totals[0].as_f64().unwrap_or(f64::NAN);
        // Smaller than the effect of the smallest step.
        let tolerance = 1.001 + HELD_UP / 1e3 / active;
        let (lowest, highest) = (before.rate.min(truth.rate), before.rate.max(truth.rate));
        let is_right = (lowest / tolerance..=highest * tolerance).contains(&rate);
        if !is_right {
            self.faults
                .push(format!("{report}: {rate:.3} Hz of {source}; truth {lowest:.3} to {highest:.3}"));
        }
        let [first, last] = [totals[1], totals[2]].map(|time| time.as_i64().unwrap());
        let between = (last - first - self.suspended) as f64 / S as f64;
        let tolerance = 2.0 * HELD_UP / 1e3;
        if !(shortest.min(active) - tolerance..=active + tolerance).contains(&between) {
            let what = format!(
                "{between:.3} s from the first to the last of {source}; truth {shortest:.3} to {active:.3}"
            );
            self.faults.push(format!("{report}: {what}"));
        }
    }

    /// Ends the listener. Checks its windows, messages, warnings and its file of totals.
    fn end(mut self, expected: &Expected) {
        let (truth, file, log) = self.listener.end();
        let truth = [truth.clone(), truth];
        for topic in file["topics"].as_array().unwrap() {
            let totals = [&topic["messages_rate"], &topic["first_message"], &topic["last_message"]];
            self.check_totals("file", &topic["measurement_source_name"], totals, &truth);
        }
        for source in [SECOND, TENTH] {
            self.check_windows(source, expected);
            self.check_published(source);
        }
        let warnings = log.into_iter().filter(|line| line.contains("[WARN]") || line.contains("[ERROR]"));
        self.check_warnings("log", warnings.collect());
        let rosout = self.rosout.lock().unwrap().clone();
        let warnings = rosout.into_iter().filter(|log| log.name == "clocked" && log.level > Log::INFO);
        self.check_warnings("/rosout", warnings.map(|log| log.msg).collect());
        let faults = &self.faults;
        assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults[..faults.len().min(60)].join("\n"));
    }

    /// Checks that each step has one warning with its size. Only one other kind of warning is allowed: the thread that
    /// ends the windows was held up.
    fn check_warnings(&mut self, output: &str, mut lines: Vec<String>) {
        lines.retain(|line| !line.contains("was preempted for too long"));
        let size = |line: &String| {
            let size = line.split("The system clock was stepped by ").nth(1)?.split(" s: ").next()?;
            Some((size.parse::<f64>().ok()? * S as f64) as i64)
        };
        let sizes: Option<Vec<i64>> = lines.iter().map(size).collect();
        if !sizes.is_some_and(|sizes| are_same(&sizes, &self.steps)) {
            self.faults.push(format!("{output}: {lines:#?} of steps of {:?} ns", self.steps));
        }
    }

    /// Returns the start and stop of the published windows of a source.
    fn published(&self, source: &str) -> Vec<(i64, i64)> {
        test_support::of(&self.reader.metrics, source, "message_period")
            .map(|metric| (metric.start, metric.stop))
            .collect()
    }

    fn windows(&self, source: &str) -> Vec<Window> {
        self.listener.windows.iter().filter(|window| window.source == source).cloned().collect()
    }

    /// Checks the windows of a source in the process.
    fn check_windows(&mut self, source: &str, expected: &Expected) {
        let windows = self.windows(source);
        let last = windows.last().unwrap().stop;
        self.reader.read_until("last window", |metrics| {
            test_support::of(metrics, source, "message_period").any(|metric| metric.stop == last)
        });
        let (mut steps, mut since_step, mut on_the_way) = (vec![], None::<f64>, 0.0);
        for (index, window) in windows.iter().enumerate() {
            let length = window.length as f64 / 1e6;
            if let Some(step) = window.clock_step {
                steps.push(step);
                since_step = Some(-length);
                let has_ages = |earlier: &&Window| earlier.metrics["message_age"].count > 0;
                let slowest = windows[..index].iter().rfind(has_ages).map_or(0.0, check::on_the_way);
                // After a small step back, stamps are doubtful until the clock has passed the same times again.
                let back = if (-10 * S..0).contains(&step) { -step as f64 / 1e6 } else { 0.0 };
                on_the_way = slowest.max(back + 250.0);
            }
            let stepped = steps.iter().sum::<i64>() as f64 / 1e6;
            let check = Check { window, since_step, on_the_way, stepped, expected };
            let mut faults = [check.figures(), check.ages()].concat();
            faults.extend(
                index.checked_sub(1).map(|before| check.length(&windows[before])).into_iter().flatten(),
            );
            // A listener that is held up sees windows together, some after the step of a later one.
            let later = &windows[index + 1..];
            let together = later.iter().take_while(|later| later.seen == window.seen).count();
            if later.iter().take(together + 1).all(|later| later.clock_step.is_none()) {
                faults.extend(check.stop());
            }
            since_step = since_step.map(|since| since + length);
            let at = window.seen / 1e3;
            self.faults.extend(faults.into_iter().map(|fault| format!("{source} at {at:.3} s: {fault}")));
        }
        let (all, lacking) = (windows.len(), windows.iter().filter(|window| window.lacks_figures()).count());
        if lacking > 1 + all / 20 {
            self.faults.push(format!("{source}: {lacking} of {all} windows lack figures"));
        }
        if !are_same(&steps, &self.steps) {
            self.faults.push(format!("{source}: windows with steps of {steps:?} ns; truth {:?}", self.steps));
        }
    }

    /// Checks the published windows of a source. They have the same values as in the process. There are no gaps between
    /// them except those of the steps.
    fn check_published(&mut self, source: &str) {
        for window in self.windows(source) {
            let metrics = self.reader.metrics.iter();
            for metric in metrics.filter(|metric| metric.source == source && metric.stop == window.stop) {
                let Figures { average, minimum, maximum, count } = window.metrics[&metric.metric];
                let figures = [metric.average(), metric.minimum(), metric.maximum()];
                let figures = figures.map(|figure| (!figure.is_nan()).then_some(figure));
                if metric.start != window.start
                    || figures != [average, minimum, maximum]
                    || metric.count() != count as f64
                {
                    self.faults.push(format!("{source}: {metric:?} was published for {window:?}"));
                }
            }
        }
        let published = self.published(source);
        let gaps = published.iter().zip(&published[1..]).map(|(window, next)| next.0 - window.1);
        let gaps: Vec<i64> = gaps.filter(|gap| *gap != 0).collect();
        if !are_same(&gaps, &self.steps) {
            self.faults.push(format!("{source}: gaps of {gaps:?} ns; steps of {:?}", self.steps));
        }
        let backwards = published.iter().filter(|(start, stop)| stop <= start);
        let backwards: BTreeSet<i64> = backwards.map(|(start, stop)| start - stop).collect();
        if !backwards.is_empty() {
            self.faults.push(format!("{source}: windows stop {backwards:?} ns before they start"));
        }
    }
}

/// Returns whether the sizes are those of the steps, to within a millisecond.
fn are_same(seen: &[i64], steps: &[i64]) -> bool {
    seen.len() == steps.len() && seen.iter().zip(steps).all(|(seen, step)| (seen - step).abs() < S / 1000)
}

/// Steps the clock of a host, at a message rate. Values are correct or NaN, in the windows of the steps and in all
/// others.
fn steps_of_a_host(rate: f64, body: f64) {
    let Some(mut rig) = Rig::start(&Settings { body, ..Settings::default() }) else { return };
    rig.start_talker(Talker::OnTheSameHost, rate);
    STEPS.into_iter().for_each(|step| rig.step(step));
    rig.step(-S); // a leap second
    rig.suspend(30 * S);
    // Steps during silence.
    rig.talker.as_ref().unwrap().signal("STOP");
    rig.step(-60 * S);
    rig.step(S / 2);
    rig.end(&Expected::default());
}

#[test]
fn steps_of_a_hosts_clock_spoil_no_figure_at_20_hz() {
    steps_of_a_host(20.0, 0.025);
}

#[test]
fn steps_of_a_hosts_clock_spoil_no_figure_at_1_khz() {
    steps_of_a_host(1000.0, 0.0002);
}

#[test]
fn a_step_of_the_listeners_clock_changes_only_the_ages_of_messages_from_another_host() {
    let Some(mut rig) = Rig::start(&Settings::default()) else { return };
    rig.start_talker(Talker::OnAnotherHost, 50.0);
    STEPS.into_iter().for_each(|step| rig.step(step));
    rig.end(&Expected { ages_grow: true, ..Expected::default() });
}

#[test]
fn messages_queued_during_a_step_of_the_clock_have_no_age_that_is_wrong_by_the_step() {
    // A callback takes longer than the period of the messages, so that ten messages always wait.
    let settings = Settings { body: 0.03, on_workers_only: true, ..Settings::default() };
    let Some(mut rig) = Rig::start(&settings) else { return };
    rig.start_talker(Talker::OnTheSameHost, 50.0);
    STEPS.into_iter().for_each(|step| rig.step(step));
    // More small steps, each at a different time within a window. Their errors would be the hardest to detect.
    for step in [-S / 2, S / 2].into_iter().cycle().take(6) {
        rig.step(step);
    }
    rig.end(&Expected::default());
}

#[test]
fn a_clock_that_is_slewed_spoils_no_figure() {
    let Some(mut rig) = Rig::start(&Settings::default()) else { return };
    // This node is on the machine's clock, which is not slewed.
    let executor = context(rig.domain, &[]).create_basic_executor();
    let receptions = Arc::new(Mutex::new(vec![]));
    let to = Arc::clone(&receptions);
    let _imu = executor
        .create_node("by_another_clock")
        .unwrap()
        .create_subscription::<Imu, _>("imu".keep_last(100), move |_: Imu| {
            to.lock().unwrap().push(Instant::now())
        })
        .unwrap();
    let _spinning = Spinning::start(executor);
    rig.start_talker(Talker::OnTheSameHost, 20.0);
    rig.clock.slew(500);
    // A window lacks its first period, so late messages at its edges move its average: on a busy machine by more than a
    // clock that is wrong would.
    const ATTEMPTS: usize = 6;
    let mut attempts = vec![];
    let is_right = (0..ATTEMPTS).any(|_| {
        let (from, first) = (rig.windows(SECOND).len(), receptions.lock().unwrap().len());
        rig.listener.wait_for_windows(SECOND, 12);
        let truth = period(&receptions.lock().unwrap()[first..]);
        let windows = &rig.windows(SECOND)[from..];
        let mut periods: Vec<f64> =
            windows.iter().filter_map(|window| window.metrics["message_period"].average).collect();
        periods.sort_by(f64::total_cmp);
        let median = periods[periods.len() / 2];
        attempts.push(format!("{median} ms; truth {truth} ms; {periods:?}"));
        (median / truth - 1.0).abs() < 0.002
    });
    assert!(is_right, "{attempts:#?}");
    rig.check_service();
    rig.end(&Expected::default());
}

/// Returns the period in ms: the median over stretches of twenty periods, so that a few late messages have no effect.
fn period(times: &[Instant]) -> f64 {
    const STRETCH: usize = 20;
    let stretches = times.iter().zip(&times[STRETCH..]);
    let mut periods: Vec<f64> =
        stretches.map(|(from, to)| (*to - *from).as_secs_f64() * 1e3 / STRETCH as f64).collect();
    periods.sort_by(f64::total_cmp);
    periods[periods.len() / 2]
}

#[test]
fn a_step_of_the_system_clock_does_not_change_ages_on_simulated_time() {
    let arguments = ["--ros-args", "-p", "use_sim_time:=true"].map(str::to_owned).to_vec();
    let Some(mut rig) = Rig::start(&Settings { arguments, ..Settings::default() }) else { return };
    let mut simulator = Program::start("simulator.py", &["--stamp-age", "1.0"], rig.domain);
    simulator.send("begin");
    rig.wait_for_messages();
    // Wait until the listener has received the simulated clock.
    rig.listener.read_until("ages", |windows| {
        windows
            .iter()
            .rfind(|window| window.source == SECOND)
            .is_some_and(|window| window.metrics["message_age"].count == window.count)
    });
    let begun = rig.listener.windows.len();
    rig.listener.windows.drain(..begun);
    rig.listener.wait_for_windows(SECOND, 1);
    STEPS.into_iter().for_each(|step| rig.step(step));
    // An age that is wrong by half a second of system time is outside this range. The clock of the simulator is not
    // stepped.
    rig.end(&Expected { simulated_ages: Some(550.0..=1450.0), ages_grow: true });
}
