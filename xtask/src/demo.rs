// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask demo`: live statistics of a real node. The command starts a talker, a listener with statistics, and
//! topic_monitor, which shows the listener's statistics.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{bail, Context, Result};
use rustix::process::{getpid, getppid, set_parent_process_death_signal, Signal};

use crate::{commands::exec, domain::domain, environment::Environment};

/// Runs the demo for some seconds, or until Ctrl-C or `q`. After the start, topic_monitor replaces this process.
pub fn run(environment: &Environment, project: &Path, seconds: Option<u64>) -> Result<ExitCode> {
    eprintln!("Building the talker, the listener and topic_monitor (a minute or two the first time) ...");
    let mut build = environment.command("cargo");
    build.current_dir(project).args(["build", "--quiet", "--package", "rclrs_topic_statistics_examples"]);
    build.args(["--package", "topic_statistics_monitor"]);
    for program in ["talker", "listener", "topic_monitor"] {
        build.args(["--bin", program]);
    }
    if !build.status().context("cargo cannot be started")?.success() {
        bail!("The programs could not be built; cargo says above why");
    }
    // A free domain, because the table must not show other nodes. `exec` releases the lock of the domain, but by then
    // the programs use the domain's ports, so no other program takes the domain.
    let domain = domain().context(
        "Programs of this machine use all ROS domains from 1 to 101; `ss -ulpn` shows who has UDP ports from 7650 on",
    )?;
    let program = |name: &str, arguments: &[&str]| {
        let mut command = environment.command(environment.target_dir().join("debug").join(name));
        command.args(arguments);
        command.env("ROS_DOMAIN_ID", domain.to_string()).env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST");
        command
    };
    let logs = environment.target_dir().join("demo");
    fs::create_dir_all(&logs).with_context(|| format!("Cannot create {}", logs.display()))?;
    for (name, arguments) in [("listener", &[][..]), ("talker", &["--ros-args", "-p", "rate:=100.0"])] {
        let mut command = program(name, arguments);
        let log = File::create(logs.join(name).with_extension("log"))?;
        command.stdout(log.try_clone()?).stderr(log);
        end_with_this_process(&mut command);
        command.spawn().with_context(|| format!("The {name} cannot be started"))?;
    }
    eprintln!(
        "talker (imu and chatter, 100 Hz) -> listener -> /statistics -> topic_monitor. End with Ctrl-C.\n\
         To read it from another terminal: ROS_DOMAIN_ID={domain} cargo xtask run -- python3 \
         examples/statistics_reader.py\nThe logs of talker and listener are in {}",
        logs.display()
    );
    let mut monitor = program("topic_monitor", &["--from-statistics"]);
    exec(monitor.args(seconds.map(|seconds| format!("--duration={seconds}"))))
}

/// Makes the kernel kill a child when this process ends, or when the program that replaces this process ends.
fn end_with_this_process(command: &mut Command) {
    let parent = getpid();
    let set = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent has ended before this call, the kernel sends no signal, so the child must not start.
        let is_alive = getppid() == Some(parent);
        is_alive.then_some(()).ok_or(std::io::ErrorKind::Interrupted.into())
    };
    // SAFETY: Between fork and exec, `set` makes two system calls, and neither allocates nor locks: creating an
    // io::Error from an ErrorKind or an Errno does not allocate.
    unsafe { command.pre_exec(set) };
}
