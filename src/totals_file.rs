//! The file that keeps what a node's subscriptions received and lost.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{host::system_time, totals::TopicTotals};

/// Changes when the meaning of a field does, or when one goes.
const VERSION: u32 = 1;

/// The whole file.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    node_name: &'a str,
    /// Nanoseconds since the epoch, as all times are.
    written_at: i64,
    topics: Vec<Topic<'a>>,
}

/// What one subscription received and lost; what is not known is null.
#[derive(Serialize)]
struct Topic<'a> {
    topic_name: &'a str,
    measurement_source_name: &'a str,
    messages_received: u64,
    messages_lost: Option<u64>,
    messages_out_of_order: Option<u64>,
    messages_rate: Option<f64>,
    first_message: Option<i64>,
    last_message: Option<i64>,
}

/// Errors if the file could not be written, as far as that can be told before.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it names no file"));
    }
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    let part = part(path);
    File::create(&part)?;
    fs::remove_file(part)
}

/// Writes the file, whole or not at all.
pub(crate) fn write(path: &Path, node_name: &str, totals: &[TopicTotals]) -> io::Result<()> {
    let text = render(node_name, totals, system_time())?;
    let part = part(path);
    let mut file = File::create(&part)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&part, path)).inspect_err(|_| {
        let _not_left_behind = fs::remove_file(&part);
    })
}

fn render(node_name: &str, totals: &[TopicTotals], written_at: i64) -> io::Result<String> {
    let topics = totals.iter().map(Topic::from).collect();
    let document = Document { version: VERSION, node_name, written_at, topics };
    yaml_serde::to_string(&document).map_err(io::Error::other)
}

impl<'a> From<&'a TopicTotals> for Topic<'a> {
    fn from(of: &'a TopicTotals) -> Self {
        let rate = of.totals.rate();
        Self {
            topic_name: &of.topic_name,
            measurement_source_name: &of.source_name,
            messages_received: of.totals.received,
            messages_lost: of.totals.lost,
            messages_out_of_order: of.totals.out_of_order,
            messages_rate: (!rate.is_nan()).then_some(rate),
            first_message: of.totals.first_message,
            last_message: of.totals.last_message,
        }
    }
}

/// The file's name until it is whole: beside it, and this process's own.
fn part(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{}.part", std::process::id()));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::totals::Totals;

    #[test]
    fn what_is_not_known_is_null() {
        let imu = TopicTotals {
            topic_name: "/imu".to_owned(),
            source_name: "listener/imu".to_owned(),
            totals: Totals {
                received: 3,
                lost: Some(2),
                out_of_order: Some(0),
                first_message: Some(1_000_000_000),
                last_message: Some(2_000_000_000),
                ..Totals::default()
            },
        };
        let chatter = TopicTotals {
            topic_name: "/chatter".to_owned(),
            source_name: "listener/chatter".to_owned(),
            totals: Totals::default(),
        };
        assert_eq!(
            render("/listener", &[imu, chatter], 5).unwrap(),
            "version: 1\nnode_name: /listener\nwritten_at: 5\ntopics:\n\
             - topic_name: /imu\n  measurement_source_name: listener/imu\n  messages_received: 3\n  messages_lost: 2\n  \
             messages_out_of_order: 0\n  messages_rate: 2.0\n  first_message: 1000000000\n  last_message: 2000000000\n\
             - topic_name: /chatter\n  measurement_source_name: listener/chatter\n  messages_received: 0\n  \
             messages_lost: null\n  messages_out_of_order: null\n  messages_rate: null\n  first_message: null\n  \
             last_message: null\n"
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_whole_is_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("totals.yaml");
        write(&path, "/listener", &[]).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        assert!(before.contains("topics: []"), "{before}");

        fs::create_dir(part(&path)).unwrap();
        assert!(write(&path, "/other", &[]).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
    }
}
