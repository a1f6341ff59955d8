// SPDX-License-Identifier: Apache-2.0

//! `cargo xtask soak --scenario robot`: runs the processes of a robot, as in the simulated day of a robot.
//!
//! Ten processes with statistics run on two hosts, with the topics and the disturbances of the simulated day
//! ([`simulator::scenario`]). Each process compares its windows with the messages that it has sent and received
//! ([`windows`]), and its health with the oracle of the simulator. topic_monitor, the exporter and a reader receive the
//! statistics. At the end, their reports are compared with the windows that the processes have logged ([`compare`]).

mod compare;
pub mod node;
pub mod run;
mod windows;

use simulator::scenario::{Row, BURST, ONCE, ROBOT};

/// A host: a clock and, if the machine allows it, a network namespace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Host {
    /// The robot's base, with the drivers and the tools.
    Body = 0,
    /// The computer that plans the robot's motion.
    Brain = 1,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Fate {
    Steady,
    /// The process is ended by closing its input, and started again.
    Restarted,
    /// The process is killed, and started again 8 s later.
    Killed,
    /// A callback blocks for 2 s, every 20 s.
    Behind,
}

pub struct Process {
    pub name: &'static str,
    pub host: Host,
    pub publishes: &'static [&'static str],
    pub listens: &'static [&'static str],
    pub fate: Fate,
}

const fn process(
    name: &'static str,
    host: Host,
    publishes: &'static [&'static str],
    listens: &'static [&'static str],
) -> Process {
    Process { name, host, publishes, listens, fate: Fate::Steady }
}

use Host::{Body, Brain};

pub const PROCESSES: [Process; 10] = [
    process("camera", Body, &["/camera"], &[]),
    process("lidar", Body, &["/scan"], &[]),
    process("joints", Body, &["/joint_states"], &[]),
    process("base", Body, &["/odom", "/tf", "/battery"], &["/cmd_vel"]),
    process("perception", Body, &["/tf", "/robot_description"], &["/camera", "/joint_states"]),
    Process { fate: Fate::Restarted, ..process("gps", Body, &["/fix"], &["/scan"]) },
    Process { fate: Fate::Killed, ..process("arm", Body, &["/goal_feedback"], &["/odom"]) },
    process("localization", Brain, &["/tf", "/map"], &["/scan", "/odom", "/tf", "/battery"]),
    process(
        "navigation",
        Brain,
        &["/tf", "/cmd_vel"],
        &["/tf", "/map", "/robot_description", "/fix", "/goal_feedback"],
    ),
    Process { fate: Fate::Behind, ..process("recorder", Body, &[], &["/camera", "/joint_states", "/tf"]) },
];

/// The topics that real processes publish in the soak test.
pub fn topics() -> impl Iterator<Item = &'static Row> {
    ROBOT.iter().filter(|row| row.is_real)
}

/// Returns the number of subscriptions to a topic while all processes and topic_monitor run.
pub fn subscriptions(topic: &str) -> usize {
    PROCESSES.iter().filter(|process| process.listens.contains(&topic)).count() + 1
}

/// Returns whether a new subscription also receives the last message that was published before.
pub fn is_latched(row: &Row) -> bool {
    row.period == ONCE
}

/// Returns the time from message `number` of a publisher to the next message of this publisher, in ns.
pub fn period(row: &Row, number: u32) -> i64 {
    match (row.period, number % 20) {
        (BURST, 0) => BURST / 2,
        (BURST, _) => 20_000_000,
        (period, _) => period.saturating_mul(row.publishers as i64),
    }
}
