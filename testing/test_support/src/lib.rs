// SPDX-License-Identifier: Apache-2.0

//! Support for the tests of this workspace: processes, ROS domains, readers of topics, clocks.

pub mod clock;
pub mod cpp;
mod domain;
pub mod middleware;
pub mod network;
pub mod preload;
mod skip;
pub mod warnings;

use std::{
    ffi::OsString,
    fs,
    future::Future,
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    pin::Pin,
    process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        mpsc::{self, Receiver},
        Arc, Mutex,
    },
    task::{Context, Wake, Waker},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rclrs::CreateBasicExecutor;
use rclrs_topic_statistics::{watch, WindowStatistics};
use ros_env::{builtin_interfaces::msg::Time, statistics_msgs::msg::MetricsMessage};

pub use skip::skip;

/// Returns the path of a program of this workspace. `cargo test --workspace` builds all programs beside the tests.
///
/// Builds the program if it is missing, for example if only one package is tested. Panics if the build fails.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test.ancestors().nth(2).expect("a test in <target>/<profile>/deps");
    built(profile.join(name), profile, &["--workspace", "--bin", name])
}

/// Returns the path of a file of this build profile. If the file is missing, `cargo build` with these arguments makes
/// it.
fn built(file: PathBuf, profile: &Path, arguments: &[&str]) -> PathBuf {
    if !file.is_file() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.arg("build").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().is_ok_and(|status| status.success()), "{} cannot be built", file.display());
    }
    assert!(file.is_file(), "{} is not built: run `cargo build --workspace`", file.display());
    file
}

/// Runs the compiler that the environment variable `name` names, or else `default`. If there is no such compiler, logs
/// that `what` is skipped, and returns false. Panics if the compiler fails.
pub fn compiles(
    what: &str,
    [name, default]: [&str; 2],
    arguments: &mut dyn Iterator<Item = OsString>,
) -> bool {
    let compiler = std::env::var_os(name).unwrap_or_else(|| default.into());
    let Ok(output) = Command::new(&compiler).args(arguments).output() else {
        skip(what, &format!("there is no compiler {compiler:?} ({default}, or {name})"));
        return false;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

/// Calls `then` with each value that is sent to a channel from now on. The thread that sends a value also calls `then`,
/// so no value is missed. A separate thread could read too late and miss values.
pub fn on_each<T: Clone + Send + Sync + 'static>(
    mut from: watch::Receiver<T>,
    mut then: impl FnMut(T) + Send + 'static,
) {
    struct Reader(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);
    impl Wake for Reader {
        fn wake(self: Arc<Self>) {
            let waker = Waker::from(Arc::clone(&self));
            let mut reading = self.0.lock().unwrap();
            let has_ended = reading
                .as_mut()
                .is_some_and(|reading| reading.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
            if has_ended {
                *reading = None;
            }
        }
    }
    let reading = async move {
        while from.changed().await.is_ok() {
            let value = from.borrow_and_update().clone();
            then(value);
        }
    };
    Arc::new(Reader(Mutex::new(Some(Box::pin(reading))))).wake();
}

pub type Windows = Arc<Mutex<Vec<Arc<WindowStatistics>>>>;

/// Collects the windows of a source that end from now on.
pub fn collect(watched: watch::Receiver<Option<Arc<WindowStatistics>>>) -> Windows {
    let windows = Windows::default();
    let to = Arc::clone(&windows);
    on_each(watched, move |window| to.lock().unwrap().extend(window));
    windows
}

/// The longest time that a test waits for a condition.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A child process. Dropping the handle ends it.
pub struct Process(Child);

impl Process {
    /// Starts a program on a ROS domain of this host.
    pub fn start(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str], domain: u32) -> Process {
        Process::spawn(&mut command(program, arguments, domain))
    }

    pub fn spawn(command: &mut Command) -> Process {
        Process(command.spawn().unwrap_or_else(|error| panic!("cannot start: {error}")))
    }

    /// Starts a program. Also returns the lines of its standard error, which are its log.
    pub fn start_logging(
        program: impl AsRef<std::ffi::OsStr>,
        arguments: &[&str],
        domain: u32,
    ) -> (Process, Receiver<String>) {
        let mut child = command(program, arguments, domain).stderr(Stdio::piped()).spawn().unwrap();
        let log = lines(child.stderr.take().unwrap());
        (Process(child), log)
    }

    pub fn spawn_printing(command: &mut Command) -> (Process, Receiver<String>) {
        let mut process = Process::spawn(command.stdout(Stdio::piped()));
        let output = lines(process.0.stdout.take().unwrap());
        (process, output)
    }

    /// Returns the process's standard input. Panics if it is not a pipe or was already taken.
    pub fn input(&mut self) -> ChildStdin {
        self.0.stdin.take().unwrap()
    }

    /// Returns the process's standard error. Panics if it is not a pipe or was already taken.
    pub fn errors(&mut self) -> ChildStderr {
        self.0.stderr.take().unwrap()
    }

    /// Returns the exit status. `None` while the process runs.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
        let has_stopped = |thread: io::Result<fs::DirEntry>| {
            let status = thread.and_then(|thread| fs::read_to_string(thread.path().join("stat")));
            status.is_ok_and(|status| status.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
        };
        if name == "STOP" {
            wait_for("stopped threads", || {
                fs::read_dir(format!("/proc/{id}/task")).unwrap().all(has_stopped)
            });
        }
    }

    /// Waits until the process has ended. Returns the exit status.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_for("end of the process", || {
            status = self.status();
            status.is_some()
        });
        status.unwrap()
    }

    pub fn stop(mut self) {
        self.end();
    }

    /// Ends the process by SIGTERM, so that its signal handlers run, and by SIGKILL if this takes too long. A killed
    /// process leaves files in shared memory, which can block other processes of Fast DDS forever.
    fn end(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let (started, id) = (Instant::now(), self.id().to_string());
        let has_ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if !has_ended(&mut self.0) {
            let _ = Command::new("kill").args(["-s", "TERM", &id]).stderr(Stdio::null()).status();
        }
        while !has_ended(&mut self.0) && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl From<Child> for Process {
    fn from(child: Child) -> Process {
        Process(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns a command that runs a program on a ROS domain of this host.
pub fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str], domain: u32) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("ROS_DOMAIN_ID", domain.to_string())
        .envs(on_this_host())
        .stdin(Stdio::null());
    command
}

/// Returns the environment of a program that communicates only with programs on this host.
///
/// Fast DDS uses only UDP here. With the discovery range LOCALHOST it would use shared memory. Through shared memory, a
/// process that was killed, or whose clock was stepped, can block the processes of other tests.
pub fn on_this_host() -> Vec<(&'static str, String)> {
    if !middleware::rmw().starts_with("rmw_fastrtps") {
        return vec![("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST".to_owned())];
    }
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/src/loopback.xml");
    vec![
        ("ROS_AUTOMATIC_DISCOVERY_RANGE", "SYSTEM_DEFAULT".to_owned()),
        ("FASTDDS_DEFAULT_PROFILES_FILE", profile.to_owned()),
    ]
}

/// Makes a program communicate with all programs on the network of its host.
pub fn on_the_network(mut command: Command) -> Command {
    // Otherwise processes on one machine would use shared memory instead of the network.
    for (name, _) in on_this_host() {
        command.env_remove(name);
    }
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/src/network.xml");
    command.env("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4").env("FASTDDS_DEFAULT_PROFILES_FILE", profile);
    command
}

/// A program that a test starts, usually in Python. The program reads commands from its standard input, one per line.
pub struct Program {
    process: Process,
    input: ChildStdin,
    output: Receiver<String>,
}

impl Program {
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn start(name: &str, arguments: &[&str], domain: u32) -> Program {
        Self::command(name, arguments, domain).spawn().unwrap().into()
    }

    pub fn command(name: &str, arguments: &[&str], domain: u32) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name);
        let arguments = [&[script.to_str().unwrap()], arguments].concat();
        let mut command = command("python3", &arguments, domain);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Writes a line to the program's standard input.
    pub fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Writes a line to the program's standard input. Returns the line that the program prints as an answer.
    pub fn request(&mut self, line: &str) -> String {
        self.send(line);
        self.read(&format!("answer to {line}"))
    }

    /// Waits for the program's next line. `what` names the line in the panic message.
    pub fn read(&self, what: &str) -> String {
        self.output.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("no {what}: {error}"))
    }

    /// Returns the next line of the program if the program has already printed this line.
    pub fn try_read(&self) -> Option<String> {
        self.output.try_recv().ok()
    }

    /// Closes the program's standard input, and waits until the program has ended.
    pub fn end(self) {
        let Program { mut process, input, .. } = self;
        drop(input);
        wait_for("end of the program", || process.0.try_wait().unwrap().is_some());
    }
}

impl From<Child> for Program {
    /// Panics if the standard input or output of the process is not a pipe.
    fn from(mut child: Child) -> Program {
        let (input, output) = (child.stdin.take().unwrap(), lines(child.stdout.take().unwrap()));
        Program { process: Process(child), input, output }
    }
}

/// Starts a thread that reads the lines of an output. Returns a channel with these lines.
pub fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    let output = BufReader::new(output);
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    lines
}

/// Returns the command that runs an ignored test of this test binary as a separate program on a ROS domain. `test` is
/// the full name of the ignored test. The program's standard input is a pipe.
pub fn itself(test: &str, domain: u32) -> Command {
    let arguments = ["--ignored", "--exact", "--nocapture", "--test-threads=1", test];
    let mut command = command(std::env::current_exe().unwrap(), &arguments, domain);
    command.stdin(Stdio::piped());
    command
}

/// Returns whether other tests run in the same process, as with plain `cargo test`. If so, logs that this test is
/// skipped. A test calls this function if it counts the threads or the memory of its process, reads the warnings of its
/// process or `/rosout`, or receives signals.
pub fn shares_its_process() -> bool {
    let is_alone = std::env::var("NEXTEST_EXECUTION_MODE").is_ok_and(|mode| mode == "process-per-test");
    if !is_alone {
        skip("a test of its process", "other tests share it; cargo nextest run gives it one for itself");
    }
    !is_alone
}

/// Creates an executor and a node on the ROS domain of this test, with ROS arguments as on the command line.
pub fn node(name: &str, arguments: &[&str]) -> (rclrs::Executor, rclrs::Node) {
    let executor = context(domain(), arguments).create_basic_executor();
    let node = executor.create_node(name).unwrap();
    (executor, node)
}

/// Creates a context on a ROS domain, with ROS arguments as on the command line.
pub fn context(domain: u32, arguments: &[&str]) -> rclrs::Context {
    let options = rclrs::InitOptions::new().with_domain_id(Some(domain as usize));
    rclrs::Context::new(arguments.iter().map(|argument| argument.to_string()), options).unwrap()
}

/// An executor that spins on a separate thread. Dropping this value ends the spinning.
pub struct Spinning {
    commands: Arc<rclrs::ExecutorCommands>,
    thread: Option<JoinHandle<Vec<rclrs::RclrsError>>>,
}

impl Spinning {
    pub fn start(mut executor: rclrs::Executor) -> Spinning {
        let commands = Arc::clone(executor.commands());
        let thread = std::thread::spawn(move || executor.spin(rclrs::SpinOptions::default()));
        // Waits until the executor spins, because a halt before that would have no effect.
        let mut spins = commands.query(async {});
        wait_for("spinning executor", || matches!(spins.try_recv(), Ok(Some(()))));
        Spinning { commands, thread: Some(thread) }
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.commands.halt_spinning();
        // The thread is not joined after a failed test, because a callback may still block it.
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            let _errors = thread.join();
        }
    }
}

/// Waits for a condition. Panics after [`LIMIT`]; `what` names the condition in the message.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LIMIT, "no {what} within {LIMIT:?}");
        // Between two checks, the thread sleeps without holding a lock that the checked code needs.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the ROS domain of this thread, and so of this test. While this thread runs, no other test gets the domain.
/// No DDS program used the domain when it was chosen.
pub fn domain() -> u32 {
    domain::domain().expect("a ROS domain that is not in use")
}

/// A metric of a window, as a reader of `/statistics` received it.
#[derive(Clone, Debug)]
pub struct Metric {
    pub source: String,
    pub metric: String,
    pub unit: String,
    pub start: i64,
    pub stop: i64,
    /// The data type and the value of each data point, in the order of the message.
    pub points: Vec<(u64, f64)>,
}

impl Metric {
    fn parse(line: &str) -> Metric {
        let json: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("the reader printed {line:?}: {error}"));
        let text = |key: &str| json[key].as_str().unwrap().to_owned();
        let point =
            |point: &serde_json::Value| (point[0].as_u64().unwrap(), point[1].as_f64().unwrap_or(f64::NAN));
        Metric {
            source: text("source"),
            metric: text("metric"),
            unit: text("unit"),
            start: json["window_start"].as_i64().unwrap(),
            stop: json["window_stop"].as_i64().unwrap(),
            points: json["statistics"].as_array().unwrap().iter().map(point).collect(),
        }
    }

    /// Returns the length of the window, in seconds.
    pub fn length(&self) -> f64 {
        (self.stop - self.start) as f64 * 1e-9
    }

    fn value(&self, data_type: u64) -> f64 {
        self.points.iter().find(|(point_type, _)| *point_type == data_type).unwrap().1
    }

    pub fn average(&self) -> f64 {
        self.value(1)
    }

    pub fn minimum(&self) -> f64 {
        self.value(2)
    }

    pub fn maximum(&self) -> f64 {
        self.value(3)
    }

    pub fn standard_deviation(&self) -> f64 {
        self.value(4)
    }

    pub fn count(&self) -> f64 {
        self.value(5)
    }
}

impl From<MetricsMessage> for Metric {
    fn from(message: MetricsMessage) -> Metric {
        let points = message.statistics.iter().map(|point| (point.data_type.into(), point.data));
        Metric {
            points: points.collect(),
            source: message.measurement_source_name,
            metric: message.metrics_source,
            unit: message.unit,
            start: nanoseconds(&message.window_start),
            stop: nanoseconds(&message.window_stop),
        }
    }
}

/// Returns a time of a message, in nanoseconds since the epoch.
pub fn nanoseconds(time: &Time) -> i64 {
    i64::from(time.sec) * 1_000_000_000 + i64::from(time.nanosec)
}

/// A process with rclpy that subscribes to /statistics and prints the received messages.
pub struct Reader {
    _process: Process,
    lines: Receiver<String>,
    pub metrics: Vec<Metric>,
}

impl Reader {
    pub fn start(domain: u32) -> Reader {
        Self::start_with_depth(domain, 100)
    }

    pub fn start_with_depth(domain: u32, depth: u32) -> Reader {
        Self::command(domain, depth).spawn().unwrap().into()
    }

    pub fn command(domain: u32, depth: u32) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/statistics_reader.py");
        let arguments = [script.to_str().unwrap(), "--json", "--depth", &depth.to_string()];
        let mut command = command("python3", &arguments, domain);
        command.stdout(Stdio::piped());
        command
    }

    /// Reads until `enough` returns true for all metrics read so far. Panics after [`LIMIT`].
    pub fn read_until(&mut self, what: &str, mut enough: impl FnMut(&[Metric]) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !enough(&self.metrics) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.metrics.push(Metric::parse(&line)),
                Err(error) => {
                    let last = &self.metrics[self.metrics.len().saturating_sub(100)..];
                    panic!("no {what}: {error}; {} metrics read, the last ones: {last:?}", self.metrics.len())
                }
            }
        }
    }

    /// Reads the metrics received so far, without waiting.
    pub fn read_received(&mut self) {
        self.metrics.extend(self.lines.try_iter().map(|line| Metric::parse(&line)));
    }

    /// Returns the windows of a metric, in the order in which they were received.
    pub fn windows(&self, source: &str, metric: &str) -> Vec<Metric> {
        windows_of(&self.metrics, source, metric).cloned().collect()
    }
}

impl From<Child> for Reader {
    /// Panics if the standard output of the process is not a pipe.
    fn from(mut child: Child) -> Reader {
        let lines = lines(child.stdout.take().unwrap());
        Reader { _process: Process(child), lines, metrics: vec![] }
    }
}

pub fn windows_of<'a>(
    metrics: &'a [Metric],
    source: &'a str,
    metric: &'a str,
) -> impl Iterator<Item = &'a Metric> {
    metrics.iter().filter(move |window| window.source == source && window.metric == metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "skips"]
    fn is_skipped() {
        skip("a test", "it is an example");
    }

    #[test]
    fn a_skipped_test_is_reported_although_it_passes() {
        let arguments = ["--ignored", "--exact", "tests::is_skipped"];
        let output = Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        assert_eq!(errors, "skipped: a test (tests::is_skipped): it is an example\n");
    }
}
