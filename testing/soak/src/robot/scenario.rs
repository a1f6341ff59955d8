// SPDX-License-Identifier: Apache-2.0

//! The robot: its topics, its processes, and their expectations.

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Image,
    Scan,
    Imu,
    Joints,
    Transform,
    Odometry,
    Command,
    Description,
    Map,
    Range,
    Fix,
    Diagnostics,
}

impl Kind {
    /// As node.py has it.
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

/// A topic of the robot.
pub struct Topic {
    pub name: &'static str,
    pub kind: Kind,
    /// How many messages the history of a publisher and of a subscription has.
    pub depth: u32,
    /// Transient local: a subscription that comes later receives the last message.
    pub is_latched: bool,
    /// The conditions for WARN of its subscriptions. The limits leave room for a busy machine. Ages have conditions if
    /// sender and receiver share a clock.
    pub expected: &'static str,
}

const fn topic(name: &'static str, kind: Kind, depth: u32, expected: &'static str) -> Topic {
    Topic { name, kind, depth, is_latched: false, expected }
}

const fn latched(name: &'static str, kind: Kind) -> Topic {
    Topic { name, kind, depth: 1, is_latched: true, expected: "silent<1440min" }
}

impl Topic {
    /// Whether its subscriptions have distributions. Some are enough, and each is a large message.
    pub fn has_distributions(&self) -> bool {
        matches!(self.kind, Kind::Scan | Kind::Imu | Kind::Joints)
    }
}

pub const TOPICS: [Topic; 12] = [
    topic("/robot/image", Kind::Image, 5, "rate>=15 age<1s"),
    topic("/robot/scan", Kind::Scan, 10, "rate>=7"),
    topic("/robot/imu", Kind::Imu, 100, "rate>=150"),
    topic("/robot/joint_states", Kind::Joints, 500, "rate>=800 age<500ms"),
    topic("/tf", Kind::Transform, 100, "rate>=100"),
    topic("/robot/odom", Kind::Odometry, 50, "rate>=40"),
    topic("/robot/cmd_vel", Kind::Command, 10, "silent<40s"),
    latched("/robot/robot_description", Kind::Description),
    latched("/robot/map", Kind::Map),
    topic("/robot/range", Kind::Range, 20, "rate>=10"),
    // Three periods of 3 Hz are 1 s: whether a window of that length is as long, only the node knows.
    topic("/robot/fix", Kind::Fix, 10, "rate>=3.5"),
    topic("/diagnostics", Kind::Diagnostics, 10, ""),
];

/// A host: a clock, and, if the machine allows it, a network namespace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Host {
    /// The robot's base: drivers and tools.
    Body = 0,
    /// The computer that plans.
    Brain = 1,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Fate {
    Steady,
    /// Ended in an orderly way, and started again, every minute.
    Restarted,
    /// Killed without a word; another one is started 8 s later.
    Killed,
}

/// A process of the robot.
pub struct Process {
    pub name: &'static str,
    pub is_python: bool,
    pub host: Host,
    /// Indices of [`TOPICS`], with messages per second.
    pub publishes: &'static [(usize, f64)],
    /// Indices of [`TOPICS`].
    pub listens: &'static [usize],
    pub fate: Fate,
    /// For how many seconds a callback blocks, each 20 s.
    pub falls_behind: u64,
}

const IMAGE: usize = 0;
const SCAN: usize = 1;
const IMU: usize = 2;
pub const JOINTS: usize = 3;
const TF: usize = 4;
const ODOM: usize = 5;
const COMMAND: usize = 6;
const DESCRIPTION: usize = 7;
const MAP: usize = 8;
const RANGE: usize = 9;
const FIX: usize = 10;
const DIAGNOSTICS: usize = 11;

const fn process(
    name: &'static str,
    host: Host,
    publishes: &'static [(usize, f64)],
    listens: &'static [usize],
) -> Process {
    Process { name, is_python: false, host, publishes, listens, fate: Fate::Steady, falls_behind: 0 }
}

use Host::{Body, Brain};

/// Of the four that publish /tf, two also subscribe to it.
pub const PROCESSES: [Process; 12] = [
    process("camera", Body, &[(IMAGE, 30.0)], &[]),
    process("lidar", Body, &[(SCAN, 10.0)], &[]),
    Process { is_python: true, ..process("imu", Body, &[(IMU, 200.0)], &[]) },
    process("joints", Body, &[(JOINTS, 1000.0)], &[]),
    process("base", Body, &[(ODOM, 50.0), (TF, 50.0)], &[COMMAND]),
    process("perception", Body, &[(TF, 50.0), (DESCRIPTION, 0.0)], &[IMAGE, JOINTS]),
    Process { fate: Fate::Restarted, ..process("gps", Body, &[(FIX, 5.0)], &[IMU]) },
    Process { fate: Fate::Killed, ..process("sonar", Body, &[(RANGE, 20.0)], &[ODOM]) },
    process("localization", Brain, &[(TF, 30.0)], &[SCAN, IMU, ODOM, TF, MAP]),
    process("navigation", Brain, &[(TF, 10.0), (COMMAND, 20.0)], &[TF, MAP, DESCRIPTION, RANGE, FIX]),
    Process { is_python: true, ..process("map_server", Brain, &[(MAP, 0.0), (DIAGNOSTICS, 1.0)], &[]) },
    Process { falls_behind: 2, ..process("recorder", Body, &[], &[IMAGE, JOINTS, TF]) },
];

/// Commands are sent in bursts: for the first 5 of 20 s.
pub fn is_sent(topic: usize, seconds: u64) -> bool {
    topic != COMMAND || seconds % 20 < 5
}

/// How many subscriptions a topic has when all processes and topic_monitor run.
pub fn subscriptions(topic: usize) -> usize {
    let listeners = PROCESSES.iter().filter(|process| process.listens.contains(&topic)).count();
    listeners + usize::from(is_monitored(topic))
}

/// Whether topic_monitor watches the topic. /diagnostics also has senders without a log.
pub fn is_monitored(topic: usize) -> bool {
    topic != DIAGNOSTICS
}
