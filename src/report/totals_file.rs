// SPDX-License-Identifier: Apache-2.0

//! The file of the messages received and lost by a node's subscriptions (feature `totals_file`).

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;
use tempfile::NamedTempFile;
use topic_statistics_core::{record::clock::system_time, totals::TopicTotals, Timestamp};

/// The version of the format. It changes when a field changes its meaning or is removed.
const VERSION: u32 = 1;

/// The file.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    node_name: &'a str,
    /// Nanoseconds since the epoch, like all times.
    written_at: i64,
    topics: Vec<Topic<'a>>,
}

/// The totals of one subscription; an unknown value is null.
#[derive(Serialize)]
struct Topic<'a> {
    topic_name: &'a str,
    measurement_source_name: &'a str,
    messages_received: u64,
    messages_lost: Option<u64>,
    messages_out_of_order: Option<u64>,
    bytes_received: Option<u64>,
    messages_rate: Option<f64>,
    first_message: Option<i64>,
    last_message: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<MetricTotals>,
}

/// The distribution of the samples of one metric.
#[derive(Serialize)]
struct MetricTotals {
    metrics_source: &'static str,
    unit: &'static str,
    count: u64,
    p50: Option<f64>,
    p99: Option<f64>,
    maximum: f64,
}

/// Returns the absolute path, which does not depend on later changes of the working directory.
///
/// Errors if the file cannot be written, as far as that can be checked before.
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

/// Writes the file, completely or not at all. Returns it: the kernel may not have written it to the disk yet.
pub(crate) fn write(path: &Path, node_name: &str, totals: &[TopicTotals]) -> io::Result<File> {
    let text = render(node_name, totals, system_time())?;
    let mut file = temporary(path)?;
    file.write_all(text.as_bytes())?;
    Ok(file.persist(path)?)
}

/// Creates the temporary file, in the same directory, with a random name. It is removed when it is dropped.
fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new();
    file.prefix(".totals-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The permissions of any new file, less the process's umask: others may read it.
        file.permissions(std::fs::Permissions::from_mode(0o666));
    }
    file.tempfile_in(directory)
}

pub(crate) fn render(node_name: &str, totals: &[TopicTotals], written_at: i64) -> io::Result<String> {
    let topics = totals.iter().map(Topic::from).collect();
    let document = Document { version: VERSION, node_name, written_at, topics };
    yaml_serde::to_string(&document).map_err(io::Error::other)
}

impl<'a> From<&'a TopicTotals> for Topic<'a> {
    fn from(subscription: &'a TopicTotals) -> Self {
        let rate = subscription.totals.rate();
        let metrics = subscription.distributions().iter().map(|(metric, distribution)| {
            let quantile = |quantile| Some(distribution.quantile(quantile)).filter(|value| !value.is_nan());
            MetricTotals {
                metrics_source: metric.name(),
                unit: metric.unit(),
                count: distribution.count(),
                p50: quantile(0.5),
                p99: quantile(0.99),
                maximum: distribution.maximum(),
            }
        });
        Self {
            topic_name: &subscription.topic_name,
            measurement_source_name: &subscription.source_name,
            messages_received: subscription.totals.received,
            messages_lost: subscription.totals.lost,
            messages_out_of_order: subscription.totals.out_of_order,
            bytes_received: subscription.totals.bytes,
            messages_rate: (!rate.is_nan()).then_some(rate),
            first_message: subscription.totals.first_message.map(Timestamp::as_nanoseconds),
            last_message: subscription.totals.last_message.map(Timestamp::as_nanoseconds),
            metrics: metrics.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;
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
        let imu = TopicTotals::new("/imu", "/listener:/imu", totals, Distributions::default());
        let chatter = ("/chatter", "/listener:/chatter");
        let chatter = TopicTotals::new(chatter.0, chatter.1, Totals::default(), Distributions::default());
        assert_eq!(
            render("/listener", &[imu, chatter], 5).unwrap(),
            "version: 1\nnode_name: /listener\nwritten_at: 5\ntopics:\n\
             - topic_name: /imu\n  measurement_source_name: /listener:/imu\n  messages_received: 3\n  \
             messages_lost: 2\n  messages_out_of_order: 0\n  bytes_received: 1000000000000\n  \
             messages_rate: 2.0\n  first_message: 1000000000\n  last_message: 2000000000\n\
             - topic_name: /chatter\n  measurement_source_name: /listener:/chatter\n  messages_received: 0\n  \
             messages_lost: null\n  messages_out_of_order: null\n  bytes_received: null\n  \
             messages_rate: null\n  first_message: null\n  last_message: null\n"
        );
    }

    #[test]
    fn metrics_with_distributions_have_their_quantiles_or_null() {
        let mut distributions =
            Distributions::new(MetricSet::of(&[Metric::MessageAge, Metric::MessagePeriod]));
        (1..=100).for_each(|_| distributions.accept(Metric::MessageAge, 4.0));
        distributions.accept(Metric::MessagePeriod, 10.0);
        let imu = TopicTotals::new("/imu", "/listener:/imu", Totals::default(), distributions);
        let text = render("/listener", &[imu], 5).unwrap();
        let metrics = "  metrics:\n  \
             - metrics_source: message_age\n    unit: ms\n    count: 100\n    p50: 4.0\n    \
             p99: 4.0\n    maximum: 4.0\n  \
             - metrics_source: message_period\n    unit: ms\n    count: 1\n    p50: null\n    \
             p99: null\n    maximum: 10.0\n";
        assert!(text.ends_with(metrics), "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_written_completely_is_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("totals.yaml");
        fs::create_dir(&path).unwrap();
        assert!(write(&path, "/other", &[]).is_err(), "a directory is in its place");
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
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
