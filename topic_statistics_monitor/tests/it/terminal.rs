// SPDX-License-Identifier: Apache-2.0

//! The monitor in a terminal with a readable screen.

use std::{
    io::{Read, Write},
    path::Path,
    process::Command,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex,
    },
    time::{Duration, Instant},
};

use portable_pty::{native_pty_system, CommandBuilder, MasterPty, PtySize};
use test_support::{wait_for, LIMIT};

/// The monitor in a terminal.
pub struct Terminal {
    pty: Box<dyn MasterPty + Send>,
    pub monitor: Monitor,
    /// `None` before the first key: when the writer is dropped, it writes an end of file, which would be a key, too.
    keys: Option<Box<dyn Write + Send>>,
    screen: Arc<Mutex<vt100::Parser>>,
    is_closing: Arc<AtomicBool>,
}

impl Terminal {
    /// Starts the monitor.
    pub fn start(arguments: &[&str], domain: u32) -> Terminal {
        Self::start_program("env", &[&[env!("CARGO_BIN_EXE_topic_monitor")], arguments].concat(), domain)
    }

    /// Starts the monitor with SIGHUP ignored, as under nohup.
    pub fn start_without_hang_up(domain: u32) -> Terminal {
        let script = "trap '' HUP; exec \"$0\"";
        Self::start_program("sh", &["-c", script, env!("CARGO_BIN_EXE_topic_monitor")], domain)
    }

    /// Starts the monitor with a preloaded library.
    pub fn start_preloaded(library: &Path, arguments: &[&str], domain: u32) -> Terminal {
        let preload = format!("LD_PRELOAD={}", library.to_str().unwrap());
        let monitor = [&*preload, env!("CARGO_BIN_EXE_topic_monitor")];
        Self::start_program("env", &[&monitor, arguments].concat(), domain)
    }

    /// Starts any program.
    pub fn start_program(program: &str, arguments: &[&str], domain: u32) -> Terminal {
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("ROS_DOMAIN_ID", domain.to_string());
        test_support::on_this_host().into_iter().for_each(|(name, value)| command.env(name, value));
        let child = pair.slave.spawn_command(command).unwrap();
        let mut output = pair.master.try_clone_reader().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let written = Arc::clone(&screen);
        let is_closing = Arc::new(AtomicBool::new(false));
        let closes = Arc::clone(&is_closing);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(number @ 1..) = output.read(&mut bytes) {
                if closes.load(Ordering::Relaxed) {
                    return;
                }
                written.lock().unwrap().process(&bytes[..number]);
            }
        });
        Terminal { pty: pair.master, monitor: Monitor(child), keys: None, screen, is_closing }
    }

    /// Closes the terminal, as when its window is closed. Returns the process.
    pub fn close(self) -> Monitor {
        assert!(self.keys.is_none());
        self.is_closing.store(true, Ordering::Relaxed);
        self.monitor // The reading thread holds the last handle, until the next screen is drawn.
    }

    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    pub fn press(&mut self, keys: &str) {
        let writer = self.keys.get_or_insert_with(|| self.pty.take_writer().unwrap());
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    /// Waits for a screen.
    pub fn wait(&self, what: &str, is: impl Fn(&str) -> bool) {
        let started = Instant::now();
        while !is(&self.text()) {
            assert!(started.elapsed() < LIMIT, "no {what} on\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for a screen with all of these texts.
    pub fn wait_for(&self, texts: &[&str]) {
        self.wait(texts[0], |text| texts.iter().all(|part| text.contains(part)));
    }

    pub fn resize(&self, rows: u16, cols: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(rows, cols);
        self.pty.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
    }

    /// Returns whether the alternate screen is on and the cursor hidden.
    pub fn has_terminal(&self) -> bool {
        let parser = self.screen.lock().unwrap();
        parser.screen().alternate_screen() && parser.screen().hide_cursor()
    }

    /// Waits for the end. Returns the exit status.
    pub fn end(&mut self) -> u32 {
        let status = self.monitor.end();
        wait_for("restored terminal", || {
            let parser = self.screen.lock().unwrap();
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        });
        status
    }
}

/// The process in a terminal. It is killed when this is dropped.
pub struct Monitor(Box<dyn portable_pty::Child + Send + Sync>);

impl Monitor {
    pub fn signal(&self, name: &str) {
        assert!(Command::new("kill")
            .args(["-s", name, &self.0.process_id().unwrap().to_string()])
            .status()
            .unwrap()
            .success());
    }

    /// Waits for the end. Returns the exit status.
    pub fn end(&mut self) -> u32 {
        let mut status = None;
        wait_for("end of the monitor", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().exit_code()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.0.kill();
        }
    }
}
