// SPDX-License-Identifier: Apache-2.0

//! Injects the faults that happen to the whole world.

use std::sync::atomic::Ordering;

use topic_statistics_core::record::options::StatisticsState;

use super::state::{duration, World};
use crate::{
    clocks::{MS, S},
    faults::Fault,
    oracle,
};

impl World {
    pub fn inject(&mut self) -> Result<(), String> {
        let mut fault = Fault::WORLD_FAULTS[self.random.usize(..Fault::WORLD_FAULTS.len())];
        // Delays the end of a window soon after a cut of the network, so that one of the first windows after silence
        // gets an unknown number of messages.
        let after_cut = self.now - self.cut_until;
        if (0..3 * self.period).contains(&after_cut) && self.cut_until > 0 && self.random.bool() {
            fault = Fault::DelayedEnd;
        }
        // Injects a jump soon after another jump, because several jumps can happen in one pause of simulated time.
        let is_soon = self.jumped.is_some_and(|jumped| self.now - jumped < 10 * S);
        if self.ros_rate == 0 && is_soon && self.random.bool() {
            fault = Fault::SmallJump;
        }
        if !self.plan.has(fault) || !self.is_injected(fault)? {
            return Ok(());
        }
        self.note_fault(fault);
        if fault != Fault::StoppedReader {
            self.tally.inject(fault); // a stopped reader is counted by the publications that it refuses
        }
        Ok(())
    }

    /// Injects a fault if it is possible now. Returns whether it was possible.
    fn is_injected(&mut self, fault: Fault) -> Result<bool, String> {
        let now = self.now;
        match fault {
            Fault::Step => {
                // As docs/reliability.md says, the library sees two steps in a window as one step. Steps below 5 ms are
                // not injected, because the library's reading of the clock offset can be too imprecise to show them.
                if self.oracles().any(|oracle| oracle.has(oracle.stepped_at)) {
                    return Ok(false);
                }
                let sizes = [20 * MS, 500 * MS, 60 * S, 3600 * S];
                let largest = sizes[self.random.usize(..4)];
                let size = self.random.i64(5 * MS..largest);
                self.clocks.step(if self.random.bool() { size } else { -size });
                self.oracles().for_each(|oracle| oracle.stepped_at = Some(now));
            }
            Fault::Slew => self.clocks.step(self.random.i64(-9_000..=9_000)),
            Fault::Suspend => {
                if self.oracles().any(|oracle| oracle.has(oracle.suspended_at)) {
                    return Ok(false);
                }
                let time = self.random.i64(S..3600 * S);
                self.clocks.suspend(time);
                self.oracles().for_each(|oracle| oracle.suspended_at = Some(now));
            }
            Fault::Jump => {
                let size = self.random.i64(30 * S..3600 * S);
                let back = self.random.bool() && self.clocks.ros() > size;
                return Ok(self.jump(if back { -size } else { size }));
            }
            Fault::SmallJump => {
                // As docs/reliability.md says, the library cannot find two kinds of jumps: back by less than the time
                // since the last reading, and forward by less than 5 s. So these are not injected.
                let largest = [300 * MS, 3 * S, 40 * S][self.random.usize(..3)];
                let back = self.random.i64(110 * MS..largest);
                let by = if self.random.bool() { -back } else { self.random.i64(5_500 * MS..30 * S) };
                if self.clocks.ros() <= back || !self.jump(by) {
                    return Ok(false);
                }
                // Simulated time is paused after the jump, as when a player of a bag seeks and then waits.
                if self.plan.has(Fault::Pause) && self.random.bool() {
                    self.ros_rate = 0;
                }
            }
            Fault::Pause if self.simulated.is_none() => return Ok(false),
            Fault::Pause => self.ros_rate = 1 - self.ros_rate,
            Fault::Switch => self.switch(),
            Fault::Period => {
                self.period = self.random.i64(50 * MS..2 * S);
                let now = self.instant_of_change();
                self.schedule.change_defaults(
                    |defaults| defaults.publish_period = duration(self.period),
                    now,
                    &*self.clocks,
                );
                self.notify();
            }
            Fault::Drop => self.drop_any(),
            Fault::Create => {
                if self.subscriptions.len() >= 5 {
                    return Ok(false);
                }
                let topic = self.random.usize(..self.plan.subscriptions);
                self.subscribe(topic);
                self.notify();
            }
            Fault::Cut => self.cut_until = self.now + self.random.i64(0..12 * self.period),
            Fault::Restart => {
                let index = self.random.usize(..self.publishers.len());
                self.publishers[index].restart(&mut self.random);
            }
            Fault::StoppedReader => {
                self.reader.is_stopped.fetch_xor(true, Ordering::Relaxed);
            }
            Fault::Filter => {
                let is_idle = self.executor <= self.now;
                let Some(id) = self.any_subscription() else { return Ok(false) };
                let Some(subscription) = self.subscriptions.get_mut(&id) else { return Ok(false) };
                match subscription.filtered_until {
                    // The filter is removed only when all messages that were taken before it was set are recorded.
                    i64::MAX if !is_idle || subscription.delayed.is_some() => return Ok(false),
                    // The filter is removed now. No message is under way for more than 10 s, so later messages are not
                    // filtered.
                    i64::MAX => subscription.filtered_until = self.now + 10 * S,
                    _ => subscription.filtered_until = i64::MAX,
                }
                subscription.recorder.pause_losses();
                subscription.oracle.losses.pause();
            }
            Fault::DelayedEnd => match self.random.u32(..3) {
                0 => self.delay_scope_end(),
                _ => {
                    let Some(id) = self.any_subscription() else { return Ok(false) };
                    self.delay_end(id)?;
                }
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn oracles(&mut self) -> impl Iterator<Item = &mut oracle::Subscription> {
        self.subscriptions.values_mut().map(|subscription| &mut subscription.oracle)
    }

    /// Makes simulated time jump. Returns false if this is impossible.
    fn jump(&mut self, by: i64) -> bool {
        let Some(time) = self.simulated.clone() else { return false };
        // As docs/reliability.md says, two jumps forward in a row look like a simulation that became faster, so a
        // second one is not injected soon.
        let is_soon = self.jumped.is_some_and(|jumped| self.now - jumped < 400 * MS);
        if is_soon && (0..101 * S).contains(&by) {
            return false;
        }
        self.clocks.set_ros(self.clocks.ros() + by);
        self.jumps += 1;
        self.jumped = Some(self.now);
        let now = self.now;
        self.oracles().for_each(|oracle| oracle.jumped_at = Some(now));
        // The library finds the jump now, or at the next message or reading.
        if self.random.bool() {
            time.refresh(self.now);
        }
        true
    }

    /// Enables or disables the statistics of the node or of a source, or the distributions of the node.
    fn switch(&mut self) {
        let now = self.instant_of_change();
        let states = [StatisticsState::Enable, StatisticsState::Disable, StatisticsState::NodeDefault];
        let state = states[self.random.usize(..3)];
        match self.random.u32(..10) {
            8.. => {
                self.distributions = !self.distributions;
                self.schedule.change_defaults(
                    |defaults| defaults.distributions = self.distributions,
                    now,
                    &*self.clocks,
                );
            }
            0..4 => {
                self.enabled = !self.enabled;
                self.schedule.change_defaults(|defaults| defaults.enabled = self.enabled, now, &*self.clocks);
            }
            4 if !self.scopes.is_empty() => {
                let index = self.random.usize(..self.scopes.len());
                let scope = &mut self.scopes[index].watched;
                scope.state = state;
                self.schedule.set_state(&scope.source, state, now, &*self.clocks);
            }
            _ => {
                let id = self.any_subscription();
                let subscription = id.and_then(|id| self.subscriptions.get_mut(&id));
                if let Some(subscription) = subscription.filter(|subscription| subscription.handle.is_some())
                {
                    subscription.state = state;
                    self.schedule.set_state(&subscription.source, state, now, &*self.clocks);
                }
            }
        }
        self.update_oracles();
        self.notify();
    }
}
