// SPDX-License-Identifier: Apache-2.0

//! Two hosts: what the statistics say when the network between them delays, loses, repeats and reorders messages, and
//! when it carries nothing.
//!
//! This needs root, `ip` and /dev/net/tun; where they lack, the tests are skipped with a line that says which.

mod cut;
mod delays;
mod end;
mod losses;
mod monitor;
mod network;
mod programs;
mod robots;

use std::{
    ffi::OsStr,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use network::{Host, Network};
use test_support::{Process, Reader};

/// Two hosts; None, with a line that says why, where they cannot be had.
fn two_hosts() -> Option<Network> {
    Network::new().map_err(|lacking| eprintln!("skipped: two hosts, because {lacking}")).ok()
}

/// The same program, but one that talks to all on its host's network.
fn on_the_network(mut command: Command) -> Command {
    // Processes of one machine would share memory, which goes over no network.
    for (name, _) in test_support::on_this_host() {
        command.env_remove(name);
    }
    command.env("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4");
    command
}

/// A program that talks to all on its host's network.
fn command(program: impl AsRef<OsStr>, arguments: &[&str], domain: u32) -> Command {
    on_the_network(test_support::command(program, arguments, domain))
}

/// Starts a program on a host, with ROS arguments.
fn start(host: &Host, program: impl AsRef<OsStr>, arguments: &str, domain: u32) -> Process {
    let arguments: Vec<&str> = ["--ros-args"].into_iter().chain(arguments.split_whitespace()).collect();
    host.spawn(command(program, &arguments, domain)).into()
}

/// Starts what reads /statistics on a host.
fn read_statistics(host: &Host, domain: u32) -> Reader {
    host.spawn(on_the_network(Reader::command(domain, 1000))).into()
}

/// Now, as the windows' times are: nanoseconds since the epoch.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// What /statistics calls a node's subscription to a topic.
fn source(node: &str, topic: &str) -> String {
    format!("{node}:{topic}")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
