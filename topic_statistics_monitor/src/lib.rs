// SPDX-License-Identifier: Apache-2.0

//! `topic_monitor` shows how often, how regularly, how old and how completely messages arrive on ROS 2 topics.
//!
//! This crate is a library only so that tests and fuzz targets can call its parts. The library has no public API for
//! other crates.
//!
//! The data passes through the modules in this order:
//!
//! ```text
//!  graph, messages ──▶ topics ──────┐                                   ┌──▶ views         lines, JSON, live view
//!  events, statuses ─▶ waiting ─────┼──▶ provider ──▶ rows ──▶ session ─┼──▶ diagnostics   /diagnostics
//!  /statistics ──────▶ statistics ──┘                                   └──▶ page of --report
//! ```
//!
//! With `--record`, the subscription callbacks of `topics` also give each message to `record`.
//!
//! `session` polls the provider, compares the rows with the expectations, and gives the rows to a view. `chains` also
//! reads `statistics`, and adds up the hops of nodes (a hop is the way of messages through one node). `why` analyses
//! the graph once, and reports why messages do not arrive. A `Row` of `topic_statistics_observe` has plain values,
//! which all modules can read. `topics`, `waiting` and `statistics` write rows. `views` and `diagnostics` read rows.
//! The modules that write rows and those that read rows do not import each other. `arguments` is the command line.
//! `signals` handles signals to the process, and `process` has functions about the process.

mod arguments;
mod chains;
mod diagnostics;
mod graph;
mod process;
mod provider;
mod queue;
mod record;
mod session;
mod signals;
mod statistics;
mod topics;
mod type_support;
mod views;
mod waiting;
mod why;

/// The items that the fuzz targets and the tests of the terminal use.
#[doc(hidden)]
pub mod testing {
    pub use crate::{
        process::take_stdout,
        statistics::Sources,
        topics::explain,
        views::{detail, Input, LiveTerminal, Screen},
        waiting::{Calls, Event, Goals},
    };
}

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    sync::Arc,
};

use clap::{CommandFactory, Parser};
use rclrs::*;
use topic_statistics_observe::{
    expect,
    page::PageFile,
    pattern::{Pattern, Selection},
    ros::{
        arguments::{context, create_node, split_ros_arguments},
        executor::Spinning,
    },
    row::Kind,
};

use crate::{
    arguments::Arguments,
    diagnostics::Diagnostics,
    process::{has_no_reader, print_error, take_stdout, Failure, FAILED, UNFULFILLED},
    provider::Provider,
    record::{events_topic, Recorder, Recording},
    session::Session,
    signals::Interrupt,
    statistics::StatisticsReader,
    topics::TopicWatcher,
    views::{Lines, Live, Suggestion},
    waiting::WaitingWatcher,
};

/// Runs the program with the command-line arguments of the process. Returns the exit status.
pub fn main() -> ExitCode {
    let (own, ros) = split_ros_arguments(std::env::args_os());
    let arguments = Arguments::parse_from(own);
    if let Some(generate) = arguments.generate {
        let written = generate.write(Arguments::command(), &mut io::stdout());
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) };
    }
    arguments.check().unwrap_or_else(|error| error.exit());
    match run(&arguments, ros) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print_error(&error.to_string());
            ExitCode::from(FAILED)
        }
    }
}

fn run(arguments: &Arguments, ros: Vec<String>) -> Result<u8, Failure> {
    let interrupt = Interrupt::listen()?;
    let read = |path| expect::read(path, &arguments.expect_namespace);
    let expected = arguments.expect.as_deref().map(read).transpose()?;
    let patterns = arguments.patterns(expected.as_ref());
    arguments.check_sources(&patterns)?;
    let report = arguments.report.as_deref().map(PageFile::new).transpose()?;
    let junit = arguments.junit.as_deref().map(PageFile::new).transpose()?;
    // The program takes standard output for itself before the context loads the middleware, which can write to standard
    // output.
    let output = take_stdout()?;
    let is_terminal = output.is_terminal();
    let executor = context("topic_monitor", &ros)?.create_basic_executor();
    let node = create_node(&executor, "topic_monitor", "topic_monitor", &ros, FAILED)?;
    // The node does not log the library's warnings, because the rows show these warnings.
    node.logger().set_level(LogSeverity::Error)?;
    if arguments.why || arguments.chain_ends().is_some() {
        let spinning = Spinning::start(executor)?;
        let ended = match arguments.chain_ends() {
            Some(ends) => chains::run(&node, arguments, ends, output, spinning, &interrupt),
            None => why::run(&node, arguments, output, spinning, &interrupt),
        };
        return ended.or_else(|error| match has_no_reader(&*error, is_terminal) {
            true => Ok(0),
            false => Err(error),
        });
    }
    let options = Some(&arguments.record).filter(|options| options.record.is_some());
    let recorder = options.map(|options| Recorder::start(&node, options.clone())).transpose()?;
    let recording = recorder.as_ref().map(|recorder| Arc::clone(&recorder.recording));
    let mut provider = provider(&node, arguments, patterns, recording)?;
    let diagnostics = arguments.diagnostics.then(|| Diagnostics::new(&node, arguments)).transpose()?;
    let spinning = Spinning::start(executor)?;
    let mut session = Session::new(arguments, expected, diagnostics, spinning, interrupt);
    session.recorder = recorder;
    let ended = if let Some(tolerance) = arguments.print_expectations {
        session.run(&mut provider, &mut Suggestion { output, tolerance })
    } else if arguments.is_live(is_terminal) {
        Live::start(&output, arguments.kind()).and_then(|mut live| session.run(&mut provider, &mut live))
    } else {
        session.run(&mut provider, &mut Lines::new(arguments, output))
    };
    let code = match ended {
        Err(error) if has_no_reader(&*error, is_terminal) => Ok(0),
        other => other,
    };
    // The recording is finished even if the run ended with an error.
    let recorded = session.finish_recording();
    let is_fulfilled = match report {
        Some(file) => session.write_report(&file, &*provider)?,
        None => true,
    };
    if let Some(file) = junit {
        session.write_junit(&file, &*provider)?;
    }
    let is_healthy = session.report_errors();
    drop((session, provider));
    debug_assert_eq!(Arc::strong_count(&node), 1, "no thread has the node when the process ends");
    recorded?;
    Ok(if is_fulfilled && is_healthy { code? } else { code?.max(UNFULFILLED) })
}

/// Creates the provider of the rows that the arguments select.
fn provider<'a>(
    node: &Node,
    arguments: &'a Arguments,
    patterns: Vec<Pattern>,
    recording: Option<Arc<Recording>>,
) -> Result<Provider<'a>, Failure> {
    if let Some(topic) = &arguments.from_statistics {
        let name = topic.name().filter(|_| !topic.is_of_sources());
        let Some(name) = name else {
            return Err(format!("--from-statistics takes a topic's name, not {}", topic.text()).into());
        };
        return Ok(Box::new(StatisticsReader::new(node, name, patterns, arguments.max_topics)));
    }
    let own = recording.as_ref().map(|_| events_topic(node));
    let selection = Selection { patterns, all: arguments.all, own };
    if matches!(arguments.kind(), Kind::Service | Kind::Action) {
        return Ok(Box::new(WaitingWatcher::new(node, arguments, selection)));
    }
    Ok(Box::new(TopicWatcher::new(node, arguments, selection, recording)?))
}
