// SPDX-License-Identifier: Apache-2.0

//! Starts the exporter as a process, and reads its log and its time series.

use std::{
    net::SocketAddr,
    process::{Command, Stdio},
    sync::{mpsc::Receiver, Mutex},
};

use test_support::{command, lines, program, wait_for, Process, LIMIT};

use crate::common::Series;

pub struct Exporter {
    pub process: Process,
    pub address: SocketAddr,
    log: Receiver<String>,
    /// The lines of the exporter's log that were read so far.
    logged: Mutex<Vec<String>>,
}

impl Exporter {
    /// Starts an exporter that listens at a free port.
    pub fn start(arguments: &[&str], domain: u32) -> Self {
        let arguments = [&["--listen", "127.0.0.1:0"], arguments].concat();
        Self::of(&mut command(program("exporter"), &arguments, domain))
    }

    pub fn of(command: &mut Command) -> Self {
        let mut process = Process::spawn(command.stderr(Stdio::piped()));
        let log = lines(process.errors());
        let mut logged: Vec<String> = vec![];
        let address = loop {
            let line = log.recv_timeout(LIMIT);
            logged.push(line.unwrap_or_else(|error| panic!("it does not serve: {error}; {logged:#?}")));
            let serving = logged.last().and_then(|line| line.split_once("Serving http://"));
            if let Some((address, _)) = serving.and_then(|(_, rest)| rest.split_once("/metrics")) {
                break address.parse().unwrap();
            }
        };
        Self { process, address, log, logged: logged.into() }
    }

    pub fn wait_for_line(&self, text: &str) {
        wait_for(text, || {
            let mut logged = self.logged.lock().unwrap();
            logged.extend(self.log.try_iter());
            logged.iter().any(|line| line.contains(text))
        });
    }

    /// Scrapes until the time series fulfil the condition `has`. After a time limit, panics with the text `what`.
    pub fn scrape_until(&self, what: &str, mut has: impl FnMut(&Series) -> bool) -> Series {
        let mut last = Series::default();
        wait_for(what, || {
            last = Series::scrape(self.address);
            has(&last)
        });
        last
    }
}
