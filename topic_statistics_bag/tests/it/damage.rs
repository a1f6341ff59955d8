// SPDX-License-Identifier: Apache-2.0

//! Tests with truncated and damaged files: the readable parts are read, and notes report the unreadable parts.

use std::time::Duration;

use mcap::{Compression, WriteOptions};
use proptest::prelude::*;
use topic_statistics_bag::{Bag, BagTime, ChunkFault, NoteKind, ReadOptions};
use topic_statistics_core::{Metric, Timestamp};

use crate::support::*;

const COMPRESSIONS: [Option<Compression>; 3] = [None, Some(Compression::Lz4), Some(Compression::Zstd)];

fn options(compression: Option<Compression>) -> WriteOptions {
    WriteOptions::new().compression(compression).chunk_size(Some(3000))
}

/// Returns a file with two topics, and the messages in this file.
fn file(options: WriteOptions) -> (Vec<u8>, Vec<Message>) {
    let (channels, messages) = two_topics(2);
    (mcap(options, &channels, &messages), messages)
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_read_up_to_there() {
    for compression in COMPRESSIONS {
        let (file, messages) = file(options(compression));
        let records = records(&file);
        assert!(records_of(&file, CHUNK).len() > 4);
        let places = [-1, 0, 1, 9, 40, 60];
        let near = records.iter().flat_map(|(at, _)| places.map(|place| (*at as i64 + place) as usize));
        let mut lengths: Vec<_> = near.chain((8..file.len()).step_by(97)).collect();
        lengths.sort_unstable();
        let mut before = 0;
        for length in lengths.into_iter().filter(|length| (8..file.len()).contains(length)) {
            let bag = read(&file[..length]);
            let read = bag.statistics.messages;
            assert!((before..=messages.len() as u64).contains(&read), "{read} at {length}");
            before = read;
            let is_whole = |pair: &&[(usize, u8)]| pair[0].1 == CHUNK && pair[1].0 <= length;
            assert!(read >= records.windows(2).filter(is_whole).count() as u64, "{read} at {length}");
            let [NoteKind::Unfinished | NoteKind::CutOff { .. }] = bag.notes()[..] else {
                panic!("{:?} at {length}", bag.notes())
            };
            // A part of the file begins behind the chunk that defines the channels.
            let from = START + S;
            let later = messages[..read as usize].iter().filter(|message| message.log >= from).count() as u64;
            if later > 0 {
                let from = BagTime::At(Timestamp::from_nanoseconds(from));
                let part = read_with(&file[..length], &ReadOptions::new().from(from));
                assert_eq!(part.statistics.messages, later, "at {length}");
            }
            for topic in &bag.statistics.topics {
                let ages = topic.summary(Metric::MessageAge);
                let expected = if topic.name() == "/imu" { topic.messages() } else { 0 };
                assert_eq!(ages.sample_count, expected, "at {length}");
                assert!(expected == 0 || (ages.minimum, ages.maximum) == (5.0, 5.0), "{ages:?} at {length}");
            }
        }
        assert!(before > messages.len() as u64 * 9 / 10);
        let whole = read(&file);
        assert_eq!(whole.notes(), []);
        for file in [file, self::file(options(compression).use_chunks(false)).0] {
            let unclosed = read(&file[..records_of(&file, DATA_END)[0]]);
            assert_eq!(
                (unclosed.notes(), unclosed.windows.text()),
                (vec![NoteKind::Unfinished], whole.windows.text())
            );
        }
        // A block of zstd has at most 128 kB, and a block of lz4 has at most 64 kB. So this chunk has several blocks.
        let large: Vec<_> = messages.into_iter().map(|message| Message { size: 3000, ..message }).collect();
        let file = mcap(WriteOptions::new().compression(compression), &two_topics(0).0, &large);
        let end = records_of(&file, CHUNK)[0] + 9;
        let length = u64::from_le_bytes(file[end - 8..end].try_into().unwrap()) as usize;
        let bag = read(&file[..end + length - 200_000]);
        assert!((80..206).contains(&bag.statistics.messages), "{compression:?} {}", bag.statistics.messages);
        assert!(matches!(bag.notes()[..], [NoteKind::CutOff { missing: 200_000, .. }]), "{:?}", bag.notes());
    }
}

#[test]
fn losses_behind_a_damaged_chunk_are_counted_whatever_the_windows() {
    let messages: Vec<_> =
        every_10_ms(1000).into_iter().filter(|message| message.sequence % 10 != 5).collect();
    let file = mcap(options(Some(Compression::Zstd)), &[proved("/imu", ONE, "/talker")], &messages);
    let chunks = records_of(&file, CHUNK);
    assert!(chunks.len() > 20);
    for chunk in &chunks[1..chunks.len() - 1] {
        let mut damaged = file.clone();
        damaged[chunk + 200] ^= 1;
        let losses = [100, 1000, 3000, 20_000].map(|period| {
            let bag = read_with(&damaged, &ReadOptions::new().period(Duration::from_millis(period)));
            let [NoteKind::Chunk { .. }, NoteKind::Count { .. }] = bag.notes()[..] else {
                panic!("{:?}", bag.notes())
            };
            let totals = bag.topic("/imu").totals();
            // Of each ten messages, one was lost. The part with the damage has up to two losses more, at its ends.
            let lost = totals.lost.unwrap();
            assert!((lost..lost + 3).contains(&(totals.received / 9)), "{totals:?}");
            lost
        });
        assert_eq!(losses, [losses[0]; 4], "at {chunk}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// In a file that has chunks with checksums and a summary, damage either causes a note or changes no figure.
    #[test]
    fn a_damaged_file_has_the_same_figures_or_a_note(
        compression in 0..3_usize,
        place in any::<prop::sample::Index>(),
        bits in 1..=255_u8,
    ) {
        thread_local! {
            static FILES: Vec<(Vec<u8>, String)> = COMPRESSIONS
                .map(|compression| {
                    let (file, _) = file(options(compression));
                    let bag = read(&file);
                    assert_eq!(bag.notes(), []);
                    (file, bag.windows.text())
                })
                .to_vec();
        }
        FILES.with(|files| -> Result<(), TestCaseError> {
            let (file, expected) = &files[compression];
            let mut damaged = file.clone();
            let place = place.index(file.len());
            damaged[place] ^= bits;
            let damaged = TestFile::new(&damaged);
            let Ok(bag) = Bag::open([&damaged.path]) else {
                prop_assert!(place < 8, "the magic bytes");
                return Ok(());
            };
            let bag = read_bag(&bag, &ReadOptions::new().verify(true));
            if bag.notes().is_empty() {
                prop_assert_eq!(&bag.windows.text(), expected, "byte {}", place);
            }
            Ok(())
        })?;
    }
}

#[test]
fn damage_has_a_note_with_its_place_and_other_chunks_are_read() {
    for compression in [Compression::Lz4, Compression::Zstd] {
        let (whole, messages) = file(options(Some(compression)));
        let (chunks, count) = (records_of(&whole, CHUNK), messages.len() as u64);
        let mut damaged = whole.clone();
        let length = u64::from_le_bytes(whole[chunks[2] + 1..][..8].try_into().unwrap());
        damaged[chunks[2] + length as usize - 100] ^= 1;
        let bag = read(&damaged);
        let [NoteKind::Chunk { at, fault, .. }, NoteKind::Count { summary, found }] = &bag.notes()[..] else {
            panic!("{:?}", bag.notes())
        };
        assert_eq!((*at, *summary, *found), (chunks[2] as u64, count, bag.statistics.messages));
        assert!((count * 3 / 4..count).contains(found), "{found}");
        assert!(!matches!(fault, ChunkFault::UnknownCompression(_)), "{fault}");
        // The header of the third chunk (its kind and its length) is damaged, in a file with and without an index.
        for end in [whole.len(), records_of(&whole, DATA_END)[0]] {
            let mut damaged = whole[..end].to_vec();
            damaged[chunks[2]..chunks[2] + 9].fill(0xff);
            let bag = read(&damaged);
            let skipped = NoteKind::Skipped { from: chunks[2] as u64, to: chunks[3] as u64 };
            assert!(bag.notes().contains(&skipped), "{:?}", bag.notes());
            assert!(bag.statistics.messages > count * 3 / 4, "{}", bag.statistics.messages);
        }
    }
    // Without `verify`, payloads are not read and checksums are not verified, but the times of messages are checked.
    let (whole, messages) = file(options(None));
    let damage = |bytes: &[u8], at: usize| {
        let mut damaged = whole.clone();
        damaged[whole.windows(bytes.len()).position(|window| window == bytes).unwrap() + at] ^= 1;
        damaged
    };
    let (time, payload) =
        (damage(&messages[15].log.to_le_bytes(), 6), damage(&messages[30].data()[20..60], 0));
    let fault = |bag: ReadBag| match &bag.notes()[..] {
        [NoteKind::Chunk { fault, .. }, ..] => Some(fault.to_string()),
        _ => None,
    };
    assert_eq!(fault(read(&time)), Some(ChunkFault::Content.to_string()));
    assert_eq!(read(&payload).notes(), []);
    let verified = read_with(&payload, &ReadOptions::new().verify(true));
    assert_eq!(fault(verified), Some(ChunkFault::Checksum.to_string()));
}

#[test]
fn a_length_that_no_file_has_is_not_reported_as_missing_bytes() {
    for kind in [CHUNK, 5] {
        let (mut file, _) = file(options(None));
        let (at, _) = records(&file)[1];
        file[at] = kind;
        file[at + 1..at + 9].fill(0xff);
        file.truncate(at + 200);
        let text = read(&file).notes().iter().map(ToString::to_string).collect::<String>();
        let numbers =
            text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
        assert!(!text.is_empty() && numbers.max() <= Some(file.len() as u64), "{text}");
    }
    let (mut file, _) = file(WriteOptions::new().use_chunks(false).emit_summary_records(false));
    let (at, _) = records(&file)[20];
    file[at + 1..at + 9].fill(0xff);
    let skipped = NoteKind::Skipped { from: at as u64, to: file.len() as u64 };
    assert_eq!(read(&file).notes(), [skipped]);
}
