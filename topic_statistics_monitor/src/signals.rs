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

/// The time that the program has to end after a signal. Without a limit, a write to a full pipe could block forever.
const LIMIT: Duration = Duration::from_secs(2);

/// How much longer the program may take to end when only files remain to be written: the report and the recording.
const LIMIT_OF_REPORT: Duration = Duration::from_secs(30);

/// Tells whether SIGINT, SIGTERM or SIGHUP has asked the program to end. If the program does not end in time, the
/// default action of the signal ends the process. A process that ignores SIGHUP at its start, as under nohup, continues
/// to ignore SIGHUP.
#[derive(Debug)]
pub struct Interrupt {
    signals: signals::Interrupt,
    is_ending: Arc<AtomicBool>,
}

impl Interrupt {
    pub fn listen() -> io::Result<Self> {
        let is_ending = Arc::<AtomicBool>::default();
        let has_more_time = Arc::clone(&is_ending);
        let hangup = (!is_ignored(libc::SIGHUP)).then_some(libc::SIGHUP);
        let signals = signals::Interrupt::listen(hangup.as_slice(), move || {
            thread::sleep(LIMIT);
            if has_more_time.load(Ordering::Relaxed) {
                thread::sleep(LIMIT_OF_REPORT);
            }
            // The program restores only those settings of the terminal that need no write to the terminal, because a
            // write could block.
            let _no_terminal = disable_raw_mode();
        })?;
        Ok(Self { signals, is_ending })
    }

    pub fn is_set(&self) -> bool {
        self.signals.is_set()
    }

    /// Declares that only files remain to be written: the program gets more time to end after a signal.
    pub fn let_end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }
}

fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, sigaction only writes the present action. If sigaction returns 0, the whole action
    // is written.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
