// SPDX-License-Identifier: Apache-2.0

//! Writes the file with the numbers of messages received and lost by a node's subscriptions (feature `totals_file`).

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;
use topic_statistics_core::{record::clock::system_time, totals::TopicTotals, Timestamp};

/// The version of the file format. The version changes when a field changes its meaning or is removed.
const VERSION: u32 = 1;

/// Returns the absolute path of the file, so that later changes of the working directory have no effect.
///
/// Errors if the file cannot be written, as far as this can be checked now.
pub(crate) fn check(path: &Path) -> io::Result<PathBuf> {
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"));
    }
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    let path = std::path::absolute(path)?;
    temporary(&path)?.close()?;
    Ok(path)
}

/// Writes the file, completely or not at all. Returns the open file, because the kernel may write the content to the
/// disk later, and the caller can wait until that is done.
pub(crate) fn write(path: &Path, node_name: &str, totals: &[TopicTotals]) -> io::Result<File> {
    let text = render(node_name, totals, system_time());
    let mut file = temporary(path)?;
    file.write_all(text.as_bytes())?;
    Ok(file.persist(path)?)
}

/// Creates the temporary file, in the same directory, with a random name. The file is removed when the returned value
/// is dropped.
fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new();
    file.prefix(".totals-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The usual permissions of a new file, so other users may read the file. The kernel removes the permissions in
        // the process's umask.
        file.permissions(std::fs::Permissions::from_mode(0o666));
    }
    file.tempfile_in(directory)
}

/// Returns the text of the file, in YAML. Times are in nanoseconds since the epoch; an unknown value is null.
pub(crate) fn render(node_name: &str, totals: &[TopicTotals], written_at: i64) -> String {
    let topics = match totals {
        [] => " []\n".to_owned(),
        _ => totals.iter().fold("\n".to_owned(), |topics, totals| topics + &topic(totals)),
    };
    format!("version: {VERSION}\nnode_name: {}\nwritten_at: {written_at}\ntopics:{topics}", string(node_name))
}

fn topic(subscription: &TopicTotals) -> String {
    let TopicTotals { topic_name, source_name, totals, .. } = subscription;
    let time = |time: Option<Timestamp>| or_null(time.map(Timestamp::as_nanoseconds));
    let mut text = item(
        "",
        &[
            ("topic_name", string(topic_name)),
            ("measurement_source_name", string(source_name)),
            ("messages_received", totals.received.to_string()),
            ("messages_lost", or_null(totals.lost)),
            ("messages_out_of_order", or_null(totals.out_of_order)),
            ("bytes_received", or_null(totals.bytes)),
            ("messages_rate", number(totals.rate())),
            ("first_message", time(totals.first_message)),
            ("last_message", time(totals.last_message)),
        ],
    );
    for (index, (metric, distribution)) in subscription.distributions().iter().enumerate() {
        if index == 0 {
            text.push_str("  metrics:\n");
        }
        text += &item(
            "  ",
            &[
                ("metrics_source", metric.name().to_owned()),
                ("unit", metric.unit().to_owned()),
                ("count", distribution.count().to_string()),
                ("p50", number(distribution.quantile(0.5))),
                ("p99", number(distribution.quantile(0.99))),
                ("maximum", number(distribution.maximum())),
            ],
        );
    }
    text
}

fn item(indent: &str, fields: &[(&str, String)]) -> String {
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    format!("{indent}- {}", fields.join(&format!("{indent}  ")))
}

fn or_null(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

fn number(value: f64) -> String {
    match value {
        _ if value.is_nan() => "null".to_owned(),
        _ if value.is_infinite() => format!("{}.inf", if value < 0.0 { "-" } else { "" }),
        _ => format!("{value:?}"),
    }
}

/// Returns a YAML string. The string is in quotes, with escapes, unless the text is a plain absolute name.
fn string(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | ':' | ' ' | '(' | ')');
    if name.starts_with('/')
        && name.chars().all(is_plain)
        && !name.contains(": ")
        && !name.ends_with([':', ' '])
    {
        return name.to_owned();
    }
    let escaped = name.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        _ => format!("\\U{:08X}", u32::from(c)),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;
    use saphyr::{LoadableYamlNode, Yaml};
    use topic_statistics_core::{
        distributions::Distributions, metric_set::MetricSet, totals::Totals, Metric,
    };

    #[test]
    fn an_unknown_value_is_null() {
        let mut totals = Totals::default();
        (totals.received, totals.lost, totals.out_of_order) = (3, Some(2), Some(0));
        totals.bytes = Some(1_000_000_000_000);
        (totals.first_message, totals.last_message) =
            [1_000_000_000, 2_000_000_000].map(|time| Some(Timestamp::from_nanoseconds(time))).into();
        (totals.active, totals.intervals) = (Duration::from_secs(1), Some(2));
        let mut distributions =
            Distributions::new(MetricSet::of(&[Metric::MessageAge, Metric::MessagePeriod]));
        (1..=100).for_each(|_| distributions.accept(Metric::MessageAge, 4.0));
        distributions.accept(Metric::MessagePeriod, 10.0);
        let imu = TopicTotals::new("/imu", "/listener:/imu", totals, distributions);
        let chatter = ("/chatter", "/listener:/chatter");
        let chatter = TopicTotals::new(chatter.0, chatter.1, Totals::default(), Distributions::default());
        assert_eq!(
            render("/listener", &[imu, chatter], 5),
            "version: 1\nnode_name: /listener\nwritten_at: 5\ntopics:\n\
             - topic_name: /imu\n  measurement_source_name: /listener:/imu\n  messages_received: 3\n  \
             messages_lost: 2\n  messages_out_of_order: 0\n  bytes_received: 1000000000000\n  \
             messages_rate: 2.0\n  first_message: 1000000000\n  last_message: 2000000000\n  metrics:\n  \
             - metrics_source: message_age\n    unit: ms\n    count: 100\n    p50: 4.0\n    \
             p99: 4.0\n    maximum: 4.0\n  \
             - metrics_source: message_period\n    unit: ms\n    count: 1\n    p50: null\n    \
             p99: null\n    maximum: 10.0\n\
             - topic_name: /chatter\n  measurement_source_name: /listener:/chatter\n  messages_received: 0\n  \
             messages_lost: null\n  messages_out_of_order: null\n  bytes_received: null\n  \
             messages_rate: null\n  first_message: null\n  last_message: null\n"
        );
    }

    #[test]
    fn any_name_is_a_string() {
        let read = |text: &str| {
            let documents = Yaml::load_from_str(text).unwrap();
            documents[0]["node_name"].as_str().unwrap().to_owned()
        };
        for plain in ["/listener", "/rover:/wheel (2)"] {
            assert_eq!(string(plain), plain);
            assert_eq!(read(&render(plain, &[], 5)), plain);
        }
        for quoted in
            ["", "true", "7", "/a: b", "/a:", "/a ", "- x", "\"\\", "a\nb\u{85}\u{2028}", "/größe\u{feff}😀"]
        {
            assert!(string(quoted).starts_with('"'), "{quoted}");
            assert_eq!(read(&render(quoted, &[], 5)), quoted);
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_completely_is_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("totals.yaml");
        fs::create_dir(&path).unwrap();
        assert!(write(&path, "/other", &[]).is_err(), "a directory has the path of the file");
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_link_with_a_name_that_can_be_guessed_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, victim) = (directory.path().join("totals.yaml"), directory.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        let name = format!("totals.yaml.{}.part", std::process::id());
        std::os::unix::fs::symlink(&victim, directory.path().join(name)).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let path = check(&path).unwrap();
        write(&path, "/listener", &[]).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(fs::read_to_string(&path).unwrap().contains("topics: []"), "the link is replaced");
    }

    #[test]
    fn two_threads_write_one_file_and_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = &directory.path().join("totals.yaml");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..100).for_each(|_| drop(write(path, "/listener", &[]).unwrap())));
            }
        });
        assert!(fs::read_to_string(path).unwrap().contains("topics: []"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_relative_path_is_of_the_directory_at_the_creation() {
        let path = check(Path::new("totals-of-a-test.yaml")).unwrap();
        assert_eq!(path, std::env::current_dir().unwrap().join("totals-of-a-test.yaml"));
    }
}
