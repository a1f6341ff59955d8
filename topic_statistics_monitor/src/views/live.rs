// SPDX-License-Identifier: Apache-2.0

//! The live view, and its terminal, which is restored at the end of the program.

use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal},
    os::fd::OwnedFd,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
        Arc,
    },
    time::{Duration, Instant},
};

use ratatui::{
    backend::CrosstermBackend,
    crossterm::{
        event::{self, Event, KeyEventKind},
        execute,
        terminal::{disable_raw_mode, enable_raw_mode, EnterAlternateScreen, LeaveAlternateScreen},
    },
    Terminal,
};
use topic_statistics_observe::row::{Kind, Row};

use super::{Polled, Screen, View, TICK};
use crate::process::Failure;

/// The time between two drawings of the view, if no key is pressed.
const FRAME: Duration = Duration::from_millis(250);

pub struct Live {
    terminal: LiveTerminal,
    input: Input,
    screen: Screen,
    rows: Vec<Row>,
    /// When the rows were drawn last. `None` to draw the rows at once.
    drawn: Option<Instant>,
}

impl Live {
    pub fn start(output: &File, kind: Kind) -> Result<Self, Failure> {
        let mut screen = Screen::default();
        screen.kind = kind;
        let (terminal, input) = (LiveTerminal::start(output)?, Input::start()?);
        Ok(Self { terminal, input, screen, rows: vec![], drawn: None })
    }
}

impl View for Live {
    fn show(&mut self, polled: &mut Polled<'_>) -> Result<Option<u8>, Failure> {
        if polled.is_over {
            return Ok(Some(0));
        }
        polled.new_rows().into_iter().for_each(|row| polled.record(row));
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME) {
            self.rows = polled.rows.iter().map(|row| (*row).clone()).collect();
            let notices: Vec<String> =
                polled.notice.take().into_iter().chain(polled.recorder.take()).collect();
            self.screen.notice = (!notices.is_empty()).then(|| notices.join("; "));
            let Self { terminal, screen, rows, .. } = self;
            terminal.terminal.draw(|frame| screen.draw(frame, rows, Instant::now()))?;
            self.drawn = Some(Instant::now());
        }
        match self.input.next(TICK)? {
            Some(Event::Key(key))
                if key.kind != KeyEventKind::Release && self.screen.key(key, &self.rows, Instant::now()) =>
            {
                return Ok(Some(0));
            }
            Some(_) => self.drawn = None, // Draws at once after a key or a resize.
            None => {}
        }
        Ok(None)
    }
}

/// The terminal of the live view. The terminal is restored when this value is dropped, and when a thread panics.
#[derive(Debug)]
pub struct LiveTerminal {
    /// The screen.
    pub terminal: Terminal<CrosstermBackend<BufWriter<File>>>,
    shown: Arc<AlternateScreen>,
    _muted: MutedOutput,
}

#[derive(Debug)]
struct AlternateScreen {
    output: File,
    is_restored: AtomicBool,
}

impl LiveTerminal {
    /// Shows the alternate screen on this terminal.
    pub fn start(output: &File) -> io::Result<Self> {
        let (output, backend) = (output.try_clone()?, output.try_clone()?);
        let shown = Arc::new(AlternateScreen { output, is_restored: AtomicBool::new(false) });
        let of_panic = Arc::clone(&shown);
        let muted = MutedOutput::start()?;
        let stderr = muted.0.clone();
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _closed = of_panic.restore();
            unmute(stderr.as_deref());
            report(panic);
        }));
        enable_raw_mode()?;
        execute!(&shown.output, EnterAlternateScreen)?;
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(backend)))?;
        Ok(Self { terminal, shown, _muted: muted })
    }
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        let _closed = self.shown.restore();
    }
}

impl AlternateScreen {
    /// Restores the terminal only once, because a second restore would move the cursor onto the text of a panic.
    fn restore(&self) -> io::Result<()> {
        if self.is_restored.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        disable_raw_mode()?;
        execute!(&self.output, LeaveAlternateScreen)
    }
}

/// The input of the terminal: pressed keys, and changes of the terminal's size. A thread reads the input. Nothing waits
/// for the end of this thread, because a read or poll of crossterm 0.29 does not return during an escape sequence, or
/// after the terminal is closed.
#[derive(Debug)]
pub struct Input(Receiver<io::Result<Event>>);

impl Input {
    /// Starts a thread that reads from the terminal.
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

    /// Returns the next event. `None` if no event arrives within the timeout.
    pub fn next(&self, timeout: Duration) -> io::Result<Option<Event>> {
        match self.0.recv_timeout(timeout) {
            Ok(event) => event.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Redirects standard error and file descriptor 1 to `/dev/null` until this value is dropped, so that output of rcl and
/// the middleware does not disturb the screen. `None` if standard error is not a terminal.
#[derive(Debug)]
struct MutedOutput(Option<Arc<OwnedFd>>);

impl MutedOutput {
    fn start() -> io::Result<Self> {
        if !io::stderr().is_terminal() {
            return Ok(Self(None));
        }
        let stderr = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?;
        let nowhere = File::options().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stderr(&nowhere)?;
        rustix::stdio::dup2_stdout(&nowhere)?;
        Ok(Self(Some(Arc::new(stderr))))
    }
}

impl Drop for MutedOutput {
    fn drop(&mut self) {
        unmute(self.0.as_deref());
    }
}

fn unmute(stderr: Option<&OwnedFd>) {
    if let Some(stderr) = stderr {
        // If a call fails, the file descriptor stays redirected; this has no other consequences.
        let _muted = rustix::stdio::dup2_stderr(stderr);
        let _muted = rustix::stdio::dup2_stdout(stderr);
    }
}
