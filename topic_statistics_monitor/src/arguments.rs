// SPDX-License-Identifier: Apache-2.0

//! What the program is asked to do.

use std::{ffi::OsString, time::Duration};

use clap::{error::ErrorKind, CommandFactory, Parser};

use crate::{
    condition::{Condition, Conditions},
    pattern::Pattern,
};

/// Shows how often, how regularly, how old and how completely messages arrive on ROS 2 topics of any type: a live view
/// on a terminal, a line for each topic and window elsewhere.
#[derive(Parser, Debug)]
#[command(name = "topic_monitor", version, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Topics by name (`imu` is `/imu`) or pattern (`*`, `?`, `[ab]`, `{front,rear}` within a part of a name, `**` over parts:
    /// `/camera/*`, `/**/imu`), now or later in the graph; in quotes, or the shell takes the patterns.
    /// Without: those of the conditions, if each names its topic, or else all, but for /parameter_events, /rosout,
    /// /statistics and hidden ones
    #[arg(value_name = "TOPIC")]
    pub topics: Vec<Pattern>,
    /// Patterns, and no topic at all, mean /parameter_events, /rosout, /statistics and hidden topics too
    #[arg(long)]
    pub all: bool,
    /// How long a window is, in seconds, 0.1 to 86400
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = window)]
    pub period: Duration,
    /// End after that many seconds
    #[arg(long, alias = "timeout", value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// One whole window of each topic, and end
    #[arg(long)]
    pub once: bool,
    /// Lines on a terminal too, instead of the live view
    #[arg(long)]
    pub plain: bool,
    /// A JSON object for each topic and window, one a line
    #[arg(long)]
    pub json: bool,
    /// Wait until all topics fulfil these conditions in one whole window, and end; with --duration for that long at most.
    /// `[TOPIC:] METRIC[.FIGURE] OPERATOR VALUE`, several apart by spaces: 'rate>=90 age.max<50 /imu:lost=0'
    #[arg(long, value_name = "CONDITIONS")]
    pub require: Vec<Conditions>,
    /// Publish the windows on /statistics, on behalf of nodes that have no statistics
    #[arg(long, conflicts_with = "from_statistics")]
    pub publish: bool,
    /// Show what nodes publish as their own statistics instead, on /statistics or another topic. TOPIC are then their
    /// `measurement_source_name`s: `/r1/listener:/imu`, `'/r1/*:/imu'`, `cpp_listener`
    #[arg(long, value_name = "TOPIC", num_args = 0..=1, require_equals = true, default_missing_value = "/statistics")]
    pub from_statistics: Option<Pattern>,
    /// How many messages wait for the monitor on each topic [default: 100 of types with arrays of bytes, as images;
    /// else 1000]
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "from_statistics")]
    pub depth: Option<u32>,
    /// How many topics at most, or sources of statistics [default: 500, or 1000 sources]; more are left out, and said so
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_topics: Option<u32>,
    /// Panic after that many seconds, to see that the terminal is restored
    #[arg(long, hide = true, value_parser = seconds)]
    pub panic_after: Option<Duration>,
}

const AFTER_HELP: &str = "\
Metrics: rate (Hz), period, age (ms), received, lost, out_of_order (messages in the window), publishers, gap (messages),
silent (ms), and any metrics_source: message_age, source_to_receive_ms, ...
Figures: mean (default), min, max, std, count. Operators: < <= > >= = == !=. What was not measured fulfils no condition.

Keys of the live view: up/down select, Enter details, Esc back, s sort, r reverse, / filter, q quit.

Exit status: 0 ended as asked, conditions fulfilled; 1 conditions not fulfilled; 2 wrong usage; 3 could not start or go on.

ROS arguments go behind --ros-args, as of any node: topic_monitor imu --ros-args -p use_sim_time:=true";

impl Arguments {
    /// Errors if arguments do not go together.
    pub fn check(&self) -> Result<(), clap::Error> {
        let patterns =
            self.topics.iter().chain(self.conditions().filter_map(|condition| condition.topic.as_ref()));
        let mut of_sources = patterns.filter(|pattern| pattern.is_of_sources());
        match of_sources.next() {
            Some(source) if self.from_statistics.is_none() => {
                let error = format!(
                    "a topic's name has no ':', as {:?} has; NODE:TOPIC is a source of statistics, with --from-statistics",
                    source.text()
                );
                Err(Self::command().error(ErrorKind::ValueValidation, error))
            }
            _ => Ok(()),
        }
    }

    fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.require.iter().flat_map(|conditions| &conditions.0)
    }

    /// Whether there is to be a live view.
    pub fn is_live(&self, on_terminal: bool) -> bool {
        on_terminal && !self.plain && !self.json && !self.once && self.require.is_empty()
    }

    /// The patterns of the topics to watch; none for all topics.
    pub fn patterns(&self) -> Vec<Pattern> {
        if !self.topics.is_empty() {
            return self.topics.clone();
        }
        let of_conditions: Option<Vec<Pattern>> =
            self.conditions().map(|condition| condition.topic.clone()).collect();
        of_conditions.unwrap_or_default()
    }
}

/// Parts a command line in the program's own arguments, and those of ROS: from `--ros-args` to `--` or the end.
pub fn split_ros_arguments(line: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut own, mut ros, mut is_ros) = (vec![], vec![], false);
    for argument in line {
        if argument == "--ros-args" {
            is_ros = true;
        }
        if is_ros {
            is_ros = argument != "--";
            ros.push(argument.to_string_lossy().into_owned());
        } else {
            own.push(argument);
        }
    }
    (own, ros)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it has to be a number of seconds: 10 or 0.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("it has to be more than 0 seconds".to_owned()),
    }
}

fn window(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    if (0.1..=86400.0).contains(&duration.as_secs_f64()) {
        Ok(duration)
    } else {
        Err("a window has 0.1 to 86400 seconds".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ros_arguments_are_told_apart() {
        let line =
            ["topic_monitor", "imu", "--ros-args", "-r", "__node:=m", "--", "--json"].map(OsString::from);
        let (own, ros) = split_ros_arguments(line);
        assert_eq!(own, ["topic_monitor", "imu", "--json"]);
        assert_eq!(ros, ["--ros-args", "-r", "__node:=m", "--"]);
    }

    #[test]
    fn without_topics_the_conditions_name_them_if_each_does() {
        let parse = |line: &[&str]| Arguments::try_parse_from([&["topic_monitor"], line].concat()).unwrap();
        let patterns = |line: &[&str]| {
            parse(line).patterns().iter().map(|pattern| pattern.text().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(patterns(&["--require", "/imu:rate>1 odom: age<5"]), ["/imu", "/odom"]);
        assert!(patterns(&["--require", "/imu:rate>1 age<5"]).is_empty());
        assert_eq!(patterns(&["x", "--require", "/imu:rate>1"]), ["/x"]);
        assert!(patterns(&[]).is_empty());
    }

    #[test]
    fn wrong_values_are_refused() {
        for line in [
            &["--period", "0"][..],
            &["--period", "0.05"],
            &["--period", "NaN"],
            &["--duration", "-1"],
            &["--duration", "soon"],
            &["--require", "rte>1"],
            &["--depth", "0"],
            &["a//b"],
            &["--publish", "--from-statistics"],
            &["/r1/listener:/imu"],
            &["--require", "/r1/listener:/imu: rate>5"],
            &["--max-topics", "0"],
        ] {
            let arguments = Arguments::try_parse_from([&["topic_monitor"], line].concat());
            let error = arguments.and_then(|arguments| arguments.check()).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line:?}");
        }
    }

    #[test]
    fn sources_of_statistics_go_with_from_statistics() {
        for line in [
            &["topic_monitor", "--from-statistics", "/r1/listener:/imu"],
            &["topic_monitor", "--from-statistics", "--require=/r1/listener:/imu:rate>5"],
        ] {
            let arguments = Arguments::try_parse_from(line).unwrap();
            arguments.check().unwrap();
            assert_eq!(arguments.patterns()[0].text(), "/r1/listener:/imu");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }
}
