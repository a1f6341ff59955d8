// SPDX-License-Identifier: Apache-2.0

//! Signals that end the program.

use std::{
    io,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    thread,
    time::Duration,
};

use ratatui::crossterm::terminal::disable_raw_mode;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};

/// How long the program may take to end by itself. A write to a pipe that nobody reads, or to a stopped terminal, can
/// hold it up for good.
const LIMIT: Duration = Duration::from_secs(2);

/// Returns a flag that SIGINT, SIGTERM and SIGHUP set.
///
/// If the program does not end in time after that, the signal ends it. A SIGHUP that is ignored, as under nohup, stays
/// ignored.
pub fn interrupted() -> io::Result<Arc<AtomicBool>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let interrupt = Arc::clone(&is_interrupted);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        interrupt.store(true, Ordering::Relaxed);
        thread::sleep(LIMIT);
        // What can be restored without a write to the terminal, if there is one.
        let _no_terminal = disable_raw_mode();
        let _ends_here = emulate_default_handler(signal);
    })?;
    Ok(is_interrupted)
}

fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, sigaction only writes the present one, and all of it if it returns 0.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
