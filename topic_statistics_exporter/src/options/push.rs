// SPDX-License-Identifier: Apache-2.0

//! The options for sending (pushing) to an OpenTelemetry collector. The values come from ROS parameters, command-line
//! arguments and OpenTelemetry's environment variables. A parameter has the highest precedence, a variable the lowest.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{
    error::{ContextKind, ContextValue},
    Args,
};
use rclrs::{Node, ParameterValue};

use super::invalid::InvalidParameter;
use crate::otlp::{self, key_values, ClientOptions, Endpoint, Environment, Limits, Warning, KEY_VALUES};

/// The parameters of removed options. A separate agent on the robot now provides these features.
const LEFT: [&str; 5] = [
    "otlp_buffer_directory",
    "otlp_client_certificate",
    "otlp_client_key",
    "otlp_protocol",
    "otlp_temporality",
];

const AGENT: &str =
    "left out: an agent beside the exporter does that, see docs/fleet.md#an-agent-on-the-robot";

/// If a command-line error is about a removed option, adds a hint to the error: what replaces this option.
pub fn explain(mut error: clap::Error) -> clap::Error {
    let name = error.get(ContextKind::InvalidArg).map(|name| name.to_string().replace('-', "_"));
    if name.is_some_and(|name| LEFT.iter().any(|left| name.contains(left))) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![AGENT.into()]));
    }
    error
}

/// Pairs of a name and a value, for example HTTP headers.
pub type Pairs = Vec<(String, String)>;

/// How to push to an OpenTelemetry collector. The environment has the defaults.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Push to an OpenTelemetry collector")]
pub struct PushOptions {
    /// Push to this collector: http://HOST:4318 or https://HOST:4318 [default: no push]
    ///
    /// The exporter sends OTLP (protobuf over HTTP) to /v1/metrics. [environment: OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Send these headers with each request
    ///
    /// Other users of the host can read the command line and the parameters. Put secrets into the environment.
    /// [environment: OTEL_EXPORTER_OTLP_HEADERS]
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = pairs, hide_default_value = true)]
    otlp_headers: Option<Pairs>,
    /// Check the collector's certificate with the certificates in this PEM file [default: the system's certificates]
    ///
    /// [environment: OTEL_EXPORTER_OTLP_CERTIFICATE]
    #[arg(long, value_name = "FILE")]
    otlp_certificate: Option<PathBuf>,
    /// Attributes of the OpenTelemetry resource, which identify the robot
    ///
    /// The default of service.instance.id and host.name is the host's name. [environment: OTEL_RESOURCE_ATTRIBUTES,
    /// OTEL_SERVICE_NAME]
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = pairs)]
    otlp_resource: Option<Pairs>,
    /// Push every this number of seconds [default: 10] [environment: OTEL_METRIC_EXPORT_INTERVAL]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    otlp_interval: Option<Duration>,
    /// Compression of requests: gzip or none [default: gzip] [environment: OTEL_EXPORTER_OTLP_COMPRESSION]
    #[arg(long, value_name = "COMPRESSION", value_parser = gzip)]
    otlp_compression: Option<bool>,
    /// Time limit of a request, in seconds [default: 10] [environment: OTEL_EXPORTER_OTLP_TIMEOUT]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    otlp_timeout: Option<Duration>,
    /// Longest wait after the first failure, in seconds; each further failure doubles the wait [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    otlp_retry_initial: Option<Duration>,
    /// Longest wait after any failure, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    otlp_retry_max: Option<Duration>,
    /// Drop a request that has waited for this number of hours [default: 72]
    #[arg(long, value_name = "HOURS", value_parser = number)]
    otlp_buffer_hours: Option<u32>,
    /// Keep at most this number of megabytes (10^6 bytes, compressed) of waiting requests; drop the oldest [default: 64]
    #[arg(long, value_name = "MEGABYTES", value_parser = number)]
    otlp_buffer_megabytes: Option<u32>,
}

impl PushOptions {
    /// Declares the ROS parameters. Returns the options with the parameters' values. An empty parameter does not change
    /// the option with the same name.
    pub fn with_parameters_of(self, node: &Node) -> Result<Self, InvalidParameter> {
        let parameters = Parameters(node);
        let text = |text: &str| Ok(text.to_owned());
        let path = |text: &str| Ok(PathBuf::from(text));
        // ROS ignores undeclared parameters. So the parameters of removed options are declared, to refuse their values.
        for name in LEFT {
            parameters.read(name, None, |_| Err::<(), _>(AGENT))?;
        }
        Ok(Self {
            otlp_endpoint: parameters.read("otlp_endpoint", self.otlp_endpoint, text)?,
            otlp_headers: parameters.read("otlp_headers", self.otlp_headers, pairs)?,
            otlp_certificate: parameters.read("otlp_certificate", self.otlp_certificate, path)?,
            otlp_resource: parameters.read("otlp_resource", self.otlp_resource, pairs)?,
            otlp_interval: parameters.read("otlp_interval", self.otlp_interval, seconds)?,
            otlp_compression: parameters.read("otlp_compression", self.otlp_compression, gzip)?,
            otlp_timeout: parameters.read("otlp_timeout", self.otlp_timeout, seconds)?,
            otlp_retry_initial: parameters.read("otlp_retry_initial", self.otlp_retry_initial, seconds)?,
            otlp_retry_max: parameters.read("otlp_retry_max", self.otlp_retry_max, seconds)?,
            otlp_buffer_hours: parameters.read("otlp_buffer_hours", self.otlp_buffer_hours, number)?,
            otlp_buffer_megabytes: parameters.read(
                "otlp_buffer_megabytes",
                self.otlp_buffer_megabytes,
                number,
            )?,
        })
    }

    /// Returns the complete options for pushing from the host named `host`, and the warnings to log. The options are
    /// `None` if no collector is given, or if an environment variable turns pushing off. `get` reads a variable.
    pub fn complete(
        self,
        host: &str,
        get: impl Fn(&str) -> Option<String>,
    ) -> (Option<otlp::Options>, Vec<Warning>) {
        let argument = self.otlp_endpoint.map(Endpoint::Collector);
        let Some(endpoint) = argument.or_else(|| Endpoint::of_environment(&get)) else {
            return (None, vec![]);
        };
        if let Some(reason) = otlp::disabled(&get) {
            return (None, vec![reason]);
        }
        let (environment, warnings) = Environment::read(get);
        let defaults = [
            ("service.name", env!("CARGO_PKG_NAME")),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", host),
            ("host.name", host),
        ];
        let mut resource: Pairs = defaults.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        resource.extend(environment.resource);
        resource.extend(self.otlp_resource.unwrap_or_default());
        let ten_seconds = Duration::from_secs(10);
        let client = ClientOptions {
            url: endpoint.url(),
            headers: self.otlp_headers.unwrap_or(environment.headers),
            timeout: self.otlp_timeout.or(environment.timeout).unwrap_or(ten_seconds),
            gzip: self.otlp_compression.or(environment.gzip).unwrap_or(true),
            certificate: self.otlp_certificate.or(environment.certificate),
        };
        let options = otlp::Options {
            client,
            interval: self.otlp_interval.or(environment.interval).unwrap_or(ten_seconds),
            resource,
            retry_initial: self.otlp_retry_initial.unwrap_or(Duration::from_secs(1)),
            retry_max: self.otlp_retry_max.unwrap_or(Duration::from_secs(60)),
            buffer_limits: Limits {
                bytes: u64::from(self.otlp_buffer_megabytes.unwrap_or(64)) * 1_000_000,
                age: Duration::from_secs(3600) * self.otlp_buffer_hours.unwrap_or(72),
            },
        };
        (Some(options), warnings)
    }
}

/// The node's parameters, which mean the same as the command-line arguments. A value is a string or a number.
struct Parameters<'a>(&'a Node);

impl Parameters<'_> {
    fn read<T>(
        &self,
        name: &'static str,
        argument: Option<T>,
        parse: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Result<Option<T>, InvalidParameter> {
        let description =
            format!("As the argument --{}; empty: the argument's value", name.replace('_', "-"));
        let declared =
            self.0.declare_parameter::<ParameterValue>(name).default(ParameterValue::String("".into()));
        let declared = declared.description(description).read_only();
        // Headers and URLs can contain secrets, so error messages do not show their values.
        let is_secret = ["otlp_headers", "otlp_endpoint"].contains(&name);
        let value =
            declared.map_err(|error| InvalidParameter::new(name, &error, "a text or a number"))?.get();
        let text = match value {
            ParameterValue::String(text) => text,
            ParameterValue::Integer(number) => Arc::from(number.to_string()),
            ParameterValue::Double(number) => Arc::from(number.to_string()),
            other => {
                let right = "a text or a number".to_owned();
                let value = if is_secret { "not valid".to_owned() } else { format!("{other:?}") };
                return Err(InvalidParameter { name, value, right });
            }
        };
        if text.is_empty() {
            return Ok(argument);
        }
        let shown = if is_secret { "not valid".to_owned() } else { format!("{text:?}") };
        let invalid = |right: &str| InvalidParameter { name, value: shown, right: right.to_owned() };
        parse(&text).map(Some).map_err(invalid)
    }
}

fn pairs(text: &str) -> Result<Pairs, &'static str> {
    key_values(text).ok_or(KEY_VALUES)
}

/// Parses a time in seconds, from a millisecond to a year (31 536 000 s).
fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=31_536_000.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("a number of seconds from 0.001 to 31536000")
}

fn number(text: &str) -> Result<u32, &'static str> {
    text.parse()
        .ok()
        .filter(|number| (1..=1_000_000).contains(number))
        .ok_or("a whole number from 1 to 1000000")
}

fn gzip(text: &str) -> Result<bool, &'static str> {
    match text {
        "gzip" => Ok(true),
        "none" => Ok(false),
        _ => Err("gzip or none"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{super::Options, *};

    fn complete(arguments: &str, variables: &[(&str, &str)]) -> (Option<otlp::Options>, Vec<Warning>) {
        let arguments = ["exporter"].into_iter().chain(arguments.split_whitespace());
        let get = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        Options::try_parse_from(arguments).unwrap().push.complete("spot-1", get)
    }

    #[test]
    fn an_argument_wins_over_environment_and_default() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://there:4318"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "3000"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
            ("OTEL_RESOURCE_ATTRIBUTES", "site=north,robot=1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "key=secret"),
        ];
        let arguments =
            "--otlp-endpoint https://here/ --otlp-interval 0.5 --otlp-timeout 1 --otlp-headers a=b \
                         --otlp-resource robot=2,service.instance.id=two --otlp-compression none \
                         --otlp-buffer-megabytes 1 --otlp-buffer-hours 2";
        let version = env!("CARGO_PKG_VERSION");
        for (arguments, url, header, times, gzip, limits, resource) in [
            (
                "",
                "http://there:4318/v1/metrics",
                ("key", "secret"),
                [3.0, 60.0],
                true,
                (64_000_000, 72),
                [
                    ("robot", "1"),
                    ("site", "north"),
                    ("service.instance.id", "spot-1"),
                    ("host.name", "spot-1"),
                ],
            ),
            (
                arguments,
                "https://here/v1/metrics",
                ("a", "b"),
                [1.0, 0.5],
                false,
                (1_000_000, 2),
                [
                    ("robot", "2"),
                    ("site", "north"),
                    ("service.instance.id", "two"),
                    ("service.version", version),
                ],
            ),
        ] {
            let options = complete(arguments, &variables).0.unwrap();
            assert_eq!(options.client.url, url);
            assert_eq!(options.client.headers, [(header.0.to_owned(), header.1.to_owned())]);
            assert_eq!([options.client.timeout, options.interval].map(|time| time.as_secs_f64()), times);
            assert_eq!(options.client.gzip, gzip);
            let Limits { bytes, age } = options.buffer_limits;
            assert_eq!((bytes, age.as_secs() / 3600), limits);
            for (name, expected) in resource {
                let value = options.resource.iter().rfind(|(other, _)| other == name);
                assert_eq!(value.unwrap().1, expected, "{name}");
            }
        }
    }

    #[test]
    fn the_environment_can_turn_it_off_and_wrong_ones_are_logged() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://there:4318");
        for (variables, is_pushed, warnings) in [
            (&[("OTEL_EXPORTER_OTLP_TIMEOUT", "broken"), (endpoint.0, "")][..], false, 0),
            (&[endpoint, ("OTEL_SDK_DISABLED", "true")], false, 1),
            (&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], true, 1),
            (&[endpoint], true, 0),
        ] {
            let (options, logged) = complete("", variables);
            assert_eq!((options.is_some(), logged.len()), (is_pushed, warnings), "{variables:?}");
        }
    }
}
