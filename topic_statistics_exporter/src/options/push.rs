// SPDX-License-Identifier: Apache-2.0

//! The options for sending (pushing) to an OpenTelemetry collector. The values come from ROS parameters, command-line
//! arguments and OpenTelemetry's environment variables. A parameter has the highest precedence, a variable the lowest.

mod environment;

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{
    error::{ContextKind, ContextValue},
    Args,
};
use percent_encoding::percent_decode_str;
use rclrs::{Node, ParameterValue};

pub use self::environment::Warning;
use super::InvalidParameter;
use crate::otlp::{self, ClientOptions, Limits};

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
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    otlp_interval: Option<Duration>,
    /// Compression of requests: gzip or none [default: gzip] [environment: OTEL_EXPORTER_OTLP_COMPRESSION]
    #[arg(long, value_name = "COMPRESSION", value_parser = gzip)]
    otlp_compression: Option<bool>,
    /// Time limit of a request, in seconds [default: 10] [environment: OTEL_EXPORTER_OTLP_TIMEOUT]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    otlp_timeout: Option<Duration>,
    /// Longest wait after the first failure, in seconds; each further failure doubles the wait [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    otlp_retry_initial: Option<Duration>,
    /// Longest wait after any failure, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    otlp_retry_max: Option<Duration>,
    /// Drop a request that has waited for this number of hours [default: 72]
    #[arg(long, value_name = "HOURS", value_parser = number, allow_negative_numbers = true)]
    otlp_buffer_hours: Option<u32>,
    /// Keep at most this number of megabytes (10^6 bytes, compressed) of waiting requests; drop the oldest [default: 64]
    #[arg(long, value_name = "MEGABYTES", value_parser = number, allow_negative_numbers = true)]
    otlp_buffer_megabytes: Option<u32>,
}

impl PushOptions {
    /// Returns the options with the values of the ROS parameters that are not empty.
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

    /// Errors if the collector's URL is not valid, or if it is without TLS, but there is a file to check certificates.
    /// The error shows the URL without parts that can be secrets.
    pub fn check(&self) -> Result<(), String> {
        let Some(endpoint) = &self.otlp_endpoint else { return Ok(()) };
        let url = otlp::parse_url(endpoint).map_err(|error| error.to_string())?;
        if self.otlp_certificate.is_some() && url.scheme_str() == Some("http") {
            let shown = otlp::shown(endpoint);
            return Err(format!("The OTLP endpoint {shown:?} has no TLS: --otlp-certificate needs https://"));
        }
        Ok(())
    }

    /// Returns the complete options for pushing from the host named `host`, and the warnings to log. The options are
    /// `None` if no collector is given, or if an environment variable turns pushing off. `get` reads a variable.
    pub fn complete(
        self,
        host: &str,
        get: impl Fn(&str) -> Option<String>,
    ) -> (Option<otlp::Options>, Vec<Warning>) {
        let get =
            |name: &str| get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let argument = self.otlp_endpoint.as_deref().map(environment::metrics_url);
        let Some(url) = argument.or_else(|| environment::url(&get)) else {
            let has_options = self != Self::default();
            return (None, if has_options { vec![Warning::NoEndpoint] } else { vec![] });
        };
        if let Some(reason) = environment::disabled(&get) {
            return (None, vec![reason]);
        }
        let (environment, warnings) = environment::read(&get);
        let defaults = [
            ("service.name", env!("CARGO_PKG_NAME")),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", host),
            ("host.name", host),
        ];
        let mut resource: Pairs = defaults.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        resource.extend(environment.otlp_resource.unwrap_or_default());
        resource.extend(self.otlp_resource.unwrap_or_default());
        let ten_seconds = Duration::from_secs(10);
        let client = ClientOptions {
            url,
            headers: self.otlp_headers.or(environment.otlp_headers).unwrap_or_default(),
            timeout: self.otlp_timeout.or(environment.otlp_timeout).unwrap_or(ten_seconds),
            gzip: self.otlp_compression.or(environment.otlp_compression).unwrap_or(true),
            certificate: self.otlp_certificate.or(environment.otlp_certificate),
        };
        let options = otlp::Options {
            client,
            interval: self.otlp_interval.or(environment.otlp_interval).unwrap_or(ten_seconds),
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

/// Parses names and values: `name=value,name=value`. A byte can be written as `%` and two hexadecimal digits.
fn pairs(text: &str) -> Result<Pairs, &'static str> {
    let decode =
        |text: &str| percent_decode_str(text.trim()).decode_utf8().ok().map(|text| text.into_owned());
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((decode(name).filter(|name| !name.is_empty())?, decode(value)?))
    });
    pairs.collect::<Option<_>>().ok_or("name=value,name=value, with %2C for a comma in a value")
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
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%2Cb=, x = y ,"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "2500"), // takes precedence
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Cumulative"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=arm,site=Z%C3%BCrich,robot=1"),
            ("OTEL_SERVICE_NAME", "leg"),
        ];
        let arguments =
            "--otlp-endpoint https://here/ --otlp-interval 0.5 --otlp-timeout 1 --otlp-headers a=b \
                         --otlp-resource robot=2,service.instance.id=two --otlp-compression gzip \
                         --otlp-buffer-megabytes 1 --otlp-buffer-hours 2";
        let ca = Some("/etc/ca.pem".into());
        let version = env!("CARGO_PKG_VERSION");
        for (arguments, variables, url, headers, certificate, times, gzip, limits, resource) in [
            (
                "",
                variables,
                "http://there:4318/v1/metrics",
                &[("api-key", "a,b="), ("x", "y")][..],
                ca.clone(),
                [2.5, 60.0],
                false,
                (64_000_000, 72),
                [("robot", "1"), ("site", "Z\u{fc}rich"), ("service.name", "leg"), ("host.name", "spot-1")],
            ),
            (
                arguments,
                variables,
                "https://here/v1/metrics",
                &[("a", "b")],
                ca,
                [1.0, 0.5],
                true,
                (1_000_000, 2),
                [
                    ("robot", "2"),
                    ("site", "Z\u{fc}rich"),
                    ("service.instance.id", "two"),
                    ("service.version", version),
                ],
            ),
            (
                "--otlp-endpoint http://h",
                variables.map(|(name, _)| (name, " ")),
                "http://h/v1/metrics",
                &[],
                None,
                [10.0, 10.0],
                true,
                (64_000_000, 72),
                [
                    ("service.name", "topic_statistics_exporter"),
                    ("service.version", version),
                    ("service.instance.id", "spot-1"),
                    ("host.name", "spot-1"),
                ],
            ),
        ] {
            let (options, warnings) = complete(arguments, &variables);
            let options = options.unwrap();
            let client = options.client;
            let sent = client.headers.iter().map(|(name, value)| (&**name, &**value));
            assert_eq!((&*client.url, client.certificate, warnings), (url, certificate, vec![]));
            assert_eq!(sent.collect::<Vec<_>>(), headers);
            assert_eq!([client.timeout, options.interval].map(|time| time.as_secs_f64()), times);
            assert_eq!(client.gzip, gzip);
            let Limits { bytes, age } = options.buffer_limits;
            assert_eq!((bytes, age.as_secs() / 3600), limits);
            for (name, expected) in resource {
                let value = options.resource.iter().rfind(|(other, _)| other == name);
                assert_eq!(value.unwrap().1, expected, "{name}");
            }
        }
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://there:4318");

    #[test]
    fn variables_can_turn_the_push_side_off() {
        for (name, value, is_disabled) in [
            ("OTEL_SDK_DISABLED", "true", true),
            ("OTEL_SDK_DISABLED", "false", false),
            ("OTEL_SDK_DISABLED", "1", false),
            ("OTEL_METRICS_EXPORTER", "none", true),
            ("OTEL_METRICS_EXPORTER", "prometheus", true),
            ("OTEL_METRICS_EXPORTER", "otlp", false),
            ("OTEL_METRICS_EXPORTER", "prometheus, otlp", false),
        ] {
            let (options, warnings) = complete("", &[ENDPOINT, (name, value)]);
            let warnings = warnings.iter().map(ToString::to_string).collect::<String>();
            let reason = format!("Nothing is pushed: {name} is {value:?}");
            let expected = if is_disabled { (false, reason) } else { (true, String::new()) };
            assert_eq!((options.is_some(), warnings), expected, "{name}={value}");
        }
        let (options, warnings) = complete("", &[("OTEL_EXPORTER_OTLP_TIMEOUT", "broken"), (ENDPOINT.0, "")]);
        assert!(options.is_none() && warnings.is_empty());
        let (options, warnings) = complete("--otlp-interval 5", &[]);
        assert!(options.is_none() && warnings == [Warning::NoEndpoint], "{warnings:?}");
    }

    #[test]
    fn a_certificate_needs_an_endpoint_with_tls() {
        let check = |arguments: &str| {
            let arguments =
                ["exporter", "--otlp-certificate", "/ca.pem"].into_iter().chain(arguments.split(' '));
            Options::try_parse_from(arguments).unwrap().push.check()
        };
        assert_eq!(check("--otlp-endpoint https://h:4318"), Ok(()));
        let error = check("--otlp-endpoint http://h:4318?key=x").unwrap_err();
        assert_eq!(
            error,
            "The OTLP endpoint \"http://h:4318\" has no TLS: --otlp-certificate needs https://"
        );
    }

    #[test]
    fn an_endpoint_is_that_of_metrics_or_one_above_it() {
        let url = |variables: &[(&str, &str)]| complete("", variables).0.unwrap().client.url;
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics/as/it/is");
        assert_eq!(url(&[ENDPOINT, own]), own.1);
        // The path `/v1/metrics` is added before the URL's query. The query is not shown, because it can be a secret.
        for (value, expected, is_shown) in [
            ("http://h:4318/", "http://h:4318/v1/metrics", "http://h:4318/v1/metrics"),
            ("http://h:4318/base", "http://h:4318/base/v1/metrics", "http://h:4318/base/v1/metrics"),
            ("http://h/v1/metrics/", "http://h/v1/metrics", "http://h/v1/metrics"),
            ("http://h?key=a/b", "http://h/v1/metrics?key=a/b", "http://h/v1/metrics"),
            ("http://h/v1/metrics?key=x", "http://h/v1/metrics?key=x", "http://h/v1/metrics"),
            ("https://h:4318/a/?x=1#y", "https://h:4318/a/v1/metrics?x=1#y", "https://h:4318/a/v1/metrics"),
            ("http://h/#?y", "http://h/v1/metrics#?y", "http://h/v1/metrics"),
            ("http://me:se@cret@h/a@b", "http://me:se@cret@h/a@b/v1/metrics", "http://h/a@b/v1/metrics"),
            ("me:secret@h", "me:secret@h/v1/metrics", "h/v1/metrics"),
            ("http://h\u{1b}", "http://h\u{1b}/v1/metrics", "http://h\\u{1b}/v1/metrics"),
        ] {
            let made = url(&[(ENDPOINT.0, value)]);
            assert_eq!((&*made, &*otlp::shown(&made)), (expected, is_shown), "{value}");
        }
    }

    #[test]
    fn a_wrong_variable_is_ignored_with_a_warning_without_secrets() {
        let (pairs, agent) = ("it has to be name=value", "an agent beside the exporter");
        let defaults = format!("{:?}", complete("", &[ENDPOINT]).0);
        for (name, value, shown, expected) in [
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "\"10s\"", "it has to be a whole number"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0", "\"0\"", "it has to be a whole number"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret", "not valid", pairs),
            ("OTEL_RESOURCE_ATTRIBUTES", "robot", "\"robot\"", pairs),
            ("OTEL_RESOURCE_ATTRIBUTES", "x=%ff", "\"x=%ff\"", pairs),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "\"zstd\"", "it has to be gzip"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "\"grpc\"", "it has to be http/protobuf"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key", "\"/key\"", agent),
            ("OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", "/x", "\"/x\"", agent),
            (
                "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
                "lowmemory",
                "\"lowmemory\"",
                "it has to be cumulative",
            ),
        ] {
            let (options, warnings) = complete("", &[ENDPOINT, (name, value)]);
            assert_eq!((format!("{options:?}"), warnings.len()), (defaults.clone(), 1), "{name}");
            let start = format!("{name} is {shown}, and is ignored: {expected}");
            assert!(warnings[0].to_string().starts_with(&start), "{}", warnings[0]);
        }
    }
}
