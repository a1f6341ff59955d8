// SPDX-License-Identifier: Apache-2.0

//! What is left of a recording that ends: by a signal, by a crash, by a full disk.

use std::{path::PathBuf, process::Command};

use serde_json::Value;
use test_support::{skip, wait_for};
use topic_statistics_bag::NoteKind;
use topic_statistics_core::Metric;

use super::{read, whole, Recording};

#[test]
fn a_signal_leaves_a_complete_file_with_totals() {
    for signal in ["INT", "TERM"] {
        let mut recording = Recording::start(&[]);
        recording.talker.send_many(100, 100);
        // 4 bytes of encapsulation, a length of 4, the text with a NUL, and padding.
        let is_long = |size: &Value| size["max"].as_f64() > Some(100.0);
        let long = recording.monitor.until("size", |object| is_long(&object["metrics"]["message_size"]));
        let received = recording.received();
        let line = recording.end(signal);
        assert!(line.contains(&format!("recorded {received} messages")), "{line}");
        let bag = read(&[recording.file()]);
        assert!(bag.notes.is_empty(), "{:?}", bag.notes);
        let whole = whole(&bag);
        assert_eq!((bag.messages, whole.messages_recorded), (received, received), "{signal}");
        assert_eq!(whole.messages_lost_in_recorder, 0);
        let sizes = bag.topics[0].summary(Metric::MessageSize);
        assert_eq!(long["metrics"]["message_size"]["max"].as_f64(), Some(sizes.maximum), "as it was sent");
        assert!(recording.talker.sent >= received);
    }
}

#[test]
fn a_crash_leaves_all_but_the_last_second() {
    let mut recording = Recording::start(&[]);
    // Much less than a chunk, which only time brings to the disk.
    recording.talker.send_many(100, 100);
    let received = recording.received();
    wait_for("messages on the disk", || read(&[recording.file()]).messages == received);
    recording.monitor.signal("KILL");
    wait_for("end", || recording.monitor.child.try_wait().unwrap().is_some());
    let bag = read(&[recording.file()]);
    let is_expected = |kind: &NoteKind| matches!(kind, NoteKind::Unfinished | NoteKind::CutOff { .. });
    assert!(bag.notes.iter().all(|note| is_expected(&note.kind)), "{:?}", bag.notes);
    assert_eq!((bag.notes.is_empty(), bag.messages), (false, received));
}

/// A small file system.
struct Disk(PathBuf);

impl Drop for Disk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_a_complete_file_with_totals() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_owned();
    let mut mount = Command::new("mount");
    let mount = mount.args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(&place).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        return skip("a full disk", "no file system can be mounted");
    }
    let _disk = Disk(place.clone());
    let file = place.join("run.mcap");
    let mut recording = Recording::start_in(file.clone(), directory, &[], |_| ());
    // 20 MB, if nothing ended it.
    for _ in 0..200 {
        recording.talker.send_many(1, 100_000);
    }
    let line = recording.monitor.until_error("disk is full");
    assert!(line.contains("recorded "), "{line}");
    assert_eq!(recording.monitor.end(), Some(3));
    let bag = read(&[file]);
    assert!(bag.notes.is_empty(), "{:?}", bag.notes);
    let whole = whole(&bag);
    assert_eq!(whole.messages_recorded, bag.messages);
    assert!(whole.messages_lost_in_recorder > 0, "{whole:?}");
    assert!((1_000_000..6 << 20).contains(&whole.bytes_written), "{whole:?}");
}
