// SPDX-License-Identifier: Apache-2.0

//! Runs the exporter's outputs in the process of the test, without ROS. The test adds messages directly to the state.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use clap::Parser;
use ros_env::{
    diagnostic_msgs::msg::DiagnosticStatus, statistics_msgs::msg::MetricsMessage,
    topic_statistics_interfaces::msg::MetricsDistribution,
};
use test_support::wait_for;
use topic_statistics_exporter::testing::{
    Diagnostic, Losses, MetricDistribution, MetricWindow, Now, Options, Push, Received, Server, State,
};

use crate::common::{self, Series};

pub struct Exporter {
    state: Arc<Mutex<State>>,
    server: Server,
    push: Option<Push>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Exporter {
    /// Starts the exporter's outputs. The server listens at a free port, unless the arguments contain `--listen`.
    pub fn start(arguments: &[&str]) -> Self {
        let program = ["exporter", "--listen", "127.0.0.1:0"];
        let program = &program[..if arguments.contains(&"--listen") { 1 } else { 3 }];
        let options = Options::try_parse_from(program.iter().chain(arguments)).unwrap();
        let state = Arc::new(Mutex::new(State::new(options.limits(), Now::read())));
        let server = Server::start(&options.listen, Arc::clone(&state)).unwrap();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let push = options.push.complete("spot-1", |_| None).0.map(|options| {
            let log = Arc::clone(&log);
            let add = move |line: &str| log.lock().unwrap().push(line.to_owned());
            Push::start(&options, Arc::clone(&state), add).unwrap()
        });
        Self { state, server, push, log }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    fn accept(&self, received: Received) {
        self.state.lock().unwrap().accept(Ok(received), Now::read());
    }

    pub fn window(&self, message: &MetricsMessage) {
        self.accept(MetricWindow::new(message).unwrap().into());
    }

    pub fn ages(&self, message: &MetricsDistribution) {
        self.accept(MetricDistribution::new(message).unwrap().into());
    }

    pub fn losses(&self, node: &str, topic: &str, lost: u64) {
        let event = common::losses(node, topic, lost);
        self.accept(Losses::new(node, &event.messages_lost_statistics[0]).unwrap().into());
    }

    pub fn status(&self, status: &DiagnosticStatus) {
        self.accept(Diagnostic::new(status).unwrap().into());
    }

    pub fn scrape_until(&self, what: &str, has: impl Fn(&Series) -> bool) {
        wait_for(what, || has(&Series::scrape(self.address())));
    }

    pub fn wait_for_line(&self, text: &str) {
        wait_for(text, || self.log.lock().unwrap().iter().any(|line| line.contains(text)));
    }

    /// Stops the push side. Returns the number of lost requests.
    pub fn stop(self) -> usize {
        self.push.map_or(0, Push::stop)
    }
}
