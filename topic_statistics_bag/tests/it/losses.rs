// SPDX-License-Identifier: Apache-2.0

//! Tests that losses are reported only if a recording proves them.

use mcap::WriteOptions;
use topic_statistics_bag::channel_metadata::{PUBLISHER_GID, SEQUENCE};
use topic_statistics_core::{Metric, WindowStatistics};

use crate::support::*;

const TWO: &str = "01000000000000000000000000000002";

/// Returns messages of two publishers. Of the 50 messages of the first publisher, 3 are missing and one is late.
fn messages() -> Vec<Message> {
    let mut messages = vec![];
    for number in 0..50_u32 {
        let log = i64::from(number) * 20 * MS;
        if ![10, 11, 40].contains(&number) {
            let late = if number == 30 { 30 * MS } else { 0 };
            let sequence = (u32::MAX - 20).wrapping_add(number);
            messages.push(Message { sequence, ..Message::at(0, log + late) });
        }
        messages.push(Message { sequence: 7 + number, ..Message::at(1, log + MS) });
    }
    messages
}

#[test]
fn losses_of_each_publisher_are_known_also_over_the_end_of_32_bits() {
    let channels = [proved("/imu", ONE, "/front/driver"), proved("/imu", TWO, "/rear/driver")];
    let bag = read(&mcap(WriteOptions::new(), &channels, &messages()));
    let topic = bag.topic("/imu");
    let totals = topic.totals();
    assert_eq!((totals.received, totals.lost, totals.out_of_order), (97, Some(3), Some(1)));
    assert_eq!((totals.duplicates, totals.publishers), (Some(0), Some(2)));
    let mut figures: Vec<_> = (topic.publishers().iter())
        .map(|publisher| (publisher.node.clone().unwrap(), publisher.totals.received, publisher.totals.lost))
        .collect();
    figures.sort();
    assert_eq!(figures, [("/front/driver".into(), 47, Some(3)), ("/rear/driver".into(), 50, Some(0))]);
    let gaps = topic.summary(Metric::PublicationSeqGap);
    // One gap of 2 messages and one gap of 1 message remain. The late message has filled its own gap.
    assert_eq!((gaps.maximum, (gaps.average * gaps.sample_count as f64).round()), (2.0, 3.0));
    // The publisher of the second channel is unknown.
    let bag = read(&mcap(WriteOptions::new(), &[channels[0].clone(), imu()[0].clone()], &messages()));
    let topic = bag.topic("/imu");
    assert_eq!((topic.totals().received, topic.totals().lost, topic.totals().publishers), (97, None, None));
    let publishers = topic.publishers();
    assert_eq!((publishers.len(), publishers[0].totals.lost), (1, Some(3)), "the known publisher");
}

#[test]
fn a_number_that_is_not_the_publishers_tells_nothing() {
    let changed = |key: &str, value: Option<&str>| {
        let mut channel = proved("/imu", ONE, "/driver");
        channel.metadata.remove(key);
        channel.metadata.extend(value.map(|value| (key.to_owned(), value.to_owned())));
        channel
    };
    for (channel, publishers) in [
        (Channel::new("/imu", IMU), None),
        (changed(SEQUENCE, None), Some(1)),
        (changed(PUBLISHER_GID, None), None),
        (changed(PUBLISHER_GID, Some("01")), None),
        (changed(PUBLISHER_GID, Some("g10f2a00000000000000000000000aff")), None),
        (changed(PUBLISHER_GID, Some("+10f2a00000000000000000000000aff")), None),
        (changed(PUBLISHER_GID, Some("ä0f2a0000000000000000000000aff")), None),
        (changed(SEQUENCE, Some("count_of_the_writer")), Some(1)),
    ] {
        let messages: Vec<_> = messages().into_iter().filter(|message| message.channel == 0).collect();
        let bag = read(&mcap(WriteOptions::new(), std::slice::from_ref(&channel), &messages));
        let (topic, totals) = (bag.topic("/imu"), bag.topic("/imu").totals());
        assert_eq!(
            (totals.lost, totals.out_of_order, totals.publishers),
            (None, None, publishers),
            "{channel:?}"
        );
        assert_eq!(topic.publishers().len() as u64, publishers.unwrap_or(0), "{channel:?}");
        assert!(topic.publishers().iter().all(|publisher| publisher.totals.lost.is_none()));
        let gaps = topic.summary(Metric::PublicationSeqGap);
        assert!(gaps.average.is_nan() && gaps.sample_count == 0, "{channel:?}");
    }
}

/// The test fails if the messages of a damaged chunk count as lost, or if the time without them counts as a silence.
#[test]
fn what_cannot_be_read_is_neither_lost_nor_silent() {
    let channels = [proved("/imu", ONE, "/driver"), proved("/slow", TWO, "/rear")];
    let message = |(number, message): (u32, Message)| match number % 250 {
        249 => Message { sequence: number / 250, channel: 1, ..message },
        _ => Message { sequence: number - number / 250, ..message },
    };
    let messages: Vec<_> = (0..).zip(every_10_ms(1000)).map(message).collect();
    let file = mcap(WriteOptions::new().chunk_size(Some(3000)), &channels, &messages);
    let whole = read(&file);
    assert_eq!((whole.notes(), whole.topic("/imu").totals().lost), (vec![], Some(0)));
    let chunks = records_of(&file, CHUNK);
    assert!(chunks.len() > 20);
    // The last chunk is never damaged, because its damage would make the bag end earlier. Some gaps are within a
    // window, and other gaps extend over the end of a window.
    for chunk in &chunks[1..chunks.len() - 1] {
        let mut damaged = file.clone();
        damaged[chunk + 1000] ^= 1;
        assert_known_but_for_a_gap(&whole, &read(&damaged));
    }
}

fn assert_known_but_for_a_gap(whole: &ReadBag, bag: &ReadBag) {
    assert_eq!(bag.notes().len(), 2, "{:?}", bag.notes());
    let missing = 1000 - bag.statistics.messages;
    assert!((10..100).contains(&missing), "{missing}");
    for topic in ["/imu", "/slow"] {
        assert_eq!(bag.topic(topic).totals().lost, Some(0), "{topic}");
        assert!(bag.topic(topic).publishers().iter().all(|publisher| publisher.totals.lost == Some(0)));
    }
    let (before, after) = (whole.windows.of("/imu"), bag.windows.of("/imu"));
    assert_eq!(before.len(), after.len());
    let unknown: Vec<_> = after.iter().map(|window| !window.is_count_known).collect();
    let count = unknown.iter().filter(|unknown| **unknown).count();
    assert!((1..=2).contains(&count), "{unknown:?}");
    for (place, (before, after)) in before.iter().zip(&after).enumerate() {
        assert_eq!((before.window, before.length), (after.window, after.length), "{place}");
        let periods = after.get(Metric::MessagePeriod).unwrap();
        if unknown[place] {
            assert!(after.rate().is_nan() && after.bandwidth().is_nan());
            assert!(after.metrics.iter().all(|(_, summary)| summary.sample_count == 0));
            assert!(after.distribution(Metric::MessageAge).is_none());
        } else if place > 0 && unknown[place - 1] {
            assert_eq!(after.count, before.count);
            assert!(periods.maximum < 20.1, "no period spans the gap: {periods:?}");
        } else {
            assert_eq!(format!("{:?}", after.metrics), format!("{:?}", before.metrics), "{place}");
        }
    }
    let counted: u64 = after.iter().map(|window| window.count).sum();
    assert_eq!(counted, bag.topic("/imu").totals().received);
    // After the gap, the time since the last message of the slow topic is unknown or right: its last message may be in
    // the unreadable part.
    let silence = |window: &WindowStatistics| *window.get(Metric::TimeSinceLastMessage).unwrap();
    for window in bag.windows.of("/slow").into_iter().map(|window| (window.window, silence(window))) {
        let whole =
            whole.windows.of("/slow").into_iter().find(|whole| whole.window.stop == window.0.stop).unwrap();
        assert!(window.1.sample_count == 0 || window.1.average == silence(whole).average, "{window:?}");
    }
}

#[test]
fn numbers_go_on_in_the_next_file_and_a_missing_file_is_not_known() {
    // One message is missing between two files.
    let messages: Vec<_> = (0..301_u32)
        .filter(|number| *number != 100)
        .map(|number| Message { sequence: number, ..Message::at(0, i64::from(number) * 50 * MS) })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let file = |number: usize| directory.path().join(format!("a_{number}.mcap"));
    for (number, part) in messages.chunks(100).enumerate() {
        std::fs::write(file(number), mcap(WriteOptions::new(), &[proved("/imu", ONE, "/driver")], part))
            .unwrap();
    }
    // Up to version 3 of the metadata, the paths begin with the name of the directory.
    let metadata = "rosbag2_bagfile_information: {relative_file_paths: [a_0.mcap, bag/a_1.mcap, a_2.mcap]}";
    std::fs::write(directory.path().join("metadata.yaml"), metadata).unwrap();
    let bag = read_path(directory.path(), &Default::default());
    assert_eq!((bag.topic("/imu").totals().lost, bag.topic("/imu").publishers().len()), (Some(1), 1));
    std::fs::remove_file(file(1)).unwrap();
    let bag = read_path(directory.path(), &Default::default());
    assert_eq!((bag.topic("/imu").totals().lost, bag.notes().len()), (Some(0), 1));
    let rates: Vec<_> = bag.windows.of("/imu").iter().map(|window| window.rate()).collect();
    assert!(rates[..4].iter().chain(&rates[11..14]).all(|rate| *rate == 20.0), "{rates:?}");
    assert!(rates[4..11].iter().all(|rate| rate.is_nan()), "{rates:?}");
}

#[test]
fn a_gap_at_the_end_of_a_bag_hides_no_message() {
    // There are two chunks, and both have messages with the same time.
    let message = |sequence: u32| Message {
        sequence,
        size: 100,
        ..Message::at(0, i64::from(sequence.min(20)) * 10 * MS)
    };
    let messages: Vec<_> = (0..80).map(message).collect();
    let options = WriteOptions::new().chunk_size(Some(5200));
    let mut file = mcap(options, &[proved("/imu", ONE, "/driver")], &messages);
    let chunks = records_of(&file, CHUNK);
    file[chunks[1] + 1000] ^= 1;
    let end = chunks.get(2).copied().unwrap_or_else(|| records_of(&file, DATA_END)[0]);
    let bag = read(&file[..end]);
    let counted: u64 = bag.windows.of("/imu").iter().map(|window| window.count).sum();
    assert_eq!((counted, counted), (bag.statistics.messages, bag.topic("/imu").totals().received));
}
