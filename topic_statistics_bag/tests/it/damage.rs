// SPDX-License-Identifier: Apache-2.0

//! Files that are cut off or damaged: what can be read is read, and what could not is told.

use mcap::{Compression, WriteOptions};
use proptest::prelude::*;
use topic_statistics_bag::{Bag, ChunkFault, NoteKind, ReadOptions};
use topic_statistics_core::Metric;

use crate::support::*;

const COMPRESSIONS: [Option<Compression>; 3] = [None, Some(Compression::Lz4), Some(Compression::Zstd)];

fn options(compression: Option<Compression>) -> WriteOptions {
    WriteOptions::new().compression(compression).chunk_size(Some(3000))
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_read_up_to_there() {
    let (channels, messages) = two_topics(2);
    for compression in COMPRESSIONS {
        let file = mcap(options(compression), &channels, &messages);
        let records = records(&file);
        let chunks: Vec<_> = records.iter().filter(|(_, kind)| *kind == CHUNK).collect();
        assert!(chunks.len() > 4);
        let mut lengths: Vec<_> =
            records.iter().flat_map(|(at, _)| [*at - 1, *at, *at + 1, *at + 9, *at + 40, *at + 60]).collect();
        lengths.extend((8..file.len()).step_by(97));
        lengths.sort_unstable();
        let mut before = 0;
        for length in lengths.into_iter().filter(|length| (8..file.len()).contains(length)) {
            let bag = read(&file[..length]);
            let read = bag.statistics.messages;
            assert!((before..=messages.len() as u64).contains(&read), "{read} at {length}");
            before = read;
            let whole_chunks =
                records.windows(2).filter(|pair| pair[0].1 == CHUNK && pair[1].0 <= length).count();
            assert!(read >= whole_chunks as u64, "{read} of {whole_chunks} chunks at {length}");
            let notes = bag.notes();
            let is_told = |note: &NoteKind| matches!(note, NoteKind::Unfinished | NoteKind::CutOff { .. });
            assert!(notes.len() == 1 && notes.iter().all(is_told), "{notes:?} at {length}");
            for topic in &bag.statistics.topics {
                let ages = topic.summary(Metric::MessageAge);
                let expected = if topic.name() == "/imu" { topic.messages() } else { 0 };
                assert_eq!(ages.sample_count, expected, "at {length}");
                assert!(expected == 0 || (ages.minimum, ages.maximum) == (5.0, 5.0), "{ages:?} at {length}");
            }
        }
        assert!(before > messages.len() as u64 * 9 / 10);
        assert_eq!(read(&file).notes(), []);
    }
}

#[test]
fn of_a_chunk_that_is_cut_off_the_first_messages_are_read() {
    let (channels, messages) = two_topics(2);
    // zstd and lz4 have blocks of 128 and 64 kB: this chunk has several.
    let messages: Vec<_> = messages.into_iter().map(|message| Message { size: 3000, ..message }).collect();
    for compression in COMPRESSIONS {
        let file = mcap(WriteOptions::new().compression(compression), &channels, &messages);
        let end = records(&file).iter().find(|(_, kind)| *kind == CHUNK).map(|(at, _)| at + 9).unwrap();
        let length = u64::from_le_bytes(file[end - 8..end].try_into().unwrap()) as usize;
        let bag = read(&file[..end + length - 200_000]);
        assert!((80..206).contains(&bag.statistics.messages), "{compression:?} {}", bag.statistics.messages);
        assert!(matches!(bag.notes()[..], [NoteKind::CutOff { missing: 200_000, .. }]), "{:?}", bag.notes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// A file of chunks with checksums, and with a summary: a damage that is not told has changed nothing.
    #[test]
    fn a_damaged_file_has_the_same_figures_or_a_note(
        compression in 0..3_usize,
        place in any::<prop::sample::Index>(),
        bits in 1..=255_u8,
    ) {
        thread_local! {
            static FILES: Vec<(Vec<u8>, String)> = COMPRESSIONS
                .map(|compression| {
                    let (channels, messages) = two_topics(2);
                    let file = mcap(options(compression), &channels, &messages);
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
            let Ok(bag) = Bag::open([damaged.path()]) else {
                prop_assert!(place < 8, "the magic bytes");
                return Ok(());
            };
            let mut windows = Windows::default();
            let statistics = bag.read(&ReadOptions::new().verify(true), &mut windows).unwrap();
            if statistics.notes.is_empty() {
                prop_assert_eq!(&windows.text(), expected, "byte {}", place);
            }
            Ok(())
        })?;
    }

    #[test]
    fn any_bytes_behind_the_magic_ones_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&[mcap::MAGIC, &bytes].concat());
    }
}

#[test]
fn a_damaged_chunk_is_told_with_its_place_and_the_others_are_read() {
    let (channels, messages) = two_topics(2);
    for compression in [Compression::Lz4, Compression::Zstd] {
        let mut file = mcap(options(Some(compression)), &channels, &messages);
        let chunks: Vec<_> = records(&file).into_iter().filter(|(_, kind)| *kind == CHUNK).collect();
        let (at, length) =
            (chunks[2].0, u64::from_le_bytes(file[chunks[2].0 + 1..][..8].try_into().unwrap()));
        file[at + length as usize - 100] ^= 1;
        let bag = read(&file);
        let [NoteKind::Chunk { at: told, fault, .. }, NoteKind::Count { summary, found }] = &bag.notes()[..]
        else {
            panic!("{:?}", bag.notes())
        };
        assert_eq!((*told, *summary), (at as u64, messages.len() as u64));
        assert!(
            matches!(fault, ChunkFault::Checksum | ChunkFault::Compression | ChunkFault::Content),
            "{fault}"
        );
        assert_eq!(*found, bag.statistics.messages);
        assert!((messages.len() as u64 * 3 / 4..messages.len() as u64).contains(found));
    }
}

#[test]
fn behind_damaged_bytes_the_next_chunk_is_found_with_and_without_an_index() {
    let (channels, messages) = two_topics(2);
    let file = mcap(options(Some(Compression::Zstd)), &channels, &messages);
    let records = records(&file);
    let chunks: Vec<_> = records.iter().filter(|(_, kind)| *kind == CHUNK).map(|(at, _)| *at).collect();
    let data_end = records.iter().find(|(_, kind)| *kind == 0x0f).unwrap().0;
    for end in [file.len(), data_end] {
        let mut damaged = file[..end].to_vec();
        // The head of the third chunk: its kind and its length.
        damaged[chunks[2]..chunks[2] + 9].fill(0xff);
        let bag = read(&damaged);
        let damaged_chunk = (chunks[2] as u64, chunks[3] as u64);
        let skipped = bag
            .notes()
            .iter()
            .any(|note| matches!(note, NoteKind::Skipped { from, to } if (*from, *to) == damaged_chunk));
        assert!(skipped, "{:?}", bag.notes());
        assert!(bag.statistics.messages > messages.len() as u64 * 3 / 4, "{}", bag.statistics.messages);
    }
}

#[test]
fn without_checksums_of_skipped_payloads_times_are_checked() {
    let (channels, messages) = two_topics(2);
    let mut file = mcap(options(None), &channels, &messages);
    let log = messages[15].log.to_le_bytes();
    let place = file.windows(8).position(|bytes| bytes == log).unwrap();
    file[place + 6] ^= 1;
    let bag = read(&file);
    assert!(
        matches!(bag.notes()[0], NoteKind::Chunk { fault: ChunkFault::Content, .. }),
        "{:?}",
        bag.notes()
    );
    // A byte of a payload is not read, unless all are to be verified.
    let mut file = mcap(options(None), &channels, &messages);
    let data = messages[30].data();
    let place = file.windows(40).position(|bytes| *bytes == data[20..60]).unwrap();
    file[place] ^= 1;
    assert_eq!(read(&file).notes(), []);
    let verified = read_with(&file, &ReadOptions::new().verify(true));
    assert!(matches!(verified.notes()[0], NoteKind::Chunk { fault: ChunkFault::Checksum, .. }));
}

#[test]
fn a_compressed_file_that_is_cut_off_is_read_up_to_there() {
    let (channels, messages) = two_topics(100);
    let file = mcap(WriteOptions::new().chunk_size(Some(4000)), &channels, &messages);
    // Blocks of zstd have up to 128 kB.
    assert!(file.len() > 500_000, "{}", file.len());
    let compressed = zstd::encode_all(&*file, 1).unwrap();
    let whole = read(&compressed);
    assert_eq!((whole.notes(), whole.statistics.messages), (vec![], messages.len() as u64));
    let cut = read(&compressed[..compressed.len() / 2]);
    assert!(
        matches!(cut.notes()[0], NoteKind::Decompression { bytes, .. } if bytes > 0),
        "{:?}",
        cut.notes()
    );
    assert!((1000..messages.len() as u64).contains(&cut.statistics.messages), "{}", cut.statistics.messages);
}

#[test]
fn a_file_that_is_not_closed_is_read_and_told() {
    let (channels, messages) = two_topics(2);
    for use_chunks in [true, false] {
        let file = mcap(options(Some(Compression::Zstd)).use_chunks(use_chunks), &channels, &messages);
        let data_end = records(&file).iter().find(|(_, kind)| *kind == 0x0f).unwrap().0;
        let bag = read(&file[..data_end]);
        assert_eq!(bag.notes(), [NoteKind::Unfinished]);
        assert_eq!(bag.windows.text(), read(&file).windows.text());
    }
}

#[test]
fn a_length_that_no_file_has_is_not_reported_as_missing_bytes() {
    let (channels, messages) = two_topics(1);
    for kind in [CHUNK, 5] {
        let mut file = mcap(options(None), &channels, &messages);
        let (at, _) = records(&file).into_iter().nth(1).unwrap();
        file[at] = kind;
        file[at + 1..at + 9].fill(0xff);
        file.truncate(at + 200);
        let bag = read(&file);
        assert!(!bag.notes().is_empty());
        for note in bag.notes() {
            let text = note.to_string();
            let numbers = text
                .split(|letter: char| !letter.is_ascii_digit())
                .filter_map(|word| word.parse::<u64>().ok());
            assert!(numbers.into_iter().all(|number| number <= file.len() as u64), "{text}");
        }
    }
}
