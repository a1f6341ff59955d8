// SPDX-License-Identifier: Apache-2.0

//! Tests with files in any order and with any names, with copies of files, and with clocks that go back or differ.

use std::{
    fs,
    path::{Path, PathBuf},
};

use mcap::WriteOptions;
use proptest::prelude::*;
use topic_statistics_bag::{Bag, BagClock, BagTime, NoteKind, ReadOptions};
use topic_statistics_core::{Metric, Timestamp};

use crate::support::*;

/// Splits messages into files with these names.
fn split(
    directory: &Path,
    channels: &[Channel],
    messages: &[Message],
    names: impl ExactSizeIterator<Item = String>,
) -> Vec<PathBuf> {
    let parts = messages.chunks(messages.len().div_ceil(names.len()));
    let write = |(name, part): (String, &[Message])| {
        let path = directory.join(name);
        fs::write(&path, mcap(WriteOptions::new().compression(None), channels, part)).unwrap();
        path
    };
    names.zip(parts).map(write).collect()
}

fn read_paths(paths: &[PathBuf]) -> ReadBag {
    read_bag(&Bag::open(paths).unwrap(), &ReadOptions::new())
}

fn compress(path: &Path) -> PathBuf {
    let compressed = PathBuf::from(format!("{}.zstd", path.display()));
    fs::write(&compressed, zstd::encode_all(&*fs::read(path).unwrap(), 1).unwrap()).unwrap();
    compressed
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// `ros2 bag reindex` lists the files in metadata.yaml in the order of their names. In this case, the times of the
/// messages decide the order of the files. If the clock of a recorder went back, the files keep the order of the
/// metadata.yaml.
#[test]
fn the_order_of_a_metadata_yaml_counts_where_times_do_not_tell() {
    let (channels, messages) = two_topics(4);
    let directory = tempfile::tempdir().unwrap();
    let files = |order: [&str; 3]| {
        let lines = order.map(|name| format!("    - {name}\n")).concat();
        let text = format!("rosbag2_bagfile_information:\n  version: 9\n  relative_file_paths:\n{lines}");
        fs::write(directory.path().join("metadata.yaml"), text).unwrap();
        let bag = Bag::open([directory.path()]).unwrap();
        bag.files().iter().map(|file| name(&file.path)).collect::<Vec<_>>()
    };
    split(directory.path(), &channels, &messages, (0..3).map(|number| number.to_string()));
    assert_eq!(files(["2", "0", "1"]), ["0", "1", "2"]);
    // File 1 has the second half of a run and the start of the next run. File 2 has the rest of this run.
    let back = [&messages[200..], &messages[..100]].concat();
    for (name, messages) in [("1", &back[..]), ("2", &messages[50..])] {
        fs::write(directory.path().join(name), mcap(WriteOptions::new(), &channels, messages)).unwrap();
    }
    assert_eq!(files(["1", "2", "0"]), ["1", "2", "0"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The names, the order, the compression and copies of the files do not change the statistics.
    #[test]
    fn files_in_any_order_with_any_names_are_the_same_bag(
        names in prop::collection::btree_set("[a-z0-9_-]{1,6}", 6),
        order in Just((0..6).collect::<Vec<usize>>()).prop_shuffle(),
        forms in prop::collection::vec(0..3, 6),
        is_directory in any::<bool>(),
    ) {
        let (channels, messages) = two_topics(3);
        let whole = read(&mcap(WriteOptions::new(), &channels, &messages));
        let directory = tempfile::tempdir().unwrap();
        let names: Vec<_> = names.into_iter().collect();
        let names: Vec<_> = order.iter().map(|place| format!("{}.mcap", names[*place])).collect();
        let mut named = vec![];
        for (path, form) in split(directory.path(), &channels, &messages, names.clone().into_iter()).iter().zip(&forms) {
            // Each file exists uncompressed, compressed, or in both forms.
            named.extend((*form > 0).then(|| compress(path)));
            match form {
                1 => fs::remove_file(path).unwrap(),
                _ => named.push(path.clone()),
            }
        }
        named.sort();
        let bag = Bag::open(if is_directory { vec![directory.path().to_owned()] } else { named }).unwrap();
        let read: Vec<_> = bag.files().iter().map(|file| name(&file.path).replace(".zstd", "")).collect();
        prop_assert_eq!(read, names);
        let bag = read_bag(&bag, &ReadOptions::new());
        prop_assert_eq!(bag.notes().len(), forms.iter().filter(|form| **form == 2).count());
        prop_assert_eq!(bag.windows.text(), whole.windows.text());
    }
}

#[test]
fn of_a_file_and_its_copies_one_is_read_and_it_is_complete() {
    let (channels, messages) = two_topics(6);
    // The file exists uncompressed and compressed. `cut` says which of the two files is truncated.
    for cut in [None, Some(0), Some(1)] {
        let directory = tempfile::tempdir().unwrap();
        let plain =
            split(directory.path(), &channels, &messages, ["a.mcap".to_owned()].into_iter()).remove(0);
        let both = [plain.clone(), compress(&plain)];
        if let Some(cut) = cut {
            let bytes = fs::read(&both[cut]).unwrap();
            fs::write(&both[cut], &bytes[..bytes.len() / 2]).unwrap();
        }
        let complete = both[usize::from(cut == Some(0))].clone();
        for bag in [read_path(directory.path(), &ReadOptions::new()), read_paths(&both)] {
            assert_eq!(bag.topic("/imu").totals().received, 600, "{cut:?}");
            assert_eq!(bag.notes(), [NoteKind::Copy { of: complete.clone() }], "{cut:?}");
        }
        fs::remove_file(&both[1]).unwrap();
        let twice = read_paths(&[plain, directory.path().to_owned()]);
        assert_eq!(
            twice.notes().len(),
            if cut == Some(0) { 2 } else { 1 },
            "named twice: {:?}",
            twice.notes()
        );
    }
}

/// Without a metadata.yaml, a directory can have several recordings.
#[test]
fn a_file_that_begins_long_after_the_others_has_a_note() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, from: i64, options: WriteOptions| {
        let messages = every_10_ms(100).into_iter();
        let messages: Vec<_> =
            messages.map(|message| Message { log: message.log + from, ..message }).collect();
        fs::write(directory.path().join(name), mcap(options, &imu(), &messages)).unwrap();
    };
    let notes = || read_path(directory.path(), &ReadOptions::new()).notes();
    write("tuesday.mcap", 60 * S + 990 * MS, WriteOptions::new());
    write("monday.mcap", 0, WriteOptions::new());
    assert_eq!(notes(), []);
    write("tuesday.mcap", 100 * S + 990 * MS, WriteOptions::new());
    assert_eq!(notes(), [NoteKind::Pause { length: std::time::Duration::from_secs(100) }]);
    write("monday.mcap", 0, WriteOptions::new().emit_statistics(false));
    assert_eq!(notes(), [], "the end of the first file is not known");
}

/// As with `ros2 bag record --use-sim-time`, log times and stamps are from /clock, and publish times are from the
/// system clock.
#[test]
fn delays_and_ages_across_two_clocks_are_unknown() {
    let simulated = |number: i64| {
        let log = 10 * S + number * 10 * MS;
        Message { log, publish: START + number * 13 * MS, stamp: log - 5 * MS, ..Message::at(0, 0) }
    };
    let file = mcap(WriteOptions::new(), &imu(), &(0..500).map(simulated).collect::<Vec<_>>());
    let bag = read(&file);
    for metric in [Metric::SourceToReceive, Metric::HeaderToSource] {
        let delays = bag.topic("/imu").summary(metric);
        assert!(delays.sample_count == 0 && delays.average.is_nan(), "{delays:?}");
    }
    assert_eq!(bag.topic("/imu").summary(Metric::MessageAge).average, 5.0);
    assert_eq!(bag.notes(), [NoteKind::OtherClock { messages: 500 }]);
    // If the publish time is the clock of the windows, the periods show whether the messages were sent regularly.
    let published = read_with(&file, &ReadOptions::new().clock(BagClock::Publish));
    let topic = published.topic("/imu");
    assert_eq!((topic.summary(Metric::MessagePeriod).average, topic.without_time()), (13.0, 0));
    assert_eq!(topic.summary(Metric::SourceToReceive).sample_count, 0);
    for (stamp, ages, notes, what) in [
        (11 * S, 0, 1, "simulated"),
        (START + 86_400 * S, 0, 1, "tomorrow: what is replayed is of yesterday"),
        (START - 86_400 * S, 100, 0, "a map of yesterday"),
    ] {
        let messages: Vec<_> =
            every_10_ms(100).into_iter().map(|message| Message { stamp, ..message }).collect();
        let bag = read(&mcap(WriteOptions::new(), &imu(), &messages));
        let counted = bag.topic("/imu").summary(Metric::MessageAge).sample_count;
        assert_eq!((counted, bag.notes().len()), (ages, notes), "{what}");
    }
}

/// During the recording, /clock goes back to its start.
#[test]
fn runs_of_a_simulation_lie_behind_each_other() {
    let slow = (0..14).map(|number| Message::at(1, number * 700 * MS + MS));
    let mut one: Vec<_> = every_10_ms(1000).into_iter().chain(slow).collect();
    one.sort_by_key(|message| message.log);
    let channels = [Channel::new("/imu", IMU), Channel::new("/slow", IMU)];
    let two = mcap(WriteOptions::new().chunk_size(Some(3000)), &channels, &[one.clone(), one].concat());
    let bag = read(&two);
    let imu = bag.topic("/imu");
    assert_eq!((imu.totals().received, imu.misplaced()), (2000, 0));
    assert!((imu.totals().rate() - 100.0).abs() < 0.1, "{}", imu.totals().rate());
    assert_eq!(imu.summary(Metric::MessagePeriod).maximum, 10.0);
    assert_eq!(imu.summary(Metric::MessageAge).average, 5.0);
    assert_eq!(bag.notes(), [NoteKind::NewRun { back: std::time::Duration::from_millis(9990) }]);
    for window in bag.windows.of("/imu") {
        assert!(window.rate().is_nan() || (window.rate() - 100.0).abs() < 2.0, "{window:?}");
    }
    // The runs are also found if only one topic is read.
    let slow = read_with(&two, &ReadOptions::new().topics(|topic| topic == "/slow"));
    assert_eq!((slow.topic("/slow").totals().received, slow.notes().len()), (28, 1));
    assert_eq!(slow.topic("/slow").summary(Metric::MessagePeriod).minimum, 700.0);
    // No new run begins at a time far in the future, at late messages, or if topics were written one after the other.
    let mut orders = [every_10_ms(1000), every_10_ms(1000), every_10_ms(1000)];
    orders[0].extend(every_10_ms(1000).into_iter().map(|message| Message { channel: 1, ..message }));
    orders[1][100] = Message::at(0, 1_000_000 * S);
    orders[2].swap(20, 700);
    for messages in orders {
        let bag = read(&mcap(WriteOptions::new(), &channels, &messages));
        assert_eq!((bag.notes(), bag.topic("/imu").totals().received), (vec![], 1000));
    }
}

#[test]
fn a_bag_starts_with_its_first_message_whichever_topics_are_read() {
    let channels = [Channel::new("/imu", IMU), Channel::new("/text", STRING)];
    let mut messages = every_10_ms(1000);
    messages.insert(601, Message::at(1, 6 * S + MS));
    let options = [
        WriteOptions::new().chunk_size(Some(3000)),
        WriteOptions::new(),
        WriteOptions::new().use_chunks(false),
        WriteOptions::new().emit_chunk_indexes(false),
    ];
    for options in options {
        let file = TestFile::new(&mcap(options, &channels, &messages));
        let times = |options: ReadOptions| read_path(&file.path, &options).statistics.times.unwrap();
        let text = || ReadOptions::new().topics(|topic| topic == "/text");
        let [start, middle, end] = [0, 5000, 9990].map(|ms| Timestamp::from_nanoseconds(START + ms * MS));
        assert_eq!(times(ReadOptions::new()), (start, end));
        assert_eq!(times(text()), (start, end));
        assert_eq!(times(text().from(BagTime::At(middle))), (middle, end));
    }
}
