// SPDX-License-Identifier: Apache-2.0

//! A day of the robot: starts its processes and the tools that watch it, and disturbs them.

use std::{
    fs::File,
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{ensure, Context, Result};
use nix::time::ClockId;
use test_support::{clock::SteppedClock, command, domain, network::Network, on_this_host, Process};

use super::{
    compare,
    node::now,
    reports::STALLS,
    scenario::{self, Fate, Host, Kind, PROCESSES, TOPICS},
};
use crate::run::program;

/// Steps of the clocks in ms, in turns: corrections of a daemon, and larger ones.
const STEPS: [[i64; 6]; 2] = [[300, -250, 2000, -2050, -40, 40], [-150, 800, -650, 60, 3000, -3060]];
/// How fast each clock runs, in parts per million.
const SLEWS: [i64; 2] = [200, -120];
/// How long the link is cut.
const CUT: Duration = Duration::from_secs(10);
/// Without disturbances at the end, so that sent messages have arrived.
const CALM: Duration = Duration::from_secs(25);
/// From the last message to the end: some windows.
const SETTLING: Duration = Duration::from_secs(8);
/// How often the scenario looks at its events and processes.
const TURN: Duration = Duration::from_millis(100);
/// The limit of topic_monitor's expectations, as of the nodes'.
const EXPECTED: &str = "expected.yaml";

#[derive(clap::Args)]
pub struct Options {
    /// How long
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// The bytes of a camera's image
    #[arg(long, default_value_t = 1_000_000)]
    image: usize,
    /// Where the logs are written, to be kept; by default they are removed
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Compares the logs of an earlier run in the directory
    #[arg(long, requires = "directory")]
    only_compare: bool,
}

/// A disturbance that returns.
struct Event {
    what: Disturbance,
    every: Duration,
    next: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Disturbance {
    Step(Host),
    Restart,
    Kill,
    Revive,
    Cut,
    Restore,
    Scrape,
}

/// The disturbances of the robot.
#[derive(Debug, Default)]
struct Disturbances {
    steps: u64,
    restarts: u64,
    kills: u64,
    cuts: u64,
    scrapes: u64,
    longest_stall: Duration,
}

struct Robot {
    domain: u32,
    image: usize,
    directory: PathBuf,
    network: Option<Network>,
    clocks: Option<[SteppedClock; 2]>,
    steps: [usize; 2],
    incarnation: u32,
    /// By the index of [`PROCESSES`]. None while it is killed.
    running: Vec<Option<(Process, ChildStdin)>>,
    tools: Vec<(&'static str, Process, Option<ChildStdin>)>,
    port: u16,
    done: Disturbances,
    stalls: File,
}

fn script(name: &str) -> String {
    format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))
}

impl Robot {
    /// Starts a program on a host of the robot, with its clock.
    fn spawn(&self, host: Host, mut command: Command) -> Result<(Process, Option<ChildStdin>)> {
        if let Some(clocks) = &self.clocks {
            clocks[host as usize].preload(&mut command);
        }
        command.stdin(Stdio::piped());
        let mut child = match &self.network {
            None => command.spawn()?,
            Some(network) => {
                for (name, _) in on_this_host() {
                    command.env_remove(name);
                }
                command.env("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4");
                [&network.talking, &network.listening][host as usize].spawn(command)
            }
        };
        let input = child.stdin.take();
        Ok((child.into(), input))
    }

    /// Starts a tool whose output is a file.
    fn tool(&mut self, name: &'static str, program: impl AsRef<Path>, arguments: &[&str]) -> Result<()> {
        let mut command = command(program.as_ref(), arguments, self.domain);
        command.stdout(File::create(self.directory.join(format!("{name}.out")))?);
        command.stderr(File::create(self.directory.join(format!("{name}.err")))?);
        let (process, input) = self.spawn(Host::Body, command)?;
        self.tools.push((name, process, input));
        Ok(())
    }

    fn start(&mut self, index: usize) -> Result<()> {
        let process = &PROCESSES[index];
        self.incarnation += 1;
        let (incarnation, image) = (self.incarnation.to_string(), self.image.to_string());
        let mut command = if process.is_python {
            let log = self.directory.join(format!("{}.{incarnation}.log", process.name));
            let mut command = command("python3", &[&script("testing/soak/src/robot/node.py")], self.domain);
            command.args(["--name", process.name, "--incarnation", &incarnation, "--image", &image, "--log"]);
            command.arg(log);
            for (topic, rate) in process.publishes {
                let described = &TOPICS[*topic];
                let latched = u8::from(described.is_latched);
                let subscriptions = scenario::subscriptions(*topic);
                let (name, kind, depth) = (described.name, described.kind.name(), described.depth);
                command.arg(format!("{name}={kind},{rate},{depth},{latched},{subscriptions},{topic}"));
            }
            command
        } else {
            let arguments = ["robot-node", process.name, "--incarnation", &incarnation, "--image", &image];
            let mut command = command(std::env::current_exe()?, &arguments, self.domain);
            command.arg("--directory").arg(&self.directory);
            command
        };
        command.stderr(File::options().create(true).append(true).open(self.directory.join("robot.err"))?);
        command.stdout(Stdio::null());
        let (started, input) = self.spawn(process.host, command)?;
        self.running[index] = Some((started, input.context("a pipe")?));
        Ok(())
    }

    /// Ends processes in an orderly way: all stop to publish before the first one ends.
    fn end(&mut self, processes: &[usize], settling: Duration) -> Result<()> {
        for index in processes {
            if let Some((_, input)) = &mut self.running[*index] {
                writeln!(input, "stop")?;
            }
        }
        std::thread::sleep(settling);
        if processes.len() > 1 {
            self.scrape()?;
        }
        for index in processes {
            if let Some((mut process, input)) = self.running[*index].take() {
                drop(input);
                let status = process.wait();
                ensure!(status.success(), "{} has ended with {status}", PROCESSES[*index].name);
            }
        }
        Ok(())
    }

    /// Gets /metrics, from a process on the exporter's host.
    fn scrape(&mut self) -> Result<()> {
        let url = format!("http://127.0.0.1:{}/metrics", self.port);
        // Both clocks of that host come first.
        let get = "import sys, time, urllib.request as r\n\
                   print('# at', time.monotonic_ns(), time.time_ns(), flush=True)\n\
                   sys.stdout.write(r.urlopen(sys.argv[1], timeout=10).read().decode())";
        let mut command = command("python3", &["-c", get, &url], self.domain);
        let file = self.directory.join(format!("metrics.{:04}", self.done.scrapes));
        command.stdout(File::create(file)?);
        let (mut process, _input) = self.spawn(Host::Body, command)?;
        ensure!(process.wait().success(), "/metrics cannot be read");
        self.done.scrapes += 1;
        Ok(())
    }

    fn disturb(&mut self, what: Disturbance) -> Result<()> {
        let index = |fate| PROCESSES.iter().position(|process| process.fate == fate).unwrap_or_default();
        match what {
            Disturbance::Step(host) => {
                if let Some(clocks) = &self.clocks {
                    let turn = &mut self.steps[host as usize];
                    let steps = STEPS[host as usize];
                    clocks[host as usize].step(steps[*turn % steps.len()] * 1_000_000);
                    *turn += 1;
                    self.done.steps += 1;
                }
            }
            Disturbance::Restart => {
                self.end(&[index(Fate::Restarted)], Duration::from_secs(1))?;
                self.start(index(Fate::Restarted))?;
                self.done.restarts += 1;
            }
            Disturbance::Kill => {
                if let Some((process, _)) = self.running[index(Fate::Killed)].take() {
                    process.signal("KILL");
                    self.done.kills += 1;
                }
            }
            Disturbance::Revive => {
                if self.running[index(Fate::Killed)].is_none() {
                    self.start(index(Fate::Killed))?;
                }
            }
            Disturbance::Cut | Disturbance::Restore => {
                if let Some(network) = &self.network {
                    network.link.cut(what == Disturbance::Cut);
                    self.done.cuts += u64::from(what == Disturbance::Cut);
                }
            }
            Disturbance::Scrape => self.scrape()?,
        }
        Ok(())
    }

    /// Sleeps, and records how much longer than that the machine has left this process without a turn.
    fn sleep(&mut self) -> Result<()> {
        let before = Instant::now();
        std::thread::sleep(TURN);
        let stall = before.elapsed().saturating_sub(TURN);
        if stall > TURN {
            writeln!(self.stalls, "{} {}", now(ClockId::CLOCK_MONOTONIC), stall.as_nanos())?;
            self.done.longest_stall = self.done.longest_stall.max(stall);
        }
        Ok(())
    }

    /// Lives for some time.
    fn live(&mut self, length: Duration) -> Result<()> {
        // A short run has each disturbance, too.
        let pace = (length.as_secs_f64() / 300.0).clamp(0.2, 1.0);
        let event = |what, every: f64, first: f64| Event {
            what,
            every: Duration::from_secs_f64(every * pace),
            next: Duration::from_secs_f64(first * pace),
        };
        let kill = event(Disturbance::Kill, 90.0, 80.0);
        let cut = event(Disturbance::Cut, 150.0, 110.0);
        let after = |disturbance: &Event, what, delay| Event {
            what,
            every: disturbance.every,
            next: disturbance.next + delay,
        };
        let mut events = [
            event(Disturbance::Step(Host::Body), 40.0, 45.0),
            event(Disturbance::Step(Host::Brain), 55.0, 60.0),
            event(Disturbance::Restart, 60.0, 60.0),
            after(&kill, Disturbance::Revive, Duration::from_secs(8)),
            after(&cut, Disturbance::Restore, CUT),
            kill,
            cut,
            event(Disturbance::Scrape, 20.0, 30.0),
        ];
        let began = Instant::now();
        while began.elapsed() < length {
            let elapsed = began.elapsed();
            for event in &mut events {
                if elapsed < event.next {
                    continue;
                }
                event.next = elapsed + event.every;
                // The calm at the end has only what repairs a fault or reads.
                let calm = [Disturbance::Revive, Disturbance::Restore, Disturbance::Scrape];
                if elapsed + CALM < length || calm.contains(&event.what) {
                    self.disturb(event.what).with_context(|| format!("{:?}", event.what))?;
                }
            }
            for (index, running) in self.running.iter_mut().enumerate() {
                let status = running.as_mut().and_then(|(process, _)| process.status());
                ensure!(status.is_none(), "{} has ended by itself: {status:?}", PROCESSES[index].name);
            }
            for (name, process, _) in &mut self.tools {
                let status = process.status();
                ensure!(status.is_none(), "{name} has ended by itself: {status:?}");
            }
            self.sleep()?;
        }
        Ok(())
    }
}

/// Returns the size of a message of each topic, as rclpy serializes it. On DDS it is a multiple of 4.
fn sizes(image: usize) -> Result<Vec<u64>> {
    let mut python = command("python3", &[&script("testing/soak/src/robot/node.py"), "--sizes"], 0);
    let output = python.args(["--image", &image.to_string()]).stderr(Stdio::inherit()).output()?;
    let sizes: serde_json::Value = serde_json::from_slice(&output.stdout).context("node.py --sizes")?;
    let size = |kind: Kind| sizes[&kind.name()].as_u64().map(|bytes| bytes.next_multiple_of(4));
    TOPICS.iter().map(|topic| size(topic.kind).context("a size of each kind")).collect()
}

/// The file of topic_monitor's expectations.
fn expectations() -> String {
    let mut text = "topics:\n".to_owned();
    for topic in TOPICS.iter().filter(|topic| !topic.expected.is_empty()) {
        text += &format!("  {}:\n    warn_unless: {}\n", topic.name, topic.expected);
        if topic.is_latched {
            text += "    stale_after: never\n";
        }
    }
    text
}

/// Without a directory the files are temporary, unless something is wrong: a difference is explained by them.
pub fn run(options: &Options) -> Result<()> {
    if let Some(directory) = &options.directory {
        std::fs::create_dir_all(directory)?;
        return run_in(directory.clone(), options);
    }
    let temporary = tempfile::tempdir()?;
    run_in(temporary.path().to_owned(), options).map_err(|error| {
        let kept = temporary.keep();
        error.context(format!("the files of the run are in {}", kept.display()))
    })
}

fn run_in(directory: PathBuf, options: &Options) -> Result<()> {
    let length = Duration::try_from_secs_f64(options.minutes * 60.0).context("--minutes is not a time")?;
    if options.only_compare {
        return compare::run(&directory, &sizes(options.image)?);
    }
    let network = Network::new();
    if let Err(lacking) = &network {
        println!("skipped: the link is never cut: {lacking}");
    }
    let clocks = SteppedClock::new().zip(SteppedClock::new()).map(<[_; 2]>::from);
    if clocks.is_none() {
        println!("skipped: the clocks are neither stepped nor slewed");
    }
    let mut robot = Robot {
        domain: domain(),
        image: options.image,
        network: network.ok(),
        clocks,
        steps: [0; 2],
        incarnation: 0,
        running: PROCESSES.iter().map(|_| None).collect(),
        tools: vec![],
        port: TcpListener::bind("127.0.0.1:0")?.local_addr()?.port(),
        done: Disturbances::default(),
        stalls: File::create(directory.join(STALLS))?,
        directory,
    };
    for (clock, slew) in robot.clocks.iter().flatten().zip(SLEWS) {
        clock.slew(slew);
    }
    let sizes = sizes(options.image)?;
    let expected = robot.directory.join(EXPECTED);
    std::fs::write(&expected, expectations())?;
    let (expected, port) = (expected.display().to_string(), robot.port.to_string());
    let to = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    robot.tool("otlp", std::env::current_exe()?, &["collector", "--port", &to.to_string()])?;
    robot.tool("reader", "python3", &[&script("testing/soak/src/robot/reader.py")])?;
    robot.tool("rows", program("topic_monitor")?, &["--from-statistics", "--json"])?;
    let (listen, push) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{to}"));
    let push = ["--otlp-endpoint", &push, "--otlp-interval", "10", "--otlp-compression", "none"];
    robot.tool("exporter", program("exporter")?, &[&["--listen", &listen][..], &push].concat())?;
    let watched = (0..TOPICS.len()).filter(|topic| scenario::is_monitored(*topic));
    let watched: Vec<&str> = watched.map(|topic| TOPICS[topic].name).collect();
    let arguments =
        [&["--json", "--expect", &expected, "--diagnostics", "--depth", "1000"][..], &watched].concat();
    robot.tool("monitor", program("topic_monitor")?, &arguments)?;
    for index in 0..PROCESSES.len() {
        robot.start(index)?;
    }
    println!(
        "{} processes, {} topics, images of {} bytes, {} minutes, {}",
        PROCESSES.len(),
        TOPICS.len(),
        robot.image,
        options.minutes,
        if robot.network.is_some() { "two hosts with a link between them" } else { "one host" },
    );
    robot.live(length)?;
    let all: Vec<usize> = (0..PROCESSES.len()).collect();
    robot.end(&all, SETTLING)?;
    for (_, process, _) in &robot.tools {
        process.signal("INT");
    }
    for (_, mut process, input) in std::mem::take(&mut robot.tools) {
        drop(input);
        process.wait();
    }
    println!("{:?}", robot.done);
    compare::run(&robot.directory, &sizes)
}
