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
use topic_statistics_observe::ros::signals;

/// How long the program may take to end by itself. A write to a pipe that nobody reads, or to a stopped terminal, can
/// block it forever.
const LIMIT: Duration = Duration::from_secs(2);

/// How long the end may take from then on if nothing blocks any more: it only writes the report, to a file.
const LIMIT_OF_REPORT: Duration = Duration::from_secs(30);

/// Whether SIGINT, SIGTERM or SIGHUP ends the program.
///
/// If it does not end in time after that, the signal ends it. A SIGHUP that is ignored, as under nohup, stays ignored.
#[derive(Debug)]
pub struct Interrupt {
    signals: signals::Interrupt,
    is_ending: Arc<AtomicBool>,
}

impl Interrupt {
    /// Starts to listen to the signals.
    pub fn listen() -> io::Result<Self> {
        let is_ending = Arc::<AtomicBool>::default();
        let has_more_time = Arc::clone(&is_ending);
        let hangup = (!is_ignored(libc::SIGHUP)).then_some(libc::SIGHUP);
        let signals = signals::Interrupt::listen(hangup.as_slice(), move || {
            thread::sleep(LIMIT);
            if has_more_time.load(Ordering::Relaxed) {
                thread::sleep(LIMIT_OF_REPORT);
            }
            // The settings that can be restored without a write to the terminal, if there is one.
            let _no_terminal = disable_raw_mode();
        })?;
        Ok(Self { signals, is_ending })
    }

    pub fn is_set(&self) -> bool {
        self.signals.is_set()
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
