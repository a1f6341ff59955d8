// SPDX-License-Identifier: Apache-2.0

//! Memory has a bound, whatever a file says. Measured by the kernel, in a process of its own.

#![cfg(target_os = "linux")]

use std::{fs, io::Write, process::Command};

use mcap::{Compression, WriteOptions};
use topic_statistics_bag::{Bag, ReadOptions};

use crate::support::*;

/// The memory that a reading may take, in kB: with all topics, some 100 MB.
const BOUND: u64 = 200_000;

/// Runs an ignored test in a process of its own, and returns the most memory that it had at a time, in kB.
fn in_a_process_of_its_own(test: &str, file: &std::path::Path) -> u64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", test])
        .env("BAG_OF_THE_TEST", file)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let peak =
        printed.lines().find_map(|line| line.strip_prefix("peak ")).unwrap_or_else(|| panic!("{printed}"));
    peak.parse().unwrap()
}

#[test]
#[ignore = "runs in a process of its own"]
fn reads_a_bag() {
    let path = std::env::var_os("BAG_OF_THE_TEST").unwrap();
    let statistics = Bag::open([path]).unwrap().read(&ReadOptions::new(), &mut ()).unwrap();
    println!("\nmessages {}", statistics.messages);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("peak {}", peak.trim().trim_end_matches(" kB"));
}

fn peak(bytes: &[u8]) -> u64 {
    in_a_process_of_its_own("memory::reads_a_bag", &TestFile::new(bytes).path())
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut record = vec![kind];
    record.extend((body.len() as u64).to_le_bytes());
    record.extend(body);
    record
}

/// A chunk with this content. It claims that the content has `size` bytes.
fn chunk(compression: &str, content: &[u8], size: u64) -> Vec<u8> {
    let mut body = vec![];
    body.extend(0_u64.to_le_bytes());
    body.extend(u64::MAX.to_le_bytes());
    body.extend(size.to_le_bytes());
    body.extend(0_u32.to_le_bytes());
    body.extend((compression.len() as u32).to_le_bytes());
    body.extend(compression.as_bytes());
    body.extend((content.len() as u64).to_le_bytes());
    body.extend(content);
    record(6, &body)
}

#[test]
fn a_decompression_bomb_takes_no_memory() {
    // One record of an unknown kind, of a gigabyte of zeros.
    let size = (1_u64 << 30) - 9;
    let head = [&[0x80][..], &size.to_le_bytes()].concat();
    let mut zstd = zstd::Encoder::new(vec![], 1).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(vec![]);
    for writer in [&mut zstd as &mut dyn Write, &mut lz4] {
        writer.write_all(&head).unwrap();
        let zeros = vec![0; 1 << 20];
        (0..1 << 10).for_each(|_| writer.write_all(&zeros).unwrap());
    }
    for (name, content) in [("zstd", zstd.finish().unwrap()), ("lz4", lz4.finish().unwrap())] {
        for claimed in [size + 9, 1 << 40, u64::MAX] {
            let peak = peak(&[mcap::MAGIC, &chunk(name, &content, claimed)].concat());
            assert!(peak < BOUND, "{peak} kB for {claimed} bytes of {name}");
        }
    }
}

#[test]
fn lengths_that_a_file_claims_take_no_memory() {
    for kind in 1..=0x10 {
        for length in [1 << 24, 1 << 40, u64::MAX - 20, u64::MAX] {
            let mut file = [mcap::MAGIC, &[kind]].concat();
            file.extend(length.to_le_bytes());
            file.extend([0xff; 100]);
            read(&file);
            // The same in a chunk.
            let chunk = chunk("", &file[8..], 109);
            read(&[mcap::MAGIC, &chunk].concat());
        }
    }
    // Strings and maps that claim four gigabytes.
    for kind in [3, 4, 8, 0x0b] {
        let body = [&[1, 0, 1, 0][..], &[0xff; 60]].concat();
        assert!(peak(&[mcap::MAGIC, &record(kind, &body)].concat()) < BOUND / 2, "{kind}");
    }
}

#[test]
fn memory_does_not_grow_with_the_length_of_a_bag_nor_with_its_topics() {
    let memory = |count: i64| {
        let messages: Vec<_> = (0..count).map(|number| Message::at(0, number * MS)).collect();
        let options = WriteOptions::new().compression(Some(Compression::Zstd));
        peak(&mcap(options, &[Channel::new("/imu", IMU)], &messages))
    };
    let (short, long) = (memory(100_000), memory(1_000_000));
    assert!(long < short + 10_000, "{short} kB, {long} kB");
    let channels: Vec<_> = (0..60_000).map(|number| Channel::new(&format!("/{number}"), IMU)).collect();
    let messages: Vec<_> = (0..60_000).map(|number| Message::at(number, number as i64 * MS)).collect();
    let peak = peak(&mcap(WriteOptions::new(), &channels, &messages));
    assert!(peak < BOUND, "{peak} kB");
}
