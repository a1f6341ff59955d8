// SPDX-License-Identifier: Apache-2.0

//! The terminal of the live view, which is restored at the end.

use std::{
    fs::File,
    io::{self, IsTerminal},
    os::fd::OwnedFd,
    sync::{
        mpsc::{self, Receiver, RecvTimeoutError},
        Arc,
    },
    time::Duration,
};

use ratatui::{
    crossterm::event::{self, Event},
    DefaultTerminal,
};

/// The terminal of the live view. It is restored when this is dropped, and at a panic.
pub struct LiveTerminal {
    pub terminal: DefaultTerminal,
    _muted: MutedStderr,
}

impl LiveTerminal {
    pub fn start() -> io::Result<Self> {
        let muted = MutedStderr::start()?;
        let stderr = muted.0.clone();
        let terminal = ratatui::try_init()?; // Installs a panic hook that restores the terminal.
        let restore_and_report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            unmute(stderr.as_deref());
            restore_and_report(panic);
        }));
        Ok(Self { terminal, _muted: muted })
    }
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        let _closed = ratatui::try_restore();
    }
}

/// Pressed keys, and changes of the terminal's size.
///
/// A thread of their own reads them, and nothing waits for it: crossterm 0.29 does not return from a read, nor from a
/// poll with a timeout, once the terminal is closed or while an escape sequence is incomplete.
pub struct Input(Receiver<io::Result<Event>>);

impl Input {
    pub fn start() -> io::Result<Self> {
        let (sender, events) = mpsc::sync_channel(100);
        std::thread::Builder::new().name("input".to_owned()).spawn(move || loop {
            let event = event::read();
            let is_error = event.is_err();
            if sender.send(event).is_err() || is_error {
                return;
            }
        })?;
        Ok(Self(events))
    }

    /// Returns the next event. `None` if there is none within the timeout.
    pub fn next(&self, timeout: Duration) -> io::Result<Option<Event>> {
        match self.0.recv_timeout(timeout) {
            Ok(event) => event.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Standard error, redirected until this is dropped, so that what rcl and the middleware write to it does not disturb
/// the screen. `None` if standard error is no terminal.
struct MutedStderr(Option<Arc<OwnedFd>>);

impl MutedStderr {
    fn start() -> io::Result<Self> {
        if !io::stderr().is_terminal() {
            return Ok(Self(None));
        }
        let stderr = rustix::io::dup(rustix::stdio::stderr())?;
        rustix::stdio::dup2_stderr(File::options().write(true).open("/dev/null")?)?;
        Ok(Self(Some(Arc::new(stderr))))
    }
}

impl Drop for MutedStderr {
    fn drop(&mut self) {
        unmute(self.0.as_deref());
    }
}

/// Restores standard error.
fn unmute(stderr: Option<&OwnedFd>) {
    if let Some(stderr) = stderr {
        // If this fails, standard error stays muted, and nothing else goes wrong.
        let _muted = rustix::stdio::dup2_stderr(stderr);
    }
}
