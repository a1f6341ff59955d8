// SPDX-License-Identifier: Apache-2.0

//! The terminal while the live view has it, and as it was.

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

/// The terminal, which is as it was when this is dropped, or when something panics.
pub struct LiveTerminal {
    pub terminal: DefaultTerminal,
    _quiet: Quiet,
}

impl LiveTerminal {
    pub fn start() -> io::Result<Self> {
        let quiet = Quiet::start()?;
        let error_output = quiet.0.clone();
        let terminal = ratatui::try_init()?; // restores the terminal on a panic
        let restore_and_tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            speak(error_output.as_deref());
            restore_and_tell(panic);
        }));
        Ok(Self { terminal, _quiet: quiet })
    }
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        let _no_terminal_any_more = ratatui::try_restore();
    }
}

/// Returns whether an error says that there is no terminal any more.
pub fn is_closed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Keys that are pressed, and changes of the terminal's size.
///
/// They are read on a thread of their own, which nothing waits for: crossterm 0.28 does not return from a read, nor from a poll with a
/// timeout, once the terminal is closed or while an escape sequence is incomplete.
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

    /// Returns the next event; None if there is none for that long.
    pub fn next(&self, timeout: Duration) -> io::Result<Option<Event>> {
        match self.0.recv_timeout(timeout) {
            Ok(event) => event.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Keeps off the screen what rcl and the middleware write to standard error; None if that is no terminal.
struct Quiet(Option<Arc<OwnedFd>>);

impl Quiet {
    fn start() -> io::Result<Self> {
        if !io::stderr().is_terminal() {
            return Ok(Self(None));
        }
        let error_output = rustix::io::dup(rustix::stdio::stderr())?;
        rustix::stdio::dup2_stderr(File::options().write(true).open("/dev/null")?)?;
        Ok(Self(Some(Arc::new(error_output))))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        speak(self.0.as_deref());
    }
}

/// Gives standard error back.
fn speak(error_output: Option<&OwnedFd>) {
    if let Some(error_output) = error_output {
        // Without, there is only less to read.
        let _same_as_before = rustix::stdio::dup2_stderr(error_output);
    }
}
