// SPDX-License-Identifier: Apache-2.0

//! Signals that end a program.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};

/// Whether a signal ends the program.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<Received>);

/// Whether a signal was received, and who waits for it.
#[derive(Debug, Default)]
struct Received {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Interrupt {
    /// Starts to listen to SIGINT, SIGTERM and further signals.
    ///
    /// After the first signal, `grace` waits for as long as the program may take to end by itself. When `grace`
    /// returns, the signal ends the process.
    pub fn listen(further: &[i32], grace: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new([&[SIGINT, SIGTERM], further].concat())?;
        let received = Arc::<Received>::default();
        let interrupt = Self(Arc::clone(&received));
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            *received.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
            received.changed.notify_all();
            grace();
            let _ends_here = emulate_default_handler(signal);
        })?;
        Ok(interrupt)
    }

    /// Returns whether there was a signal.
    pub fn is_set(&self) -> bool {
        *self.0.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a signal, or until the limit. Returns whether there was a signal.
    pub fn wait(&self, limit: Duration) -> bool {
        let is_set = self.0.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.changed.wait_timeout_while(is_set, limit, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
