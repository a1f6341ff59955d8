// SPDX-License-Identifier: Apache-2.0

//! Events that leave the topics healthy: clock steps, suspends, late threads, changed options.

use std::time::Duration;

use topic_statistics_core::record::options::SourceDefaults;

use super::state::{Change, Day};
use crate::{
    clocks::{MS, S},
    scenario::{Kind, DISTURBANCES},
};

impl Day {
    fn note(&mut self, kind: Kind, text: &str) {
        self.harmless.note(kind, self.now - self.started, text);
    }

    /// Causes an event that leaves the topics healthy.
    pub fn disturb(&mut self) {
        self.next_harmless = self.now + self.random.i64(15 * S..90 * S);
        if std::mem::take(&mut self.harmless.is_off) {
            return self.set_enabled(true);
        }
        let simulated = DISTURBANCES.iter().filter(|disturbance| disturbance.is_simulated);
        let kinds: Vec<Kind> = simulated.map(|disturbance| disturbance.kind).collect();
        let kind = kinds[self.random.usize(..kinds.len())];
        match kind {
            Kind::Step => {
                let sizes = [30 * MS, 500 * MS, 1500 * MS, 3 * S, 9 * S, 60 * S, 3600 * S];
                let size = sizes[self.random.usize(..sizes.len())];
                let by = if self.random.bool() { size } else { -size };
                self.clocks.step(by);
                self.stepped = Change { at: self.now, by };
                self.note(kind, &format!("by {} ms", by / MS));
            }
            Kind::Slew => {
                self.clocks.step(self.random.i64(-9_000..=9_000));
                self.note(kind, "");
            }
            Kind::Suspend => {
                let by = self.random.i64(S..3600 * S);
                self.clocks.suspend(by);
                self.stepped = Change { at: self.now, by };
                self.note(kind, &format!("for {} s", by / S));
            }
            Kind::Jump => {
                let sizes = [-3600 * S, -60 * S, -3 * S, -S, -200 * MS, 6 * S, 60 * S, 3600 * S];
                let by = sizes[self.random.usize(..sizes.len())];
                if self.clocks.ros() + by < 100 * S {
                    return;
                }
                self.clocks.set_ros(self.clocks.ros() + by);
                self.jumped = Change { at: self.now, by };
                self.note(kind, &format!("by {} ms", by / MS));
            }
            Kind::Restart => {
                let latched = (0..self.streams.len()).filter(|index| self.streams[*index].row.history > 0);
                let latched: Vec<_> = latched.collect();
                let stream = match self.random.bool() {
                    true => latched[self.random.usize(..latched.len())],
                    false => self.random.usize(..self.streams.len()),
                };
                self.streams[stream].restart_publisher(&mut self.random, self.now);
                self.note(kind, self.streams[stream].row.name);
            }
            Kind::Period => {
                let period = [S / 2, S, S, S, 2 * S][self.random.usize(..5)];
                self.nodes.iter_mut().for_each(|node| node.period = period);
                self.change(|defaults| defaults.publish_period = Duration::from_nanos(period as u64));
                self.note(kind, &format!("to {} ms", period / MS));
            }
            Kind::Distributions => {
                let enabled = self.random.bool();
                self.change(|defaults| defaults.distributions = enabled);
                self.note(kind, &enabled.to_string());
            }
            Kind::Off => {
                self.harmless.is_off = true;
                self.next_harmless = self.now + self.random.i64(S / 10..8 * S);
                self.note(kind, "");
                self.set_enabled(false);
            }
            Kind::Kill | Kind::Cut => {}
            Kind::LateThread => {
                let node = self.random.usize(..2);
                let late = self.random.i64(0..3 * self.nodes[node].period);
                self.nodes[node].wake += late;
                self.note(kind, &format!("by {} ms", late / MS));
            }
        }
    }

    fn set_enabled(&mut self, enabled: bool) {
        self.change(|defaults| defaults.enabled = enabled);
    }

    fn change(&mut self, change: impl Fn(&mut SourceDefaults)) {
        for node in 0..2 {
            let at = self.at();
            self.nodes[node].schedule.change_defaults(&change, at, &*self.clocks);
            self.run_thread(node);
        }
    }
}
