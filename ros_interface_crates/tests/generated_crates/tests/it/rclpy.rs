// SPDX-License-Identifier: Apache-2.0
//! A conversation between this process and `echo.py`, over the real middleware.

use std::{
    future::Future,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc, Once,
    },
    thread,
    time::{Duration, Instant},
};

use rclrs::{Context, CreateBasicExecutor, Executor, InitOptions, Node, Promise, SpinOptions};
use serde_json::Value;

/// How long anything may take: far more than usual, so that only messages that never arrive are missing.
const LIMIT: Duration = Duration::from_secs(60);

/// A node here, and one in Python.
pub struct Conversation {
    pub node: Node,
    executor: Executor,
    echo: Echo,
    /// Python's reports of received messages, in order.
    pub reports: Vec<Report>,
}

/// A line of `echo.py`.
pub struct Report {
    pub interface: String,
    /// The kind of message: `message`, `request`, `result`, ...
    pub what: String,
    pub fields: Value,
    /// The whole report.
    pub all: Value,
}

impl Conversation {
    /// Starts `echo.py` with `interfaces`.
    pub fn about(interfaces: &[&str]) -> Self {
        static ENVIRONMENT: Once = Once::new();
        ENVIRONMENT.call_once(|| std::env::set_var("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST"));
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let domain = test_support::domain();

        let options = InitOptions::new().with_domain_id(Some(domain as usize));
        let executor = Context::new([], options).unwrap().create_basic_executor();
        let node = executor.create_node(&*format!("generated_crates_{number}")).unwrap();
        Self { node, executor, echo: Echo::start(domain, interfaces), reports: Vec::new() }
    }

    /// Works on everything that arrives until `done`, and fails if that takes too long.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&[Report]) -> bool) {
        let start = Instant::now();
        loop {
            self.reports.extend(self.echo.reports());
            if done(&self.reports) {
                return;
            }
            assert!(
                start.elapsed() < LIMIT,
                "Waited {LIMIT:?} for {what} in vain. Python has received {:?}",
                self.reports.iter().map(|report| (&report.interface, &report.what)).collect::<Vec<_>>()
            );
            // Returns as soon as something has arrived.
            self.executor.spin(SpinOptions::spin_once().timeout(Duration::from_millis(20)));
        }
    }

    /// Has `future` done while [`Self::until`] works.
    pub fn run<F: Future<Output: Send> + Send + 'static>(&self, future: F) -> Promise<F::Output> {
        self.executor.commands().run(future)
    }

    /// Python's reports of one kind, in order.
    pub fn received<'a>(&'a self, interface: &'a str, what: &'a str) -> impl Iterator<Item = &'a Report> {
        self.reports.iter().filter(move |report| report.interface == interface && report.what == what)
    }
}

/// The process of `echo.py`; it ends when this is dropped.
struct Echo {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Echo {
    fn start(domain: u32, interfaces: &[&str]) -> Self {
        let mut process = Command::new("python3")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/echo.py"))
            .args(interfaces)
            .env("ROS_DOMAIN_ID", domain.to_string())
            // It ends when its standard input does, even if this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { process, lines }
    }

    /// The reports that have arrived since.
    fn reports(&mut self) -> Vec<Report> {
        let reports = self.lines.try_iter().map(|line| {
            let all: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("echo.py said {line:?}: {error}"));
            let text = |key: &str| all[key].as_str().unwrap().to_owned();
            Report { interface: text("interface"), what: text("what"), fields: all["fields"].clone(), all }
        });
        let reports = reports.collect();
        if let Some(status) = self.process.try_wait().unwrap() {
            panic!("echo.py has ended: {status}");
        }
        reports
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
