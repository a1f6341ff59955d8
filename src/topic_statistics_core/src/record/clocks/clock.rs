// SPDX-License-Identifier: Apache-2.0

//! The clocks. For each message, only the monotonic clock is read. System time is this reading plus an offset.
//!
//! The kernel slews both clocks in the same way, so their offset changes only by steps: if the system clock is set, a
//! leap second is inserted, or the host is suspended (the monotonic clock does not count the suspended time). The offset
//! is read again at the end of each window.

use std::time::Duration;

use crate::{
    distributions::Distributions,
    metric::Metric,
    summary::Summary,
    timestamp::ClockStep,
    window::{Window, WindowStatistics},
};

/// Returns the time of the monotonic clock (CLOCK_MONOTONIC) in nanoseconds. Steps of the system clock do not change
/// the monotonic clock.
#[cfg(unix)]
#[inline]
pub fn monotonic() -> i64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns the time of the system clock, in nanoseconds since the Unix epoch; 0 if the clock is set past the year 2262.
#[cfg(unix)]
#[inline]
pub fn system_time() -> i64 {
    read(libc::CLOCK_REALTIME)
}

/// Returns whether a time, in nanoseconds since the epoch of its clock, is before the year 2000, so that it is on
/// simulated time, which starts at 0. (The simulated time of a bag that is played back can be as late as the system
/// clock, and is not recognized. The clock of a host without a battery is before the year 2000 until it is set.)
#[inline]
pub const fn is_simulated(time: i64) -> bool {
    const YEAR_2000: i64 = 946_684_800_000_000_000;
    time < YEAR_2000
}

/// Returns the time that has passed in a loom model. In a model, all clocks have the same time.
#[cfg(topic_statistics_loom)]
fn read(_: libc::clockid_t) -> i64 {
    i64::try_from(crate::sync::passed().as_nanos()).expect("a model does not last for 292 years")
}

/// Reads a clock with `clock_gettime`, which takes a third less time per message than `Instant` or `SystemTime` of std.
#[cfg(all(unix, not(topic_statistics_loom)))]
#[inline]
#[allow(clippy::useless_conversion)] // the types have 32 bits on 32-bit platforms
fn read(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a whole timespec, and POSIX has these clocks everywhere, so that the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut now) };
    let seconds = i64::from(now.tv_sec).checked_mul(1_000_000_000);
    seconds.and_then(|seconds| seconds.checked_add(i64::from(now.tv_nsec))).unwrap_or(0)
}

/// Returns the time of the monotonic clock, in nanoseconds since its first reading.
#[cfg(not(unix))]
pub fn monotonic() -> i64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let elapsed = START.get_or_init(std::time::Instant::now).elapsed();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the time of the system clock, in nanoseconds since the Unix epoch; 0 if the clock is set past the year 2262.
#[cfg(not(unix))]
pub fn system_time() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(0)
}

/// The clocks that are read at the end of a window, in nanoseconds. A test can implement its own clocks.
pub trait Clock: Send + Sync {
    /// Returns the time of the monotonic clock.
    fn monotonic(&self) -> i64;

    /// Returns the time of the system clock since the Unix epoch.
    fn system(&self) -> i64;

    /// Returns how long the host was suspended since its start; 0 if the host does not report this time.
    fn suspended(&self) -> i64;
}

/// The clocks of this host.
#[derive(Clone, Copy, Debug)]
pub struct HostClock;

impl Clock for HostClock {
    fn monotonic(&self) -> i64 {
        monotonic()
    }

    fn system(&self) -> i64 {
        system_time()
    }

    fn suspended(&self) -> i64 {
        #[cfg(target_os = "linux")]
        return Bounds::read(monotonic, || read(libc::CLOCK_BOOTTIME)).middle();
        #[cfg(not(target_os = "linux"))]
        0
    }
}

/// Computes system time as monotonic time plus an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock {
    offset: i64,
    suspended: i64,
}

/// A step of the system clock relative to the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The change of the offset: positive for a step forward.
    pub(crate) by: i64,
    /// The part of the step that is due to a suspend of the host: the duration of the suspend.
    pub(crate) suspended: i64,
}

/// The lowest and the highest possible offset of a clock. Both are computed from one reading of this clock between two
/// readings of the monotonic clock.
#[derive(Clone, Copy)]
struct Bounds {
    lowest: i64,
    highest: i64,
}

impl Bounds {
    fn of_system_time(clock: &dyn Clock) -> Self {
        Self::read(|| clock.monotonic(), || clock.system())
    }

    /// Reads the clocks up to five times, because the thread may be preempted between two readings. Returns the bounds
    /// with the smallest distance, or the first bounds that are at most 1 us apart.
    fn read(monotonic: impl Fn() -> i64, other: impl Fn() -> i64) -> Self {
        let read = || {
            let before = monotonic();
            let other = other();
            Self { lowest: other - monotonic(), highest: other - before }
        };
        let mut best = read();
        for _ in 1..5 {
            if best.width() <= 1_000 {
                break;
            }
            let bounds = read();
            if bounds.width() < best.width() {
                best = bounds;
            }
        }
        best
    }

    fn width(self) -> i64 {
        self.highest - self.lowest
    }

    fn middle(self) -> i64 {
        self.lowest + self.width() / 2
    }
}

impl SystemClock {
    /// A change of the offset of up to this number of nanoseconds is drift or an imprecise reading, and not a step.
    const TOLERANCE: i64 = 10_000;

    pub(crate) fn now(clock: &dyn Clock) -> Self {
        Self { offset: Bounds::of_system_time(clock).middle(), suspended: clock.suspended() }
    }

    #[inline(always)]
    pub(crate) fn at(self, monotonic: i64) -> i64 {
        monotonic + self.offset
    }

    /// Reads the offset again. Returns the step of the system clock since the last reading.
    pub(crate) fn check(&mut self, clock: &dyn Clock) -> Option<Step> {
        self.observe(Bounds::of_system_time(clock), || clock.suspended())
    }

    fn observe(&mut self, bounds: Bounds, suspended: impl FnOnce() -> i64) -> Option<Step> {
        let is_the_same =
            self.offset >= bounds.lowest - Self::TOLERANCE && self.offset <= bounds.highest + Self::TOLERANCE;
        if is_the_same {
            return None; // the old offset is kept, so that each window starts exactly where the previous one stops
        }
        let before = std::mem::replace(self, Self { offset: bounds.middle(), suspended: suspended() });
        // A suspend takes at least several milliseconds. So a difference of up to 1 ms comes from imprecise readings,
        // and not from a suspend.
        let suspended = match self.suspended - before.suspended {
            slept if slept > 1_000_000 => slept,
            _ => 0,
        };
        Some(Step { by: self.offset - before.offset, suspended })
    }
}

/// The clock of the current window, which has not ended yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowClock {
    /// The start of the current window, in nanoseconds on the monotonic clock.
    pub(crate) start: i64,
    pub(crate) system: SystemClock,
}

/// A window that has ended. The times are in nanoseconds on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct EndedWindow {
    pub(crate) start: i64,
    pub(crate) stop: i64,
    /// The start and the stop in system time. Both are computed with the clock offset at the window's end.
    pub(crate) window: Window,
    pub(crate) step: Option<Step>,
    /// Whether a sample that was made before the last accepted sample may not have been accepted yet.
    pub(crate) has_earlier: bool,
}

impl WindowClock {
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        Self { start: 0, system: SystemClock::now(clock) }
    }

    /// Starts a first window now. Returns the start of the window on the monotonic clock, and the step of the system
    /// clock since the clock was last read.
    pub(crate) fn restart(&mut self, clock: &dyn Clock) -> (i64, Option<Step>) {
        self.start = clock.monotonic();
        (self.start, self.system.check(clock))
    }

    /// Ends the current window and starts the next window, now.
    pub(crate) fn end(&mut self, clock: &dyn Clock) -> EndedWindow {
        let stop = clock.monotonic();
        // The system clock is checked after the stop of the window was read, so that a step between the two readings is
        // not missed.
        let step = self.system.check(clock);
        let start = std::mem::replace(&mut self.start, stop);
        let window = Window::from_nanoseconds(self.system.at(start), self.system.at(stop));
        EndedWindow { start, stop, window, step, has_earlier: false }
    }
}

impl EndedWindow {
    pub(crate) fn length(&self) -> Duration {
        duration(self.stop - self.start)
    }

    /// Returns the system time minus the monotonic time at the window's end.
    pub(crate) fn clock_offset(&self) -> i64 {
        self.window.stop.as_nanoseconds() - self.stop
    }

    /// Returns the statistics of the window, with the distributions of the metrics that have samples.
    pub(crate) fn statistics(
        &self,
        count: u64,
        metrics: Vec<(Metric, Summary)>,
        distributions: Distributions,
    ) -> WindowStatistics {
        WindowStatistics {
            clock_step: self.step.map(|step| ClockStep::from_nanoseconds(step.by)),
            distributions: distributions.of_window(&metrics),
            ..WindowStatistics::new(self.window, self.length(), count, metrics)
        }
    }

    #[cfg(test)]
    pub(crate) fn of_test(has_earlier: bool) -> Self {
        let window = Window::from_nanoseconds(0, 1_000_000_000);
        Self { start: 0, stop: 1_000_000_000, window, step: None, has_earlier }
    }
}

/// Converts nanoseconds into a duration; 0 if the nanoseconds are negative.
pub(crate) fn duration(nanoseconds: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;
    const EPOCH: i64 = 1_790_000_000 * S;

    fn bounds(offset: i64, width: i64) -> Bounds {
        Bounds { lowest: offset - width / 2, highest: offset + width / 2 }
    }

    #[test]
    fn the_system_time_is_stds() {
        let std = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as i64;
        let (before, now, after) = (std(), system_time(), std());
        assert!((before..=after).contains(&now), "{before} {now} {after}");
        let (before, clock, after) = (std(), SystemClock::now(&HostClock), std());
        let now = clock.at(monotonic());
        assert!(now >= before - 10_000 && now <= after + S, "{before} {now} {after}");
    }

    /// Returns a command that runs in a time namespace whose clocks look as if the host had been suspended for a day.
    #[cfg(target_os = "linux")]
    fn after_a_day_of_suspend(program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
        let mut command = std::process::Command::new("unshare");
        command.args(["--user", "--map-root-user", "--time", "--boottime", "86400"]).arg(program);
        command
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "starts processes")]
    fn a_suspend_is_what_the_monotonic_clock_does_not_count() {
        if !after_a_day_of_suspend("true").output().is_ok_and(|output| output.status.success()) {
            use std::io::Write as _;
            // This is not `eprintln!`, because the test harness captures the output of `eprintln!`.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: the test of a suspend, because unshare cannot make a time namespace"
            );
            return;
        }
        let name = "record::clocks::clock::tests::a_host_that_was_suspended_for_a_day";
        let mut test = after_a_day_of_suspend(std::env::current_exe().unwrap());
        let output = test.args(["--exact", name, "--ignored"]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }

    #[test]
    #[ignore = "runs in a time namespace"]
    #[cfg(target_os = "linux")]
    fn a_host_that_was_suspended_for_a_day() {
        let suspended = HostClock.suspended();
        assert!((suspended - 86_400 * S).abs() < S / 1000, "{suspended}");
    }

    #[test]
    fn a_clock_that_moves_by_more_than_10_us_was_stepped() {
        let clock = || SystemClock { offset: EPOCH, suspended: 0 };
        for (by, width, slept, expected) in [
            // No step: the offset differs a little, or the thread was delayed between the readings.
            (9_000, 100, 0, None),
            (-9_000, 100, 0, None),
            (2 * S, 5 * S, 0, None),
            (-3600 * S, 100, 0, Some(0)),
            (-S / 2, 100, 0, Some(0)),
            (-20_000, 100, 0, Some(0)),
            (20_000, 100, 0, Some(0)),
            (S / 2, 100, 0, Some(0)),
            (3600 * S, 100, 0, Some(0)),
            // The host was suspended. A difference of up to a millisecond comes from imprecise readings, and not from a
            // suspend.
            (30 * S, 100, 30 * S, Some(30 * S)),
            (S, 100, 400, Some(0)),
            (S, 100, 1_000_000, Some(0)),
            (S, 100, 1_000_001, Some(1_000_001)),
        ] {
            let mut clock = clock();
            let step = expected.map(|suspended| Step { by, suspended });
            assert_eq!(clock.observe(bounds(EPOCH + by, width), || slept), step, "{by} {width} {slept}");
            // Without a step, the offset must not change, so that each window starts at the stop of the previous
            // window.
            assert_eq!(clock.at(5), EPOCH + step.map_or(0, |step| step.by) + 5);
            assert_eq!(clock.observe(bounds(EPOCH + by, width), || slept), None, "a step is found once");
        }
        let mut clock = clock();
        let steps: Vec<_> =
            (1..=5).filter_map(|drift| clock.observe(bounds(EPOCH + drift * 4_000, 0), || 0)).collect();
        assert_eq!(steps, [Step { by: 12_000, suspended: 0 }], "small drifts add up");
    }

    #[test]
    fn an_offset_is_exact_if_the_thread_is_preempted() {
        use std::cell::Cell;

        for preempted in 0..12 {
            let (now, readings) = (Cell::new(0), Cell::new(0));
            let read = |ahead: i64| {
                let is_preempted = readings.replace(readings.get() + 1) == preempted;
                now.set(now.get() + if is_preempted { 50 * S } else { 100 });
                now.get() + ahead
            };
            let offset = Bounds::read(|| read(0), || read(7 * S)).middle();
            assert!((offset - 7 * S).abs() <= 100, "{offset}, preempted before reading {preempted}");
        }
    }
}
