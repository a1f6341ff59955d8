// SPDX-License-Identifier: Apache-2.0

//! Tests of the selected part of a bag, and of the clock of the windows.

use std::{fs, ops::ControlFlow, time::Duration};

use mcap::WriteOptions;
use topic_statistics_bag::{
    Bag, BagClock, BagError, BagTime, NoteKind, Progress, ReadOptions, Stamps, TopicWindow, Visitor,
};
use topic_statistics_core::{Metric, Timestamp};

use crate::support::*;

fn counts(bag: &ReadBag, topic: &str) -> Vec<u64> {
    bag.windows.of(topic).iter().map(|window| window.count).collect()
}

fn after(seconds: u64) -> BagTime {
    BagTime::After(Duration::from_secs(seconds))
}

#[test]
fn a_bag_has_the_windows_of_a_subscription() {
    let (channels, messages) = two_topics(3);
    let bag = read(&mcap(WriteOptions::new(), &channels, &messages));
    assert_eq!(bag.notes(), []);
    let windows = bag.windows.of("/imu");
    // The last window ends with the last message of the bag, which is the message of /imu at 2.99 s.
    assert_eq!(counts(&bag, "/imu"), [100, 100, 100]);
    let [first, second, last] = windows[..] else { panic!() };
    assert_eq!(first.window.start, Timestamp::from_nanoseconds(START));
    assert_eq!((second.window.start, second.rate()), (first.window.stop, 100.0));
    assert_eq!(last.length, Duration::from_millis(990));
    for (metric, value, count) in [
        (Metric::MessageAge, 5.0, 100),
        (Metric::MessagePeriod, 10.0, 100),
        (Metric::HeaderToSource, 3.0, 100),
        (Metric::SourceToReceive, 2.0, 100),
        (Metric::MessageSize, 60.0, 100),
        (Metric::TimeSinceLastMessage, 10.0, 1),
    ] {
        let summary = second.get(metric).unwrap();
        assert_eq!([summary.average, summary.minimum, summary.maximum], [value; 3], "{metric}");
        assert_eq!(summary.sample_count, count, "{metric}");
    }
    assert_eq!(second.distribution(Metric::MessageAge).unwrap().count(), 100);
    assert_eq!(second.totals.unwrap().received, 200);
    assert_eq!(counts(&bag, "/text").iter().sum::<u64>(), 10);
    let text = bag.windows.of("/text")[1];
    assert!(text.get(Metric::MessageAge).unwrap().sample_count == 0 && !text.unstamped, "no header");
    let wholes: Vec<_> = bag.windows.0.iter().map(|(topic, _, is_whole)| (&**topic, *is_whole)).collect();
    // The first window of /text is shorter than the other windows, because it starts with the first message of /text.
    let [imu, text] = ["/imu", "/text"].map(|topic| move |is_whole| (topic, is_whole));
    assert_eq!(wholes, [imu(true), text(false), imu(true), text(true), imu(false), text(false)]);
    let topic = bag.topic("/imu");
    assert_eq!((topic.messages(), topic.windows(), topic.stamps()), (300, 3, Stamps::Read));
    assert_eq!(topic.message_type(), Some(IMU));
    assert_eq!(topic.summary(Metric::MessageAge).sample_count, 300);
    assert_eq!(topic.distributions().get(Metric::MessagePeriod).unwrap().count(), 299);
    assert_eq!(bag.topic("/text").stamps(), Stamps::NoHeader);
    let times = [START, START + 2990 * MS].map(Timestamp::from_nanoseconds);
    assert_eq!(bag.statistics.times, Some(times.into()));
    // The windows stay the same if the messages are in another order and the summary has no schemas.
    let mut shuffled = messages.clone();
    (0..messages.len()).step_by(7).for_each(|place| shuffled.swap(place, place / 3));
    let bare = read(&mcap(WriteOptions::new().repeat_schemas(false), &channels, &shuffled));
    assert_eq!((bare.windows.text(), bare.notes()), (bag.windows.text(), vec![]));
}

#[test]
fn silences_have_windows_up_to_the_end_and_a_long_one_is_one_window() {
    let channels = [Channel::new("/imu", IMU), Channel::new("/text", STRING)];
    let messages: Vec<_> =
        (0..40).map(|number| Message::at(usize::from(number >= 5), number * 250 * MS)).collect();
    let file = mcap(WriteOptions::new().chunk_size(Some(500)), &channels, &messages);
    let all = read(&file);
    let alone = read_with(&file, &ReadOptions::new().topics(|topic| topic == "/imu"));
    assert_eq!((alone.statistics.topics.len(), alone.notes()), (1, vec![]));
    assert_eq!(format!("{:?}", alone.windows.of("/imu")), format!("{:?}", all.windows.of("/imu")));
    let silence = |bag: &ReadBag| -> Vec<f64> {
        let windows = bag.windows.of("/imu").into_iter();
        windows.map(|window| window.get(Metric::TimeSinceLastMessage).unwrap().maximum).collect()
    };
    let expected = [1000.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0, 7000.0, 8000.0, 8750.0];
    assert_eq!(silence(&alone)[1..], expected);
    let messages = [0, 100 * MS, 10_000_000 * S, 10_000_000 * S + 1].map(|log| Message::at(0, log));
    let bag = read(&mcap(WriteOptions::new(), &imu(), &messages));
    // After 1000 ordinary windows, the rest of the silence is one window.
    assert_eq!(counts(&bag, "/imu"), [&[2][..], &[0; 1001], &[2]].concat());
    let lengths = [1000, 1001].map(|place| bag.windows.of("/imu")[place].length.as_secs());
    assert_eq!(lengths, [1, 9_998_999]);
    assert_eq!((silence(&bag)[1000], silence(&bag)[1001]), (1_000_900.0, 9_999_999_900.0));
}

#[test]
fn times_that_are_not_there_are_no_zeros() {
    // In older bags, the publish times are copies of the log times.
    let messages = every_10_ms(100);
    let same: Vec<_> = messages.iter().map(|message| Message { publish: message.log, ..*message }).collect();
    let file = mcap(WriteOptions::new(), &imu(), &same);
    let bag = read(&file);
    for metric in [Metric::SourceToReceive, Metric::HeaderToSource] {
        let delays = bag.windows.of("/imu")[0].get(metric).unwrap();
        assert!(delays.sample_count == 0 && delays.average.is_nan(), "{delays:?}");
    }
    assert_eq!(bag.topic("/imu").summary(Metric::MessageAge).average, 5.0);
    let published = read_with(&file, &ReadOptions::new().clock(BagClock::Publish));
    assert_eq!((published.topic("/imu").without_time(), published.windows.0.len()), (100, 0));
    let unset: Vec<_> = messages.into_iter().map(|message| Message { stamp: 0, ..message }).collect();
    let bag = read(&mcap(WriteOptions::new(), &imu(), &unset));
    let window = bag.windows.of("/imu")[0];
    assert!(window.unstamped && window.get(Metric::MessageAge).unwrap().sample_count == 0);
}

#[test]
fn windows_and_periods_are_on_the_clock_and_ages_are_not() {
    // The messages are logged in bursts of four, but published and stamped at regular times.
    let message = |number: i64| {
        let (log, publish) = (START + (number / 4 * 4 + 4) * 10 * MS, START + number * 10 * MS);
        Message { log, publish, stamp: publish - MS, ..Message::at(0, 0) }
    };
    let file = mcap(WriteOptions::new(), &imu(), &(0..400).map(message).collect::<Vec<_>>());
    for (clock, starts_at, shortest) in
        [(BagClock::Log, 40 * MS, 0.0), (BagClock::Publish, 0, 10.0), (BagClock::Stamp, -MS, 10.0)]
    {
        let bag = read_with(&file, &ReadOptions::new().clock(clock));
        assert_eq!(bag.statistics.times.unwrap().0.as_nanoseconds(), START + starts_at, "{clock}");
        let periods = bag.topic("/imu").summary(Metric::MessagePeriod);
        assert_eq!((periods.minimum, periods.sample_count), (shortest, 399), "{clock}");
        for (metric, range) in [(Metric::MessageAge, (11.0, 41.0)), (Metric::SourceToReceive, (10.0, 40.0))] {
            let found = bag.windows.of("/imu")[1].get(metric).unwrap();
            assert_eq!((found.minimum, found.maximum), range, "{clock} {metric}");
        }
    }
    // A message whose stamp is far in the past is counted, but is in no window.
    let mut messages: Vec<_> = (0..100_000).map(|number| Message::at(0, number * MS)).collect();
    messages.push(Message { stamp: START - 3600 * S, ..Message::at(1, 100_000 * MS) });
    let channels = [Channel::new("/imu", IMU), Channel::new("/map", IMU)];
    let file = mcap(WriteOptions::new(), &channels, &messages);
    let bag = read_with(&file, &ReadOptions::new().clock(BagClock::Stamp));
    assert_eq!((bag.topic("/map").misplaced(), bag.topic("/map").messages()), (1, 1));
    assert_eq!((bag.topic("/imu").misplaced(), bag.topic("/imu").totals().received), (0, 100_000));
    assert!(bag.windows.of("/map").is_empty());
}

#[test]
fn a_part_of_a_bag_is_read_without_the_chunks_of_the_rest() {
    let (channels, messages) = two_topics(10);
    let file = mcap(WriteOptions::new().chunk_size(Some(2000)), &channels, &messages);
    let all = read(&file);
    let at = |number: i64| BagTime::At(Timestamp::from_nanoseconds(START + number * S));
    for options in [ReadOptions::new().from(at(3)).to(at(6)), ReadOptions::new().from(after(3)).to(after(6))]
    {
        let part = read_with(&file, &options);
        // The third window ends where the selected part ends, so it has the full length. Only an empty window follows.
        assert_eq!((counts(&part, "/imu"), part.notes()), (vec![100, 100, 100, 0], vec![]));
        let [part, all] = [&part.windows.of("/imu")[1], &all.windows.of("/imu")[4]];
        assert_eq!(format!("{:?}", part.metrics), format!("{:?}", all.metrics));
    }
    // Damage in a chunk that is not read has no effect.
    let mut damaged = file.clone();
    damaged[2000] ^= 1;
    assert!(!read(&damaged).notes().is_empty());
    let part = read_with(&damaged, &ReadOptions::new().from(after(3)));
    assert_eq!((part.notes(), part.topic("/imu").messages()), (vec![], 700));
    let bag = TestFile::new(&file);
    let error = |options| Bag::open([&bag.path]).unwrap().read(&options, &mut ()).unwrap_err();
    let empty = error(ReadOptions::new().from(after(3)).to(after(3)));
    assert!(matches!(empty, BagError::EmptyRange { .. }), "{empty}");
    for period in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(86_401), Duration::MAX] {
        let invalid = error(ReadOptions::new().period(period));
        assert!(matches!(invalid, BagError::InvalidPeriod { .. }), "{invalid}");
    }
}

#[test]
fn a_part_of_a_bag_is_read_also_if_only_its_first_chunk_defines_the_channels() {
    let (channels, messages) = two_topics(10);
    let options = || WriteOptions::new().chunk_size(Some(2000));
    let file = mcap(options(), &channels, &messages);
    let unclosed = file[..records_of(&file, DATA_END)[0]].to_vec();
    let options = [options().repeat_channels(false), options().repeat_channels(false).emit_statistics(false)];
    let unrepeated = options.map(|options| mcap(options, &channels, &messages));
    let read = |file: &[u8]| read_with(file, &ReadOptions::new().from(after(3)).to(after(6)));
    let expected = read(&file);
    for (file, notes) in
        [(unclosed, vec![NoteKind::Unfinished])].into_iter().chain(unrepeated.map(|file| (file, vec![])))
    {
        let part = read(&file);
        assert_eq!((part.notes(), part.windows.text()), (notes, expected.windows.text()));
    }
}

#[test]
fn what_is_no_bag_is_refused_and_says_why() {
    let file = TestFile::named("file.mcap");
    for (bytes, expected) in [
        (&b""[..], "is empty (a recorder that is killed"),
        (b"hello, world, what", "of another format"),
        (b"#ROSBAG V2.0\n", "ROS 1"),
        (&[0x28, 0xb5, 0x2f, 0xfd, 0, 0], "is empty"),
        (&zstd::encode_all(&b"hello"[..], 1).unwrap(), "of another format"),
    ] {
        fs::write(&file.path, bytes).unwrap();
        let errors =
            [&*file.path, file.directory.path()].map(|path| Bag::open([path]).unwrap_err().to_string());
        assert!(errors.iter().all(|error| error.contains(expected)), "{errors:?}");
        assert!(
            errors[1].contains("has no file that can be read") && errors[1].contains("file.mcap"),
            "{errors:?}"
        );
    }
    assert!(matches!(Bag::open([file.directory.path().join("none")]), Err(BagError::Io { .. })));
    assert!(matches!(Bag::open([] as [&str; 0]), Err(BagError::NoPath)));
    let empty = tempfile::tempdir().unwrap();
    let metadata = |text: &str| fs::write(empty.path().join("metadata.yaml"), text).unwrap();
    assert!(matches!(Bag::open([empty.path()]), Err(BagError::EmptyDirectory { .. })));
    metadata("a: [");
    assert!(matches!(Bag::open([empty.path()]), Err(BagError::Metadata { .. })));
    for outside in ["/etc/passwd", "../a.mcap", "a/../../b.mcap", "''"] {
        metadata(&format!("rosbag2_bagfile_information: {{relative_file_paths: [{outside}]}}"));
        let error = Bag::open([empty.path()]).unwrap_err().to_string();
        assert!(error.contains("is no path of a file in its directory"), "{outside}: {error}");
    }
    metadata("rosbag2_bagfile_information: {version: 9, relative_file_paths: [gone_0.mcap]}");
    let error = Bag::open([empty.path()]).unwrap_err().to_string();
    assert!(error.contains("gone_0.mcap: it was not read: No such file"), "{error}");
    let (channels, messages) = two_topics(1);
    fs::write(&file.path, mcap(WriteOptions::new(), &channels, &messages)).unwrap();
    let own = "rosbag2_bagfile_information: {relative_file_paths: [file.mcap], compression_mode: message, \
               compression_format: own}";
    fs::write(file.directory.path().join("metadata.yaml"), own).unwrap();
    for path in [&*file.path, file.directory.path()] {
        let error = Bag::open([path]).unwrap_err();
        assert!(matches!(error, BagError::CompressedMessages { .. }), "{error}");
    }
}

/// A visitor that stops the reading after a number of windows.
struct Stop {
    windows: usize,
    progress: Vec<Progress>,
}

impl Visitor for Stop {
    fn window(&mut self, _window: &TopicWindow<'_>) -> ControlFlow<()> {
        let Some(windows) = self.windows.checked_sub(1) else { return ControlFlow::Break(()) };
        self.windows = windows;
        ControlFlow::Continue(())
    }

    fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        self.progress.push(progress);
        ControlFlow::Continue(())
    }
}

#[test]
fn a_reading_shows_its_progress_and_can_be_ended() {
    let messages: Vec<_> = (0..150_000).map(|number| Message::at(0, number * MS)).collect();
    let bytes = mcap(WriteOptions::new().compression(None), &imu(), &messages);
    let file = TestFile::new(&bytes);
    let bag = Bag::open([&file.path]).unwrap();
    let mut all = Stop { windows: 1000, progress: vec![] };
    let statistics = bag.read(&ReadOptions::new(), &mut all).unwrap();
    assert!(!statistics.is_interrupted && statistics.messages == 150_000);
    assert!(all.progress.iter().all(|progress| progress.total == bytes.len() as u64));
    let done: Vec<_> = all.progress.iter().map(|progress| progress.done).collect();
    assert!(done.is_sorted() && done.last() == Some(&(bytes.len() as u64)), "{done:?}");
    let (megabytes, count) = (bytes.len() / 1_000_000, done.len());
    assert!((megabytes / 2..=3 * megabytes).contains(&count), "{count} times for {megabytes} MB");
    let mut some = Stop { windows: 10, progress: vec![] };
    let statistics = bag.read(&ReadOptions::new(), &mut some).unwrap();
    assert!(statistics.is_interrupted && statistics.messages < 100_000, "{}", statistics.messages);
}

#[test]
fn topics_have_a_filter_and_a_limit() {
    let channels: Vec<_> = (0..3000).map(|number| Channel::new(&format!("/t{number}"), STRING)).collect();
    let messages: Vec<_> = (0..3000).map(|number| Message::at(number, number as i64 * MS)).collect();
    let bag = read(&mcap(WriteOptions::new(), &channels, &messages));
    assert_eq!((bag.statistics.topics.len(), bag.statistics.messages), (2048, 2048));
    assert!(bag.notes().iter().any(|note| note.to_string().contains("more than 2048")));
    let (channels, messages) = two_topics(1);
    let options = ReadOptions::new().topics(|_| false);
    let bag = read_with(&mcap(WriteOptions::new(), &channels, &messages), &options);
    assert_eq!((bag.statistics.topics.len(), bag.windows.0.len(), bag.statistics.messages), (0, 0, 0));
}
