// SPDX-License-Identifier: Apache-2.0
//! Communicates with `echo.py` over the real middleware.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rclrs::{Context, CreateBasicExecutor, Executor, InitOptions, Node, SpinOptions};
use serde_json::Value;

/// The timeout of each wait. The timeout is far longer than usual waits, so it expires only if a message never arrives.
const LIMIT: Duration = Duration::from_secs(60);

/// A node in this process and a node in Python, which exchange messages.
pub struct Conversation {
    pub node: Node,
    pub executor: Executor,
    /// The process of `echo.py`, which ends when this struct is dropped.
    echo: Child,
    /// The lines that `echo.py` prints.
    lines: mpsc::Receiver<String>,
    /// Python's reports of received messages, in order: `interface`, `what`, `fields` and more.
    reports: Vec<Value>,
}

impl Conversation {
    /// Starts `echo.py` with `interfaces`.
    pub fn start(interfaces: &[&str]) -> Self {
        std::env::set_var("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST");
        let domain = test_support::domain();
        let options = InitOptions::new().with_domain_id(Some(domain as usize));
        let executor = Context::new([], options).unwrap().create_basic_executor();
        let node = executor.create_node("generated_crates").unwrap();
        let mut echo = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/echo.py"))
            .args(interfaces)
            .env("ROS_DOMAIN_ID", domain.to_string())
            // `echo.py` ends when its standard input is closed, even if this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(echo.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { node, executor, echo, lines, reports: vec![] }
    }

    /// Processes everything that arrives until `done` returns true. Panics after [`LIMIT`].
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&[Value]) -> bool) {
        let start = Instant::now();
        loop {
            self.reports
                .extend(self.lines.try_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap()));
            if done(&self.reports) {
                return;
            }
            assert_eq!(self.echo.try_wait().unwrap(), None, "echo.py has ended");
            let received = self.reports.iter().map(|report| (&report["interface"], &report["what"]));
            assert!(
                start.elapsed() < LIMIT,
                "Waited {LIMIT:?} for {what} in vain. Python has received {:?}",
                received.collect::<Vec<_>>()
            );
            self.executor.spin(SpinOptions::spin_once().timeout(Duration::from_millis(20)));
        }
    }

    /// Returns Python's reports of one kind (`message`, `request`, `result`, ...), in order.
    pub fn received(&self, interface: &str, what: &str) -> Vec<&Value> {
        let is_it = |report: &&Value| report["interface"] == interface && report["what"] == what;
        self.reports.iter().filter(is_it).collect()
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // An error only means that the process has already ended.
        let _ = self.echo.kill();
        let _ = self.echo.wait();
    }
}
