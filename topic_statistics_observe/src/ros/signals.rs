// SPDX-License-Identifier: Apache-2.0

//! Signals that end a program.

use std::{
    io,
    sync::{atomic::AtomicBool, Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGINT, SIGTERM, SIGUSR1},
    flag,
    iterator::Signals,
    low_level::emulate_default_handler,
};

/// Returns a flag that is set when SIGUSR1 is received. From this call on, SIGUSR1 does not end the process.
pub fn user_signal() -> io::Result<Arc<AtomicBool>> {
    let received = Arc::<AtomicBool>::default();
    flag::register(SIGUSR1, Arc::clone(&received))?;
    Ok(received)
}

/// Tells whether a signal has asked the program to end.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<Received>);

/// Whether a signal was received, and the condition variable of the threads that wait for a signal.
#[derive(Debug, Default)]
struct Received {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Interrupt {
    /// Starts to listen for SIGINT, SIGTERM and the signals in `further`.
    ///
    /// After the first signal, `grace` is called on the signal thread. `grace` returns when the program has had enough
    /// time to end by itself. After that, the default action of the signal ends the process.
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

    pub fn is_set(&self) -> bool {
        *self.0.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a signal, at most for the time `limit`. Returns whether a signal was received.
    pub fn wait(&self, limit: Duration) -> bool {
        let is_set = self.0.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.changed.wait_timeout_while(is_set, limit, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
