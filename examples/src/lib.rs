// SPDX-License-Identifier: Apache-2.0

//! Ends a node on SIGINT (Ctrl-C, `ros2 launch`) and SIGTERM, as rclcpp does. Copy this file to your own node.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use futures_channel::oneshot;
use rclrs::SpinOptions;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};

/// Signals within this time of the first signal count as one request to end, because timeout(1) sends two signals: one
/// to the process, and one to the process group.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Returns options with which the executor spins until SIGINT or SIGTERM. Then `main` returns and drops its values.
///
/// Call this function first in `main`, so that a signal also counts if it arrives before the executor spins. After a
/// signal, the executor first completes the callbacks that are running or waiting. A second signal, at least a second
/// after the first signal, ends the process immediately.
pub fn until_signal() -> io::Result<SpinOptions> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (stop, stopped) = oneshot::channel();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut signals = signals.forever();
        let Some(_first) = signals.next() else { return };
        let first = Instant::now();
        let _already_stopped = stop.send(());
        if let Some(second) = signals.find(|_| first.elapsed() >= SAME_REQUEST) {
            let _process_ends = emulate_default_handler(second);
        }
    })?;
    Ok(SpinOptions::new().until_promise_resolved(stopped))
}
