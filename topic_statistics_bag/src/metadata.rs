// SPDX-License-Identifier: Apache-2.0

//! Reads the file metadata.yaml of rosbag2.

use std::{
    fs::File,
    io::Read,
    path::{Component, Path, PathBuf},
};

use topic_statistics_observe::input::{read_yaml, text, value, Yaml};

use crate::error::BagError;

pub(crate) const FILE_NAME: &str = "metadata.yaml";

/// The fields of metadata.yaml that this crate uses.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) relative_file_paths: Vec<String>,
    compression_mode: String,
    compression_format: String,
}

impl Metadata {
    /// The largest size of a metadata.yaml that is read, in bytes.
    const MAX_SIZE: u64 = 8 << 20;

    pub(crate) fn read(path: &Path) -> Result<Self, BagError> {
        let fault = |reason: String| BagError::Metadata { path: path.to_owned(), reason };
        let mut text = String::new();
        let file = File::open(path).map_err(BagError::io(path))?;
        file.take(Self::MAX_SIZE + 1).read_to_string(&mut text).map_err(BagError::io(path))?;
        if text.len() as u64 > Self::MAX_SIZE {
            return Err(fault(format!("it has more than {} bytes", Self::MAX_SIZE)));
        }
        const ROOT: &str = "rosbag2_bagfile_information";
        let root = read_yaml(&text).map_err(fault)?;
        let content = value(&root, ROOT).ok_or_else(|| format!("it has no {ROOT}"));
        content.and_then(Self::new).map_err(fault)
    }

    /// Reads the metadata that rosbag2 stores in a SQLite database.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        Self::new(&read_yaml(text).ok()?).ok()
    }

    fn new(yaml: &Yaml<'_>) -> Result<Self, String> {
        let string = |yaml: &Yaml<'_>| text(yaml).map(str::to_owned);
        let paths = value(yaml, "relative_file_paths").and_then(|paths| paths.as_sequence());
        let paths = paths.and_then(|paths| paths.iter().map(string).collect());
        let optional = |name: &str| match value(yaml, name) {
            None => Ok(String::new()),
            Some(value) => string(value).ok_or_else(|| format!("its {name} is no string")),
        };
        Ok(Self {
            relative_file_paths: paths.ok_or("its relative_file_paths are no list of strings")?,
            compression_mode: optional("compression_mode")?,
            compression_format: optional("compression_format")?,
        })
    }

    /// Returns whether each message is compressed with an algorithm other than zstd, which this crate cannot read.
    pub(crate) fn has_unknown_compression(&self) -> bool {
        self.compression_mode.eq_ignore_ascii_case("message") && self.compression_format != "zstd"
    }

    /// Returns the files that this metadata.yaml names, in its `directory`. Up to version 3 of the format, the paths
    /// begin with the name of the directory.
    pub(crate) fn files(&self, directory: &Path) -> Result<Vec<PathBuf>, BagError> {
        let file = |relative: &String| {
            let path = Path::new(relative);
            let is_inside =
                path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            let name = path.file_name().filter(|_| is_inside).ok_or_else(|| BagError::Metadata {
                path: directory.join(FILE_NAME),
                reason: format!("{relative:?} is no path of a file in its directory"),
            })?;
            let joined = directory.join(path);
            Ok(if joined.is_file() { joined } else { directory.join(name) })
        };
        self.relative_file_paths.iter().map(file).collect()
    }
}
