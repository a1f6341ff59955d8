// SPDX-License-Identifier: Apache-2.0

//! Signals that end the program.

use std::{
    io,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};

/// How long the program may take to end by itself. After that, the signal ends it.
const LIMIT: Duration = Duration::from_secs(5);

/// Whether SIGINT or SIGTERM has arrived.
#[derive(Debug)]
pub struct Interrupt(Receiver<()>);

impl Interrupt {
    /// Starts to listen to the signals.
    pub fn listen() -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            let _ended = sender.send(());
            thread::sleep(LIMIT);
            let _ends_here = emulate_default_handler(signal);
        })?;
        Ok(Self(receiver))
    }

    /// Waits for a signal. Returns whether there was one.
    pub fn wait(&self, limit: Duration) -> bool {
        self.0.recv_timeout(limit) != Err(RecvTimeoutError::Timeout)
    }
}
