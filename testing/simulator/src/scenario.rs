// SPDX-License-Identifier: Apache-2.0

//! A robot: its topics, their conditions, and its disturbances. The simulated [`day`](crate::day) and the soak test
//! with real processes use this robot.

use std::time::Duration;

use topic_statistics_core::source_kind::SourceKind;

const S: i64 = crate::clocks::S;
const MS: i64 = crate::clocks::MS;

/// A healthy source. Times are in nanoseconds.
#[derive(Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    pub kind: SourceKind,
    /// Whether the soak test also has this source.
    pub is_real: bool,
    pub is_simulated: bool,
    pub has_header: bool,
    pub period: i64,
    pub age: i64,
    pub size: u32,
    pub publishers: u64,
    /// The number of messages that a transient local publisher delivers to a new subscription; 0 if the publisher is
    /// volatile.
    pub history: u32,
    /// The duration of a callback, a publication or a stopwatch.
    pub takes: i64,
    /// The conditions for WARN, and in the next field the conditions for ERROR. Both can be parsed by the health
    /// oracle.
    pub warn_unless: &'static str,
    pub error_unless: &'static str,
    /// Further conditions for WARN and for ERROR, used only in the simulation.
    pub tight: [&'static str; 2],
}

const ROW: Row = Row {
    name: "",
    kind: SourceKind::Subscription,
    is_real: false,
    is_simulated: false,
    has_header: true,
    period: S,
    age: 2 * MS,
    size: 100,
    publishers: 1,
    history: 0,
    takes: MS,
    warn_unless: "",
    error_unless: "",
    tight: ["", ""],
};

/// The period of a source with bursts: 20 messages within 0.4 s, about twice a minute.
pub const BURST: i64 = 30 * S;
/// The period of a source that is published once.
pub const ONCE: i64 = i64::MAX / 4;

/// The sources, by the table of docs/health.md.
pub const ROBOT: &[Row] = &[
    Row {
        name: "/joint_states",
        is_real: true,
        period: MS,
        age: MS / 2,
        takes: MS / 20,
        warn_unless: "age.p99<2ms lost=0",
        error_unless: "rate>=900 age.max<10ms",
        tight: ["rate=1000±5% period.max<5ms", ""],
        ..ROW
    },
    Row {
        name: "/tf",
        is_real: true,
        has_header: false,
        period: 5 * MS,
        publishers: 4,
        warn_unless: "rate>=180 lost=0",
        ..ROW
    },
    Row {
        name: "/scan",
        is_real: true,
        period: 100 * MS,
        age: 30 * MS,
        warn_unless: "age<80ms",
        error_unless: "rate>=5 age<200ms",
        tight: ["rate=10±10% age.std<20ms", ""],
        ..ROW
    },
    // The bandwidth of the camera is 20.4 MB/s.
    Row {
        name: "/camera",
        is_real: true,
        period: S / 30,
        age: 15 * MS,
        size: 680_000,
        takes: 8 * MS,
        warn_unless: "rate>=27 callback_duration.max<30ms",
        error_unless: "rate>=15",
        tight: ["bandwidth>=20MB/s", ""],
        ..ROW
    },
    Row { name: "/map", is_real: true, period: ONCE, warn_unless: "silent<1440min", ..ROW },
    Row {
        name: "/robot_description",
        is_real: true,
        period: ONCE,
        history: 1,
        warn_unless: "silent<1440min lost=0",
        ..ROW
    },
    Row { name: "/route", history: 10, warn_unless: "lost=0", tight: ["rate=1±20%", ""], ..ROW },
    Row {
        name: "/fix",
        is_real: true,
        age: 40 * MS,
        warn_unless: "rate>=0.9 age<200ms",
        error_unless: "rate>=0.5",
        tight: ["age.std<50ms period.std<100ms", ""],
        ..ROW
    },
    Row { name: "/temperature", age: 40 * MS, warn_unless: "age.p99<200ms", ..ROW },
    Row {
        name: "/battery",
        is_real: true,
        period: 10 * S,
        age: 20 * MS,
        takes: 1300 * MS,
        warn_unless: "rate>=0.09 callback_duration.max<2s",
        error_unless: "age<500ms",
        ..ROW
    },
    Row {
        name: "/goal_feedback",
        is_real: true,
        period: BURST,
        warn_unless: "silent<5min lost=0 age.max<50ms",
        ..ROW
    },
    Row {
        name: "/cmd_vel",
        is_real: true,
        kind: SourceKind::Publisher,
        period: 50 * MS,
        warn_unless: "rate>=18",
        tight: ["publish_period.max<100ms bandwidth>=1800", "publish_duration.max<5ms"],
        ..ROW
    },
    Row {
        name: "call_driver",
        kind: SourceKind::Stopwatch,
        period: 3 * S,
        takes: 2 * MS,
        tight: ["duration.max<5ms rate>=0", ""],
        ..ROW
    },
    Row { name: "frames", kind: SourceKind::Counter, period: S / 30, tight: ["frequency_hz>=27", ""], ..ROW },
    Row {
        name: "/odom",
        is_real: true,
        is_simulated: true,
        period: 20 * MS,
        warn_unless: "rate>=45 silent<2s",
        error_unless: "age.max<500ms",
        tight: ["age=-10..100ms", ""],
        ..ROW
    },
    Row {
        name: "/clock",
        is_simulated: true,
        has_header: false,
        period: 10 * MS,
        warn_unless: "rate>=90",
        ..ROW
    },
];

/// A disturbance after which the topics of the robot must stay OK, because their conditions allow for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Step,
    Slew,
    Suspend,
    LateThread,
    Jump,
    Restart,
    Period,
    Distributions,
    Off,
    Kill,
    Cut,
}

/// A kind of disturbance.
pub struct Disturbance {
    pub kind: Kind,
    pub text: &'static str,
    pub is_simulated: bool,
    /// In the soak test, the time of the first disturbance of this kind, and the time from one disturbance to the next.
    /// `None` if the soak test does not have this disturbance.
    pub happens: Option<[Duration; 2]>,
}

const fn disturbance(
    kind: Kind,
    text: &'static str,
    is_simulated: bool,
    seconds: Option<[u64; 2]>,
) -> Disturbance {
    let happens = match seconds {
        Some([first, every]) => Some([Duration::from_secs(first), Duration::from_secs(every)]),
        None => None,
    };
    Disturbance { kind, text, is_simulated, happens }
}

pub const DISTURBANCES: [Disturbance; 11] = [
    disturbance(Kind::Step, "the system clock is stepped", true, Some([45, 25])),
    disturbance(Kind::Slew, "the system clock is slewed", true, None),
    disturbance(Kind::Suspend, "the host is suspended", true, None),
    disturbance(Kind::LateThread, "the thread that ends the windows is late", true, None),
    disturbance(Kind::Jump, "simulated time jumps", true, None),
    disturbance(Kind::Restart, "a publisher restarts", true, Some([60, 60])),
    disturbance(Kind::Period, "the publish period is set", true, None),
    disturbance(Kind::Distributions, "distributions are switched on or off", true, None),
    disturbance(Kind::Off, "the statistics are off for some seconds", true, None),
    disturbance(Kind::Kill, "a process is killed, and started again", false, Some([80, 90])),
    disturbance(Kind::Cut, "the network is cut for 10 s", false, Some([110, 150])),
];
