// SPDX-License-Identifier: Apache-2.0

//! The progress bar.

use std::io::Read;

use portable_pty::{native_pty_system, CommandBuilder, PtySize};

use super::bag_file::{mcap, regular};

#[test]
fn on_a_terminal_a_bar_with_bytes_per_second_is_shown_until_the_table_is() {
    let directory = tempfile::tempdir().unwrap();
    let bag = mcap(&directory.path().join("a.mcap"), &regular("/imu", 100, 0, 10, 5));
    let terminal =
        native_pty_system().openpty(PtySize { rows: 24, cols: 120, ..PtySize::default() }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_bag_statistics"));
    command.arg(&bag);
    let mut output = terminal.master.try_clone_reader().unwrap();
    let mut child = terminal.slave.spawn_command(command).unwrap();
    drop(terminal.slave);
    let mut text = vec![];
    // A terminal ends with an error on Linux.
    let _end = output.read_to_end(&mut text);
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8_lossy(&text);
    let (bar, table) = text.split_once("/imu").unwrap();
    assert!(bar.contains("B/s") && bar.contains("left"), "{text:?}");
    assert!(!table.contains("B/s"), "{text:?}");
}
