// SPDX-License-Identifier: Apache-2.0

//! The program `exporter` exports the topic statistics of ROS 2 nodes to Prometheus and OpenTelemetry.
//!
//! The modules process the data in this order:
//!
//! ```text
//!  /statistics, /statistics/distribution,
//!  /events/messages_lost, /diagnostics
//!        ──▶ subscriptions ──▶ model ──▶ state ──▶ exposition ──▶ http    /metrics
//!                                                           └──▶ otlp    to a collector
//! ```
//!
//! `model` defines the received content as values with checked names and numbers. `state` stores the figures of all
//! sources of statistics: subscriptions, publishers, services, timers and so on. The outputs (`http` and `otlp`) read
//! only the state. `options` reads the options of the program. `filter` selects the nodes that the program exports.

mod compression;
mod exposition;
mod filter;
mod http;
mod model;
mod options;
mod otlp;
mod state;
mod subscriptions;
#[doc(hidden)]
pub mod testing;

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use clap::{CommandFactory, Parser};
use rclrs::*;
use topic_statistics_observe::ros::{
    arguments::{context, create_node, split_ros_arguments},
    executor::Spinning,
    signals::Interrupt,
};

use crate::{
    http::Server,
    options::{explain, Options},
    otlp::{Push, PushError},
    state::{Now, State},
    subscriptions::Subscriptions,
};

/// An error that ends the program.
type Failure = Box<dyn std::error::Error>;

/// How often the program reads the ROS graph.
const REFRESH: Duration = Duration::from_secs(1);

/// How long the program may take to end by itself after a signal. After this time, the signal kills the program.
const LIMIT: Duration = Duration::from_secs(5);

pub fn main() -> ExitCode {
    // The program first starts to handle signals, so a signal during the start has the same effect as a later signal.
    let interrupt = Interrupt::listen(&[], || thread::sleep(LIMIT));
    let (own, ros) = split_ros_arguments(std::env::args_os());
    let options = Options::try_parse_from(own).unwrap_or_else(|error| explain(error).exit());
    if let Some(generate) = options.generate {
        let written = generate.write(Options::command(), &mut io::stdout());
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    options.push.check().unwrap_or_else(|text| {
        Options::command().error(clap::error::ErrorKind::ValueValidation, text).exit()
    });
    match interrupt.map_err(Failure::from).and_then(|interrupt| run(&interrupt, options, ros)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The write fails if standard error is closed. The program ends anyway.
            let _closed = writeln!(io::stderr(), "exporter: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(interrupt: &Interrupt, options: Options, ros: Vec<String>) -> Result<(), Failure> {
    let executor = context("exporter", &ros)?.create_basic_executor();
    let node = create_node(&executor, "exporter", "topic_statistics_exporter", &ros, 1)?;
    let options = options.with_parameters_of(&node)?;
    options.push.check()?;
    let mut state = State::new(options.limits(), Now::read());
    state.filter = options.filter();
    let state = Arc::new(Mutex::new(state));
    let server = Server::start(&options.listen, Arc::clone(&state))
        .map_err(|error| format!("Cannot listen at {}: {error}", options.listen))?;
    let host = gethostname::gethostname();
    let (push, warnings) =
        options.push.clone().complete(&host.to_string_lossy(), |name| std::env::var(name).ok());
    for warning in warnings {
        log_warn!(&*node, "{warning}");
    }
    let push = push.map(|push| {
        let logger = node.logger().clone();
        let started = Push::start(&push, Arc::clone(&state), move |line| log_warn!(&logger, "{line}"))?;
        log_info!(&*node, "Pushing to {}", otlp::shown(&push.client.url));
        Ok::<_, PushError>(started)
    });
    let push = push.transpose()?;
    let mut subscriptions = Subscriptions::new(&node, &options, state)?;
    #[cfg(not(feature = "interfaces"))]
    log_warn!(
        &*node,
        "Built without topic_statistics_interfaces: there are no histograms, and no losses of events of lost messages"
    );
    log_info!(&*node, "Serving http://{}/metrics", server.address());
    let mut spinning = Spinning::start(executor)?;
    let result = loop {
        if interrupt.wait(REFRESH) {
            break Ok(());
        }
        if let Err(error) = spinning.check() {
            break Err(error.into());
        }
        if let Err(error) = subscriptions.refresh() {
            break Err(error.into());
        }
    };
    if let Some(lost) = push.map(Push::stop).filter(|lost| *lost > 0) {
        log_warn!(&*node, "{lost} OTLP requests that the collector has not taken are lost");
    }
    result
}
