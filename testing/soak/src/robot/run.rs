// SPDX-License-Identifier: Apache-2.0

//! Runs a day of the robot: starts its processes and the tools that watch them, and disturbs the processes.

use std::{
    fs::File,
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{ensure, Context, Result};
use simulator::scenario::{Kind, DISTURBANCES};
use test_support::{clock::SteppedClock, command, domain, network::Network, on_the_network, Process};

use super::{compare, topics, Fate, Host, PROCESSES};
use crate::run::program;

/// Steps of the clocks of the two hosts in ms, used in turns: small corrections, as by a time daemon, and larger ones.
const STEPS: [[i64; 6]; 2] = [[300, -250, 2000, -2050, -40, 40], [-150, 800, -650, 60, 3000, -3060]];

#[derive(Clone, Copy, Debug)]
enum Event {
    Disturb(Kind),
    Revive,
    Restore,
    Scrape,
}

struct Robot {
    domain: u32,
    image: usize,
    directory: PathBuf,
    network: Option<Network>,
    clocks: Option<[SteppedClock; 2]>,
    steps: usize,
    incarnation: u32,
    /// The processes, in the order of [`PROCESSES`]; `None` after a process was killed, until it is started again.
    running: Vec<Option<(Process, ChildStdin)>>,
    tools: Vec<(Process, Option<ChildStdin>)>,
    port: u16,
    scrapes: u64,
    done: Vec<Kind>,
}

fn place(fate: Fate) -> usize {
    PROCESSES.iter().position(|process| process.fate == fate).unwrap_or_default()
}

impl Robot {
    /// Starts a program on a host of the robot. The program sees the clock of this host.
    fn spawn(&self, host: Host, mut command: Command) -> Result<(Process, Option<ChildStdin>)> {
        if let Some(clocks) = &self.clocks {
            clocks[host as usize].preload(&mut command);
        }
        command.stdin(Stdio::piped());
        let mut child = match &self.network {
            None => command.spawn()?,
            Some(network) => {
                [&network.talking, &network.listening][host as usize].spawn(on_the_network(command))
            }
        };
        let input = child.stdin.take();
        Ok((child.into(), input))
    }

    fn tool(&mut self, name: &str, program: impl AsRef<Path>, arguments: &[&str]) -> Result<()> {
        let mut command = command(program.as_ref(), arguments, self.domain);
        command.stdout(File::create(self.directory.join(format!("{name}.out")))?);
        command.stderr(File::create(self.directory.join(format!("{name}.err")))?);
        self.tools.push(self.spawn(Host::Body, command)?);
        Ok(())
    }

    fn start(&mut self, index: usize) -> Result<()> {
        let process = &PROCESSES[index];
        self.incarnation += 1;
        let (incarnation, image) = (self.incarnation.to_string(), self.image.to_string());
        let arguments = ["robot-node", process.name, &incarnation, &image];
        let mut command = command(std::env::current_exe()?, &arguments, self.domain);
        command.arg(&self.directory).stdout(Stdio::null());
        command.stderr(File::options().create(true).append(true).open(self.directory.join("robot.err"))?);
        let (started, input) = self.spawn(process.host, command)?;
        self.running[index] = Some((started, input.context("a pipe")?));
        Ok(())
    }

    /// Runs `topic_monitor --why` before the first disturbance. At that time, topic_monitor must find no problem.
    fn find_no_problem(&self) -> Result<()> {
        // topic_monitor runs for 40 s, which is longer than the time between two bursts of messages.
        let arguments = ["--why", "--duration", "40"];
        let mut command = command(program("topic_monitor")?, &arguments, self.domain);
        let path = self.directory.join("why.out");
        command.stdout(File::create(&path)?);
        let (mut process, _input) = self.spawn(Host::Body, command)?;
        let (status, text) = (process.wait(), std::fs::read_to_string(path)?);
        ensure!(status.success() && text.starts_with("no problem: "), "topic_monitor --why: {text}");
        print!("{text}");
        Ok(())
    }

    /// Ends processes without killing them. All processes stop publishing before the first process ends.
    fn end(&mut self, processes: &[usize], settling: Duration) -> Result<()> {
        for (_, input) in processes.iter().filter_map(|index| self.running[*index].as_ref()) {
            writeln!(&*input, "stop")?;
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

    fn scrape(&mut self) -> Result<()> {
        let url = format!("http://127.0.0.1:{}/metrics", self.port);
        let get = "import sys, urllib.request as r; \
                   sys.stdout.write(r.urlopen(sys.argv[1], timeout=10).read().decode())";
        let mut command = command("python3", &["-c", get, &url], self.domain);
        command.stdout(File::create(self.directory.join(format!("metrics.{:04}", self.scrapes)))?);
        let (mut process, _input) = self.spawn(Host::Body, command)?;
        ensure!(process.wait().success(), "/metrics cannot be read");
        self.scrapes += 1;
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Disturb(kind) => {
                self.done.push(kind);
                match (kind, &self.clocks, &self.network) {
                    (Kind::Step, Some(clocks), _) => {
                        let (host, turn) = (self.steps % 2, self.steps / 2);
                        clocks[host].step(STEPS[host][turn % STEPS[host].len()] * 1_000_000);
                        self.steps += 1;
                    }
                    (Kind::Cut, _, Some(network)) => network.link.cut(true),
                    (Kind::Restart, ..) => {
                        self.end(&[place(Fate::Restarted)], Duration::from_secs(1))?;
                        self.start(place(Fate::Restarted))?;
                    }
                    (Kind::Kill, ..) => {
                        let killed = self.running[place(Fate::Killed)].take();
                        killed.inspect(|(process, _)| process.signal("KILL"));
                    }
                    _ => {}
                }
            }
            Event::Revive if self.running[place(Fate::Killed)].is_none() => {
                self.start(place(Fate::Killed))?
            }
            Event::Revive => {}
            Event::Restore => self.network.iter().for_each(|network| network.link.cut(false)),
            Event::Scrape => self.scrape()?,
        }
        Ok(())
    }

    /// Disturbs the robot for some time. Even a short day has each kind of disturbance.
    fn live(&mut self, length: Duration) -> Result<()> {
        let pace = (length.as_secs_f64() / 300.0).clamp(0.2, 1.0);
        let mut events = vec![(
            Event::Scrape,
            Duration::from_secs(20).mul_f64(pace),
            Duration::from_secs(20).mul_f64(pace),
        )];
        for disturbance in &DISTURBANCES {
            let Some([first, every]) = disturbance.happens.map(|times| times.map(|time| time.mul_f64(pace)))
            else {
                continue;
            };
            events.push((Event::Disturb(disturbance.kind), first, every));
            match disturbance.kind {
                Kind::Kill => events.push((Event::Revive, first + Duration::from_secs(8), every)),
                Kind::Cut => events.push((Event::Restore, first + Duration::from_secs(10), every)),
                _ => {}
            }
        }
        let began = Instant::now();
        while began.elapsed() < length {
            let elapsed = began.elapsed();
            for (event, next, every) in &mut events {
                if elapsed < *next {
                    continue;
                }
                *next = elapsed + *every;
                // In the last 25 s, nothing is disturbed any more, so that all sent messages arrive.
                if elapsed + Duration::from_secs(25) < length || !matches!(event, Event::Disturb(_)) {
                    self.happen(*event).with_context(|| format!("{event:?}"))?;
                }
            }
            let processes = self.running.iter_mut().flatten().map(|(process, _)| process);
            for process in processes.chain(self.tools.iter_mut().map(|(process, _)| process)) {
                let status = process.status();
                ensure!(status.is_none(), "A process has ended unexpectedly: {status:?}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// Runs a day of the robot. If it fails, its files are kept, to find out why.
pub fn run(minutes: f64, image: usize) -> Result<()> {
    let temporary = tempfile::tempdir()?;
    run_in(temporary.path().to_owned(), minutes, image).map_err(|error| {
        let kept = temporary.keep();
        error.context(format!("the files of the run are in {}", kept.display()))
    })
}

fn run_in(directory: PathBuf, minutes: f64, image: usize) -> Result<()> {
    let network = Network::new();
    if let Err(lacking) = &network {
        println!("skipped: the link is never cut: {lacking}");
    }
    let clocks = SteppedClock::new().zip(SteppedClock::new()).map(<[_; 2]>::from);
    if clocks.is_none() {
        println!("skipped: the clocks are not stepped");
    }
    let mut robot = Robot {
        domain: domain(),
        image,
        network: network.ok(),
        clocks,
        steps: 0,
        incarnation: 0,
        running: PROCESSES.iter().map(|_| None).collect(),
        tools: vec![],
        port: TcpListener::bind("127.0.0.1:0")?.local_addr()?.port(),
        scrapes: 0,
        done: vec![],
        directory,
    };
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/src/robot/reader.py");
    robot.tool("reader", "python3", &[reader])?;
    robot.tool("rows", program("topic_monitor")?, &["--from-statistics", "--json"])?;
    let listen = format!("127.0.0.1:{}", robot.port);
    robot.tool("exporter", program("exporter")?, &["--listen", &listen])?;
    let watched: Vec<&str> = topics().map(|topic| topic.name).collect();
    let arguments = [&["--json", "--depth", "1000"][..], &watched].concat();
    robot.tool("monitor", program("topic_monitor")?, &arguments)?;
    for index in 0..PROCESSES.len() {
        robot.start(index)?;
    }
    let hosts = if robot.network.is_some() { "two hosts with a link between them" } else { "one host" };
    let (processes, topics) = (PROCESSES.len(), watched.len());
    println!("{processes} processes, {topics} topics, {minutes} minutes, {hosts}");
    robot.find_no_problem()?;
    robot.live(Duration::from_secs_f64(minutes * 60.0))?;
    // Before the processes end, waits for some windows after the last message.
    robot.end(&Vec::from_iter(0..PROCESSES.len()), Duration::from_secs(8))?;
    robot.tools.iter().for_each(|(process, _)| process.signal("INT"));
    for (mut process, input) in std::mem::take(&mut robot.tools) {
        drop(input);
        process.wait();
    }
    for disturbance in DISTURBANCES.iter().filter(|disturbance| disturbance.happens.is_some()) {
        let times = robot.done.iter().filter(|kind| **kind == disturbance.kind).count();
        println!("{times:>5}  {}", disturbance.text);
    }
    compare::run(&robot.directory)
}
