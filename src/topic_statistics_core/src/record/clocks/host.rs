// SPDX-License-Identifier: Apache-2.0

//! This host: its name, and the offset of its system clock.

/// Returns the host's name.
pub fn name() -> String {
    gethostname::gethostname().to_string_lossy().into_owned()
}

/// Returns the kernel's estimate of the system clock's offset in milliseconds: the correction that a time daemon
/// requested (adjtimex(2)). `None` if the kernel reports that the clock is not synchronized, or if the kernel's
/// phase-locked loop is off: chrony and phc2sys adjust the clock's frequency, and leave an offset of 0 in the kernel.
#[cfg(all(target_os = "linux", not(miri)))]
pub fn clock_offset() -> Option<f64> {
    // SAFETY: a timex has only integers; zero is a valid value of each.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a whole timex; `modes` is 0, so the kernel writes to it and changes nothing.
    let clock = unsafe { libc::adjtimex(&mut state) };
    offset(clock, state.status, state.offset as f64)
}

/// Returns `None`: only Linux has adjtimex(2), and Miri does not emulate it.
#[cfg(any(not(target_os = "linux"), miri))]
pub fn clock_offset() -> Option<f64> {
    None
}

/// Converts the result of adjtimex into the offset in milliseconds.
#[cfg(target_os = "linux")]
fn offset(clock: i32, status: i32, offset: f64) -> Option<f64> {
    let is_synchronised = clock != -1
        && clock != libc::TIME_ERROR
        && status & (libc::STA_UNSYNC | libc::STA_PLL) == libc::STA_PLL;
    let per_millisecond = if status & libc::STA_NANO != 0 { 1e6 } else { 1e3 };
    is_synchronised.then_some(offset / per_millisecond)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn an_offset_needs_a_synchronised_clock_and_is_in_the_unit_of_the_kernels_status() {
        for (clock, status, reported, expected) in [
            (libc::TIME_OK, libc::STA_PLL | libc::STA_NANO, 1_500_000.0, Some(1.5)),
            (libc::TIME_OK, libc::STA_PLL, -1_500.0, Some(-1.5)),
            (libc::TIME_ERROR, libc::STA_PLL, 0.0, None),
            (libc::TIME_OK, libc::STA_PLL | libc::STA_UNSYNC, 0.0, None),
            (-1, libc::STA_PLL, 0.0, None),
            // chrony and phc2sys leave this state: the clock is synchronized, but the offset of 0 was not measured.
            (libc::TIME_OK, libc::STA_NANO, 0.0, None),
            (libc::TIME_OK, 0, 0.0, None),
        ] {
            assert_eq!(offset(clock, status, reported), expected, "{clock} {status}");
        }
        assert!(clock_offset().is_none_or(|offset| offset.abs() < 1_000.0));
    }
}
