// SPDX-License-Identifier: Apache-2.0

//! Shows how often, how regularly, how old and how completely messages arrive on topics: docs/topic_monitor.md.

mod arguments;
mod condition;
mod detail;
mod format;
mod from_statistics;
mod graph;
mod pattern;
mod report;
mod require;
mod row;
mod screen;
mod signals;
mod source;
mod terminal;
mod topic;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, IsTerminal, Write},
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use clap::Parser;
use ratatui::crossterm::event::{Event, KeyEventKind};
use rclrs::*;

use crate::{
    arguments::{split_ros_arguments, Arguments},
    condition::Condition,
    report::Report,
    row::{Problem, Row},
    screen::Screen,
    source::{Notices, Source},
    terminal::{is_closed, Input, LiveTerminal},
};

/// An error that ends the program, for the user.
type Failure = Box<dyn std::error::Error>;

/// How often it is looked for something new.
const TICK: Duration = Duration::from_millis(50);
/// How often the live view is drawn, if nobody presses a key.
const FRAME: Duration = Duration::from_millis(250);
/// The graph is complete by then, as far as it goes.
const DISCOVERY: Duration = Duration::from_secs(2);

/// Conditions were not fulfilled.
const UNFULFILLED: u8 = 1;
/// It could not start, or not go on.
const FAILED: u8 = 3;

fn main() -> ExitCode {
    let (own, ros) = split_ros_arguments(std::env::args_os());
    let arguments = Arguments::parse_from(own);
    arguments.check().unwrap_or_else(|error| error.exit());
    let is_terminal = io::stdout().is_terminal();
    match run(&arguments, ros, is_terminal) {
        Ok(code) => ExitCode::from(code),
        Err(error) if has_no_reader(&*error, is_terminal) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(FAILED)
        }
    }
}

/// Whether an error says that nobody reads on, as behind `| head`, or when a terminal is closed.
fn has_no_reader(error: &(dyn std::error::Error + 'static), is_terminal: bool) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe || is_terminal && is_closed(error))
}

/// Writes to standard error, which may be closed. Foreign names in it are escaped already.
fn complain(text: &str) {
    let _nobody_reads = writeln!(io::stderr(), "topic_monitor: {text}");
}

fn run(arguments: &Arguments, ros: Vec<String>, is_terminal: bool) -> Result<u8, Failure> {
    let is_interrupted = signals::interrupted()?;
    let ros_arguments = [vec!["topic_monitor".to_owned()], ros].concat();
    let context = Context::new(ros_arguments, InitOptions::default())?;
    let executor = context.create_basic_executor();
    let node = executor.create_node("topic_monitor")?;
    // The library warns in the node's log of what the rows show.
    node.logger().set_level(LogSeverity::Error)?;
    let source = Source::new(&node, arguments)?;
    let spinning = Spinning::start(executor)?;
    let session = Session { arguments, spinning, is_interrupted, started: Instant::now() };
    if arguments.is_live(is_terminal) {
        session.show(source)
    } else {
        session.write(source)
    }
}

/// An executor that spins on a thread of its own until this is dropped.
struct Spinning {
    commands: Arc<ExecutorCommands>,
    thread: Option<JoinHandle<Vec<RclrsError>>>,
}

impl Spinning {
    fn start(mut executor: Executor) -> io::Result<Self> {
        let commands = Arc::clone(executor.commands());
        let thread = std::thread::Builder::new().name("executor".to_owned());
        let thread = thread.spawn(move || executor.spin(SpinOptions::default()))?;
        Ok(Self { commands, thread: Some(thread) })
    }

    /// Errors if it has ended by itself.
    fn check(&mut self) -> Result<(), Failure> {
        let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) else { return Ok(()) };
        let errors = thread.join().map_err(|_| "the executor panicked")?;
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Err(format!("the executor ended: {}", text.join("; ")).into())
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A halt that comes before it spins would be lost.
            while !thread.is_finished() {
                self.commands.halt_spinning();
                std::thread::sleep(Duration::from_millis(1));
            }
            let _errors = thread.join();
        }
    }
}

/// A run of the program.
struct Session<'a> {
    arguments: &'a Arguments,
    spinning: Spinning,
    is_interrupted: Arc<AtomicBool>,
    started: Instant,
}

impl Session<'_> {
    /// Returns whether it is time to end.
    fn is_over(&mut self) -> Result<bool, Failure> {
        self.spinning.check()?;
        let age = self.started.elapsed();
        if self.arguments.panic_after.is_some_and(|after| age >= after) {
            panic!("as --panic-after asks");
        }
        let is_late = self.arguments.duration.is_some_and(|duration| age >= duration);
        Ok(is_late || self.is_interrupted.load(Ordering::Relaxed))
    }

    /// The live view.
    fn show(mut self, mut source: Source) -> Result<u8, Failure> {
        let mut live = LiveTerminal::start()?;
        let input = Input::start()?;
        let mut screen = Screen::new();
        let mut rows: Vec<Row> = vec![];
        let mut drawn: Option<Instant> = None;
        while !self.is_over()? {
            source.poll()?;
            if drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME) {
                rows = source.rows().into_iter().cloned().collect();
                screen.notice = source.notice();
                live.terminal.draw(|frame| screen.draw(frame, &rows, Instant::now()))?;
                drawn = Some(Instant::now());
            }
            match input.next(TICK)? {
                Some(Event::Key(key))
                    if key.kind != KeyEventKind::Release && screen.key(key, &rows, Instant::now()) =>
                {
                    break
                }
                Some(_) => drawn = None, // at once, for a resize too
                None => {}
            }
        }
        Ok(0)
    }

    /// Lines.
    fn write(mut self, mut source: Source) -> Result<u8, Failure> {
        let arguments = self.arguments;
        let conditions: Vec<Condition> =
            arguments.require.iter().flat_map(|conditions| conditions.0.clone()).collect();
        let mut report = Report::new(io::stdout().lock(), arguments.json);
        let mut told = BTreeMap::new();
        let mut notices = Notices::default();
        let mut written = BTreeSet::new();
        loop {
            let is_over = self.is_over()?;
            let new = source.poll()?;
            let rows = source.rows();
            for row in rows.iter().filter(|row| new.contains(&row.name)) {
                let is_first = written.insert(row.name.clone());
                if is_first || !arguments.once {
                    report.write(row, Instant::now())?;
                }
            }
            if self.started.elapsed() >= DISCOVERY / 2 {
                tell_problems(&rows, &mut told);
            }
            if let Some(notice) = notices.next(source.notice(), Instant::now()) {
                complain(&notice);
            }
            let is_discovered = self.started.elapsed() >= DISCOVERY;
            if !conditions.is_empty() {
                let failures = require::failures(&conditions, &rows, Instant::now());
                if failures.is_empty() && !new.is_empty() && is_discovered {
                    return Ok(0);
                }
                if is_over {
                    failures.iter().for_each(|failure| complain(failure));
                    return Ok(UNFULFILLED);
                }
            }
            let is_failed =
                |row: &&Row| matches!(row.problem, Some(Problem::Error(_))) && row.reading.is_none();
            if written.len() > rows.len() {
                written.retain(|name| rows.iter().any(|row| row.name == *name));
            }
            let is_complete = rows.iter().all(|row| written.contains(&row.name) || is_failed(row));
            if arguments.once && is_discovered && is_complete && !rows.is_empty() {
                return Ok(if rows.iter().any(is_failed) { FAILED } else { 0 });
            }
            if is_over {
                return Ok(0);
            }
            std::thread::sleep(TICK);
        }
    }
}

/// Reports on standard error why nothing is received of topics, once.
fn tell_problems(rows: &[&Row], told: &mut BTreeMap<String, String>) {
    if told.len() > rows.len() {
        told.retain(|name, _| rows.iter().any(|row| row.name == *name));
    }
    for row in rows {
        let Some(problem) = row.problem.as_ref().map(|problem| problem.text().to_owned()) else {
            told.remove(&row.name);
            continue;
        };
        if told.get(&row.name) != Some(&problem) {
            complain(&problem);
            told.insert(row.name.clone(), problem);
        }
    }
}
