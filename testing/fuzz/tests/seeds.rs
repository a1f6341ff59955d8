// SPDX-License-Identifier: Apache-2.0

//! Runs every target on its seeds, with a stable compiler. Some seeds once made a target fail.

use std::{fs, path::Path};

/// The largest total size of the seeds of one target, in bytes.
const MAX_SIZE: u64 = 128 * 1024;

fn run(name: &str, target: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let (mut seeds, mut size) = (0, 0);
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display()); // shown if the test fails
        let bytes = fs::read(path).unwrap();
        target(&bytes);
        (seeds, size) = (seeds + 1, size + bytes.len() as u64);
    }
    assert!(seeds > 0 && size <= MAX_SIZE, "{seeds} seeds of {size} bytes");
}

macro_rules! seeds {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                run(stringify!($target), fuzz::$target);
            }
        )*
    };
}

seeds! { bag collectors condition definition exposition from_statistics http names otlp parameters service_event }
