// SPDX-License-Identifier: Apache-2.0

//! Losses: told where a recording proves them, and only there.

use mcap::WriteOptions;
use topic_statistics_bag::proof::{PUBLICATION_SEQUENCE_NUMBER, PUBLISHER_GID, PUBLISHER_NODE, SEQUENCE};
use topic_statistics_core::Metric;

use crate::support::*;

const ONE: &str = "01000000000000000000000000000001";
const TWO: &str = "01000000000000000000000000000002";

fn proved(gid: &str, node: &str) -> Channel {
    Channel::new("/imu", IMU).with(&[
        (SEQUENCE, PUBLICATION_SEQUENCE_NUMBER),
        (PUBLISHER_GID, gid),
        (PUBLISHER_NODE, node),
    ])
}

/// Messages of two publishers. Of the first one 3 of 50 are missing, and one is late.
fn messages() -> Vec<Message> {
    let mut messages = vec![];
    for number in 0..50_i64 {
        let sequence = (u32::MAX - 20).wrapping_add(number as u32);
        if ![10, 11, 40].contains(&number) {
            messages.push(Message { sequence, ..Message::at(0, number * 20 * MS) });
        }
        messages.push(Message { sequence: 7 + number as u32, ..Message::at(1, number * 20 * MS + MS) });
    }
    let late = messages.iter().position(|message| message.log == START + 600 * MS).unwrap();
    messages[late].log += 30 * MS;
    messages
}

#[test]
fn losses_are_told_for_each_publisher_with_its_node_also_over_the_end_of_32_bits() {
    let channels = [proved(ONE, "/front/driver"), proved(TWO, "/rear/driver")];
    let bag = read(&mcap(WriteOptions::new(), &channels, &messages()));
    let topic = bag.topic("/imu");
    let totals = topic.totals();
    assert_eq!((totals.received, totals.lost, totals.out_of_order), (97, Some(3), Some(1)));
    assert_eq!((totals.duplicates, totals.publishers), (Some(0), Some(2)));
    let mut publishers = topic.publishers();
    publishers.sort_by_key(|publisher| publisher.totals.gid);
    let figures: Vec<_> = (publishers.iter())
        .map(|publisher| (publisher.node.as_deref(), publisher.totals.received, publisher.totals.lost))
        .collect();
    assert_eq!(figures, [(Some("/front/driver"), 47, Some(3)), (Some("/rear/driver"), 50, Some(0))]);
    let gaps = topic.summary(Metric::PublicationSeqGap);
    // The gap of 2, and that of 1. The late one has filled its own.
    assert_eq!((gaps.maximum, (gaps.average * gaps.sample_count as f64).round()), (2.0, 3.0));
}

#[test]
fn a_number_that_is_not_the_publishers_tells_nothing() {
    let without = |key: &str| {
        let mut channel = proved(ONE, "/driver");
        channel.metadata.remove(key);
        channel
    };
    let foreign = Channel::new("/imu", IMU);
    let other_value = proved(ONE, "/driver").with(&[(SEQUENCE, "count_of_the_writer")]);
    for (channel, publishers) in [
        (foreign, None),
        (without(SEQUENCE), Some(1)),
        (without(PUBLISHER_GID), None),
        (other_value, Some(1)),
    ] {
        let messages: Vec<_> = messages().into_iter().filter(|message| message.channel == 0).collect();
        let bag = read(&mcap(WriteOptions::new(), std::slice::from_ref(&channel), &messages));
        let topic = bag.topic("/imu");
        let totals = topic.totals();
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

#[test]
fn a_topic_with_one_publisher_that_is_not_known_has_no_losses() {
    let channels = [proved(ONE, "/driver"), Channel::new("/imu", IMU)];
    let bag = read(&mcap(WriteOptions::new(), &channels, &messages()));
    let totals = bag.topic("/imu").totals();
    assert_eq!((totals.received, totals.lost, totals.publishers), (97, None, None));
    let publishers = bag.topic("/imu").publishers();
    assert_eq!((publishers.len(), publishers[0].totals.lost), (1, Some(3)), "the one that is known");
}

#[test]
fn a_publisher_goes_on_in_the_next_file() {
    let channels = [proved(ONE, "/driver")];
    let messages: Vec<_> = (0..20)
        .filter(|number| *number != 10)
        .map(|number| Message { sequence: number, ..Message::at(0, i64::from(number) * 100 * MS) })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    for (number, part) in messages.chunks(10).enumerate() {
        let path = directory.path().join(format!("a_{number}.mcap"));
        std::fs::write(path, mcap(WriteOptions::new(), &channels, part)).unwrap();
    }
    let bag = read_path(directory.path(), &Default::default());
    assert_eq!(bag.topic("/imu").totals().lost, Some(1), "between the files");
    assert_eq!(bag.topic("/imu").publishers().len(), 1);
}

/// What a damaged chunk had was not lost on its way, and nobody was silent.
#[test]
fn what_cannot_be_read_is_neither_lost_nor_silent() {
    let channels = [proved(ONE, "/driver"), proved(TWO, "/rear").on("/slow")];
    let messages: Vec<_> = (0..1000_u32)
        .map(|number| match number % 250 {
            249 => Message { sequence: number / 250, ..Message::at(1, i64::from(number) * 10 * MS) },
            _ => Message { sequence: number - number / 250, ..Message::at(0, i64::from(number) * 10 * MS) },
        })
        .collect();
    let options = || WriteOptions::new().chunk_size(Some(3000));
    let file = mcap(options(), &channels, &messages);
    let whole = read(&file);
    assert_eq!((whole.notes(), whole.topic("/imu").totals().lost), (vec![], Some(0)));
    let chunks: Vec<_> = records(&file).into_iter().filter(|(_, kind)| *kind == CHUNK).collect();
    assert!(chunks.len() > 20);
    // All but the last one, with which the bag would end earlier. Gaps within a window, and over its end.
    for (chunk, _) in &chunks[1..chunks.len() - 1] {
        let mut damaged = file.clone();
        damaged[chunk + 1000] ^= 1;
        is_known_but_for_a_gap(&whole, &read(&damaged));
    }
}

fn is_known_but_for_a_gap(whole: &ReadBag, bag: &ReadBag) {
    assert_eq!(bag.notes().len(), 2, "{:?}", bag.notes());
    let missing = 1000 - bag.statistics.messages;
    assert!((10..100).contains(&missing), "{missing}");
    for topic in ["/imu", "/slow"] {
        assert_eq!(bag.topic(topic).totals().lost, Some(0), "{topic}");
        assert!(bag.topic(topic).publishers().iter().all(|publisher| publisher.totals.lost == Some(0)));
    }
    let windows = |bag: &ReadBag| -> Vec<_> { bag.windows.of("/imu").into_iter().cloned().collect() };
    let (before, after) = (windows(whole), windows(bag));
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
            assert_eq!(
                (after.count, periods.sample_count + 1),
                (before.count, before.count),
                "not over the gap"
            );
        } else {
            assert_eq!(format!("{:?}", after.metrics), format!("{:?}", before.metrics), "{place}");
        }
    }
    let counted: u64 = after.iter().map(|window| window.count).sum();
    assert_eq!(counted, bag.topic("/imu").totals().received);
    // Behind the gap, the last message of the slow topic may be one that cannot be read.
    let slow = bag.windows.of("/slow");
    let mut behind =
        slow.iter().skip_while(|window| window.is_count_known).skip_while(|window| !window.is_count_known);
    assert!(behind.next().is_none_or(|window| {
        window.count > 0 || window.get(Metric::TimeSinceLastMessage).unwrap().sample_count == 0
    }));
}

#[test]
fn the_time_of_a_file_that_is_missing_is_not_known() {
    let channels = [proved(ONE, "/driver")];
    let messages: Vec<_> = (0..300)
        .map(|number| Message { sequence: number, ..Message::at(0, i64::from(number) * 50 * MS) })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    for (number, part) in messages.chunks(100).enumerate().filter(|(number, _)| *number != 1) {
        let path = directory.path().join(format!("a_{number}.mcap"));
        std::fs::write(path, mcap(WriteOptions::new(), &channels, part)).unwrap();
    }
    let metadata = "rosbag2_bagfile_information: {relative_file_paths: [a_0.mcap, a_1.mcap, a_2.mcap]}";
    std::fs::write(directory.path().join("metadata.yaml"), metadata).unwrap();
    let bag = read_path(directory.path(), &Default::default());
    assert_eq!(bag.topic("/imu").totals().lost, Some(0));
    let rates: Vec<_> = bag.windows.of("/imu").iter().map(|window| window.rate()).collect();
    assert!(rates[..4].iter().chain(&rates[11..14]).all(|rate| *rate == 20.0), "{rates:?}");
    assert!(rates[4..11].iter().all(|rate| rate.is_nan()), "{rates:?}");
}

#[test]
fn a_gap_at_the_end_of_a_bag_hides_no_message() {
    let channels = [proved(ONE, "/driver")];
    // Two chunks, and in both messages of the same time.
    let times = (0..80).map(|number| number.min(20) * 10 * MS);
    let messages: Vec<_> = (0..)
        .zip(times)
        .map(|(sequence, time)| Message { sequence, size: 100, ..Message::at(0, time) })
        .collect();
    let mut file = mcap(WriteOptions::new().chunk_size(Some(5200)), &channels, &messages);
    let chunks: Vec<_> = records(&file).into_iter().filter(|(_, kind)| *kind == CHUNK).collect();
    file[chunks[1].0 + 1000] ^= 1;
    let data_end = records(&file).iter().find(|(_, kind)| *kind == 0x0f).unwrap().0;
    let first = &file[..if chunks.len() > 2 { chunks[2].0 } else { data_end }];
    let bag = read(first);
    let counted: u64 = bag.windows.of("/imu").iter().map(|window| window.count).sum();
    assert_eq!((counted, counted), (bag.statistics.messages, bag.topic("/imu").totals().received));
}
