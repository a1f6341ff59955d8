// SPDX-License-Identifier: Apache-2.0

//! Statistics on two hosts, while the network between the hosts delays, loses, repeats or reorders messages, or is cut.
//!
//! The tests need root, `ip` and /dev/net/tun. If one of these three is missing, the tests are skipped, and each test
//! logs what is missing.

mod chain;
mod cut;
mod delays;
mod losses;
mod monitor;
mod program;

use std::{
    ffi::OsStr,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use test_support::{
    network::{Conditions, Host, Network},
    on_the_network, preload, Reader,
};

/// Returns conditions in which the network loses a tenth of the messages and nothing else.
fn lossy() -> Conditions {
    Conditions { loss: 0.1, only_messages: true, ..Conditions::default() }
}

/// Creates two hosts. Returns `None` and logs the reason if this is not possible.
fn two_hosts() -> Option<Network> {
    Network::new().map_err(|lacking| test_support::skip("two hosts", &lacking)).ok()
}

/// Returns the command of a program that communicates with all programs on the network of its host.
fn command(program: impl AsRef<OsStr>, arguments: &[&str], domain: u32) -> Command {
    on_the_network(test_support::command(program, arguments, domain))
}

/// Preloads the statistics library, with all metrics and windows of half a second.
fn preload(mut command: Command) -> Command {
    preload::preload(&mut command, &preload::statistics());
    command.envs([("TOPIC_STATISTICS_PERIOD", "0.5"), ("TOPIC_STATISTICS_METRICS", "all")]);
    command
}

fn read_statistics(host: &Host, domain: u32) -> Reader {
    host.spawn(on_the_network(Reader::command(domain, 1000))).into()
}

/// Returns the system time in nanoseconds since the epoch, like the times of windows.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}
