// SPDX-License-Identifier: Apache-2.0

//! What the tests of this workspace have in common: processes on a ROS domain of the test's own, readers, clocks.

pub mod clock;
pub mod middleware;
pub mod preload;
pub mod warnings;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver},
        Arc, Mutex,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::fcntl::{Flock, FlockArg};
use rclrs::IntoPrimitiveOptions;
use ros_env::std_msgs::msg::Int32;

/// Returns the path of a program of this workspace, which is built beside the test: `cargo test --workspace` builds all of them.
///
/// Where it is missing, because one package alone is tested, it is built now. Panics if that fails.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test.ancestors().nth(2).expect("a test in <target>/<profile>/deps");
    let program = profile.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    if !program.is_file() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--workspace", "--bin", name]).current_dir(env!("CARGO_MANIFEST_DIR"));
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().is_ok_and(|status| status.success()), "{name} cannot be built");
    }
    assert!(program.is_file(), "{} is not built: run `cargo build --workspace --bins`", program.display());
    program
}

/// How long a test waits for what it needs.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A child process that ends with its handle.
pub struct Process(Child);

impl Process {
    /// Starts a program that talks to this test process only.
    pub fn start(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str], domain: u32) -> Process {
        Process::spawn(&mut command(program, arguments, domain))
    }

    /// Starts a program as the command has it.
    pub fn spawn(command: &mut Command) -> Process {
        Process(command.spawn().unwrap_or_else(|error| panic!("cannot start: {error}")))
    }

    /// Starts a program, and returns what it logs as well.
    pub fn start_logging(
        program: impl AsRef<std::ffi::OsStr>,
        arguments: &[&str],
        domain: u32,
    ) -> (Process, Receiver<String>) {
        let mut child = command(program, arguments, domain).stderr(Stdio::piped()).spawn().unwrap();
        let log = lines(child.stderr.take().unwrap());
        (Process(child), log)
    }

    /// Starts a program as the command has it, and returns the lines that it prints as they come.
    pub fn spawn_printing(command: &mut Command) -> (Process, Receiver<String>) {
        let mut process = Process::spawn(command.stdout(Stdio::piped()));
        let output = lines(process.0.stdout.take().unwrap());
        (process, output)
    }

    /// Returns its standard input, if the command has it piped and it was not taken.
    pub fn input(&mut self) -> ChildStdin {
        self.0.stdin.take().unwrap()
    }

    /// Returns its standard error, likewise.
    pub fn errors(&mut self) -> ChildStderr {
        self.0.stderr.take().unwrap()
    }

    /// Returns how it has ended; None while it runs.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// The process's id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal: `STOP`, for example.
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Returns its exit status once it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_for("end of the process", || {
            status = self.status();
            status.is_some()
        });
        status.unwrap()
    }

    /// Ends it, and waits until it has ended.
    pub fn stop(mut self) {
        self.end();
    }

    /// Ends it, by its own handlers if it has some: what a killed process leaves in shared memory has held up others of Fast
    /// DDS's for good.
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

/// A program that talks to this test process only.
pub fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str], domain: u32) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("ROS_DOMAIN_ID", domain.to_string())
        .envs(on_this_host())
        .stdin(Stdio::null());
    command
}

/// The environment of a program that talks to programs of this host only: of Fast DDS by UDP alone, because processes that
/// were killed, or whose clock was stepped, hold up those of other tests by the shared memory that LOCALHOST has them use.
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

/// A Python program of the tests, which obeys lines on its standard input.
pub struct Program {
    process: Process,
    input: ChildStdin,
    output: Receiver<String>,
}

impl Program {
    /// Starts `programs/<name>`.
    pub fn start(name: &str, arguments: &[&str], domain: u32) -> Program {
        Self::command(name, arguments, domain).spawn().unwrap().into()
    }

    /// Returns the command that starts `programs/<name>`.
    pub fn command(name: &str, arguments: &[&str], domain: u32) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name);
        let arguments = [&[script.to_str().unwrap()], arguments].concat();
        let mut command = command("python3", &arguments, domain);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Sends it a signal: `STOP`, for example.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Gives it a line.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Gives it a line, and returns the line that it answers.
    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.read(&format!("answer to {line}"))
    }

    /// Returns the next line that it prints.
    pub fn read(&self, what: &str) -> String {
        self.output.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("no {what}: {error}"))
    }

    /// Returns a line that it has printed already.
    pub fn try_read(&self) -> Option<String> {
        self.output.try_recv().ok()
    }

    /// Ends its standard input, and waits until it has ended by itself.
    pub fn end(self) {
        let Program { mut process, input, .. } = self;
        drop(input);
        wait_for("end of the program", || process.0.try_wait().unwrap().is_some());
    }
}

impl From<Child> for Program {
    /// Takes a process whose standard input and output are pipes.
    fn from(mut child: Child) -> Program {
        let (input, output) = (child.stdin.take().unwrap(), lines(child.stdout.take().unwrap()));
        Program { process: Process(child), input, output }
    }
}

/// The lines of an output as they come.
pub fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    let output = BufReader::new(output);
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    lines
}

/// A context on a domain of the test's own, with ROS arguments as on the command line.
pub fn context(domain: u32, arguments: &[&str]) -> rclrs::Context {
    let options = rclrs::InitOptions::new().with_domain_id(Some(domain as usize));
    rclrs::Context::new(arguments.iter().map(|argument| argument.to_string()), options).unwrap()
}

/// An executor that spins on a thread of its own until this is dropped.
pub struct Spinning {
    commands: Arc<rclrs::ExecutorCommands>,
    thread: Option<JoinHandle<Vec<rclrs::RclrsError>>>,
}

impl Spinning {
    pub fn start(mut executor: rclrs::Executor) -> Spinning {
        let commands = Arc::clone(executor.commands());
        let thread = std::thread::spawn(move || executor.spin(rclrs::SpinOptions::default()));
        // Until it spins, a halt would be lost.
        let mut spins = commands.query(async {});
        wait_for("spinning executor", || matches!(spins.try_recv(), Ok(Some(()))));
        Spinning { commands, thread: Some(thread) }
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.commands.halt_spinning();
        // A test that has failed may have left a callback blocked.
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            let _errors = thread.join();
        }
    }
}

/// Waits for a condition, with a limit.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LIMIT, "no {what}");
        // Between two looks, which may hold a lock that others need.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How far `publisher.py` is, by a subscription of its numbers on a worker of its own.
#[derive(Clone)]
pub struct Progress(Arc<ProgressState>);

struct ProgressState {
    number: Arc<AtomicU64>,
    _numbers: rclrs::WorkerSubscription<Int32, ()>,
}

impl Progress {
    pub fn of_publisher(node: &rclrs::Node) -> Progress {
        let number = Arc::new(AtomicU64::new(0));
        let to = Arc::clone(&number);
        let store = move |message: Int32| to.store(message.data as u64, Ordering::Relaxed);
        let _numbers = node.create_worker(()).create_subscription("number".keep_last(10_000), store).unwrap();
        Progress(Arc::new(ProgressState { number, _numbers }))
    }

    /// Waits until it has published that one, however slow it is.
    pub fn wait_for(&self, number: u64) {
        wait_for("number", || self.0.number.load(Ordering::Relaxed) >= number);
    }
}

/// A domain of this test's own, for as long as its process lives: `number` tells the tests of one process apart.
pub fn domain(number: u32) -> u32 {
    static TAKEN: Mutex<BTreeMap<u32, (u32, Flock<File>)>> = Mutex::new(BTreeMap::new());
    let mut taken = TAKEN.lock().unwrap();
    if let Some((domain, _)) = taken.get(&number) {
        return *domain;
    }
    // Other test processes take theirs by the same locks. One looks first where they probably do not.
    let first = std::process::id() * 16 + number;
    // 0 is the default of everyone else, and from 102 on the ports may be taken by the system.
    for domain in (first..first + 101).map(|next| 1 + next % 101) {
        let lock = std::env::temp_dir().join(format!("rclrs_topic_statistics-domain-{domain}.lock"));
        let Ok(lock) = File::create(lock) else { continue }; // another user's
        if let Ok(lock) = Flock::lock(lock, FlockArg::LockExclusiveNonblock) {
            taken.insert(number, (domain, lock));
            return domain;
        }
    }
    panic!("all ROS domains are taken by tests");
}

/// A metric of a window, as the rclpy process has read it.
#[derive(Clone, Debug)]
pub struct Metric {
    pub source: String,
    pub metric: String,
    pub unit: String,
    pub start: i64,
    pub stop: i64,
    /// Data types and values in the order in which they came.
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

    fn value(&self, data_type: u64) -> f64 {
        self.points.iter().find(|(of, _)| *of == data_type).unwrap().1
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

/// The rclpy process that reads /statistics.
pub struct Reader {
    _process: Process,
    lines: Receiver<String>,
    pub metrics: Vec<Metric>,
}

impl Reader {
    pub fn start(domain: u32) -> Reader {
        Self::start_with_depth(domain, 100)
    }

    /// Starts one whose queue is as deep as that.
    pub fn start_with_depth(domain: u32, depth: u32) -> Reader {
        Self::command(domain, depth).spawn().unwrap().into()
    }

    /// What starts one whose queue is as deep as that.
    pub fn command(domain: u32, depth: u32) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/statistics_reader.py");
        let arguments = [script.to_str().unwrap(), "--json", "--depth", &depth.to_string()];
        let mut command = command("python3", &arguments, domain);
        command.stdout(Stdio::piped());
        command
    }

    /// Reads on until `enough` says so of all that was read; panics after a limit.
    pub fn read_until(&mut self, what: &str, mut enough: impl FnMut(&[Metric]) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !enough(&self.metrics) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.metrics.push(Metric::parse(&line)),
                Err(error) => panic!("no {what}: {error}; read so far: {:#?}", self.metrics),
            }
        }
    }

    /// The windows of one metric, in the order in which they came.
    pub fn windows(&self, source: &str, metric: &str) -> Vec<Metric> {
        of(&self.metrics, source, metric).cloned().collect()
    }
}

impl From<Child> for Reader {
    /// Takes a process whose standard output is a pipe.
    fn from(mut child: Child) -> Reader {
        let lines = lines(child.stdout.take().unwrap());
        Reader { _process: Process(child), lines, metrics: vec![] }
    }
}

/// The windows of one metric among others.
pub fn of<'a>(metrics: &'a [Metric], source: &'a str, metric: &'a str) -> impl Iterator<Item = &'a Metric> {
    metrics.iter().filter(move |of| of.source == source && of.metric == metric)
}
