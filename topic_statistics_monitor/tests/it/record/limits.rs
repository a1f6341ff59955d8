// SPDX-License-Identifier: Apache-2.0

//! Limits of size and duration, and files of a split recording.

use std::path::PathBuf;

use test_support::domain;
use topic_statistics_views::recorded::Scope;

use super::{info, read, Recording};
use crate::run::{run, text};

#[test]
fn a_split_recording_has_the_totals_of_each_file_and_of_all() {
    let mut recording = Recording::start(&["--split", "--max-size", "100kB"]);
    recording.talker.send_many(400, 1000);
    let received = recording.received();
    let line = recording.end("INT");
    let files: Vec<PathBuf> = (0..)
        .map(|number| recording.directory.path().join(format!("run_{number}.mcap")))
        .take_while(|path| path.exists())
        .collect();
    assert!(files.len() >= 4, "400 kB: {files:?}");
    assert!(line.contains(&format!("run_{}.mcap", files.len() - 1)), "{line}");
    for file in &files {
        let bag = read(std::slice::from_ref(file));
        assert!(bag.notes.is_empty(), "{:?}", bag.notes);
        let own = &bag.recording.totals[0].totals[&(Scope::File, "/chatter".to_owned())];
        assert_eq!(own.messages_recorded, bag.messages);
        assert!((1..=110_000).contains(&own.bytes_written), "{own:?}");
    }
    // metadata.yaml has the same files in the same order.
    let of_directory = read(&[recording.directory.path().to_owned()]);
    assert!(recording.directory.path().join("metadata.yaml").is_file());
    assert_eq!((of_directory.messages, of_directory.notes.len()), (received, 0), "{:?}", of_directory.notes);
    let bag = read(&files);
    let whole = super::whole(&bag);
    assert_eq!((whole.messages_recorded, whole.messages_lost_in_recorder), (received, 0));
    assert_eq!((bag.messages, bag.topics[0].totals().lost), (received, whole.messages_lost_in_transport));
    let of_files = bag.recording.totals.iter().flat_map(|file| file.totals.values());
    let of_files = of_files.filter(|totals| totals.scope == Scope::File).map(|totals| totals.bytes_written);
    assert_eq!(of_files.sum::<u64>(), whole.bytes_written);
}

#[test]
fn without_split_a_limit_ends_the_recording_and_the_program() {
    // The duration counts from the creation of the file on, and includes the discovery of the talker.
    for limit in [["--max-size", "50kB"], ["--max-duration", "8"]] {
        let mut recording = Recording::start(&limit);
        recording.talker.send_many(200, 500);
        assert_eq!(recording.monitor.end(), Some(0), "{limit:?}");
        let bag = read(&[recording.file()]);
        assert!(bag.notes.is_empty(), "{:?}", bag.notes);
        let whole = super::whole(&bag);
        assert_eq!((whole.messages_recorded, whole.messages_lost_in_recorder), (bag.messages, 0));
        assert!(bag.messages > 0 && whole.bytes_written < 120_000, "{whole:?}");
    }
}

#[test]
fn info_shows_qos_compression_schema_and_totals() {
    let mut recording = Recording::start(&["--compression", "zstd"]);
    let received = recording.received();
    recording.end("TERM");
    let info = info(&recording.file());
    for expected in [
        "Compression:       zstd",
        "Schema: ros2msg",
        "QoS: reliable, volatile, ",
        &format!("Topic: /chatter | Messages: {received} | Lost in transport: 0 | Lost in recorder: 0"),
    ] {
        assert!(info.contains(expected), "{expected}: {info}");
    }
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.mcap");
    std::fs::write(&file, "mine").unwrap();
    let output = run(&["--plain", "--record", file.to_str().unwrap()], domain());
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("cannot be created"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}
