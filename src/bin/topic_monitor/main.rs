//! Shows how often, how regularly, how old and how completely messages arrive on topics: docs/topic_monitor.md.

mod arguments;
mod condition;
mod detail;
mod format;
mod from_statistics;
mod pattern;
mod report;
mod require;
mod row;
mod screen;
mod signals;
mod terminal;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, IsTerminal},
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
    from_statistics::FromStatistics,
    report::Report,
    row::{now, Problem, Row},
    screen::Screen,
    terminal::{is_closed, Input, LiveTerminal},
    watch::Watch,
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
    match run(&arguments, ros) {
        Ok(code) => ExitCode::from(code),
        // Nobody reads on, as behind `| head`.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("topic_monitor: {error}");
            ExitCode::from(FAILED)
        }
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(arguments: &Arguments, ros: Vec<String>) -> Result<u8, Failure> {
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
    if arguments.is_live(io::stdout().is_terminal()) {
        session.show(source)
    } else {
        session.write(source)
    }
}

/// Where the rows come from.
enum Source {
    Topics(Box<Watch>),
    Statistics(Box<FromStatistics>),
}

impl Source {
    fn new(node: &Node, arguments: &Arguments) -> Result<Self, Failure> {
        if let Some(topic) = &arguments.from_statistics {
            let Some(name) = topic.name() else {
                return Err(format!(
                    "--from-statistics takes a topic's name, not the pattern {}",
                    topic.text()
                )
                .into());
            };
            return Ok(Self::Statistics(Box::new(FromStatistics::new(node, name, arguments.patterns()))));
        }
        let options = watch::Options {
            patterns: arguments.patterns(),
            all: arguments.all,
            period: arguments.period,
            depth: arguments.depth,
            publish: arguments.publish,
        };
        Ok(Self::Topics(Box::new(Watch::new(node, options)?)))
    }

    /// Reads what is new, and returns the names of the rows of which a whole window ended.
    fn poll(&mut self) -> Result<Vec<String>, Failure> {
        Ok(match self {
            Self::Topics(watch) => watch.poll(),
            Self::Statistics(statistics) => statistics.poll()?,
        })
    }

    fn rows(&self) -> Vec<Row> {
        match self {
            Self::Topics(watch) => watch.rows().cloned().collect(),
            Self::Statistics(statistics) => statistics.rows().cloned().collect(),
        }
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
        let mut rows = vec![];
        let mut drawn: Option<Instant> = None;
        while !self.is_over()? {
            source.poll()?;
            if drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME) {
                rows = source.rows();
                if let Err(error) = live.terminal.draw(|frame| screen.draw(frame, &rows, now())) {
                    if is_closed(&error) {
                        break;
                    }
                    return Err(error.into());
                }
                drawn = Some(Instant::now());
            }
            match input.next(TICK)? {
                Some(Event::Key(key))
                    if key.kind != KeyEventKind::Release && screen.key(key, &rows, now()) =>
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
        let mut written = BTreeSet::new();
        loop {
            let is_over = self.is_over()?;
            let new = source.poll()?;
            let rows = source.rows();
            for row in rows.iter().filter(|row| new.contains(&row.name)) {
                let is_first = written.insert(row.name.clone());
                if is_first || !arguments.once {
                    report.write(row, now())?;
                }
            }
            if self.started.elapsed() >= DISCOVERY / 2 {
                tell_problems(&rows, &mut told);
            }
            let is_discovered = self.started.elapsed() >= DISCOVERY;
            if !conditions.is_empty() {
                let failures = require::failures(&conditions, &rows, now());
                if failures.is_empty() && !new.is_empty() && is_discovered {
                    return Ok(0);
                }
                if is_over {
                    failures.iter().for_each(|failure| eprintln!("topic_monitor: {failure}"));
                    return Ok(UNFULFILLED);
                }
            }
            let is_unheard =
                |row: &Row| matches!(row.problem, Some(Problem::Error(_))) && row.reading.is_none();
            let is_complete = rows.iter().all(|row| written.contains(&row.name) || is_unheard(row));
            if arguments.once && is_discovered && is_complete && !rows.is_empty() {
                return Ok(if rows.iter().any(is_unheard) { FAILED } else { 0 });
            }
            if is_over {
                return Ok(0);
            }
            std::thread::sleep(TICK);
        }
    }
}

/// Says on standard error why topics are not heard, once.
fn tell_problems(rows: &[Row], told: &mut BTreeMap<String, String>) {
    for row in rows {
        let Some(problem) = row.problem.as_ref().map(|problem| problem.text().to_owned()) else {
            told.remove(&row.name);
            continue;
        };
        if told.get(&row.name) != Some(&problem) {
            eprintln!("topic_monitor: {problem}");
            told.insert(row.name.clone(), problem);
        }
    }
}
