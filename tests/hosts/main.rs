// SPDX-License-Identifier: Apache-2.0

//! Two hosts: the statistics when the network between them delays or loses messages.
//!
//! The tests need root, `ip` and /dev/net/tun. If one of these three is missing, the tests are skipped, and each test
//! logs a line that names what is missing.

mod delays;
mod losses;
mod program;

use std::{
    ffi::OsStr,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use test_support::{
    network::{Host, Network},
    preload, Reader,
};

/// Creates two hosts. Returns `None` and logs the reason if this is not possible.
fn two_hosts() -> Option<Network> {
    Network::new().map_err(|lacking| test_support::skip("two hosts", &lacking)).ok()
}

/// Makes a program communicate with all programs on the network of its host.
fn on_the_network(mut command: Command) -> Command {
    // Processes on one machine would use shared memory instead of the network.
    for (name, _) in test_support::on_this_host() {
        command.env_remove(name);
    }
    command.env("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4");
    command
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
