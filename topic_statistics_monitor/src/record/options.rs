// SPDX-License-Identifier: Apache-2.0

//! The options of a recording.

use std::{path::PathBuf, time::Duration};

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

/// The options of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// The path of the file. With `split`, the name of each file gets a number.
    pub path: PathBuf,
    pub compression: Compression,
    /// The size in bytes at which a file ends. The message that exceeds this size is the last message of the file.
    pub max_size: Option<u64>,
    /// The maximum duration of a file.
    pub max_duration: Option<Duration>,
    /// Whether another file begins when a file ends at a limit. Without `split`, the recording ends at the limit.
    pub split: bool,
    /// The maximum size of the messages that wait to be written, in bytes.
    pub max_cache: u64,
    /// The maximum number of events per second that report losses. 0 means no events.
    pub update_rate: f64,
}

impl Options {
    /// The default of [`max_cache`](Self::max_cache).
    pub const MAX_CACHE: u64 = 100_000_000;

    /// Returns the path of the file with this number. Numbers count from 0.
    pub fn file(&self, number: u32) -> PathBuf {
        if !self.split {
            return self.path.clone();
        }
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let extension =
            self.path.extension().map_or_else(|| "mcap".into(), |extension| extension.to_string_lossy());
        self.path.with_file_name(format!("{stem}_{number}.{extension}"))
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
impl Options {
    /// Returns the options of a recording in this file, without limits.
    pub fn to(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            compression: Compression::None,
            max_size: None,
            max_duration: None,
            split: false,
            max_cache: 1_000_000,
            update_rate: 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut options = Options::to("/tmp/run.mcap");
        assert_eq!(options.file(0), PathBuf::from("/tmp/run.mcap"));
        options.split = true;
        assert_eq!(options.file(12), PathBuf::from("/tmp/run_12.mcap"));
    }
}
