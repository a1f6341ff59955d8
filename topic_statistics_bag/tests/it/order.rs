// SPDX-License-Identifier: Apache-2.0

//! Files in any order with any names, copies of files, and clocks that go back or are of two kinds.

use std::{
    fs,
    path::{Path, PathBuf},
};

use mcap::WriteOptions;
use proptest::prelude::*;
use topic_statistics_bag::{Bag, BagClock, BagTime, NoteKind, ReadOptions};
use topic_statistics_core::{Metric, Timestamp};

use crate::support::*;

/// Splits messages into that many files, whose names are by `name`.
fn split(
    directory: &Path,
    channels: &[Channel],
    messages: &[Message],
    files: usize,
    name: impl Fn(usize) -> String,
) -> Vec<PathBuf> {
    let parts = messages.chunks(messages.len().div_ceil(files)).enumerate();
    parts
        .map(|(number, part)| {
            let path = directory.join(name(number));
            fs::write(&path, mcap(WriteOptions::new().compression(None), channels, part)).unwrap();
            path
        })
        .collect()
}

fn read_paths(paths: &[PathBuf], options: &ReadOptions) -> ReadBag {
    let mut windows = Windows::default();
    let statistics = Bag::open(paths).unwrap().read(options, &mut windows).unwrap();
    ReadBag { windows, statistics }
}

fn compress(path: &Path) -> PathBuf {
    let compressed = PathBuf::from(format!("{}.zstd", path.display()));
    fs::write(&compressed, zstd::encode_all(&*fs::read(path).unwrap(), 1).unwrap()).unwrap();
    compressed
}

/// More messages than wait for their order. A shell sorts 10 before 9, and so do the names of rosbag2 since 0.33.1.
#[test]
fn split_files_are_in_the_order_of_their_times() {
    let messages = (0..140_000).map(|number| Message { size: 12, ..Message::at(0, number * 10 * MS) });
    let (channels, messages) = (vec![Channel::new("/imu", IMU)], messages.collect::<Vec<_>>());
    let directory = tempfile::tempdir().unwrap();
    let name = |number| format!("{}_bag_2026_03_01-12_{number:02}_00.mcap", 9 + number);
    let mut paths = split(directory.path(), &channels, &messages, 2, name);
    paths.sort();
    assert!(paths[0].ends_with("10_bag_2026_03_01-12_01_00.mcap"));
    let options = ReadOptions::new();
    for bag in [read_paths(&paths, &options), read_path(directory.path(), &options)] {
        let topic = bag.topic("/imu");
        assert_eq!((topic.misplaced(), topic.totals().received, bag.notes()), (0, 140_000, vec![]));
        assert_eq!(topic.summary(Metric::MessagePeriod).maximum, 10.0);
    }
}

/// As `ros2 bag reindex` writes it, by the names. Files of a recorder whose clock went back keep their order.
#[test]
fn the_order_of_a_metadata_yaml_counts_where_times_do_not_tell() {
    let (channels, messages) = two_topics(4);
    let directory = tempfile::tempdir().unwrap();
    let files = |order: [&str; 3]| {
        let lines = order.map(|name| format!("    - {name}\n")).concat();
        let text = format!("rosbag2_bagfile_information:\n  version: 9\n  relative_file_paths:\n{lines}");
        fs::write(directory.path().join("metadata.yaml"), text).unwrap();
        let bag = Bag::open([directory.path()]).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        bag.files().iter().map(|file| name(&file.path)).collect::<Vec<_>>()
    };
    split(directory.path(), &channels, &messages, 3, |number| format!("{number}"));
    assert_eq!(files(["2", "0", "1"]), ["0", "1", "2"]);
    // The second half of a run and the next one, then the rest of that one and a third one.
    let back = [&messages[200..], &messages[..100]].concat();
    fs::write(directory.path().join("1"), mcap(WriteOptions::new(), &channels, &back)).unwrap();
    fs::write(directory.path().join("2"), mcap(WriteOptions::new(), &channels, &messages[50..])).unwrap();
    assert_eq!(files(["1", "2", "0"]), ["1", "2", "0"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Names, order, compression and copies change nothing.
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
        let name = |number: usize| format!("{}.mcap", names[order[number]]);
        let mut named = vec![];
        for (path, form) in split(directory.path(), &channels, &messages, 6, name).iter().zip(&forms) {
            // Plain, compressed, or both.
            if *form > 0 {
                named.push(compress(path));
            }
            match form {
                1 => fs::remove_file(path).unwrap(),
                _ => named.push(path.clone()),
            }
        }
        named.sort();
        let bag = match is_directory {
            true => Bag::open([directory.path()]),
            false => Bag::open(&named),
        }.unwrap();
        let plain = |path: &Path| path.file_name().unwrap().to_str().unwrap().replace(".zstd", "");
        let read: Vec<_> = bag.files().iter().map(|file| plain(&file.path)).collect();
        prop_assert_eq!(read, (0..6).map(name).collect::<Vec<_>>());
        let mut windows = Windows::default();
        let statistics = bag.read(&ReadOptions::new(), &mut windows).unwrap();
        prop_assert_eq!(statistics.notes.len(), forms.iter().filter(|form| **form == 2).count());
        prop_assert_eq!(windows.text(), whole.windows.text());
    }
}

#[test]
fn of_a_file_and_its_compressed_copy_the_complete_one_is_read() {
    let (channels, messages) = two_topics(6);
    // Also a copy of which there is nothing yet.
    for cut in ["neither", "compressed", "plain"] {
        let directory = tempfile::tempdir().unwrap();
        let paths = split(directory.path(), &channels, &messages, 1, |_| "a.mcap".to_owned());
        let both = [paths[0].clone(), compress(&paths[0])];
        let [plain, compressed] = &both;
        let (cut_off, complete) = match cut {
            "compressed" => (Some(compressed), plain),
            "plain" => (Some(plain), compressed),
            _ => (None, plain),
        };
        if let Some(path) = cut_off {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }
        let options = ReadOptions::new();
        for bag in [read_path(directory.path(), &options), read_paths(&both, &options)] {
            assert_eq!(bag.topic("/imu").totals().received, 600, "{cut}");
            assert_eq!(bag.notes(), [NoteKind::Copy { of: complete.clone() }], "{cut}");
        }
    }
}

#[test]
fn a_file_that_is_named_twice_is_read_once() {
    let (channels, messages) = two_topics(2);
    let directory = tempfile::tempdir().unwrap();
    let paths = split(directory.path(), &channels, &messages, 1, |_| "a.mcap".to_owned());
    let bag = read_paths(&[paths[0].clone(), directory.path().to_owned()], &ReadOptions::new());
    assert_eq!((bag.topic("/imu").totals().received, bag.notes().len()), (200, 1));
}

/// As `ros2 bag record --use-sim-time`: log time and stamps by /clock, publish time by the system.
#[test]
fn delays_across_two_clocks_are_unknown() {
    let simulated = |number: i64| {
        let log = 10 * S + number * 10 * MS;
        Message { log, publish: START + number * 13 * MS, stamp: log - 5 * MS, ..Message::at(0, 0) }
    };
    let messages: Vec<_> = (0..500).map(simulated).collect();
    let file = mcap(WriteOptions::new(), &[Channel::new("/imu", IMU)], &messages);
    let bag = read(&file);
    for metric in [Metric::SourceToReceive, Metric::HeaderToSource] {
        let delays = bag.topic("/imu").summary(metric);
        assert!(delays.sample_count == 0 && delays.average.is_nan(), "{delays:?}");
    }
    assert_eq!(bag.topic("/imu").summary(Metric::MessageAge).average, 5.0);
    assert_eq!(bag.notes(), [NoteKind::OtherClock { messages: 500 }]);
    // The choice: was it sent regularly, by the system's clock?
    let published = read_with(&file, &ReadOptions::new().clock(BagClock::Publish));
    let topic = published.topic("/imu");
    assert_eq!((topic.summary(Metric::MessagePeriod).average, topic.without_time()), (13.0, 0));
    assert_eq!(topic.summary(Metric::SourceToReceive).sample_count, 0);
}

#[test]
fn ages_by_a_stamp_of_another_clock_are_unknown_and_old_stamps_are_not() {
    let age = |stamp: i64| {
        let messages: Vec<_> =
            (0..100).map(|number| Message { stamp, ..Message::at(0, number * 10 * MS) }).collect();
        let bag = read(&mcap(WriteOptions::new(), &[Channel::new("/imu", IMU)], &messages));
        (bag.topic("/imu").summary(Metric::MessageAge).sample_count, bag.notes().len())
    };
    assert_eq!(age(11 * S), (0, 1), "simulated");
    assert_eq!(age(START + 86_400 * S), (0, 1), "tomorrow: what is replayed is of yesterday");
    assert_eq!(age(START - 86_400 * S), (100, 0), "a map of yesterday");
}

/// /clock back to its start in one recording.
#[test]
fn runs_of_a_simulation_lie_behind_each_other() {
    let imu = (0..1000).map(|number| Message::at(0, number * 10 * MS));
    let slow = (0..14).map(|number| Message::at(1, number * 700 * MS + MS));
    let mut one: Vec<_> = imu.chain(slow).collect();
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
    // Also of a topic alone.
    let slow = read_with(&two, &ReadOptions::new().topics(|topic| topic == "/slow"));
    assert_eq!((slow.topic("/slow").totals().received, slow.notes().len()), (28, 1));
    assert_eq!(slow.topic("/slow").summary(Metric::MessagePeriod).minimum, 700.0);
}

/// Topics that were written one behind the other, a time far in the future, messages that are late.
#[test]
fn messages_out_of_order_are_no_new_run() {
    let channels = [Channel::new("/imu", IMU), Channel::new("/text", STRING)];
    let topic = |channel| (0..1000).map(move |number| Message::at(channel, number * 10 * MS));
    let by_topic: Vec<_> = topic(0).chain(topic(1)).collect();
    let mut future: Vec<_> = topic(0).collect();
    future[100] = Message::at(0, 1_000_000 * S);
    let mut late: Vec<_> = topic(0).collect();
    late.swap(20, 700);
    for messages in [by_topic, future, late] {
        let bag = read(&mcap(WriteOptions::new(), &channels, &messages));
        assert_eq!((bag.notes(), bag.topic("/imu").totals().received), (vec![], 1000));
    }
}

#[test]
fn a_bag_starts_with_its_first_message_whichever_topics_are_read() {
    let channels = [Channel::new("/imu", IMU), Channel::new("/text", STRING)];
    let mut messages: Vec<_> = (0..1000).map(|number| Message::at(0, number * 10 * MS)).collect();
    messages.push(Message::at(1, 6 * S + MS));
    messages.sort_by_key(|message| message.log);
    for options in [
        WriteOptions::new().chunk_size(Some(3000)),
        WriteOptions::new(),
        WriteOptions::new().use_chunks(false),
        WriteOptions::new().emit_chunk_indexes(false),
    ] {
        let file = TestFile::new(&mcap(options, &channels, &messages));
        let times = |options: ReadOptions| read_path(&file.path(), &options).statistics.times.unwrap();
        let text = || ReadOptions::new().topics(|topic| topic == "/text");
        let [start, middle, end] = [0, 5000, 9990].map(|ms| Timestamp::from_nanoseconds(START + ms * MS));
        assert_eq!(times(ReadOptions::new()), (start, end));
        assert_eq!(times(text()), (start, end));
        assert_eq!(times(text().from(BagTime::At(middle))), (middle, end));
    }
}
