// SPDX-License-Identifier: Apache-2.0

//! Two hosts: the statistics when the network between them delays, loses, repeats or reorders messages, or is cut.
//!
//! The tests need root, `ip` and /dev/net/tun. If one is missing, the tests are skipped, and a line reports which.

mod cut;
mod delays;
mod end;
mod losses;
mod monitor;
mod preloaded;
mod programs;
mod recorded;
mod robots;
mod waiting;

use std::{
    ffi::OsStr,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use test_support::{
    network::{Host, Network},
    Process, Reader,
};

/// Creates two hosts. Returns `None` and logs the reason if this is not possible.
fn two_hosts() -> Option<Network> {
    Network::new().map_err(|lacking| test_support::skip("two hosts", &lacking)).ok()
}

/// Makes a program communicate with all programs on the network of its host.
fn on_the_network(mut command: Command) -> Command {
    // Processes of one machine would use shared memory, and not the network.
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

/// Starts a program on a host, with ROS arguments.
fn start(host: &Host, program: impl AsRef<OsStr>, arguments: &str, domain: u32) -> Process {
    let arguments: Vec<&str> = ["--ros-args"].into_iter().chain(arguments.split_whitespace()).collect();
    host.spawn(command(program, &arguments, domain)).into()
}

/// Starts a reader of /statistics on a host.
fn read_statistics(host: &Host, domain: u32) -> Reader {
    host.spawn(on_the_network(Reader::command(domain, 1000))).into()
}

/// Returns the system time in nanoseconds since the epoch, as the times of windows are.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// Returns the source name of a node's subscription to a topic.
fn source(node: &str, topic: &str) -> String {
    format!("{node}:{topic}")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
