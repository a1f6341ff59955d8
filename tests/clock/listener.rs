// SPDX-License-Identifier: Apache-2.0

//! The listener whose clock is stepped, in its own process, with the handle for a test. Also its talker.

use std::{
    collections::BTreeMap,
    io::Write,
    path::PathBuf,
    process::{Child, ChildStdin, Stdio},
    sync::{
        mpsc::{Receiver, TryRecvError},
        Arc, Mutex,
    },
    time::{Duration, Instant, SystemTime},
};

use rclrs::*;
use rclrs_topic_statistics::{
    ClockStep, IntoMeasuredOptions, MeasuredSubscription, Metric, NodeStatistics, NodeStatisticsOptions,
    SourceName, TopicStatisticsOptions, WindowStatistics,
};
use ros_env::sensor_msgs::msg::Imu;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::check;
use test_support::{
    self, clock::SteppedClock, collect, itself, lines, wait_for, Process, Spinning, Windows, LIMIT,
};

/// The subscription with windows of a second.
pub const SECOND: &str = "second";
/// The subscription with windows of a tenth of a second, on a worker.
pub const TENTH: &str = "tenth";

/// The settings of a listener.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// The duration of a callback, in seconds.
    pub body: f64,
    /// Whether all subscriptions are on workers. Messages then wait in the middleware's queue, not in the unbounded
    /// queue of the executor.
    pub on_workers_only: bool,
    /// ROS arguments, as on the command line.
    pub arguments: Vec<String>,
}

/// A window of the listener, together with the measurements of its callbacks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Window {
    pub source: String,
    pub start: i64,
    pub stop: i64,
    /// The length in nanoseconds.
    pub length: i64,
    /// The step of the system clock in nanoseconds.
    pub clock_step: Option<i64>,
    pub count: u64,
    pub rate: Option<f64>,
    pub metrics: BTreeMap<String, Figures>,
    pub received: u64,
    pub total_rate: Option<f64>,
    /// When the window was seen, in ms on a clock that is not stepped.
    pub seen: f64,
    /// When the window was seen, in nanoseconds of the system clock.
    pub seen_by_system_clock: i64,
    /// How long ago it may have ended when it was seen, in ms: since the thread that sees the windows looked for one
    /// before. It is long if a busy machine has held up that thread.
    pub unseen: f64,
    pub truth: Truth,
}

impl Window {
    /// Returns whether figures are missing, though there were messages: while a window ended, a thread was preempted
    /// for longer than the queue of samples lasts. Then all that is not known is NaN. How often that is so is checked
    /// for all windows.
    pub fn lacks_figures(&self) -> bool {
        self.truth.periods.is_some() && check::is_nothing(&self.metrics["message_period"])
    }
}

/// The values of a metric. `None` is NaN.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub average: Option<f64>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub count: u64,
}

/// The measurements of the callbacks of a window on a clock that is not stepped, in ms.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Truth {
    /// From the start of a callback to the start of the next.
    pub periods: Option<Range>,
    /// Durations of the callbacks, including that of the last message before the window.
    pub durations: Option<Range>,
    /// From the last message until the window was seen.
    pub silence: Option<f64>,
    /// From the talker's stamp to the callback. `None` with another talker.
    pub ages: Option<Range>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Range {
    pub sum: f64,
    pub minimum: f64,
    pub maximum: f64,
    pub count: u64,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>) -> Option<Range> {
        values.fold(None, |range, value| {
            let Range { sum, minimum, maximum, count } =
                range.unwrap_or(Range { sum: 0.0, minimum: value, maximum: value, count: 0 });
            let (minimum, maximum) = (value.min(minimum), value.max(maximum));
            Some(Range { sum: sum + value, minimum, maximum, count: count + 1 })
        })
    }
}

/// The totals of the callbacks since the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TotalTruth {
    pub source: String,
    pub received: u64,
    /// The rate from the first message to the last, in Hz.
    pub rate: f64,
}

/// The output of the listener: each is a line of JSON.
#[derive(Serialize, Deserialize)]
enum Line {
    Window(Box<Window>),
    Truth(Vec<TotalTruth>),
}

/// One run of a callback. Times are in ms on the monotonic clock, which all processes of the machine share.
struct Body {
    /// When the talker stamped the message. 0 with another talker.
    sent: f64,
    started: f64,
    ended: Option<f64>,
}

/// Returns the monotonic clock in ms.
fn monotonic() -> f64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as f64 * 1e3 + now.tv_nsec() as f64 / 1e6
}

#[derive(Default)]
struct Bodies(Mutex<Vec<Body>>);

impl Bodies {
    fn run(&self, message: &Imu, duration: Duration) {
        let index = {
            let mut bodies = self.0.lock().unwrap();
            bodies.push(Body { sent: message.linear_acceleration.x, started: monotonic(), ended: None });
            bodies.len() - 1
        };
        std::thread::sleep(duration); // represents work
        self.0.lock().unwrap()[index].ended = Some(monotonic());
    }

    /// Returns the measurements of the messages from one index to another.
    fn truth(&self, from: usize, to: usize, now: f64) -> Truth {
        // A message is counted shortly before its callback runs.
        test_support::wait_for("body", || self.0.lock().unwrap().len() >= to);
        let bodies = self.0.lock().unwrap();
        let of_window = &bodies[from..to];
        let periods =
            of_window.iter().zip(of_window.iter().skip(1)).map(|(one, next)| next.started - one.started);
        let with_one_before = &bodies[from.saturating_sub(1)..to];
        let durations = with_one_before.iter().filter_map(|body| Some(body.ended? - body.started));
        let ages = of_window.iter().filter(|body| body.sent > 0.0).map(|body| body.started - body.sent);
        Truth {
            periods: Range::of(periods),
            durations: Range::of(durations),
            silence: bodies[..to].last().map(|body| now - body.started),
            ages: Range::of(ages),
        }
    }

    fn total(&self, source: &str) -> TotalTruth {
        let bodies = self.0.lock().unwrap();
        let (received, source) = (bodies.len() as u64, source.to_owned());
        let milliseconds = match (bodies.first(), bodies.last()) {
            (Some(first), Some(last)) => last.started - first.started,
            _ => f64::NAN,
        };
        TotalTruth { source, received, rate: received.saturating_sub(1) as f64 / milliseconds * 1e3 }
    }
}

/// A subscription, and the measurements of its callbacks.
struct Source {
    name: &'static str,
    subscription: MeasuredSubscription<Imu>,
    windows: Windows,
    bodies: Arc<Bodies>,
    /// When windows were last looked for.
    looked: f64,
}

impl Source {
    /// Returns the windows that have ended after the last call.
    fn next(&mut self, started: f64) -> Vec<Window> {
        let looked_before = std::mem::replace(&mut self.looked, monotonic());
        let windows = std::mem::take(&mut *self.windows.lock().unwrap());
        let (now, system) = (monotonic(), SystemTime::now());
        let seen = |window: &Arc<WindowStatistics>| {
            let totals = window.totals.unwrap();
            let figures = |(metric, summary): &(Metric, rclrs_topic_statistics::Summary)| {
                let [average, minimum, maximum] = [summary.average, summary.minimum, summary.maximum]
                    .map(|figure| (!figure.is_nan()).then_some(figure));
                let count = summary.sample_count;
                (metric.name().to_owned(), Figures { average, minimum, maximum, count })
            };
            Window {
                source: self.name.to_owned(),
                start: window.window.start.as_nanoseconds(),
                stop: window.window.stop.as_nanoseconds(),
                length: window.length.as_nanos() as i64,
                clock_step: window.clock_step.map(ClockStep::as_nanoseconds),
                count: window.count,
                rate: Some(window.rate()),
                metrics: window.metrics.iter().map(figures).collect(),
                received: totals.received,
                total_rate: Some(totals.rate()),
                seen: now - started,
                seen_by_system_clock: system.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos()
                    as i64,
                unseen: now - looked_before,
                truth: self.bodies.truth(
                    (totals.received - window.count) as usize,
                    totals.received as usize,
                    now,
                ),
            }
        };
        windows.iter().map(seen).collect()
    }
}

/// The program. It prints its totals at each line of its standard input, and ends with the input.
#[test]
#[ignore = "is the listener of the other tests"]
fn stepped_listener() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let settings: Settings = serde_json::from_str(&variable("LISTENER_SETTINGS")).unwrap();
    let started = monotonic();
    let executor = Context::new(settings.arguments, InitOptions::default()).unwrap().create_basic_executor();
    let node = executor.create_node("clocked").unwrap();
    let options = NodeStatisticsOptions::new()
        .topic_statistics(TopicStatisticsOptions::new().metrics(Metric::OF_SUBSCRIPTIONS))
        .topic_statistics_service(true)
        .max_event_rate(0.0)
        .totals_file(variable("LISTENER_TOTALS"));
    let statistics = NodeStatistics::with_options(&node, options).unwrap();
    let source = |name: &'static str, period: Duration, on_worker: bool| {
        let bodies = Arc::new(Bodies::default());
        let own = TopicStatisticsOptions::new()
            .publish_period(period)
            .source_name(SourceName::Custom(name.to_owned()));
        let (options, times) = ("imu".keep_last(10).topic_statistics(own), Arc::clone(&bodies));
        let body = Duration::from_secs_f64(settings.body);
        let subscription = if on_worker {
            let worker = node.create_worker(());
            statistics.create_worker_subscription(&worker, options, move |imu: Imu| times.run(&imu, body))
        } else {
            statistics.create_subscription(options, move |imu: Imu| times.run(&imu, body))
        };
        let subscription = subscription.unwrap();
        Source { name, windows: collect(subscription.watch()), subscription, bodies, looked: monotonic() }
    };
    let mut sources = [
        source(SECOND, Duration::from_secs(1), settings.on_workers_only),
        source(TENTH, Duration::from_millis(100), true),
    ];
    let spinning = Spinning::start(executor);
    let commands = lines(std::io::stdin());
    println!(); // ends the line that the test harness has begun
    let print = |line: Line| println!("{}", serde_json::to_string(&line).unwrap());
    loop {
        sources
            .iter_mut()
            .flat_map(|source| source.next(started))
            .for_each(|window| print(Line::Window(Box::new(window))));
        match commands.try_recv() {
            Ok(_) => {
                print(Line::Truth(sources.iter().map(|source| source.bodies.total(source.name)).collect()));
            }
            Err(TryRecvError::Empty) => std::thread::sleep(Duration::from_millis(2)),
            Err(TryRecvError::Disconnected) => break,
        }
    }
    // Messages received after this would be missing in the file of totals.
    drop(spinning);
    print(Line::Truth(sources.iter().map(|source| source.bodies.total(source.name)).collect()));
    assert!(sources.iter().all(|source| source.subscription.is_enabled()));
    // A window that waits to be published ends with its source. When two more have ended, those above are published.
    for source in &sources {
        let mut windows = source.subscription.watch();
        for _ in 0..2 {
            windows.mark_unchanged();
            wait_for("a further window", || windows.has_changed().unwrap());
        }
    }
    drop((sources, statistics));
}

/// The talker. It publishes at a rate until its standard input ends. Each message contains the time of its stamp on the
/// monotonic clock.
#[test]
#[ignore = "is the talker of the other tests"]
fn stepped_talker() {
    let rate: f64 = std::env::var("TALKER_RATE").unwrap().parse().unwrap();
    let executor = Context::default_from_env().unwrap().create_basic_executor();
    let node = executor.create_node("talker").unwrap();
    let publisher = node.create_publisher::<Imu>("imu".keep_last(100)).unwrap();
    let clock = node.get_clock();
    let _timer = node
        .create_timer_repeating(Duration::from_secs_f64(1.0 / rate), move || {
            let mut imu = Imu::default();
            imu.linear_acceleration.x = monotonic();
            imu.header.stamp = clock.now().to_ros_msg().unwrap();
            // Fast DDS sometimes refuses a publication while the clock is stepped forward: this message is not sent.
            drop(publisher.publish(imu));
        })
        .unwrap();
    let _spinning = Spinning::start(executor);
    lines(std::io::stdin()).iter().for_each(drop);
}

/// Starts the talker.
pub fn start_talker(domain: u32, rate: f64, clock: Option<&SteppedClock>) -> Process {
    let mut command = itself("listener::stepped_talker", domain);
    command.env("TALKER_RATE", rate.to_string()).stdout(Stdio::null());
    if let Some(clock) = clock {
        clock.preload(&mut command);
    }
    Process::spawn(&mut command)
}

/// The handle of a test to the process.
pub struct Listener {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<String>,
    log: Receiver<String>,
    directory: TempDir,
    /// The windows read so far, in their order.
    pub windows: Vec<Window>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Listener {
    pub fn start(domain: u32, settings: &Settings, clock: &SteppedClock) -> Listener {
        let directory = tempfile::tempdir().unwrap();
        let mut command = itself("listener::stepped_listener", domain);
        command
            .env("LISTENER_SETTINGS", serde_json::to_string(settings).unwrap())
            .env("LISTENER_TOTALS", directory.path().join("totals.yaml"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        clock.preload(&mut command);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), lines(child.stdout.take().unwrap()));
        let log = lines(child.stderr.take().unwrap());
        Listener { child, input, output, log, directory, windows: vec![] }
    }

    /// Reads until `enough` returns true for the windows read so far. Panics after [`LIMIT`].
    pub fn read_until(&mut self, what: &str, mut enough: impl FnMut(&[Window]) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !enough(&self.windows) {
            assert!(Instant::now() < deadline, "no {what}");
            assert!(self.read(what).is_none(), "totals without a request");
        }
    }

    /// Waits for a number of further windows of a source.
    pub fn wait_for_windows(&mut self, source: &str, number: usize) {
        let count = |windows: &[Window]| windows.iter().filter(|window| window.source == source).count();
        let before = count(&self.windows);
        self.read_until("windows", |windows| count(windows) >= before + number);
    }

    /// Returns the totals of the callbacks since the start.
    pub fn truth(&mut self) -> Vec<TotalTruth> {
        writeln!(self.input.as_ref().unwrap(), "truth").unwrap();
        loop {
            if let Some(truth) = self.read("truth") {
                return truth;
            }
        }
    }

    /// Ends the process. Returns the totals of its callbacks, its file of totals, and its log.
    pub fn end(&mut self) -> (Vec<TotalTruth>, serde_json::Value, Vec<String>) {
        self.input = None;
        let truth = loop {
            if let Some(truth) = self.read("end") {
                break truth;
            }
        };
        let status = self.child.wait().unwrap();
        let log: Vec<String> = self.log.iter().collect();
        assert!(status.success(), "{status}: {log:#?}");
        let file: PathBuf = self.directory.path().join("totals.yaml");
        let file =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("no totals: {error}: {log:#?}"));
        (truth, yaml_serde::from_str(&file).unwrap(), log)
    }

    /// Reads the next line. Returns the totals if it contains them. A window is added to `windows`.
    fn read(&mut self, what: &str) -> Option<Vec<TotalTruth>> {
        let line = self.output.recv_timeout(LIMIT);
        let line = line.unwrap_or_else(|error| {
            panic!("no {what}: {error}; {:#?}", self.log.try_iter().collect::<Vec<_>>())
        });
        match serde_json::from_str(&line) {
            Ok(Line::Window(window)) => self.windows.push(*window),
            Ok(Line::Truth(truth)) => return Some(truth),
            Err(_) => (), // a line of the test harness
        }
        None
    }
}
