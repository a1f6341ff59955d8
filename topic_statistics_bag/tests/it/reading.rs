// SPDX-License-Identifier: Apache-2.0

//! What is read of a bag, and on which clock.

use std::{
    fs,
    ops::ControlFlow,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    time::Duration,
};

use mcap::WriteOptions;
use topic_statistics_bag::{
    Bag, BagClock, BagError, BagTime, NoteKind, Progress, ReadOptions, Stamps, TopicWindow, Visitor,
};
use topic_statistics_core::{Metric, Timestamp};

use crate::support::*;

#[test]
fn a_bag_has_the_windows_of_a_subscription() {
    let (channels, messages) = two_topics(3);
    let bag = read(&mcap(WriteOptions::new(), &channels, &messages));
    assert_eq!(bag.notes(), []);
    let windows = bag.windows.of("/imu");
    let counts: Vec<_> = windows.iter().map(|window| window.count).collect();
    // The last window ends with the bag: with the message of /imu at 2.99 s.
    assert_eq!(counts, [100, 100, 100]);
    let [first, second, last] = windows[..] else { panic!() };
    assert_eq!(first.window.start, Timestamp::from_nanoseconds(START));
    assert_eq!(second.window.start, first.window.stop);
    assert_eq!(second.rate(), 100.0);
    assert_eq!(last.length, Duration::from_millis(990));
    let figures = |metric| {
        let summary = second.get(metric).unwrap();
        (summary.average, summary.minimum, summary.maximum, summary.sample_count)
    };
    assert_eq!(figures(Metric::MessageAge), (5.0, 5.0, 5.0, 100));
    assert_eq!(figures(Metric::MessagePeriod), (10.0, 10.0, 10.0, 100));
    assert_eq!(figures(Metric::HeaderToSource), (3.0, 3.0, 3.0, 100));
    assert_eq!(figures(Metric::SourceToReceive), (2.0, 2.0, 2.0, 100));
    assert_eq!(figures(Metric::MessageSize), (60.0, 60.0, 60.0, 100));
    assert_eq!(figures(Metric::TimeSinceLastMessage), (10.0, 10.0, 10.0, 1));
    assert_eq!(second.distribution(Metric::MessageAge).unwrap().count(), 100);
    assert_eq!(second.totals.unwrap().received, 200);
    let text = bag.windows.of("/text");
    assert_eq!(text.iter().map(|window| window.count).sum::<u64>(), 10);
    assert_eq!(text[1].get(Metric::MessageAge).unwrap().sample_count, 0, "no header");
    assert!(!text[1].unstamped);
    let wholes: Vec<_> = bag.windows.0.iter().map(|(topic, _, is_whole)| (&**topic, *is_whole)).collect();
    // The first window of /text starts with its first message.
    let expected = [
        ("/imu", true),
        ("/text", false),
        ("/imu", true),
        ("/text", true),
        ("/imu", false),
        ("/text", false),
    ];
    assert_eq!(wholes, expected);
    let topic = bag.topic("/imu");
    assert_eq!((topic.messages(), topic.windows(), topic.stamps()), (300, 3, Stamps::Read));
    assert_eq!(topic.message_type(), Some(IMU));
    assert_eq!(topic.summary(Metric::MessageAge).sample_count, 300);
    assert_eq!(topic.distributions().get(Metric::MessagePeriod).unwrap().count(), 299);
    assert_eq!(bag.topic("/text").stamps(), Stamps::NoHeader);
    let last = START + 2990 * MS;
    let times = [START, last].map(Timestamp::from_nanoseconds);
    assert_eq!(bag.statistics.times, Some((times[0], times[1])));
}

#[test]
fn a_topic_that_falls_silent_has_windows_up_to_the_end_whichever_topics_are_read() {
    let channels = [Channel::new("/imu", IMU), Channel::new("/text", STRING)];
    let messages: Vec<_> =
        (0..40).map(|number| Message::at(usize::from(number >= 5), number * 250 * MS)).collect();
    let file = mcap(WriteOptions::new().chunk_size(Some(500)), &channels, &messages);
    let all = read(&file);
    let imu = read_with(&file, &ReadOptions::new().topics(|topic| topic == "/imu"));
    assert_eq!(imu.statistics.topics.len(), 1);
    let text = |bag: &ReadBag| format!("{:?}", bag.windows.of("/imu"));
    assert_eq!(text(&imu), text(&all));
    assert_eq!(imu.notes(), []);
    let silence: Vec<_> = (imu.windows.of("/imu").iter())
        .map(|window| window.get(Metric::TimeSinceLastMessage).unwrap().maximum)
        .collect();
    assert_eq!(silence[1..], [1000.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0, 7000.0, 8000.0, 8750.0]);
}

#[test]
fn messages_out_of_order_are_put_in_order() {
    let (channels, messages) = two_topics(2);
    let expected = read(&mcap(WriteOptions::new(), &channels, &messages));
    let mut shuffled = messages.clone();
    (0..messages.len()).step_by(7).for_each(|place| shuffled.swap(place, place / 3));
    assert!(!shuffled.is_sorted_by_key(|message| message.log));
    for options in [WriteOptions::new(), WriteOptions::new().use_chunks(false)] {
        let bag = read(&mcap(options, &channels, &shuffled));
        assert_eq!(bag.windows.text(), expected.windows.text());
    }
}

#[test]
fn an_older_bag_has_no_delays_rather_than_delays_of_zero() {
    let channels = [Channel::new("/imu", IMU)];
    let same = (0..100).map(|number| Message::at(0, number * 10 * MS));
    let same: Vec<_> = same.map(|message| Message { publish: message.log, ..message }).collect();
    let file = mcap(WriteOptions::new(), &channels, &same);
    let bag = read(&file);
    for metric in [Metric::SourceToReceive, Metric::HeaderToSource] {
        let delays = bag.windows.of("/imu")[0].get(metric).unwrap();
        assert!(delays.sample_count == 0 && delays.average.is_nan(), "{delays:?}");
    }
    assert_eq!(bag.topic("/imu").summary(Metric::MessageAge).average, 5.0);
    let published = read_with(&file, &ReadOptions::new().clock(BagClock::Publish));
    assert_eq!((published.topic("/imu").without_time(), published.windows.0.len()), (100, 0));
}

#[test]
fn a_stamp_of_zero_is_none() {
    let messages = (0..100).map(|number| Message { stamp: 0, ..Message::at(0, number * 10 * MS) });
    let bag = read(&mcap(WriteOptions::new(), &[Channel::new("/imu", IMU)], &messages.collect::<Vec<_>>()));
    let window = bag.windows.of("/imu")[0];
    assert!(window.unstamped && window.get(Metric::MessageAge).unwrap().sample_count == 0);
}

#[test]
fn windows_and_periods_are_on_the_clock_and_ages_are_not() {
    // Logged in bursts of four, published and stamped evenly.
    let messages: Vec<_> = (0..400)
        .map(|number| {
            let log = START + (number / 4 * 4 + 4) * 10 * MS;
            let publish = START + number * 10 * MS;
            Message { log, publish, stamp: publish - MS, ..Message::at(0, 0) }
        })
        .collect();
    let file = mcap(WriteOptions::new(), &[Channel::new("/imu", IMU)], &messages);
    for (clock, starts_at, shortest) in
        [(BagClock::Log, 40 * MS, 0.0), (BagClock::Publish, 0, 10.0), (BagClock::Stamp, -MS, 10.0)]
    {
        let bag = read_with(&file, &ReadOptions::new().clock(clock));
        let window = bag.windows.of("/imu")[1];
        assert_eq!(bag.statistics.times.unwrap().0.as_nanoseconds(), START + starts_at, "{clock}");
        let periods = bag.topic("/imu").summary(Metric::MessagePeriod);
        assert_eq!((periods.minimum, periods.sample_count), (shortest, 399), "{clock}");
        let ages = window.get(Metric::MessageAge).unwrap();
        assert_eq!((ages.minimum, ages.maximum), (11.0, 41.0), "{clock}");
        let delays = window.get(Metric::SourceToReceive).unwrap();
        assert_eq!((delays.minimum, delays.maximum), (10.0, 40.0), "{clock}");
    }
}

#[test]
fn a_message_far_in_the_past_of_the_clock_is_counted_and_in_no_window() {
    let mut messages: Vec<_> = (0..100_000).map(|number| Message::at(0, number * MS)).collect();
    messages.push(Message { stamp: START - 3600 * S, ..Message::at(1, 100_000 * MS) });
    let channels = [Channel::new("/imu", IMU), Channel::new("/map", IMU)];
    let bag = read_with(
        &mcap(WriteOptions::new(), &channels, &messages),
        &ReadOptions::new().clock(BagClock::Stamp),
    );
    assert_eq!((bag.topic("/map").misplaced(), bag.topic("/map").messages()), (1, 1));
    assert_eq!((bag.topic("/imu").misplaced(), bag.topic("/imu").totals().received), (0, 100_000));
    assert!(bag.windows.of("/map").is_empty());
}

#[test]
fn a_long_silence_is_one_window() {
    let messages = [0, 100 * MS, 10_000_000 * S, 10_000_000 * S + 1].map(|log| Message::at(0, log));
    let bag = read(&mcap(WriteOptions::new(), &[Channel::new("/imu", IMU)], &messages));
    let windows = bag.windows.of("/imu");
    assert_eq!(windows.iter().map(|window| window.count).collect::<Vec<_>>(), [2, 0, 2]);
    assert_eq!(windows[1].length, Duration::from_secs(9_999_999));
    assert_eq!(windows[1].get(Metric::TimeSinceLastMessage).unwrap().maximum, 9_999_999_900.0);
}

#[test]
fn a_part_of_a_bag_is_read_without_the_chunks_of_the_rest() {
    let (channels, messages) = two_topics(10);
    let file = TestFile::new(&mcap(WriteOptions::new().chunk_size(Some(2000)), &channels, &messages));
    let all = read_path(&file.path(), &ReadOptions::new());
    let second = |number: i64| Timestamp::from_nanoseconds(START + number * S);
    let after = |seconds| BagTime::After(Duration::from_secs(seconds));
    let parts = [
        ReadOptions::new().from(BagTime::At(second(3))).to(BagTime::At(second(6))),
        ReadOptions::new().from(after(3)).to(after(6)),
    ];
    for options in parts {
        let part = read_path(&file.path(), &options);
        let counts: Vec<_> = part.windows.of("/imu").iter().map(|window| window.count).collect();
        // The last window ends where the part ends, and so it is whole and there is none behind it but an empty one.
        assert_eq!(counts, [100, 100, 100, 0]);
        assert_eq!(part.notes(), []);
        let [part, all] = [&part.windows.of("/imu")[1], &all.windows.of("/imu")[4]];
        assert_eq!(format!("{:?}", part.metrics), format!("{:?}", all.metrics));
    }
    // Damage in a chunk that is not read does no harm.
    let mut damaged = fs::read(file.path()).unwrap();
    damaged[2000] ^= 1;
    assert!(!read(&damaged).notes().is_empty());
    let part = read_with(&damaged, &ReadOptions::new().from(after(3)));
    assert_eq!((part.notes(), part.topic("/imu").messages()), (vec![], 700));
    let wrong = ReadOptions::new().from(after(3)).to(after(3));
    let error = Bag::open([file.path()]).unwrap().read(&wrong, &mut ()).unwrap_err();
    assert!(matches!(error, BagError::EmptyRange { .. }), "{error}");
}

#[test]
fn windows_start_at_the_origin() {
    let (channels, messages) = two_topics(3);
    let options = ReadOptions::new()
        .period(Duration::from_millis(500))
        .origin(Timestamp::from_nanoseconds(START + 10 * S + 100 * MS));
    let bag = read_with(&mcap(WriteOptions::new(), &channels, &messages), &options);
    let starts: Vec<_> =
        bag.windows.of("/imu").iter().map(|window| window.window.start.as_nanoseconds()).collect();
    assert_eq!(starts, [0, 100, 600, 1100, 1600, 2100, 2600].map(|ms| START + ms * MS));
    for period in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(86_401), Duration::MAX] {
        let bag = Bag::open([TestFile::new(&mcap(WriteOptions::new(), &channels, &messages)).path()]);
        // The file is gone, which does not matter: the options are checked first.
        let error = bag.unwrap().read(&ReadOptions::new().period(period), &mut ()).unwrap_err();
        assert!(matches!(error, BagError::InvalidPeriod { .. }), "{error}");
    }
}

#[test]
fn files_of_a_split_bag_are_one_bag() {
    let (channels, messages) = two_topics(6);
    let whole = read(&mcap(WriteOptions::new(), &channels, &messages));
    let directory = tempfile::tempdir().unwrap();
    let path = |number: usize| directory.path().join(format!("bag_{number}.mcap"));
    for (number, part) in messages.chunks(messages.len() / 11 + 1).enumerate() {
        fs::write(path(number), mcap(WriteOptions::new(), &channels, part)).unwrap();
    }
    // Without metadata.yaml, as after a crash: by their numbers.
    let crashed = read_path(directory.path(), &ReadOptions::new());
    assert_eq!(crashed.windows.text(), whole.windows.text());
    let files: Vec<_> = (0..11).map(|number| format!("    - bag_{number}.mcap\n")).collect();
    let metadata =
        format!("rosbag2_bagfile_information:\n  version: 9\n  relative_file_paths:\n{}", files.concat());
    fs::write(directory.path().join("metadata.yaml"), metadata).unwrap();
    let named = read_path(directory.path(), &ReadOptions::new());
    assert_eq!((named.windows.text(), named.notes()), (whole.windows.text(), vec![]));
    let last = read_path(directory.path(), &ReadOptions::new().from(BagTime::After(Duration::from_secs(5))));
    assert_eq!(last.topic("/imu").messages(), 100);
    fs::remove_file(path(3)).unwrap();
    let rest = read_path(directory.path(), &ReadOptions::new());
    assert_eq!(rest.notes().len(), 1);
    assert!(rest.statistics.messages < whole.statistics.messages);
}

#[test]
fn what_is_no_bag_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file.mcap");
    let error = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        Bag::open([&file]).unwrap_err().to_string()
    };
    assert!(error(b"").contains("is empty"));
    assert!(error(b"hello, world, what").contains("of another format"));
    assert!(error(b"#ROSBAG V2.0\n").contains("ROS 1"));
    assert!(error(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0]).contains("is empty"));
    assert!(error(&zstd::encode_all(&b"hello"[..], 1).unwrap()).contains("of another format"));
    assert!(matches!(Bag::open([directory.path().join("none")]), Err(BagError::Io { .. })));
    assert!(matches!(Bag::open([] as [&str; 0]), Err(BagError::NoPath)));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(Bag::open([empty.path()]), Err(BagError::EmptyDirectory { .. })));
    fs::write(empty.path().join("metadata.yaml"), "a: [").unwrap();
    assert!(matches!(Bag::open([empty.path()]), Err(BagError::Metadata { .. })));
    let mode = "rosbag2_bagfile_information: {relative_file_paths: [file.mcap], compression_mode: message, \
                compression_format: own}";
    let (channels, messages) = two_topics(1);
    fs::write(&file, mcap(WriteOptions::new(), &channels, &messages)).unwrap();
    fs::write(directory.path().join("metadata.yaml"), mode).unwrap();
    for path in [&file, directory.path()] {
        let error = Bag::open([path]).unwrap_err();
        assert!(matches!(error, BagError::CompressedMessages { .. }), "{error}");
    }
}

/// Ends a reading after a number of windows.
struct Stop {
    windows: usize,
    progress: Vec<Progress>,
}

impl Visitor for Stop {
    fn window(&mut self, _window: &TopicWindow<'_>) -> ControlFlow<()> {
        match self.windows.checked_sub(1) {
            Some(windows) => {
                self.windows = windows;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }

    fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        self.progress.push(progress);
        ControlFlow::Continue(())
    }
}

#[test]
fn a_reading_shows_its_progress_and_can_be_ended() {
    let messages: Vec<_> = (0..150_000).map(|number| Message::at(0, number * MS)).collect();
    let bytes = mcap(WriteOptions::new().compression(None), &[Channel::new("/imu", IMU)], &messages);
    let file = TestFile::new(&bytes);
    let bag = Bag::open([file.path()]).unwrap();
    let mut all = Stop { windows: 1000, progress: vec![] };
    let statistics = bag.read(&ReadOptions::new(), &mut all).unwrap();
    assert!(!statistics.is_interrupted && statistics.messages == 150_000);
    let (total, done): (Vec<_>, Vec<_>) =
        all.progress.iter().map(|progress| (progress.total, progress.done)).unzip();
    assert!(total.iter().all(|total| *total == bytes.len() as u64));
    assert!(done.is_sorted() && done.last() == total.last(), "{done:?}");
    let (megabytes, count) = (bytes.len() / 1_000_000, done.len());
    assert!((megabytes / 2..=3 * megabytes).contains(&count), "{count} times for {megabytes} MB");
    let mut some = Stop { windows: 10, progress: vec![] };
    let statistics = bag.read(&ReadOptions::new(), &mut some).unwrap();
    assert!(statistics.is_interrupted && statistics.messages < 100_000, "{}", statistics.messages);
}

#[test]
fn topics_beyond_the_limit_are_left_out() {
    let channels: Vec<_> = (0..3000).map(|number| Channel::new(&format!("/t{number}"), STRING)).collect();
    let messages: Vec<_> = (0..3000).map(|number| Message::at(number, number as i64 * MS)).collect();
    let bag = read(&mcap(WriteOptions::new(), &channels, &messages));
    assert_eq!(bag.statistics.topics.len(), 2048);
    assert_eq!(bag.statistics.messages, 2048);
    assert!(bag.notes().iter().any(|note| note.to_string().contains("more than 2048")));
}

#[test]
fn a_filter_is_asked_for_each_topic() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (channels, messages) = two_topics(1);
    let counter = Arc::clone(&asked);
    let options = ReadOptions::new().topics(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        false
    });
    let bag = read_with(&mcap(WriteOptions::new(), &channels, &messages), &options);
    assert_eq!((bag.statistics.topics.len(), bag.windows.0.len(), bag.statistics.messages), (0, 0, 0));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn a_summary_without_schemas_leaves_types_and_ages_as_they_are() {
    let (channels, messages) = two_topics(3);
    for options in [WriteOptions::new(), WriteOptions::new().compression(None)] {
        let whole = mcap(options.clone(), &channels, &messages);
        let bare = mcap(options.repeat_schemas(false), &channels, &messages);
        assert!(bare.len() < whole.len());
        let (whole, bare) = (read(&whole), read(&bare));
        assert_eq!(bare.topic("/imu").message_type(), Some(IMU));
        assert_eq!(bare.topic("/imu").summary(Metric::MessageAge).sample_count, 300);
        assert_eq!((bare.windows.text(), bare.notes()), (whole.windows.text(), vec![]));
    }
}

#[test]
fn a_length_beyond_any_file_is_damage_and_no_missing_bytes() {
    let (channels, messages) = two_topics(1);
    let mut file =
        mcap(WriteOptions::new().use_chunks(false).emit_summary_records(false), &channels, &messages);
    let (at, _) = records(&file)[20];
    file[at + 1..at + 9].fill(0xff);
    let len = file.len() as u64;
    assert_eq!(read(&file).notes(), [NoteKind::Skipped { from: at as u64, to: len }]);
}

#[test]
fn a_directory_says_why_none_of_its_files_can_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let error = || Bag::open([directory.path()]).unwrap_err().to_string();
    std::fs::write(directory.path().join("a_0.mcap"), b"").unwrap();
    assert!(error().contains("has no file that can be read") && error().contains("a_0.mcap"), "{}", error());
    assert!(error().contains("it is empty (a recorder that is killed"), "{}", error());
    let metadata = "rosbag2_bagfile_information:\n  version: 9\n  relative_file_paths: [gone_0.mcap]\n";
    std::fs::write(directory.path().join("metadata.yaml"), metadata).unwrap();
    assert!(error().contains("gone_0.mcap: it was not read: No such file"), "{}", error());
}
