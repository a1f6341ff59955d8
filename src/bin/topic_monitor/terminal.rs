//! The terminal while the live view has it, and as it was.

use std::{
    fs::File,
    io::{self, IsTerminal},
    os::fd::OwnedFd,
    sync::Arc,
};

use ratatui::DefaultTerminal;

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
        ratatui::restore();
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
