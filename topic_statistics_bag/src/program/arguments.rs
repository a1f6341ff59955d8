// SPDX-License-Identifier: Apache-2.0

//! The command line.

use std::{path::PathBuf, sync::LazyLock, time::Duration};

use clap::{error::ErrorKind, ArgGroup, CommandFactory, Parser};
use topic_statistics_bag::{BagClock, BagTime, ReadOptions};
use topic_statistics_core::Timestamp;
use topic_statistics_observe::{
    arguments::{self, window, CONDITIONS_HELP},
    expect::ExpectationFile,
    generate::Generate,
    pattern::{Namespace, Pattern, Selection},
    require::{Condition, Conditions},
};

/// Shows how often, how regularly, how old and how completely messages were recorded in ROS 2 bags, and their bytes.
///
/// The program reads MCAP files and rosbag2's SQLite files, without ROS, and prints a table of the topics. Windows,
/// conditions and expectations have the same meaning as in topic_monitor.
#[derive(Parser, Debug)]
#[command(name = "bag_statistics", version, after_help = AFTER_HELP.as_str(), max_term_width = 100)]
#[command(group = ArgGroup::new("judged").multiple(true))]
pub struct Arguments {
    /// MCAP files, SQLite files, or rosbag2 directories, all from the same recording
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Topics by name or by pattern [default: all topics]
    ///
    /// `imu` means `/imu`. In patterns, `*`, `?`, `[ab]` and `{front,rear}` match within a part of a name, `**` matches
    /// across parts: '/camera/*', '/**/imu'. Quote patterns, so that the shell does not expand them.
    ///
    /// Without --topics, the topics of --expect are read, or the topics of the --require conditions if each condition
    /// names its topic; otherwise all topics except /parameter_events, /rosout, /statistics, /statistics/distribution
    /// and hidden topics.
    #[arg(long, value_name = "TOPIC", num_args = 1.., help_heading = READ)]
    pub topics: Vec<Pattern>,
    /// Include /parameter_events, /rosout, /statistics, /statistics/distribution and hidden topics
    ///
    /// Without --all, these topics are selected only by their full names. The name of a hidden topic has a part that
    /// begins with `_`.
    #[arg(long, help_heading = READ)]
    pub all: bool,
    /// Start reading at this time: seconds since the start of the bag, or 2026-03-01T12:00:00Z
    #[arg(long, value_name = "TIME", help_heading = READ, value_parser = time, allow_negative_numbers = true)]
    pub from: Option<BagTime>,
    /// Stop reading at this time: seconds since the start of the bag, or 2026-03-01T12:00:00Z
    #[arg(long, value_name = "TIME", help_heading = READ, value_parser = time, allow_negative_numbers = true)]
    pub to: Option<BagTime>,
    /// Read compressed files completely, even if their content is very large
    ///
    /// Without --unpack-all, at most 256 MiB or 100 times the size of the file are read, whichever is more, so that a
    /// small file cannot fill the disk.
    #[arg(long, help_heading = READ)]
    pub unpack_all: bool,
    /// The clock of windows and periods
    ///
    /// `log`: when the recorder received a message. `publish`: when its publisher sent it. `stamp`: its header stamp.
    /// Messages without the chosen time are left out. With each clock, a message's age is its log time minus its header
    /// stamp.
    #[arg(long, value_name = "log|publish|stamp", help_heading = READ, default_value = "log")]
    pub clock: BagClock,
    /// The length of a window in seconds, 0.1 to 86400
    #[arg(
        long, alias = "period", value_name = "SECONDS", help_heading = READ, default_value = "1",
        value_parser = window, allow_negative_numbers = true
    )]
    pub window: Duration,
    /// Start a window at this time: 2026-03-01T12:00:00Z, or nanoseconds since the epoch [default: the epoch]
    ///
    /// To get the same windows as topic_monitor, pass a `window_start` from the output of topic_monitor --json.
    #[arg(long, value_name = "TIME", help_heading = READ, value_parser = origin)]
    pub origin: Option<Timestamp>,

    /// Print a line for each topic and window instead of the table
    #[arg(long, help_heading = OUTPUT, conflicts_with = "json")]
    pub plain: bool,
    /// Print a JSON object for each topic and window, one per line, and at the end an object for each topic
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Write a page about the bag to this file
    ///
    /// The page is one HTML file with rate, period, age, delays and losses over time, distributions, and the --require
    /// conditions that failed.
    #[arg(long, value_name = "FILE.html", help_heading = OUTPUT)]
    pub report: Option<PathBuf>,
    /// Write each condition, each topic of --expect and each quantity of --compare as a test in JUnit XML, which CI
    /// systems show
    #[arg(long, value_name = "FILE.xml", help_heading = OUTPUT, requires = "judged")]
    pub junit: Option<PathBuf>,
    /// Print a description of the files: storage, duration, topics with type, QoS and number of messages
    #[arg(
        long, help_heading = OUTPUT,
        conflicts_with_all = [
            "all", "clock", "compare", "expect", "from", "json", "origin", "plain", "print_expectations", "report",
            "require", "to", "topics", "window",
        ]
    )]
    pub info: bool,
    /// Print the manual page, or the completion script of a shell
    #[arg(long, value_name = "WHAT", exclusive = true, help_heading = OUTPUT)]
    pub generate: Option<Generate>,
    /// Check these conditions in each window
    ///
    /// A condition is `[TOPIC:]METRIC[.FIGURE] OPERATOR VALUE`. Blanks separate conditions: 'rate>=90 age.max<50
    /// /imu:lost=0'. A topic applies to all conditions up to the next topic; conditions before the first topic apply to
    /// all topics that are read. The checks of a topic start with its first window that has a value.
    #[arg(long, value_name = "CONDITIONS", help_heading = JUDGED, group = "judged")]
    pub require: Vec<Conditions>,
    /// Compare the topics with the expectations in this file
    ///
    /// topic_monitor reads the same file. The file has conditions for WARN and for ERROR, by topic or by pattern. The
    /// state of a topic is then OK, WARN, ERROR or STALE. Each change is reported. The exit status is 1 if a topic has
    /// the state ERROR at the end. The file is described at
    /// https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/health.md
    #[arg(long, value_name = "FILE.yaml", help_heading = JUDGED, group = "judged")]
    pub expect: Option<PathBuf>,
    /// The namespace of names in the file of --expect that have no slash at their start
    ///
    /// With `/r1`, `imu` in the file means `/r1/imu`: all robots of a fleet can have the same file.
    #[arg(long, value_name = "NAMESPACE", help_heading = JUDGED, requires = "expect", default_value = "/")]
    pub expect_namespace: Namespace,
    /// Print a file for --expect from the figures of this bag, with a tolerance in percent [default: 20]
    #[arg(
        long, value_name = "PERCENT", help_heading = JUDGED, num_args = 0..=1, require_equals = true,
        default_missing_value = "20", value_parser = clap::value_parser!(u32).range(1..=90),
        conflicts_with_all = ["compare", "expect", "json", "plain", "report", "require"]
    )]
    pub print_expectations: Option<u32>,
    /// Compare with another bag, or with the --json output of an earlier run
    ///
    /// The program prints which figures have changed, and which changes can be chance. The exit status is 1 if a figure
    /// became worse.
    #[arg(long, value_name = "BASELINE", help_heading = JUDGED, group = "judged")]
    pub compare: Option<PathBuf>,
}

const READ: &str = "What is read";
const OUTPUT: &str = "Output";
const JUDGED: &str = "What is expected";

static AFTER_HELP: LazyLock<String> = LazyLock::new(|| format!("{CONDITIONS_HELP}\n\n{EXIT_STATUS}"));

const EXIT_STATUS: &str = "\
Exit status:
  0  all was read; with --require, each window fulfils all conditions
  1  a window does not fulfil the conditions; with --expect, a topic has the
     state ERROR at the end; with --compare, a figure became worse; the topics
     have no messages
  2  wrong usage
  3  a file cannot be read, or only a part of it; the report cannot be written";

impl Arguments {
    /// Returns an error if a topic in the arguments is not valid for a bag.
    pub fn check(&self) -> Result<(), clap::Error> {
        let of_conditions = self.conditions().filter_map(|condition| condition.topic.as_ref());
        Self::check_topics(self.topics.iter().chain(of_conditions))
            .map_err(|error| Self::command().error(ErrorKind::ValueValidation, error))
    }

    /// Returns an error if a pattern is for sources of statistics (`NODE:TOPIC`), because a bag has no such sources.
    pub fn check_topics<'a>(patterns: impl IntoIterator<Item = &'a Pattern>) -> Result<(), String> {
        match patterns.into_iter().find(|pattern| pattern.is_of_sources()) {
            Some(source) => Err(format!("a topic's name has no ':', unlike {:?}", source.text())),
            None => Ok(()),
        }
    }

    pub fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.require.iter().flat_map(|conditions| &conditions.0)
    }

    /// Returns the selection of the topics to read.
    pub fn selection(&self, expected: Option<&ExpectationFile>) -> Selection {
        let patterns = arguments::patterns(&self.topics, expected, self.conditions());
        Selection { patterns, all: self.all, own: None }
    }

    /// Returns the options for reading the bag, or a baseline. If `--from` and `--to` are relative to the start of the
    /// bag, the same part of the baseline is read. For the baseline, absolute times are ignored.
    pub fn options(&self, selection: &Selection, is_baseline: bool) -> ReadOptions {
        let is_valid = |time: &BagTime| !is_baseline || matches!(time, BagTime::After(_));
        let [from, to] = [self.from, self.to].map(|time| time.filter(is_valid));
        let selection = selection.clone();
        let options = ReadOptions::new().unpack_all(self.unpack_all).clock(self.clock).period(self.window);
        let options = options.topics(move |topic| selection.is_wanted(topic));
        let options = self.origin.into_iter().fold(options, ReadOptions::origin);
        let options = from.into_iter().fold(options, ReadOptions::from);
        to.into_iter().fold(options, ReadOptions::to)
    }
}

/// Parses the value of `--from` or `--to`.
fn time(text: &str) -> Result<BagTime, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        let after = Duration::try_from_secs_f64(seconds);
        return after.map(BagTime::After).map_err(|_| "seconds since the start are not negative".to_owned());
    }
    let wrong = "it has to be seconds since the start of the bag, or a time as 2026-03-01T12:00:00Z";
    absolute(text, wrong).map(BagTime::At)
}

/// Parses the value of `--origin`.
fn origin(text: &str) -> Result<Timestamp, String> {
    let wrong = "it has to be a time as 2026-03-01T12:00:00Z, or nanoseconds since the epoch";
    text.parse().map(Timestamp::from_nanoseconds).or_else(|_| absolute(text, wrong))
}

/// Parses a time with a time zone. `wrong` is the error text for an invalid time.
fn absolute(text: &str, wrong: &str) -> Result<Timestamp, String> {
    let time: jiff::Timestamp = text.parse().map_err(|_| wrong.to_owned())?;
    let nanoseconds =
        i64::try_from(time.as_nanosecond()).map_err(|_| "it is no time from 1678 to 2262".to_owned())?;
    Ok(Timestamp::from_nanoseconds(nanoseconds))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn parse(line: &[&str]) -> Result<Arguments, clap::Error> {
        let arguments = Arguments::try_parse_from([&["bag_statistics"], line].concat())?;
        arguments.check().map(|()| arguments)
    }

    #[test]
    fn the_help_fits_a_terminal_of_80_columns() {
        let long: Vec<&str> = AFTER_HELP.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{long:#?}");
    }

    #[test]
    fn times_are_since_the_start_or_since_the_epoch() {
        let noon = Timestamp::from_nanoseconds(1_772_366_400_000_000_000);
        assert_eq!(time("1.5"), Ok(BagTime::After(Duration::from_millis(1500))));
        assert_eq!(time("2026-03-01T12:00:00Z"), Ok(BagTime::At(noon)));
        assert_eq!(time("2026-03-01T13:00:00+01:00"), Ok(BagTime::At(noon)));
        assert_eq!([origin("2026-03-01T12:00:00Z"), origin("1772366400000000000")], [Ok(noon), Ok(noon)]);
    }

    #[test]
    fn the_commands_of_the_documentation_are_valid() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/bags.md");
        let text = fs::read_to_string(path).unwrap();
        let mut commands = 0;
        for line in text.lines() {
            let Some((before, command)) = line.split_once("bag_statistics ") else { continue };
            if !["", "- ", "- run: "].contains(&before.trim_start()) {
                continue;
            }
            // In these commands, quotes enclose whole words. The words after `|`, `>` or `#` are not arguments.
            let quoted = command.split('\'').enumerate().flat_map(|(number, part)| match number % 2 {
                1 => vec![part],
                _ => part.split_whitespace().collect(),
            });
            let words: Vec<&str> = quoted.take_while(|word| !["|", ">", "#"].contains(word)).collect();
            parse(&words).unwrap_or_else(|error| panic!("{line}: {error}"));
            commands += 1;
        }
        assert!(commands > 8, "{commands}");
    }

    #[test]
    fn wrong_usage_is_refused() {
        for line in [
            &[][..],
            &["a.mcap", "--window", "0.05"],
            &["a.mcap", "--clock", "wall"],
            &["a.mcap", "--require", "rte>1"],
            &["a.mcap", "--topics", "a//b"],
            &["a.mcap", "--topics", "/listener:/imu"],
            &["a.mcap", "--info", "--json"],
            &["a.mcap", "--json", "--plain"],
            &["a.mcap", "--print-expectations=0"],
            &["a.mcap", "--from", "-1"],
            &["a.mcap", "--from", "NaN"],
            &["a.mcap", "--from", "soon"],
            &["a.mcap", "--from", "2026-03-01T12:00:00"],
            &["a.mcap", "--from", "9999-01-01T00:00:00Z"],
            &["a.mcap", "--origin", "1.5"],
            &["a.mcap", "--origin", "soon"],
            &["a.mcap", "--origin", "99999999999999999999"],
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line:?}");
        }
    }
}
