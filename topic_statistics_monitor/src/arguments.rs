// SPDX-License-Identifier: Apache-2.0

//! The command line.

use std::{path::PathBuf, sync::LazyLock, time::Duration};

use clap::{error::ErrorKind, ArgGroup, CommandFactory, Parser};
use topic_statistics_observe::{
    arguments::{self, seconds, window, CONDITIONS_HELP},
    expect::ExpectationFile,
    generate::Generate,
    pattern::{Namespace, Pattern},
    require::{Condition, Conditions},
    row::Kind,
};

use crate::record;

/// Shows how often, how regularly, how old and how completely messages arrive on ROS 2 topics of any type, and their
/// bytes.
///
/// On a terminal, the program shows a live view. Otherwise it prints a line for each topic and window.
#[derive(Parser, Debug)]
#[command(name = "topic_monitor", version, after_help = AFTER_HELP.as_str(), max_term_width = 100)]
#[command(group = ArgGroup::new("judged").multiple(true))]
pub struct Arguments {
    /// Topics by name or by pattern [default: all topics]
    ///
    /// `imu` means `/imu`. In patterns, `*`, `?`, `[ab]` and `{front,rear}` match within a part of a name, `**` matches
    /// across parts: '/camera/*', '/**/imu'. Quote patterns, so that the shell does not expand them. Topics that appear
    /// later are also watched.
    ///
    /// Without TOPIC, the topics of --expect are watched, or the topics of the --require conditions if each condition
    /// names its topic; otherwise all topics except /parameter_events, /rosout, /statistics, /statistics/distribution
    /// and hidden topics.
    #[arg(value_name = "TOPIC")]
    pub topics: Vec<Pattern>,

    /// Include /parameter_events, /rosout, /statistics, /statistics/distribution and hidden topics
    ///
    /// Without --all, these topics are selected only by their full names. The name of a hidden topic has a part that
    /// begins with `_`.
    #[arg(long, help_heading = WATCHED)]
    pub all: bool,
    /// Watch at most this number of topics [default: 500], or sources of statistics [default: 1000]
    ///
    /// If there are more topics, some topics are left out, and their number is reported.
    #[arg(
        long, value_name = "NUMBER", help_heading = WATCHED,
        value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true
    )]
    pub max_topics: Option<u32>,
    /// How many messages of a topic may wait for the monitor [default: 1000]
    ///
    /// The default is 100 for types with arrays of bytes, such as images.
    #[arg(
        long, value_name = "MESSAGES", help_heading = WATCHED,
        value_parser = clap::value_parser!(u32).range(1..=100_000), allow_negative_numbers = true,
        conflicts_with = "from_statistics"
    )]
    pub depth: Option<u32>,
    /// Also request best effort from reliable publishers
    ///
    /// Publishers then get no acknowledgements from the monitor, and send it no message again, so that the load on
    /// publishers and the network is lower. A message that is lost on the way to the monitor counts as lost.
    #[arg(
        long, help_heading = WATCHED, conflicts_with_all = ["from_statistics", "services", "actions", "chains"]
    )]
    pub best_effort: bool,
    /// Show the statistics that nodes publish on /statistics or another topic, instead of watching topics
    ///
    /// TOPIC arguments and conditions then match the `measurement_source_name`: '/r1/listener:/imu', '/r1/*:/imu',
    /// 'cpp_listener'.
    #[arg(
        long, value_name = "TOPIC", help_heading = WATCHED, num_args = 0..=1, require_equals = true,
        default_missing_value = "/statistics"
    )]
    pub from_statistics: Option<Pattern>,
    /// Show services instead of topics, from the events of nodes and clients with service introspection switched on
    ///
    /// TOPIC arguments and conditions then name services. The metrics are round trips, their parts, and calls without a
    /// response: 'round_trip.p99<50ms', 'oldest_call<1s'.
    #[arg(
        long, help_heading = WATCHED,
        conflicts_with_all = ["actions", "from_statistics", "publish", "record", "print_expectations"]
    )]
    pub services: bool,
    /// Show actions instead of topics, from the statuses and the feedback of their servers
    ///
    /// TOPIC arguments and conditions then name actions. The metrics are goals by outcome, their durations, and
    /// feedback: 'goal_succeeded.p99<60s', 'aborted_goals=0'.
    #[arg(
        long, help_heading = WATCHED,
        conflicts_with_all = ["from_statistics", "publish", "record", "print_expectations"]
    )]
    pub actions: bool,
    /// Show the delay of each path of nodes from one topic to another, from the statistics of preloaded nodes
    ///
    /// Each second, the program prints for each path: the mean time over the last minute from the first topic's source
    /// timestamp to the last topic's publication, the worst hop, and the messages lost on the way. The nodes need
    /// `topic_statistics run` and TOPIC_STATISTICS_METRICS=all. If a hop is missing, the program names the node.
    #[arg(
        long, value_names = ["FIRST", "LAST"], num_args = 2, help_heading = WATCHED,
        conflicts_with_all = [
            "topics", "all", "services", "actions", "publish", "record", "once", "report", "require", "expect",
            "print_expectations",
        ]
    )]
    pub chains: Vec<Pattern>,
    /// Look at the whole graph once, and report why messages do not arrive
    ///
    /// The program compares publishers and subscriptions, names, transforms and clocks, listens for 5 seconds (or up to
    /// --duration), and prints a sentence for each problem, the most probable cause first. With TOPIC or --all, it also
    /// prints notes. --max-topics limits the topics that it listens to [default: 200].
    #[arg(
        long, help_heading = WATCHED,
        conflicts_with_all = [
            "depth", "best_effort", "from_statistics", "services", "actions", "chains", "publish", "record", "period",
            "once", "report", "require", "expect", "print_expectations",
        ]
    )]
    pub why: bool,
    /// Publish the windows on /statistics, for nodes that publish no statistics
    #[arg(long, help_heading = WATCHED, conflicts_with = "from_statistics")]
    pub publish: bool,

    /// The length of a window in seconds, 0.1 to 86400
    #[arg(
        long, value_name = "SECONDS", help_heading = TIME, default_value = "1", value_parser = window,
        allow_negative_numbers = true
    )]
    pub period: Duration,
    /// End after this number of seconds
    #[arg(
        long, alias = "timeout", value_name = "SECONDS", help_heading = TIME, value_parser = seconds,
        allow_negative_numbers = true
    )]
    pub duration: Option<Duration>,
    /// End after one whole window of each topic
    #[arg(long, help_heading = TIME)]
    pub once: bool,

    /// Print lines instead of the live view
    #[arg(long, help_heading = OUTPUT)]
    pub plain: bool,
    /// Print a JSON object for each topic and window, one per line
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Write a page of the whole run to this file when the program ends
    ///
    /// The page is one HTML file with rate, period, age, delays and losses over time, distributions, and the --require
    /// conditions that failed. With --report, conditions do not end the program: each window is checked.
    #[arg(long, value_name = "FILE.html", help_heading = OUTPUT)]
    pub report: Option<PathBuf>,
    /// Write each condition, and each topic of --expect, as a test in JUnit XML, which CI systems show
    #[arg(long, value_name = "FILE.xml", help_heading = OUTPUT, requires = "judged")]
    pub junit: Option<PathBuf>,
    /// Wait until all topics fulfil these conditions in the same window, then end
    ///
    /// A condition is `[TOPIC:]METRIC[.FIGURE] OPERATOR VALUE`. Blanks separate conditions: 'rate>=90 age.max<50
    /// /imu:lost=0'. A topic applies to all conditions up to the next topic; conditions before the first topic apply to
    /// all watched topics. --duration limits the wait.
    #[arg(long, value_name = "CONDITIONS", help_heading = OUTPUT, group = "judged")]
    pub require: Vec<Conditions>,
    /// Compare the topics with the expectations in this file
    ///
    /// The file has conditions for WARN and for ERROR, by topic or by pattern. The state of a topic is then OK, WARN,
    /// ERROR or STALE. Each change is reported. The exit status is 1 if a topic has the state ERROR at the end. The
    /// file is described at https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/health.md
    #[arg(
        long, value_name = "FILE.yaml", help_heading = HEALTH, conflicts_with_all = ["require", "once"], group = "judged"
    )]
    pub expect: Option<PathBuf>,
    /// The namespace of names in the file of --expect that have no slash at their start
    ///
    /// With `/r1`, `imu` in the file means `/r1/imu`: all robots of a fleet can have the same file.
    #[arg(long, value_name = "NAMESPACE", help_heading = HEALTH, requires = "expect", default_value = "/")]
    pub expect_namespace: Namespace,
    /// Publish the states of --expect on /diagnostics, once per second, and errors at once
    #[arg(long, help_heading = HEALTH, requires = "expect")]
    pub diagnostics: bool,
    /// The hardware_id of the states on /diagnostics
    #[arg(long, value_name = "TEXT", help_heading = HEALTH, requires = "diagnostics", default_value = "none")]
    pub hardware_id: String,
    /// Name each state on /diagnostics like its topic (/imu instead of `topic_monitor: /imu`)
    ///
    /// greenwave_monitor uses these names, and ros2_medkit reads the rate of a topic only from a status with its name.
    /// If another program publishes such statuses of the same topics, they replace each other.
    #[arg(long, help_heading = HEALTH, requires = "diagnostics", conflicts_with = "from_statistics")]
    pub diagnostics_by_topic: bool,
    /// Print a file for --expect from the messages of --duration (default 10 s), with a tolerance in percent [default:
    /// 20]
    #[arg(
        long, value_name = "PERCENT", help_heading = HEALTH, num_args = 0..=1, require_equals = true,
        default_missing_value = "20", value_parser = clap::value_parser!(u32).range(1..=90),
        conflicts_with_all = ["expect", "require", "once", "json", "report"]
    )]
    pub print_expectations: Option<u32>,
    /// Print the manual page, or the completion script of a shell
    #[arg(long, value_name = "WHAT", exclusive = true, help_heading = OUTPUT)]
    pub generate: Option<Generate>,
    #[command(flatten)]
    pub record: record::Options,
}

const WATCHED: &str = "What is shown";
const TIME: &str = "Time";
const OUTPUT: &str = "Output";
const HEALTH: &str = "Health";

static AFTER_HELP: LazyLock<String> = LazyLock::new(|| format!("{CONDITIONS_HELP}\n\n{HELP}"));

const HELP: &str = "\
Keys of the live view:
  up/down select, Enter details, h histogram, Esc back, s sort, r reverse,
  / filter, q quit

Exit status:
  0  ended as asked; with --require, all conditions are fulfilled
  1  conditions are not fulfilled; with --expect, there is an ERROR at the end;
     with --once, no window of a topic came in time; with
     --print-expectations, no message came; with --why, there is a problem
  2  wrong usage
  3  could not start or go on

ROS arguments come after --ros-args:
  topic_monitor imu --ros-args -p use_sim_time:=true";

impl Arguments {
    pub fn check(&self) -> Result<(), clap::Error> {
        let of_conditions = self.conditions().filter_map(|condition| condition.topic.as_ref());
        let sources = self.check_sources(self.topics.iter().chain(of_conditions)).err();
        let record::Options { split, max_size, max_duration, .. } = &self.record;
        let split = *split && max_size.is_none() && max_duration.is_none();
        let short = self.duration.filter(|duration| self.why && *duration < Duration::from_secs(4));
        let end = self.chains.iter().find(|end| end.name().is_none() || end.is_of_sources());
        sources
            .or(split.then(|| "--split needs --max-size or --max-duration".to_owned()))
            .or(short.map(|short| format!("--why needs a --duration of 4 seconds or more, not {short:?}")))
            .or(end.map(|end| format!("--chains takes two topics' names, not {}", end.text())))
            .map_or(Ok(()), Err)
            .map_err(|error| Self::command().error(ErrorKind::ValueValidation, error))
    }

    /// Errors if a pattern is for sources of statistics, although the program does not watch sources of statistics.
    pub fn check_sources<'a>(&self, patterns: impl IntoIterator<Item = &'a Pattern>) -> Result<(), String> {
        match patterns.into_iter().find(|pattern| pattern.is_of_sources()) {
            Some(source) if self.from_statistics.is_none() => Err(format!(
                "a topic's name has no ':', unlike {:?}; NODE:TOPIC is a source of statistics, for --from-statistics",
                source.text()
            )),
            _ => Ok(()),
        }
    }

    pub fn chain_ends(&self) -> Option<[&str; 2]> {
        let [first, last] = &self.chains[..] else { return None };
        Some([first.name()?, last.name()?])
    }

    pub fn kind(&self) -> Kind {
        match (self.services, self.actions) {
            (true, _) => Kind::Service,
            (_, true) => Kind::Action,
            _ if self.from_statistics.is_some() => Kind::Source,
            _ => Kind::Topic,
        }
    }

    pub fn duration(&self) -> Option<Duration> {
        const TO_SUGGEST: Duration = Duration::from_secs(10);
        self.duration.or(self.print_expectations.map(|_| TO_SUGGEST))
    }

    pub fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.require.iter().flat_map(|conditions| &conditions.0)
    }

    pub fn is_live(&self, on_terminal: bool) -> bool {
        on_terminal
            && !self.plain
            && !self.json
            && !self.once
            && self.require.is_empty()
            && self.print_expectations.is_none()
    }

    pub fn patterns(&self, expected: Option<&ExpectationFile>) -> Vec<Pattern> {
        arguments::patterns(&self.topics, expected, self.conditions())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Arguments, clap::Error> {
        let arguments = Arguments::try_parse_from([&["topic_monitor"], line].concat())?;
        arguments.check().map(|()| arguments)
    }

    #[test]
    fn the_help_fits_80_columns_and_names_no_file_that_a_user_lacks() {
        Arguments::command().debug_assert();
        let long: Vec<&str> = AFTER_HELP.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty(), "{long:#?}");
        let help = Arguments::command().render_long_help().to_string();
        let (all, urls) = (help.matches("docs/"), help.matches("/blob/main/docs/"));
        assert_eq!((all.count(), urls.count()), (1, 1), "{help}");
    }

    #[test]
    fn without_topics_the_conditions_name_them_if_each_does() {
        for (line, expected) in [
            (&["--require", "/imu:rate>1 odom: age<5"][..], &["/imu", "/odom"][..]),
            (&["--require", "age<5 /imu:rate>1"], &[]),
            (&["--require", "/imu:rate>1 age<5"], &["/imu", "/imu"]), // a topic applies until the next topic
            (&["x", "--require", "/imu:rate>1"], &["/x"]),
            (&[], &[]),
            (&["--from-statistics", "/r1/listener:/imu"], &["/r1/listener:/imu"]),
            (&["--from-statistics", "--require=/r1/listener:/imu:rate>5"], &["/r1/listener:/imu"]),
        ] {
            let patterns = parse(line).unwrap().patterns(None);
            assert_eq!(patterns.iter().map(Pattern::text).collect::<Vec<_>>(), expected, "{line:?}");
        }
    }

    #[test]
    fn wrong_values_are_refused_with_what_is_right() {
        for (line, expected) in [
            (&["--period", "0"][..], "0.1 to 86400 seconds"),
            (&["--period", "-1"], "0.1 to 86400 seconds"),
            (&["--period", "0.05"], "0.1 to 86400 seconds"),
            (&["--period", "NaN"], "0.1 to 86400 seconds"),
            (&["--duration", "-1"], "more than 0 and at most 1e9 seconds"),
            (&["--duration", "1e30"], "more than 0 and at most 1e9 seconds"),
            (&["--duration", "inf"], "more than 0 and at most 1e9 seconds"),
            (&["--duration", "soon"], ""),
            (&["--require", "rte>1"], "there is no metric \"rte\"; perhaps rate is meant"),
            (&["--depth", "0"], "1..=100000"),
            (&["--depth", "-1"], "1..=100000"),
            (&["a//b"], "no part without a character"),
            (&["--publish", "--from-statistics"], ""),
            (&["/r1/listener:/imu"], "for --from-statistics"),
            (&["--require", "/r1/listener:/imu: rate>5"], "for --from-statistics"),
            (&["--max-topics", "0"], "1..=10000"),
            (&["--split"], ""),
            (&["--record", "a.mcap", "--split"], "--split needs --max-size or --max-duration"),
            (&["--record", "a.mcap", "--max-size", "0"], ""),
            (&["--record", "a.mcap", "--from-statistics"], ""),
            (&["--chains", "/scan"], ""),
            (&["--chains", "/scan", "/cmd/*"], "--chains takes two topics' names, not /cmd/*"),
            (&["--chains", "/scan", "/cmd", "--once"], ""),
            (&["--record", "a.mcap", "--statistics-update-rate", "-1"], ""),
            (&["--last", "30s"], "--record"),
            (&["--record", "a.mcap", "--after", "10s"], "--last"),
            (&["--record", "a.mcap", "--last", "30s", "--on", "error"], "--expect"),
            (&["--record", "a.mcap", "--last", "30s", "--on", "ok", "--expect", "e"], "stale"),
            (&["--record", "a.mcap", "--last", "30s", "--split", "--max-size", "1GB"], ""),
            (&["--record", "a.mcap", "--last", "1h"], "a number of seconds"),
            (&["--record", "a.mcap", "--last", "30s", "--max-files", "0"], "1..=10000"),
            (&["--why", "--duration", "3"], "--why needs a --duration of 4 seconds or more, not 3s"),
            (&["--why", "--once"], ""),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line:?}");
            assert!(error.to_string().contains(expected), "{line:?}: {error}");
        }
        let file = ExpectationFile::parse("topics: {'/listener:/imu': {error_unless: rate>=500}}").unwrap();
        let arguments = parse(&[]).unwrap();
        let refused = arguments.check_sources(&arguments.patterns(Some(&file))).unwrap_err();
        assert!(refused.contains("for --from-statistics"), "{refused}");
    }
}
