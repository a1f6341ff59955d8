// SPDX-License-Identifier: Apache-2.0

//! An executor that spins on a separate thread.

use std::{fmt, io, sync::Arc, thread::JoinHandle, time::Duration};

use rclrs::{Executor, ExecutorCommands, RclrsError, SpinOptions};

/// An executor that spins on a separate thread until this value is dropped.
pub struct Spinning {
    commands: Arc<ExecutorCommands>,
    thread: Option<JoinHandle<Vec<RclrsError>>>,
}

#[derive(Debug, thiserror::Error)]
pub enum ExecutorEnded {
    #[error("the executor panicked")]
    Panicked,
    #[error("the executor ended: {0}")]
    Returned(String),
}

impl Spinning {
    pub fn start(mut executor: Executor) -> io::Result<Self> {
        let commands = Arc::clone(executor.commands());
        let thread = std::thread::Builder::new().name("executor".to_owned());
        let thread = thread.spawn(move || executor.spin(SpinOptions::default()))?;
        Ok(Self { commands, thread: Some(thread) })
    }

    /// Errors if the executor has stopped by itself. Only the first call after the executor has stopped errors.
    pub fn check(&mut self) -> Result<(), ExecutorEnded> {
        let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) else { return Ok(()) };
        let errors = thread.join().map_err(|_| ExecutorEnded::Panicked)?;
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Err(ExecutorEnded::Returned(text.join("; ")))
    }
}

impl fmt::Debug for Spinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spinning").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // `halt_spinning` has no effect before the executor has begun to spin, so the call is repeated.
            while !thread.is_finished() {
                self.commands.halt_spinning();
                std::thread::sleep(Duration::from_millis(1));
            }
            let _errors = thread.join();
        }
    }
}
