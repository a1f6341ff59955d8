// SPDX-License-Identifier: Apache-2.0

//! The options of the program: command-line arguments, which are also ROS parameters.

mod listen;
mod push;

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use clap::Parser;
use rclrs::{DeclarationError, Node};
use topic_statistics_observe::{generate::Generate, pattern::Pattern};

pub use self::{
    listen::Listen,
    push::{explain, PushOptions},
};
use super::{
    filter::NodeFilter,
    state::{Buckets, Limits},
};

/// Exports the topic statistics of ROS 2 nodes to Prometheus, and to an OpenTelemetry collector.
///
/// Each option is also a ROS parameter, with underscores: --max-series 5000 is `--ros-args -p max_series:=5000`. The
/// parameter takes precedence.
#[derive(Parser, Clone, Debug)]
#[command(name = "exporter", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Options {
    /// Print the manual page, or the completion script of a shell
    #[arg(long, value_name = "WHAT", exclusive = true)]
    pub generate: Option<Generate>,
    /// Serve metrics for Prometheus at this address of this host, or name of this host, and port
    ///
    /// Everyone who can connect to this address can read all names and figures. `:9877` means all addresses of this
    /// host.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9877")]
    pub listen: Listen,
    /// Read statistics from these topics, and distributions from TOPIC/distribution
    #[arg(long, value_name = "TOPIC,...", value_delimiter = ',', value_parser = topic, default_value = "/statistics")]
    pub statistics_topics: Vec<String>,
    /// Read events of lost messages from these topics
    #[arg(
        long, value_name = "TOPIC,...", value_delimiter = ',', value_parser = topic,
        default_value = "/events/messages_lost"
    )]
    pub losses_topics: Vec<String>,
    /// Read diagnostics from these topics
    #[arg(long, value_name = "TOPIC,...", value_delimiter = ',', value_parser = topic, default_value = "/diagnostics")]
    pub diagnostics_topics: Vec<String>,
    /// Export only these nodes: names or patterns, such as /robot_1/** [default: all nodes]
    ///
    /// For the clock of a host, the host's name is compared instead. For a diagnostic status that belongs to no source,
    /// the part of the status's name before the colon is compared.
    #[arg(long, value_name = "NODE,...", value_delimiter = ',', value_parser = node_pattern)]
    pub include: Vec<Pattern>,
    /// Do not export these nodes: names or patterns
    #[arg(long, value_name = "NODE,...", value_delimiter = ',', value_parser = node_pattern)]
    pub exclude: Vec<Pattern>,
    /// Also export distributions as classic histograms with these upper bounds of buckets, in seconds: 0.001,0.01,0.1
    ///
    /// Without this option, distributions are exported only as native histograms.
    #[arg(long, value_name = "SECONDS,...", default_value = "", hide_default_value = true)]
    pub classic_buckets: Buckets,
    /// Export at most this number of time series
    ///
    /// Each metric of a source has at most 11 time series, and each source has at most 8 more. If there are more time
    /// series, some are left out, and their number is exported.
    #[arg(
        long, value_name = "NUMBER", default_value_t = 100_000,
        value_parser = up_to(10_000_000), allow_negative_numbers = true
    )]
    pub max_series: u32,
    /// Export at most this number of time series of each node
    ///
    /// If a node has more, some are left out, and their number is exported.
    #[arg(
        long, value_name = "NUMBER", default_value_t = 20_000,
        value_parser = up_to(10_000_000), allow_negative_numbers = true
    )]
    pub max_series_per_node: u32,
    /// Remove a source that has published nothing for this number of its windows, and for at least 10 s
    #[arg(
        long, value_name = "WINDOWS", default_value_t = 60,
        value_parser = up_to(100_000), allow_negative_numbers = true
    )]
    pub keep_windows: u32,
    /// Remove a diagnostic status that has not been repeated for this number of seconds
    #[arg(
        long, value_name = "SECONDS", default_value_t = 60,
        value_parser = up_to(86_400), allow_negative_numbers = true
    )]
    pub keep_diagnostics: u32,
    /// How to push to a collector.
    #[command(flatten)]
    pub push: PushOptions,
}

const AFTER_HELP: &str = "\
Exit status:
  0  ended by SIGINT or SIGTERM
  1  could not start or continue: a parameter is not valid, the address is in use, ROS failed
  2  wrong usage

ROS arguments come after --ros-args: exporter --ros-args -p max_series:=5000";

impl Options {
    /// Declares the ROS parameters, with these options as defaults. Returns the options with the parameters' values.
    pub fn with_parameters_of(self, node: &Node) -> Result<Self, InvalidParameter> {
        let text = |name, default: String, description: &str, right: &str| {
            let value = node.declare_parameter::<Arc<str>>(name).default(default.into());
            let value = value.description(description).read_only();
            let right = format!("a string (-p \"{name}:='...'\"): {right}");
            value.map(|value| value.get()).map_err(|error| InvalidParameter::new(name, &error, &right))
        };
        let listen = self.listen.to_string();
        let listen = text("listen", listen, "Address and port for Prometheus", Listen::RIGHT)?;
        let buckets = self.classic_buckets.to_string();
        let buckets =
            text("classic_buckets", buckets, "Upper bounds of classic buckets (s)", Buckets::RIGHT)?;
        let topics =
            |name, default: Vec<String>, description: &str| -> Result<Vec<String>, InvalidParameter> {
                let default = default.into_iter().map(Arc::<str>::from).collect::<Arc<[_]>>();
                let value = node.declare_parameter::<Arc<[Arc<str>]>>(name).default(default);
                let value = value.description(description).read_only();
                let value = value.map_err(|error| {
                    InvalidParameter::new(name, &error, "a list of topics: ['/statistics']")
                })?;
                Ok(value.get().iter().map(|topic| topic.to_string()).collect())
            };
        let nodes =
            |name, default: &[Pattern], description: &str| -> Result<Vec<Pattern>, InvalidParameter> {
                let default = default.iter().map(|pattern| pattern.text().to_owned()).collect();
                let names = topics(name, default, description)?;
                // An empty name is ignored, because the ROS command line cannot express an empty list of strings.
                let names = names.iter().filter(|node| !node.is_empty());
                let node = |text: &String| {
                    let right = |reason| format!("names or patterns of nodes ({reason})");
                    node_pattern(text).map_err(right).or_else(|right| invalid(name, text, right))
                };
                names.map(node).collect()
            };
        let number = |name, default: u32, max: u32, description: &str| {
            let range = rclrs::ParameterRange { lower: Some(1), upper: Some(i64::from(max)), step: None };
            let value = node.declare_parameter::<i64>(name).default(i64::from(default)).range(range);
            let value = value.description(description).read_only();
            let right = format!("a whole number from 1 to {max}");
            let value = value.map_err(|error| InvalidParameter::new(name, &error, &right))?.get();
            Ok(u32::try_from(value).unwrap_or(max))
        };
        Ok(Self {
            generate: None,
            listen: parse("listen", &listen)?,
            statistics_topics: topics("statistics_topics", self.statistics_topics, "Topics with statistics")?,
            losses_topics: topics(
                "losses_topics",
                self.losses_topics,
                "Topics with events of lost messages",
            )?,
            diagnostics_topics: topics(
                "diagnostics_topics",
                self.diagnostics_topics,
                "Topics with diagnostics",
            )?,
            include: nodes("include", &self.include, "Exported nodes; an empty list means all nodes")?,
            exclude: nodes("exclude", &self.exclude, "Nodes that are not exported")?,
            classic_buckets: parse("classic_buckets", &buckets)?,
            max_series_per_node: number(
                "max_series_per_node",
                self.max_series_per_node,
                10_000_000,
                "The largest number of time series of a node",
            )?,
            max_series: number(
                "max_series",
                self.max_series,
                10_000_000,
                "The largest number of time series",
            )?,
            keep_windows: number(
                "keep_windows",
                self.keep_windows,
                100_000,
                "Windows without statistics until a source is removed",
            )?,
            keep_diagnostics: number(
                "keep_diagnostics",
                self.keep_diagnostics,
                86_400,
                "Seconds without a repetition until a diagnostic status is removed",
            )?,
            push: self.push.with_parameters_of(node)?,
        })
    }

    pub fn filter(&self) -> NodeFilter {
        NodeFilter { include: self.include.clone(), exclude: self.exclude.clone() }
    }

    pub fn limits(&self) -> Limits {
        Limits {
            max_series: self.max_series as usize,
            max_series_per_node: self.max_series_per_node as usize,
            classic_buckets: self.classic_buckets.clone(),
            keep_windows: self.keep_windows,
            keep_diagnostics: Duration::from_secs(self.keep_diagnostics.into()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("The parameter {name} is {value}: it has to be {right}")]
pub struct InvalidParameter {
    pub name: &'static str,
    /// The invalid value, or the reason why the parameter cannot be declared.
    pub value: String,
    pub right: String,
}

impl InvalidParameter {
    /// Returns the error for a parameter that cannot be declared. `right` describes the valid values.
    pub fn new(name: &'static str, error: &DeclarationError, right: &str) -> Self {
        Self { name, value: format!("invalid ({error})"), right: right.to_owned() }
    }
}

/// Errors unless a text is empty or the name of a topic. ROS checks a name that starts with `~`, or has a substitution
/// such as `{node}`.
fn topic(text: &str) -> Result<String, String> {
    if !text.is_empty() && !text.starts_with('~') && !text.contains('{') {
        let pattern: Pattern = text.parse()?;
        if pattern.name().is_none() || pattern.is_of_sources() {
            return Err("it has to be a topic's name, not a pattern or a source".to_owned());
        }
    }
    Ok(text.to_owned())
}

/// Returns a parser of numbers from 1 to `max`.
fn up_to(max: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| (1..=max).contains(number));
        number.ok_or_else(|| format!("a whole number from 1 to {max}"))
    }
}

/// Parses the name or pattern of a node. `Pattern` calls each name that of a topic.
fn node_pattern(text: &str) -> Result<Pattern, String> {
    text.parse().map_err(|why: String| why.replace("a topic's name", "a node's name"))
}

/// Parses the value of a parameter whose type in ROS is a string.
fn parse<T: FromStr<Err: fmt::Display>>(name: &'static str, text: &str) -> Result<T, InvalidParameter> {
    text.parse().or_else(|right: T::Err| invalid(name, text, right.to_string()))
}

fn invalid<T>(name: &'static str, text: &str, right: String) -> Result<T, InvalidParameter> {
    Err(InvalidParameter { name, value: format!("{text:?}"), right })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_is_whole_and_wrong_arguments_are_refused() {
        Options::command().debug_assert();
        let help = Options::command().render_help().to_string();
        assert!(help.contains("Exit status:\n  0  ended by SIGINT or SIGTERM\n  1  "), "{help}");
        let (seconds, agent) = ("a number of seconds", "an agent beside the exporter does that");
        for (line, text) in [
            ("--listen localhost", "an address and a port"),
            ("--max-series 0", "a whole number from 1 to 10000000"),
            ("--max-series abc", "a whole number from 1 to 10000000"),
            ("--keep-diagnostics -1", "a whole number from 1 to 86400"),
            ("--otlp-timeout -1", seconds),
            ("--include ", "a node's name is not empty"),
            ("--statistics-topics bad!", "a topic's name has letters, digits, _ and / only"),
            ("--losses-topics /x,/a*", "invalid value '/a*'"),
            ("--include /a//b", "invalid value '/a//b'"),
            ("--exclude [a", "invalid value '[a'"),
            ("--classic-buckets 0.1,0.01", "at most 50 numbers"),
            ("--otlp-interval 0", seconds),
            ("--otlp-interval NaN", seconds),
            ("--otlp-interval inf", seconds),
            ("--otlp-timeout 1e9", seconds),
            ("--otlp-buffer-hours 0", "a whole number"),
            ("--otlp-compression zstd", "gzip or none"),
            ("--otlp-resource robot", "name=value"),
            ("--otlp-buffer-directory /x", agent),
            ("--otlp-protocol=grpc", agent),
        ] {
            let arguments = ["exporter"].into_iter().chain(line.split(' '));
            let error = explain(Options::try_parse_from(arguments).unwrap_err());
            let message = error.to_string();
            assert!(error.exit_code() == 2 && message.contains(text), "{line}: {message}");
        }
    }
}
