// SPDX-License-Identifier: Apache-2.0

//! What a world injects, and how often it did.

use std::fmt;

use fastrand::Rng;

macro_rules! faults {
    ($($name:ident: $text:literal,)*) => {
        /// The kinds of faults that a world injects.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    Delay: "messages delayed by more than 50 ms",
    Duplicate: "messages duplicated",
    Reorder: "messages overtaken by later ones",
    Burst: "bursts",
    Restart: "publishers restarted",
    LateJoin: "publishers that joined late",
    SlowCallback: "callbacks longer than 50 ms",
    Panic: "callbacks that panicked",
    Unstamped: "messages without a stamp",
    RemoteClock: "publishers on another host",
    Step: "steps of the system clock",
    Suspend: "suspends",
    Jump: "jumps of simulated time",
    Pause: "pauses of simulated time",
    Switch: "statistics enabled or disabled",
    Period: "periods changed",
    Drop: "subscriptions dropped",
    Create: "subscriptions created",
    StoppedReader: "messages refused by a stopped reader",
    LateThread: "windows ended late",
    Crowd: "publishers beyond those that are followed",
    Unnumbered: "messages of a middleware without sequence numbers",
}

/// How a world is set up. It follows from the seed and the number of the world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of the world's random numbers.
    pub seed: u64,
    /// Bit n: fault n of [`Fault::ALL`] is injected.
    pub faults: u32,
    pub subscriptions: usize,
    /// Publishers of each topic.
    pub publishers: usize,
    /// The messages of a publisher in a window, about.
    pub rate: i64,
    /// The windows after which the world ends.
    pub windows: u64,
    /// Whether the node runs on simulated time.
    pub is_simulated: bool,
}

impl Plan {
    /// Returns the plan of a world.
    pub fn of(seed: u64, world: u64) -> Self {
        let mut random = Rng::with_seed(seed ^ world.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut faults = 0;
        for (bit, fault) in Fault::ALL.iter().enumerate() {
            // Each world has some of the faults, so that some have few, where the most is exact.
            let one_in = if matches!(fault, Fault::Crowd | Fault::Unnumbered) { 12 } else { 3 };
            faults |= u32::from(random.u32(..one_in) == 0) << bit;
        }
        Self {
            seed: random.u64(..),
            faults,
            subscriptions: random.usize(1..4),
            publishers: random.usize(1..4),
            rate: [1, 3, 10, 30][random.usize(..4)],
            windows: 200,
            is_simulated: random.u32(..4) == 0,
        }
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.faults >> (fault as u32) & 1 == 1
    }

    /// Returns the plan without a fault.
    pub fn without(&self, fault: Fault) -> Self {
        Self { faults: self.faults & !(1 << (fault as u32)), ..self.clone() }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subscriptions, publishers, rate, windows, is_simulated, .. } = self;
        let faults: Vec<_> =
            Fault::ALL.iter().filter(|fault| self.has(**fault)).map(|fault| fault.text()).collect();
        write!(
            f,
            "{subscriptions} subscriptions, {publishers} publishers of each topic, about {rate} messages a window, {windows} windows, \
              simulated time: {is_simulated}; faults: {}",
            if faults.is_empty() { "none".to_owned() } else { faults.join(", ") }
        )
    }
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub worlds: u64,
    pub windows: u64,
    /// Figures that were equal to the oracle's.
    pub figures: u64,
    /// Windows after a step or a jump, in which the oracle knows bounds only.
    pub bounded: u64,
    pub messages: u64,
    pub injected: [u64; Fault::ALL.len()],
    /// Of all figures: the same for the same seed.
    pub digest: u64,
}

impl Tally {
    pub fn inject(&mut self, fault: Fault) {
        self.injected[fault as usize] += 1;
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
        self.figures += other.figures;
        self.bounded += other.bounded;
        self.messages += other.messages;
        for (sum, injected) in self.injected.iter_mut().zip(other.injected) {
            *sum += injected;
        }
        self.digest = self.digest.rotate_left(5) ^ other.digest;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>12} worlds", self.worlds)?;
        writeln!(f, "{:>12} windows compared, {} of them by bounds", self.windows, self.bounded)?;
        writeln!(f, "{:>12} figures equal", self.figures)?;
        writeln!(f, "{:>12} messages received", self.messages)?;
        for (fault, injected) in Fault::ALL.iter().zip(self.injected) {
            writeln!(f, "{injected:>12} {}", fault.text())?;
        }
        write!(f, "{:>12x} digest of all figures", self.digest)
    }
}
