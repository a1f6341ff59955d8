// SPDX-License-Identifier: Apache-2.0

//! The options of a recording.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use topic_statistics_observe::arguments::seconds;

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Compression {
    /// Without compression.
    #[default]
    None,
    /// With LZ4.
    Lz4,
    /// With Zstandard.
    Zstd,
}

impl Compression {
    pub fn of_mcap(self) -> Option<mcap::Compression> {
        match self {
            Self::None => None,
            Self::Lz4 => Some(mcap::Compression::Lz4),
            Self::Zstd => Some(mcap::Compression::Zstd),
        }
    }
}

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Recording")]
pub struct Options {
    /// Record the watched topics in this file, which must not exist yet
    ///
    /// The file is MCAP, with the sequence numbers and the publishers of the messages, which show losses. `ros2 bag`,
    /// Foxglove and bag_statistics can read the file. Without TOPIC, all topics are recorded.
    #[arg(long, value_name = "FILE.mcap", conflicts_with_all = ["from_statistics", "print_expectations"])]
    pub record: Option<PathBuf>,
    /// Compress the recording
    #[arg(long, value_enum, default_value = "none", requires = "record")]
    pub compression: Compression,
    /// End the recording when its file has this size: 500MB, 2GB, 64MiB
    ///
    /// The message that exceeds this size is the last message. The index at the end of the file is not counted.
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires = "record")]
    pub max_size: Option<u64>,
    /// End the recording after this number of seconds
    #[arg(
        long, value_name = "SECONDS", value_parser = seconds, requires = "record", allow_negative_numbers = true
    )]
    pub max_duration: Option<Duration>,
    /// Begin the next file at --max-size or --max-duration: FILE_0.mcap, FILE_1.mcap
    #[arg(long, requires = "record")]
    pub split: bool,
    /// How many bytes of messages may wait to be written [default: 100MB], or --last keeps [default: 256MB]
    ///
    /// Further messages are lost, and are counted as lost in the recorder. With --last, the oldest messages are dropped
    /// instead, so that fewer seconds are kept.
    #[arg(long, value_name = "BYTES", value_parser = bytes, requires = "record")]
    pub max_cache_size: Option<u64>,
    /// Publish losses on ~/messages_lost at most this number of times per second; 0 means never
    #[arg(
        long, value_name = "HZ", default_value = "1", value_parser = update_rate, requires = "record",
        allow_negative_numbers = true
    )]
    pub statistics_update_rate: f64,
    /// The options of the black box, which is on if `last` is given.
    #[command(flatten)]
    pub black_box: BlackBoxOptions,
}

/// The arguments of the black box, which keeps the last messages in memory.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Black box")]
#[group(id = "black_box")]
pub struct BlackBoxOptions {
    /// Keep the last seconds in memory, and write them when something happens: 30s
    ///
    /// A file is written by the triggers of --on, by SIGUSR1, and by the service ~/write_recording
    /// (std_srvs/srv/Trigger). Its name is that of --record with the time of the trigger: FILE_20261128T133405Z.mcap.
    /// At most one file begins per minute. A later trigger waits, and its file has the seconds before it.
    /// --max-cache-size limits the memory.
    #[arg(
        long, value_name = "SECONDS", value_parser = with_unit, requires = "record", allow_negative_numbers = true,
        conflicts_with_all = ["split", "max_size", "max_duration"]
    )]
    pub last: Option<Duration>,
    /// Also write the messages of this number of seconds after the trigger
    #[arg(
        long, value_name = "SECONDS", value_parser = with_unit, requires = "last", allow_negative_numbers = true
    )]
    pub after: Option<Duration>,
    /// Write a file when the level of a topic of --expect becomes this one: error,stale
    ///
    /// A topic that falls silent becomes STALE, not ERROR, unless its expectations have `silence: error`.
    #[arg(long, value_name = "LEVELS", value_enum, value_delimiter = ',', requires_all = ["last", "expect"])]
    pub on: Vec<On>,
    /// Keep at most this number of files: the oldest one is removed
    ///
    /// Only files whose names have the form above are counted and removed.
    #[arg(
        long, value_name = "NUMBER", default_value = "10", requires = "last",
        value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true
    )]
    pub max_files: u32,
}

/// A level of health that triggers the black box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum On {
    Warn,
    Error,
    Stale,
}

/// Reads a duration in seconds: `30` or `30s`.
fn with_unit(text: &str) -> Result<Duration, String> {
    seconds(text.strip_suffix('s').unwrap_or(text))
}

impl Options {
    /// The path of `--record`. Empty without `--record`, when nothing is recorded.
    pub fn path(&self) -> &Path {
        self.record.as_deref().unwrap_or(Path::new(""))
    }

    /// The default of [`max_cache_size`](Self::max_cache_size) without the black box.
    pub const MAX_CACHE: u64 = 100_000_000;

    pub fn file(&self, number: u32) -> PathBuf {
        let path = self.path();
        if !self.split {
            return path.to_owned();
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let extension = path.extension().unwrap_or(OsStr::new("mcap")).to_string_lossy();
        path.with_file_name(format!("{stem}_{number}.{extension}"))
    }
}

/// Reads a number of bytes: `500000`, `500kB`, `1.5GB`, `64MiB`. Errors unless the number is at least 1.
pub fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 8] = [
        ("", 1.0),
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ];
    let error = || "it has to be a number of bytes: 500000, 500kB, 1.5GB or 64MiB".to_owned();
    let digits = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.trim().parse().map_err(|_| error())?;
    let factor = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?.1;
    match number * factor {
        bytes if (1.0..1e18).contains(&bytes) => Ok(bytes as u64),
        _ => Err(error()),
    }
}

/// Reads a rate in Hz. Errors unless the rate is from 0 to 1000.
pub fn update_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.0..=1000.0).contains(rate));
    rate.ok_or_else(|| "it has to be a number of events per second, 0 to 1000".to_owned())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::Parser;

    /// Returns the options of a recording in this file, without limits.
    pub fn options(path: impl AsRef<OsStr>) -> Options {
        let line = [OsStr::new("topic_monitor"), OsStr::new("--record"), path.as_ref()];
        Arguments::parse_from(line).record
    }

    #[test]
    fn bytes_have_units_and_split_files_numbers() {
        for (text, expected) in
            [("1", 1), ("500kB", 500_000), ("1.5GB", 1_500_000_000), ("64MiB", 64 << 20), ("7B", 7)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for wrong in ["", "0", "-1", "kB", "1XB", "1e30", "NaN", "inf"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        let mut options = options("/tmp/run.mcap");
        assert_eq!(options.file(0), PathBuf::from("/tmp/run.mcap"));
        options.split = true;
        assert_eq!(options.file(12), PathBuf::from("/tmp/run_12.mcap"));
    }
}
