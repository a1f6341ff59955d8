// SPDX-License-Identifier: Apache-2.0

//! Runs a program in a terminal whose screen the tests can read. The tests with ROS also use this file.

use std::{
    io::{Read, Write},
    process::Command,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex,
    },
    time::{Duration, Instant},
};

use portable_pty::{native_pty_system, Child, CommandBuilder, MasterPty, PtySize};
use test_support::{wait_for, LIMIT};

/// A program in a terminal. The program is killed when this value is dropped.
pub struct Terminal {
    pty: Option<Box<dyn MasterPty + Send>>,
    child: Box<dyn Child + Send + Sync>,
    /// `None` before the first key, because a writer that is dropped sends an end-of-file key (Ctrl-D).
    keys: Option<Box<dyn Write + Send>>,
    screen: Arc<Mutex<vt100::Parser>>,
    is_closed: Arc<AtomicBool>,
}

impl Terminal {
    /// Starts the monitor.
    pub fn start(arguments: &[&str], domain: u32) -> Terminal {
        Self::start_program("env", &[&[env!("CARGO_BIN_EXE_topic_monitor")], arguments].concat(), domain)
    }

    /// Starts any program.
    pub fn start_program(program: &str, arguments: &[&str], domain: u32) -> Terminal {
        let pair = native_pty_system().openpty(size(24, 80)).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("ROS_DOMAIN_ID", domain.to_string());
        test_support::on_this_host().into_iter().for_each(|(name, value)| command.env(name, value));
        let child = pair.slave.spawn_command(command).unwrap();
        let mut output = pair.master.try_clone_reader().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let is_closed = Arc::new(AtomicBool::new(false));
        let (written, closes) = (Arc::clone(&screen), Arc::clone(&is_closed));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let (Ok(number @ 1..), false) = (output.read(&mut bytes), closes.load(Ordering::Relaxed)) {
                written.lock().unwrap().process(&bytes[..number]);
            }
        });
        Terminal { pty: Some(pair.master), child, keys: None, screen, is_closed }
    }

    /// Closes the terminal, as if its window was closed, when the program draws the next screen.
    pub fn close(&mut self) {
        assert!(self.keys.is_none());
        self.is_closed.store(true, Ordering::Relaxed);
        self.pty = None;
    }

    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    pub fn press(&mut self, keys: &str) {
        let pty = self.pty.as_ref().unwrap();
        let writer = self.keys.get_or_insert_with(|| pty.take_writer().unwrap());
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.process_id().unwrap().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Waits until `is` returns `true` for the text of the screen.
    pub fn wait(&self, what: &str, is: impl Fn(&str) -> bool) {
        let started = Instant::now();
        while !is(&self.text()) {
            assert!(started.elapsed() < LIMIT, "no {what} on\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the screen contains all of these texts.
    pub fn wait_for(&self, texts: &[&str]) {
        self.wait(texts[0], |text| texts.iter().all(|part| text.contains(part)));
    }

    pub fn resize(&self, rows: u16, cols: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(rows, cols);
        self.pty.as_ref().unwrap().resize(size(rows, cols)).unwrap();
    }

    /// Returns whether the screen is the alternate screen without a cursor. `None` if only one of the two is true.
    pub fn has_view(&self) -> Option<bool> {
        let parser = self.screen.lock().unwrap();
        let is_on = parser.screen().alternate_screen();
        (parser.screen().hide_cursor() == is_on).then_some(is_on)
    }

    /// Waits until the program has ended and the terminal is restored. Returns the exit status.
    pub fn end(&mut self) -> u32 {
        let mut status = None;
        wait_for("end of the program", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        wait_for("restored terminal", || self.pty.is_none() || self.has_view() == Some(false));
        status.unwrap().exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
        }
    }
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}
