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
/// block it forever.
const LIMIT: Duration = Duration::from_secs(2);

/// How long the end may take from then on if nothing blocks any more: it only writes the report, to a file.
const LIMIT_OF_REPORT: Duration = Duration::from_secs(30);

/// Whether SIGINT, SIGTERM or SIGHUP ends the program.
///
/// If it does not end in time after that, the signal ends it. A SIGHUP that is ignored, as under nohup, stays ignored.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    is_set: Arc<AtomicBool>,
    is_ending: Arc<AtomicBool>,
}

impl Interrupt {
    /// Starts to listen to the signals.
    pub fn listen() -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        if !is_ignored(SIGHUP) {
            signals.add_signal(SIGHUP)?;
        }
        let interrupt = Self::default();
        let Self { is_set, is_ending } = interrupt.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            is_set.store(true, Ordering::Relaxed);
            thread::sleep(LIMIT);
            if is_ending.load(Ordering::Relaxed) {
                thread::sleep(LIMIT_OF_REPORT);
            }
            // The settings that can be restored without a write to the terminal, if there is one.
            let _no_terminal = disable_raw_mode();
            let _ends_here = emulate_default_handler(signal);
        })?;
        Ok(interrupt)
    }

    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// From now on, the program ends by itself, and a signal leaves it more time for that.
    pub fn let_end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }
}

fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, sigaction only writes the present one, and all of it if it returns 0.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
