// SPDX-License-Identifier: Apache-2.0

//! The faults that a world injects, and their counts.

use std::{collections::BTreeMap, fmt};

macro_rules! faults {
    ($($name:ident: $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($name,)* }

        impl Fault {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

faults! {
    Loss: "messages lost by the network",
    Cut: "cuts of the network",
    Delay: "messages delayed by more than 50 ms",
    Duplicate: "messages duplicated",
    Reorder: "messages overtaken by later ones",
    Burst: "bursts",
    Restart: "publishers restarted",
    LateJoin: "publishers that joined late",
    Wraparound: "publishers whose sequence numbers begin again at 0",
    SlowCallback: "callbacks longer than 50 ms",
    Panic: "callbacks that panicked",
    DropInCallback: "callbacks that dropped a handle",
    Unstamped: "messages without a stamp",
    OtherClock: "messages whose stamp is on simulated time and whose node is not, or the other way round",
    Stuck: "messages with the stamp of a driver that is stuck, on simulated time",
    RemoteClock: "publishers on another host",
    Step: "steps of the system clock",
    Slew: "drifts of the system clock by less than 10 us",
    Suspend: "suspends",
    Jump: "jumps of simulated time",
    SmallJump: "small jumps of simulated time",
    Pause: "pauses of simulated time",
    Switch: "statistics enabled or disabled",
    Period: "periods changed",
    Drop: "sources dropped",
    Create: "subscriptions created",
    LateReturn: "messages received by subscriptions that were being created",
    FailedCreation: "subscriptions whose creation failed",
    StoppedReader: "messages refused by a stopped reader",
    FailsOnce: "publications of statistics that failed once",
    SlowReader: "messages that blocked the thread",
    LateThread: "windows ended late",
    DelayedChange: "delayed changes of the schedule",
    DelayedEnd: "windows whose end was delayed under the lock",
    DelayedMessage: "messages delayed under the lock",
    Queued: "samples that waited for the lock",
    Unordered: "samples of callbacks that were recorded after later ones",
    Overflow: "samples lost because too many waited for the lock",
    Crowd: "publishers beyond those that are followed",
    Unnumbered: "messages of a middleware without sequence numbers",
    UnknownMiddleware: "messages of a middleware that is not known",
    FailedPublication: "publications of the node that failed",
    UnorderedPublication: "publications of the node that were recorded after later ones",
    Filter: "content filters set or removed",
}

impl Fault {
    /// The faults that happen to the whole world.
    pub const WORLD_FAULTS: &'static [Self] = &[
        Self::Cut,
        Self::Restart,
        Self::Step,
        Self::Slew,
        Self::Suspend,
        Self::Jump,
        Self::SmallJump,
        Self::Pause,
        Self::Switch,
        Self::Period,
        Self::Drop,
        Self::Create,
        Self::StoppedReader,
        Self::DelayedEnd,
        Self::Filter,
    ];
}

/// The counts of what happened in the simulated worlds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub worlds: u64,
    pub windows: u64,
    /// Windows that were compared with the oracle, of sources that have equal names.
    pub named: u64,
    /// Compared windows of hops.
    pub hops: u64,
    /// Figures that were equal to the oracle's figures.
    pub figures: u64,
    /// Windows after a clock step or a jump of simulated time, for which the oracle knows only bounds.
    pub bounded: u64,
    /// Comparisons of a publisher's losses with the network's record of dropped and delivered messages.
    pub deliveries: u64,
    /// Windows after which the health was compared with the oracle's health.
    pub judged: u64,
    /// Changes of the health from OK to another level.
    pub alarms: u64,
    pub messages: u64,
    /// How often each fault was injected.
    pub injected: BTreeMap<Fault, u64>,
    /// A hash of all figures. It is the same for the same seed.
    pub digest: u64,
}

impl Tally {
    pub fn inject(&mut self, fault: Fault) {
        self.inject_times(fault, 1);
    }

    pub fn inject_times(&mut self, fault: Fault, times: u64) {
        *self.injected.entry(fault).or_default() += times;
    }

    fn injected(&self, fault: Fault) -> u64 {
        self.injected.get(&fault).copied().unwrap_or(0)
    }

    pub fn missing(&self) -> impl Iterator<Item = Fault> + '_ {
        Fault::ALL.iter().copied().filter(|fault| self.injected(*fault) == 0)
    }

    /// Adds a figure to the digest (FNV-1a).
    pub fn digest(&mut self, figure: f64) {
        for byte in figure.to_bits().to_le_bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.worlds += other.worlds;
        self.windows += other.windows;
        self.named += other.named;
        self.hops += other.hops;
        self.figures += other.figures;
        self.bounded += other.bounded;
        self.deliveries += other.deliveries;
        self.judged += other.judged;
        self.alarms += other.alarms;
        self.messages += other.messages;
        other.injected.iter().for_each(|(fault, times)| self.inject_times(*fault, *times));
        self.digest = self.digest.rotate_left(5) ^ other.digest;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>12} worlds", self.worlds)?;
        writeln!(f, "{:>12} windows compared, {} of them by bounds", self.windows, self.bounded)?;
        writeln!(f, "{:>12} windows of sources of equal names", self.named)?;
        writeln!(f, "{:>12} windows of hops", self.hops)?;
        writeln!(f, "{:>12} figures equal", self.figures)?;
        writeln!(f, "{:>12} losses of a publisher compared with the network's record", self.deliveries)?;
        writeln!(
            f,
            "{:>12} times health compared after a window, {} times not OK anew",
            self.judged, self.alarms
        )?;
        writeln!(f, "{:>12} messages received", self.messages)?;
        for fault in Fault::ALL {
            writeln!(f, "{:>12} {}", self.injected(*fault), fault.text())?;
        }
        write!(f, "{:>12x} digest of all figures", self.digest)
    }
}
