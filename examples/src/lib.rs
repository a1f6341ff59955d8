// SPDX-License-Identifier: Apache-2.0

//! How the nodes here end: by SIGINT (Ctrl-C, `ros2 launch`) and SIGTERM, as rclcpp's nodes do. Copy it to a node of your own.

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

/// One wish to end can come as two signals: timeout(1) sends it to the process and to its group.
const SAME_WISH: Duration = Duration::from_secs(1);

/// Returns options with which the executor spins until SIGINT or SIGTERM, so that `main` returns and what it has is dropped.
///
/// A signal that comes before the executor spins counts too: call this first in `main`. The executor ends when the callbacks are
/// done that run or wait; a second signal, a second later or more, ends the process at once, as without this.
pub fn until_signal() -> io::Result<SpinOptions> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (stop, stopped) = oneshot::channel();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut signals = signals.forever();
        let Some(_first) = signals.next() else { return };
        let first = Instant::now();
        let _spins_no_more = stop.send(());
        if let Some(second) = signals.find(|_| first.elapsed() >= SAME_WISH) {
            let _ends_here = emulate_default_handler(second);
        }
    })?;
    Ok(SpinOptions::new().until_promise_resolved(stopped))
}
