// SPDX-License-Identifier: Apache-2.0

//! Simulated ROS time, and the detection of its jumps.

use std::{ops::RangeInclusive, time::Duration};

use crate::{
    mutex::lock,
    sync::{
        atomic::{AtomicU32, Ordering},
        Mutex,
    },
};

/// The clock of a node that follows `/clock`.
///
/// rclrs does not report jumps of simulated time. To find the jumps, this clock is read for each message, and at least
/// every [`SimulatedTime::INTERVAL`].
pub struct SimulatedTime {
    clock: Box<dyn RosClock>,
    timeline: Mutex<Timeline>,
    /// A copy of `Timeline::jumps`. For each message that is taken, this copy is read without the lock.
    jumps: AtomicU32,
}

/// A clock of ROS time.
pub trait RosClock: Send + Sync {
    /// Returns the time in nanoseconds; 0 if simulated time has not started.
    fn now(&self) -> i64;
}

impl SimulatedTime {
    /// How often the clock has to be read to find jumps.
    pub const INTERVAL: Duration = Duration::from_millis(100);

    /// Starts to follow a clock.
    pub fn new(clock: impl RosClock + 'static) -> Self {
        Self { clock: Box::new(clock), timeline: Mutex::default(), jumps: AtomicU32::new(0) }
    }

    /// Reads the clock to find a jump. `seen` is the current monotonic time in nanoseconds.
    pub fn refresh(&self, seen: i64) {
        self.now(0, 0, seen);
    }

    /// Returns the last simulated time that was read, in nanoseconds; 0 if no message has arrived on `/clock`.
    pub fn last(&self) -> i64 {
        lock(&self.timeline).last.map_or(0, |(now, _)| now)
    }

    /// Returns the lowest 16 bits of the number of jumps. 16 bits are enough, because no message is under way during
    /// 65536 jumps.
    #[inline]
    pub fn jumps(&self) -> u16 {
        self.jumps.load(Ordering::Relaxed) as u16
    }

    /// Returns the simulated time in nanoseconds. Returns 0 if simulated time has not started, or if the stamp may be
    /// from before a jump that happened while the message was under way. `jumps` is the number of jumps seen before the
    /// message was taken. `seen` is the current monotonic time in nanoseconds.
    pub fn now(&self, stamp: i64, jumps: u16, seen: i64) -> i64 {
        let mut timeline = lock(&self.timeline);
        // The clock is read under the lock, so that the timeline gets the readings in order.
        let now = self.clock.now();
        timeline.advance(now, seen);
        self.jumps.store(timeline.jumps, Ordering::Relaxed);
        if jumps == timeline.jumps as u16 && timeline.is_comparable(stamp, now, seen) {
            now
        } else {
            0
        }
    }
}

/// Finds jumps in the readings of a clock. All times are in nanoseconds.
#[derive(Debug, Default)]
struct Timeline {
    /// The last reading that differed from the previous reading, and the monotonic time of this reading.
    last: Option<(i64, i64)>,
    /// How many times faster than real time the clock runs. The rate is measured over at least
    /// [`RATE_OVER`](Self::RATE_OVER), because a delayed reading would distort a rate between two readings.
    rate: f64,
    /// The rate of the last step that counted as a jump forward; `None` if the simulation cannot simply have become
    /// faster at this step. If the simulation also runs at this rate after the step, it became faster, and the step was
    /// no jump.
    rate_of_jump: Option<f64>,
    /// The start of the interval over which the rate is measured: the simulated time and the real time.
    rate_from: Option<(i64, i64)>,
    /// The simulated time right after the last jump. Until all messages from before the jump have arrived, earlier
    /// stamps are assumed to be from before the jump.
    start: i64,
    /// After a jump back: how far in the future a stamp from after the jump may be. A stamp further in the future is
    /// closer to the time before the jump, so it is assumed to be from before the jump.
    ahead: Option<i64>,
    /// The range of the stamps of messages that were under way at the last jump back. After a small jump back,
    /// simulated time passes through this range again, so the range also contains stamps from after the jump.
    under_way: Option<RangeInclusive<i64>>,
    jumps: u32,
    /// The real time at which the last jump was seen.
    jumped: Option<i64>,
    /// After two jumps in a row: the real time until which no stamp is used, because stamps from before both jumps are
    /// not recognized.
    unusable_until: i64,
}

impl Timeline {
    /// The largest step forward that is never a jump, in nanoseconds of simulated time.
    const STEP: f64 = 1e9;
    /// Simulated time may become faster by this factor without a jump: faster than its rate before, or faster than real
    /// time if its rate was below 1.
    const FASTER: f64 = 4.0;
    /// If simulated time runs faster than this multiple of real time, simulated time has jumped.
    const FASTEST: f64 = 100.0;
    /// The longest real time between two readings that give a rate, in nanoseconds. After a longer time, `/clock` may
    /// have been paused.
    const BETWEEN_READINGS: f64 = 2.5e8;
    /// The shortest real time over which the rate is measured, in nanoseconds.
    const RATE_OVER: f64 = 1e8;
    /// The longest real time between two messages on `/clock` while simulated time is not paused, in nanoseconds.
    const SLOWEST: f64 = 1e9;
    /// The longest real time for which a message may be under way, in nanoseconds.
    const UNDER_WAY: i64 = 10_000_000_000;

    fn advance(&mut self, now: i64, seen: i64) {
        if now == 0 || self.last.is_some_and(|(last, _)| now == last) {
            return;
        }
        let Some((last, last_seen)) = self.last.replace((now, seen)) else {
            self.rate_from = self.last;
            return;
        };
        let (step, elapsed) = ((now - last) as f64, (seen - last_seen).max(0) as f64);
        // If the clock stood still after the last jump forward, this jump does not mean that the simulation became
        // faster. So the rate of the jump is not used.
        let rate_of_jump = self.rate_of_jump.filter(|_| elapsed <= Self::BETWEEN_READINGS);
        let rate = rate_of_jump.unwrap_or(self.rate).max(1.0);
        if step < 0.0 {
            self.jump(now, seen);
            self.ahead = Some(((last - now) / 2).max(Self::STEP as i64));
            // Stamps may be later than the last reading before the jump: simulated time continued after this reading,
            // and a publisher's simulated time may be a little ahead.
            let later = Self::STEP + Self::FASTER * rate * elapsed;
            let first = last.saturating_sub((rate * Self::UNDER_WAY as f64) as i64);
            self.under_way = Some(first..=last.saturating_add(later as i64));
        } else if step > Self::STEP + Self::FASTER * rate * elapsed.min(Self::SLOWEST) {
            self.jump(now, seen);
            // If the simulation only became faster, the next steps must not count as jumps. A step during a pause of
            // `/clock` gives no rate.
            let rate = step / elapsed.max(1.0);
            let is_possible = rate <= Self::FASTEST && elapsed <= Self::BETWEEN_READINGS;
            self.rate_of_jump = is_possible.then_some(rate);
        } else if let Some((from, from_seen)) = self.rate_from {
            let over = (seen - from_seen) as f64;
            if over >= Self::RATE_OVER {
                self.rate = (now - from) as f64 / over;
                self.rate_of_jump = None;
                self.rate_from = self.last;
            }
        }
    }

    fn jump(&mut self, to: i64, seen: i64) {
        (self.start, self.ahead, self.under_way, self.rate_of_jump) = (to, None, None, None);
        self.rate_from = self.last;
        self.jumps = self.jumps.wrapping_add(1);
        if self.jumped.replace(seen).is_some_and(|before| seen - before < Self::UNDER_WAY) {
            self.unusable_until = seen + Self::UNDER_WAY;
        }
    }

    /// Returns whether a stamp that is read at `seen` can be compared with the time since the last jump. After all
    /// messages from before the jump have arrived, every stamp can be compared, even an old one: it may come from a
    /// faulty driver that sends the same stamp again and again.
    fn is_comparable(&self, stamp: i64, now: i64, seen: i64) -> bool {
        let have_arrived = self.jumped.is_none_or(|jumped| seen - jumped >= Self::UNDER_WAY);
        have_arrived
            || seen >= self.unusable_until
                && stamp >= self.start
                && self.ahead.is_none_or(|ahead| stamp - now <= ahead)
                && self.under_way.as_ref().is_none_or(|under_way| !under_way.contains(&stamp))
    }
}

opaque_debug!(SimulatedTime);

#[cfg(all(test, topic_statistics_loom))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::test_clock::{MS, S as SECOND};

    const INTERVAL: i64 = SimulatedTime::INTERVAL.as_nanos() as i64;

    /// Returns a timeline that was read every 10 ms of real time, at the given rate, up to the simulated time `to` in
    /// seconds.
    fn running(to: i64, rate: i64) -> (Timeline, i64) {
        let (mut timeline, mut seen) = (Timeline::default(), 1);
        for tick in 0..=100 {
            timeline.advance(to * SECOND - (100 - tick) * rate * SECOND / 100, seen);
            seen += 10 * MS;
        }
        (timeline, seen)
    }

    #[test]
    fn stamps_of_the_time_before_a_jump_are_distinguished() {
        for (to, stamps) in [
            // There is no jump, so every stamp can be compared.
            (1000, &[(0, true), (990, true), (1000, true), (1001, true)][..]),
            // The stamps are: from before the jump; older than the new time; equal to the new time; from a publisher
            // whose clock is a little ahead; closer to the new time; closer to the old time.
            (10, &[(999, false), (9, false), (10, true), (11, true), (505, true), (506, false)]),
            (900, &[(900, true), (999, false)]),
            // This step is no jump: a `/clock` with one message per second, or a simulation that has become faster,
            // would give the same readings.
            (1001, &[(1000, true)]),
            (2000, &[(1000, false), (2000, true)]),
        ] {
            let (mut timeline, seen) = running(1000, 1);
            timeline.advance(to * SECOND, seen);
            for (stamp, has) in stamps {
                let is_comparable = timeline.is_comparable(stamp * SECOND + 1, to * SECOND + 1, seen);
                assert_eq!(is_comparable, *has, "{to} {stamp}");
            }
            let (stamp, now) = (to * SECOND + 5 * MS, to * SECOND + 10 * MS);
            assert!(timeline.is_comparable(stamp, now, seen + 10 * MS), "after the jump: {timeline:?}");
        }
    }

    #[test]
    fn after_a_small_jump_back_no_stamp_is_used_until_messages_came() {
        for back in [SECOND, 50 * MS] {
            let (mut timeline, seen) = running(1000, 1);
            let now = 1000 * SECOND - back;
            timeline.advance(now, seen);
            let until = seen + Timeline::UNDER_WAY;
            for stamp in [now, 1000 * SECOND - back / 2, 1000 * SECOND, 1000 * SECOND + 50 * MS] {
                assert!(!timeline.is_comparable(stamp, now, seen), "{stamp}: {timeline:?}");
                assert!(!timeline.is_comparable(stamp, stamp, until - 1), "{stamp}: {timeline:?}");
                assert!(timeline.is_comparable(stamp, stamp, until), "{stamp}: {timeline:?}");
            }
            let passed = 1002 * SECOND;
            assert!(timeline.is_comparable(passed, passed, seen + back + 2 * SECOND), "{timeline:?}");
            let is_comparable = timeline.is_comparable(passed + SECOND, passed, until);
            assert!(is_comparable, "the clock of the publisher is ahead: {timeline:?}");
        }
    }

    #[test]
    fn a_simulation_faster_than_real_time_is_no_jump() {
        let (mut timeline, seen) = running(100_000, 50);
        assert!(timeline.is_comparable(99_999 * SECOND, 100_000 * SECOND, seen), "{timeline:?}");
        // For one second, `/clock` advances and no message is received.
        for reading in 1..=10 {
            timeline.advance((100_000 + 5 * reading) * SECOND, seen + INTERVAL * reading);
        }
        assert!(timeline.is_comparable(100_001 * SECOND, 100_050 * SECOND, seen), "{timeline:?}");
    }

    #[test]
    fn time_may_run_four_times_faster_and_a_second_ahead() {
        for (milliseconds, jumps) in [(4999, 0), (5000, 0), (5001, 1)] {
            let (mut timeline, seen) = running(1000, 1);
            let (_, last_seen) = timeline.last.unwrap();
            assert_eq!(seen - last_seen, 10 * MS);
            timeline.advance(1000 * SECOND + milliseconds * MS, last_seen + SECOND);
            assert_eq!(timeline.jumps, jumps, "{milliseconds} ms: {timeline:?}");
        }
    }

    #[test]
    fn a_simulation_that_becomes_faster_by_and_by_is_no_jump() {
        let (mut timeline, mut seen) = running(1000, 1);
        let mut now = 1000 * SECOND;
        for _ in 0..100 {
            now += SECOND / 2;
            timeline.advance(now, seen);
            seen += 10 * MS;
        }
        // The simulation continues at its rate of 50, and the clock is read less often: this must not look like jumps.
        for _ in 0..10 {
            now += 5 * SECOND;
            seen += INTERVAL;
            timeline.advance(now, seen);
        }
        assert_eq!(timeline.jumps, 0, "{timeline:?}");
    }

    #[test]
    fn a_pause_and_a_coarse_clock_are_no_jumps() {
        let (mut timeline, mut seen) = running(1000, 1);
        seen += 600 * SECOND; // the simulation is paused
        let (mut jumped, _) = running(1000, 1);
        jumped.advance(1100 * SECOND, seen);
        let is_comparable = jumped.is_comparable(1000 * SECOND, 1100 * SECOND, seen + SECOND);
        assert!(!is_comparable, "a jump during the pause is found: {jumped:?}");
        for second in 0..10 {
            // `/clock` has one message per second, and the clock is read twice as often.
            timeline.advance((1001 + second) * SECOND, seen);
            timeline.advance((1001 + second) * SECOND, seen + 500 * MS);
            seen += SECOND;
        }
        assert!(timeline.is_comparable(999 * SECOND, 1010 * SECOND, seen), "{timeline:?}");
    }

    #[test]
    fn readings_that_come_in_bursts_do_not_hide_a_jump() {
        let (mut timeline, mut seen) = running(1000, 1);
        let mut now = 1000 * SECOND;
        for _ in 0..20 {
            // Two messages on `/clock`, 10 ms of simulated time apart, are read within 0.1 ms. Then no message arrives
            // for 20 ms.
            now += SECOND / 100;
            timeline.advance(now, seen);
            now += SECOND / 100;
            timeline.advance(now, seen + 100 * MS / 1000);
            seen += 20 * MS;
        }
        timeline.advance(now + 3 * SECOND, seen + 100 * MS);
        assert!(!timeline.is_comparable(now, now + 3 * SECOND, seen + SECOND), "{timeline:?}");
    }

    #[test]
    fn a_simulation_that_becomes_much_faster_is_a_jump_once() {
        let (mut timeline, mut seen) = running(1000, 1);
        for step in 1..=30 {
            seen += INTERVAL;
            timeline.advance((1000 + 5 * step) * SECOND, seen);
        }
        assert_eq!(timeline.start, 1005 * SECOND, "{timeline:?}");
    }

    #[test]
    fn an_old_stamp_long_after_a_jump_is_an_old_message() {
        // The stamps are from a faulty driver that repeats its last stamp, or from a host whose clock is ahead.
        for (to, stamp) in [(1100, 999), (1001 + 5, 1000), (900, 899), (900, 1500), (10, 999)] {
            let (mut timeline, seen) = running(1000, 1);
            timeline.advance(to * SECOND, seen);
            for (later, has) in [(0, false), (Timeline::UNDER_WAY - 1, false), (Timeline::UNDER_WAY, true)] {
                let is_comparable = timeline.is_comparable(stamp * SECOND, to * SECOND + later, seen + later);
                assert_eq!(is_comparable, has, "{later}: {timeline:?}");
            }
        }
    }

    #[test]
    fn a_second_jump_forward_is_a_jump_and_in_a_row_if_messages_may_be_under_way() {
        for (first, between, is_usable) in [
            (MS, 59 * MS, false),
            (100 * SECOND, Timeline::UNDER_WAY - 1, false),
            (100 * SECOND, Timeline::UNDER_WAY, true),
            (12 * SECOND, 30 * SECOND, true),
        ] {
            let (mut timeline, seen) = running(1000, 1);
            let (first, now) = (seen + first, 1200 * SECOND);
            timeline.advance(1100 * SECOND, first);
            timeline.advance(now, first + between);
            assert_eq!((timeline.jumps, timeline.start), (2, now), "{timeline:?}");
            let is_comparable = timeline.is_comparable(now, now, first + between + SECOND);
            assert_eq!(is_comparable, is_usable, "{timeline:?}");
        }
    }

    #[test]
    fn a_second_jump_that_no_simulation_can_make_is_a_jump() {
        // Each step looks like a simulation that has become 70 times faster. But the clock of a simulation that became
        // faster would not stand still between the steps.
        for (between, jumps) in [(250 * MS, 1), (251 * MS, 2), (10 * SECOND, 2)] {
            let (mut timeline, seen) = running(1000, 1);
            let first = seen + 190 * MS;
            timeline.advance(1014 * SECOND, first);
            timeline.advance(1014 * SECOND, first + 100 * MS);
            timeline.advance(1040 * SECOND, first + between);
            assert_eq!(timeline.jumps, jumps, "{between}: {timeline:?}");
        }
    }

    #[test]
    fn after_two_jumps_in_a_row_no_stamp_is_used_for_a_while() {
        let (mut timeline, seen) = running(1000, 1);
        timeline.advance(1100 * SECOND, seen + 10 * MS);
        timeline.advance(950 * SECOND, seen + 60 * MS);
        // Without the rule for two jumps, a stamp from before both jumps would be treated as a stamp of the present
        // time.
        assert!(!timeline.is_comparable(1000 * SECOND, 951 * SECOND, seen + SECOND));
        assert!(timeline.is_comparable(962 * SECOND, 962 * SECOND, seen + 12 * SECOND));
    }

    #[test]
    fn a_simulation_that_begins_is_no_jump() {
        let (mut timeline, seen) = (Timeline::default(), 1);
        timeline.advance(0, seen);
        timeline.advance(5000 * SECOND, seen + MS);
        assert!(timeline.is_comparable(4999 * SECOND, 5000 * SECOND, seen));
    }
}
