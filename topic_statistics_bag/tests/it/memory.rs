// SPDX-License-Identifier: Apache-2.0

//! Tests that the use of memory is limited, even for malicious files. The test reads the use of memory from the kernel.

#![cfg(target_os = "linux")]

use std::{fs, io::Write};

use mcap::{records::op, Compression, WriteOptions};
use topic_statistics_bag::{Bag, ReadOptions};

use crate::support::*;

/// The limit for the memory of a reading, in kB. With the largest number of topics, a reading takes about 100 MB.
const BOUND: u64 = 200_000;

/// Returns whether other tests can run in the same process, as with plain `cargo test`.
fn shares_its_process() -> bool {
    let is_alone = std::env::var("NEXTEST_EXECUTION_MODE").is_ok_and(|mode| mode == "process-per-test");
    if !is_alone {
        skip(
            "the memory of a reading",
            "other tests share the process; cargo nextest run gives it one for itself",
        );
    }
    !is_alone
}

/// Returns by how much the memory of this process rises during a reading, in kB.
fn peak(bytes: &[u8]) -> u64 {
    let file = TestFile::new(bytes);
    let figure = |name: &str| -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let figure = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        figure.trim().trim_end_matches(" kB").parse().unwrap()
    };
    fs::write("/proc/self/clear_refs", "5").unwrap(); // resets the peak to the current value
    let before = figure("VmRSS:");
    Bag::open([file.path]).unwrap().read(&ReadOptions::new(), &mut ()).unwrap();
    figure("VmHWM:").saturating_sub(before)
}

/// Returns a record whose header says that the body has `length` bytes.
fn record(kind: u8, length: u64, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &length.to_le_bytes(), body].concat()
}

/// Returns a file with one chunk. The header of the chunk says that the decompressed content has `size` bytes.
fn chunk(compression: &str, content: &[u8], size: u64) -> Vec<u8> {
    let times = [0, u64::MAX, size].map(u64::to_le_bytes).concat();
    let name = [&[0; 4][..], &(compression.len() as u32).to_le_bytes(), compression.as_bytes()].concat();
    let body = [times, name, (content.len() as u64).to_le_bytes().into(), content.to_vec()].concat();
    [mcap::MAGIC, &record(CHUNK, body.len() as u64, &body)].concat()
}

#[test]
fn what_a_file_claims_takes_no_memory() {
    if shares_its_process() {
        return;
    }
    // The content is one record of an unknown kind, with more zeros than the limit for the memory.
    let size = (1_u64 << 28) - 9;
    let mut zstd = zstd::Encoder::new(vec![], 1).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(vec![]);
    for writer in [&mut zstd as &mut dyn Write, &mut lz4] {
        writer.write_all(&record(0x80, size, &[])).unwrap();
        (0..1 << 8).for_each(|_| writer.write_all(&[0; 1 << 20]).unwrap());
    }
    for (name, content) in [("zstd", zstd.finish().unwrap()), ("lz4", lz4.finish().unwrap())] {
        for claimed in [size + 9, 1 << 40, u64::MAX] {
            let peak = peak(&chunk(name, &content, claimed));
            assert!(peak < BOUND, "{peak} kB for {claimed} bytes of {name}");
        }
    }
    // A definition in a chunk that is larger than any real definition.
    let mut zstd = zstd::Encoder::new(vec![], 1).unwrap();
    zstd.write_all(&record(op::SCHEMA, size, &[])).unwrap();
    (0..1 << 8).for_each(|_| zstd.write_all(&[0; 1 << 20]).unwrap());
    let of_definition = peak(&chunk("zstd", &zstd.finish().unwrap(), size + 9));
    assert!(of_definition < BOUND, "{of_definition} kB for a definition of {size} bytes");
    // Records with strings and maps whose length fields say four gigabytes.
    for kind in [3, 4, 8, 0x0b] {
        let body = [&[1, 0, 1, 0][..], &[0xff; 60]].concat();
        assert!(peak(&[mcap::MAGIC, &record(kind, 64, &body)].concat()) < BOUND / 2, "{kind}");
    }
}

#[test]
fn memory_does_not_grow_with_the_length_of_a_bag_nor_with_its_topics() {
    if shares_its_process() {
        return;
    }
    let memory = |count: i64| {
        let messages: Vec<_> = (0..count).map(|number| Message::at(0, number * MS)).collect();
        peak(&mcap(WriteOptions::new().compression(Some(Compression::Zstd)), &imu(), &messages))
    };
    let (short, long) = (memory(20_000), memory(400_000));
    assert!(long < short + 10_000, "{short} kB, {long} kB");
    let channels: Vec<_> = (0..60_000).map(|number| Channel::new(&format!("/{number}"), IMU)).collect();
    let messages: Vec<_> = (0..60_000).map(|number| Message::at(number, number as i64 * MS)).collect();
    let peak = peak(&mcap(WriteOptions::new(), &channels, &messages));
    assert!(peak < BOUND, "{peak} kB");
}
