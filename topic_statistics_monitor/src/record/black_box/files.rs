// SPDX-License-Identifier: Apache-2.0

//! The files of the black box: their names, and the removal of the oldest files.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{access, Access};

use crate::record::RecordError;

/// The files that the black box writes: `run_20261128T133405Z.mcap` for `run.mcap`.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    stem: String,
    extension: String,
    max: usize,
}

impl Files {
    /// Errors if no file can be created in the directory of the path.
    pub fn new(path: &Path, max: usize) -> Result<Self, RecordError> {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        access(&directory, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| RecordError::Create { path: path.to_owned(), source: error.into() })?;
        let extension = path.extension().unwrap_or(OsStr::new("mcap")).to_string_lossy();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { directory, stem, extension: extension.into_owned(), max })
    }

    /// Returns a new path for a trigger at this time (ns since the epoch). Its name has the first second, from this
    /// time on, for which no file exists. If 60 files exist, the path is not new, and `BagFile::create` refuses it.
    pub fn path(&self, time: u64) -> PathBuf {
        let path = |second| self.directory.join(format!("{}_{}.{}", self.stem, utc(second), self.extension));
        let first = time / 1_000_000_000;
        (first..first + 60).map(path).find(|path| !path.exists()).unwrap_or_else(|| path(first))
    }

    fn is_own(&self, name: &str) -> bool {
        let time = name
            .strip_prefix(&self.stem)
            .and_then(|rest| rest.strip_prefix('_'))
            .and_then(|rest| rest.strip_suffix(&self.extension))
            .and_then(|rest| rest.strip_suffix("Z."))
            .and_then(|time| time.split_once('T'));
        time.is_some_and(|(date, time)| {
            (date.len(), time.len()) == (8, 6)
                && (date.bytes().chain(time.bytes())).all(|c| c.is_ascii_digit())
        })
    }

    /// Returns the files of the black box in the directory, the oldest file first.
    pub fn all(&self) -> io::Result<Vec<PathBuf>> {
        let mut all = vec![];
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && entry.file_name().to_str().is_some_and(|name| self.is_own(name))
            {
                all.push(entry.path());
            }
        }
        all.sort();
        Ok(all)
    }

    /// Returns the time since the last file was written. `None` without a file, or if the file's time is later than the
    /// present time of the clock.
    pub fn age_of_last(&self) -> Option<Duration> {
        let last = self.all().ok()?.pop()?;
        last.metadata().ok()?.modified().ok()?.elapsed().ok()
    }

    /// Removes the oldest files, but not the file `new`, so that at most the maximum number of files remain.
    pub fn remove_oldest(&self, new: &Path) -> io::Result<()> {
        let others: Vec<PathBuf> =
            self.all()?.into_iter().filter(|path| path.file_name() != new.file_name()).collect();
        let too_many = (others.len() + 1).saturating_sub(self.max);
        others.iter().take(too_many).try_for_each(fs::remove_file)
    }
}

/// Returns a time in seconds since the Unix epoch as UTC: `20261128T133405Z`. After the year 9999, the year is 9999.
fn utc(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.unwrap_or(jiff::Timestamp::MAX).strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_time_in_utc() {
        // The expected texts are the output of `date -u -d @SECONDS +%Y%m%dT%H%M%SZ`.
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_735_689_599, "20241231T235959Z"),
            (1_795_872_845, "20261128T133405Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
    }

    #[test]
    fn only_own_files_are_removed_and_the_oldest_first() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::new(&directory.path().join("run.mcap"), 3).unwrap();
        let others = [
            "run.mcap",
            "run_0.mcap",
            "run_20261128T133405Z.mcap.bak",
            "other_20261128T133405Z.mcap",
            "run_2026x128T133405Z.mcap",
            "run_20261128T133405.mcap",
            "run_back_20261128T133405Z.mcap",
        ];
        let seconds = |second: u64| (1_795_872_845 + second) * 1_000_000_000;
        let own: Vec<PathBuf> = (0..5).map(|second| files.path(seconds(second))).collect();
        for path in others.iter().map(|name| directory.path().join(name)).chain(own.iter().rev().cloned()) {
            fs::write(path, "x").unwrap();
        }
        assert_eq!(files.path(seconds(3)), files.path(seconds(5)), "the name of another second is free");
        fs::create_dir(files.path(seconds(9))).unwrap();
        assert!(files.age_of_last().unwrap() < Duration::from_secs(60));
        files.remove_oldest(&own[4]).unwrap();
        assert_eq!(files.all().unwrap(), own[2..]);
        // The file that is being written is not removed, even if the clock was set back.
        files.remove_oldest(&own[2]).unwrap();
        assert_eq!(files.all().unwrap(), own[2..]);
        assert!(others.iter().all(|name| directory.path().join(name).exists()));
        let error = Files::new(&directory.path().join("none/run.mcap"), 3).unwrap_err();
        assert!(error.to_string().contains("cannot be created"), "{error}");
    }
}
