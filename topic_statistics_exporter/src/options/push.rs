// SPDX-License-Identifier: Apache-2.0

//! The options of the push side: arguments, then ROS parameters, then OpenTelemetry's environment variables.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use rclrs::{Node, ParameterValue};

use super::invalid::InvalidParameter;
use crate::otlp::{
    self, key_values, ClientOptions, Endpoint, Environment, Limits, Protocol, Temporality, Warning,
    KEY_VALUES,
};

/// Names and values, as of headers.
pub type Pairs = Vec<(String, String)>;

/// How to push to an OpenTelemetry collector. The environment has the defaults.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Push to an OpenTelemetry collector")]
pub struct PushOptions {
    /// The collector: http://HOST:4318 or https://HOST:4318. Without it, nothing is pushed
    ///
    /// It takes metrics at /v1/metrics, as protobuf over HTTP; by gRPC usually at http://HOST:4317. [environment:
    /// OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// How requests are sent: http/protobuf or grpc [default: http/protobuf] [environment: OTEL_EXPORTER_OTLP_PROTOCOL]
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol)]
    otlp_protocol: Option<Protocol>,
    /// Headers of each request. Other users can read the command line and parameters, but not the environment
    ///
    /// [environment: OTEL_EXPORTER_OTLP_HEADERS]
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = pairs, hide_default_value = true)]
    otlp_headers: Option<Pairs>,
    /// A file of certificates (PEM) to check the collector's with. Without it, those of the system
    ///
    /// [environment: OTEL_EXPORTER_OTLP_CERTIFICATE]
    #[arg(long, value_name = "FILE")]
    otlp_certificate: Option<PathBuf>,
    /// A file (PEM) with the exporter's own certificate, which the collector checks
    ///
    /// [environment: OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE]
    #[arg(long, value_name = "FILE")]
    otlp_client_certificate: Option<PathBuf>,
    /// A file (PEM) with the key of that certificate
    ///
    /// [environment: OTEL_EXPORTER_OTLP_CLIENT_KEY]
    #[arg(long, value_name = "FILE")]
    otlp_client_key: Option<PathBuf>,
    /// What the robot is: attributes of the resource
    ///
    /// service.instance.id and host.name are the host's name unless they are given. [environment:
    /// OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME]
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = pairs)]
    otlp_resource: Option<Pairs>,
    /// From one report to the next, in seconds [default: 10] [environment: OTEL_METRIC_EXPORT_INTERVAL]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    otlp_interval: Option<Duration>,
    /// Whether sums and histograms have all samples since the start, or those since the last report: cumulative or
    /// delta
    ///
    /// [default: cumulative] [environment: OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE]
    #[arg(long, value_name = "TEMPORALITY", value_parser = temporality)]
    otlp_temporality: Option<Temporality>,
    /// How requests are compressed: gzip or none [default: gzip] [environment: OTEL_EXPORTER_OTLP_COMPRESSION]
    #[arg(long, value_name = "COMPRESSION", value_parser = gzip)]
    otlp_compression: Option<bool>,
    /// How long a request may take, in seconds [default: 10] [environment: OTEL_EXPORTER_OTLP_TIMEOUT]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    otlp_timeout: Option<Duration>,
    /// The longest wait after a first failure, in seconds; each further one doubles it [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    otlp_retry_initial: Option<Duration>,
    /// The longest wait after any failure, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    otlp_retry_max: Option<Duration>,
    /// Where requests wait for the collector, also over a restart. Without it, in memory
    #[arg(long, value_name = "DIRECTORY")]
    otlp_buffer_directory: Option<PathBuf>,
    /// How many hours a request waits at most, while an exporter runs [default: 72]
    #[arg(long, value_name = "HOURS", value_parser = number)]
    otlp_buffer_hours: Option<u32>,
    /// How many megabytes (10^6, compressed) wait at most. The oldest requests are dropped [default: 64]
    #[arg(long, value_name = "MEGABYTES", value_parser = number)]
    otlp_buffer_megabytes: Option<u32>,
}

impl PushOptions {
    /// Declares the parameters. Returns the options with the values that they have. A parameter that is empty leaves an
    /// option as it is.
    pub fn with_parameters_of(self, node: &Node) -> Result<Self, InvalidParameter> {
        let parameters = Parameters(node);
        let text = |text: &str| Ok(text.to_owned());
        let path = |text: &str| Ok(PathBuf::from(text));
        Ok(Self {
            otlp_endpoint: parameters.read("otlp_endpoint", self.otlp_endpoint, text)?,
            otlp_protocol: parameters.read("otlp_protocol", self.otlp_protocol, protocol)?,
            otlp_headers: parameters.read("otlp_headers", self.otlp_headers, pairs)?,
            otlp_certificate: parameters.read("otlp_certificate", self.otlp_certificate, path)?,
            otlp_client_certificate: parameters.read(
                "otlp_client_certificate",
                self.otlp_client_certificate,
                path,
            )?,
            otlp_client_key: parameters.read("otlp_client_key", self.otlp_client_key, path)?,
            otlp_resource: parameters.read("otlp_resource", self.otlp_resource, pairs)?,
            otlp_interval: parameters.read("otlp_interval", self.otlp_interval, seconds)?,
            otlp_temporality: parameters.read("otlp_temporality", self.otlp_temporality, temporality)?,
            otlp_compression: parameters.read("otlp_compression", self.otlp_compression, gzip)?,
            otlp_timeout: parameters.read("otlp_timeout", self.otlp_timeout, seconds)?,
            otlp_retry_initial: parameters.read("otlp_retry_initial", self.otlp_retry_initial, seconds)?,
            otlp_retry_max: parameters.read("otlp_retry_max", self.otlp_retry_max, seconds)?,
            otlp_buffer_directory: parameters.read(
                "otlp_buffer_directory",
                self.otlp_buffer_directory,
                path,
            )?,
            otlp_buffer_hours: parameters.read("otlp_buffer_hours", self.otlp_buffer_hours, number)?,
            otlp_buffer_megabytes: parameters.read(
                "otlp_buffer_megabytes",
                self.otlp_buffer_megabytes,
                number,
            )?,
        })
    }

    /// Returns how to push, on the host of that name, and what to log. None if no collector is given, or if the
    /// environment turns pushing off. `get` returns an environment variable.
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
        let (environment, mut warnings) = Environment::read(get);
        let client_files = (
            self.otlp_client_certificate.or(environment.client_certificate),
            self.otlp_client_key.or(environment.client_key),
        );
        let client = match client_files {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (certificate, key) => {
                warnings.push(Warning::Unusable {
                    variable: "The client certificate".to_owned(),
                    value: format!("{:?}", certificate.or(key).unwrap_or_default()),
                    expected: "it needs both files, the certificate and its key",
                });
                None
            }
        };
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
        let protocol = self.otlp_protocol.or(environment.protocol).unwrap_or_default();
        let client = ClientOptions {
            client,
            protocol,
            url: endpoint.url(protocol, environment.insecure == Some(true)),
            headers: self.otlp_headers.unwrap_or(environment.headers),
            timeout: self.otlp_timeout.or(environment.timeout).unwrap_or(ten_seconds),
            gzip: self.otlp_compression.or(environment.gzip).unwrap_or(true),
            certificate: self.otlp_certificate.or(environment.certificate),
        };
        let options = otlp::Options {
            client,
            interval: self.otlp_interval.or(environment.interval).unwrap_or(ten_seconds),
            temporality: self.otlp_temporality.or(environment.temporality).unwrap_or_default(),
            resource,
            retry_initial: self.otlp_retry_initial.unwrap_or(Duration::from_secs(1)),
            retry_max: self.otlp_retry_max.unwrap_or(Duration::from_secs(60)),
            buffer_directory: self.otlp_buffer_directory,
            buffer_limits: Limits {
                bytes: u64::from(self.otlp_buffer_megabytes.unwrap_or(64)) * 1_000_000,
                age: Duration::from_secs(3600) * self.otlp_buffer_hours.unwrap_or(72),
            },
        };
        (Some(options), warnings)
    }
}

/// The parameters of a node that stand for arguments: a text, or a number where one is meant.
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
        // A header can be a secret, and so can a part of a URL.
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

/// A year is longer than anything waits.
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

fn protocol(text: &str) -> Result<Protocol, &'static str> {
    Protocol::parse(text).ok_or("http/protobuf or grpc")
}

fn temporality(text: &str) -> Result<Temporality, &'static str> {
    match text {
        "cumulative" => Ok(Temporality::Cumulative),
        "delta" => Ok(Temporality::Delta),
        _ => Err("cumulative or delta"),
    }
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

    fn complete(arguments: &[&str], variables: &[(&str, &str)]) -> Option<otlp::Options> {
        let options = Options::try_parse_from(["exporter"].iter().chain(arguments)).unwrap();
        let get = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        options.push.complete("spot-1", get).0
    }

    fn value<'a>(options: &'a otlp::Options, name: &str) -> Option<&'a str> {
        options.resource.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
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
        let by_environment = complete(&[], &variables).unwrap();
        assert_eq!(by_environment.client.url, "http://there:4318/v1/metrics");
        assert_eq!(by_environment.client.headers, [("key".to_owned(), "secret".to_owned())]);
        assert_eq!(by_environment.client.timeout, Duration::from_secs(3));
        assert_eq!(by_environment.interval, Duration::from_secs(60));
        assert_eq!(by_environment.temporality, Temporality::Cumulative);
        assert_eq!(
            by_environment.buffer_limits,
            Limits { bytes: 64_000_000, age: Duration::from_secs(72 * 3600) }
        );
        assert_eq!(value(&by_environment, "service.instance.id"), Some("spot-1"));
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        assert_eq!(complete(&[], &[variables[0], grpc]).unwrap().client.url, "http://there:4318");
        let arguments = "--otlp-endpoint https://here/ --otlp-interval 0.5 \
                         --otlp-resource robot=2,service.instance.id=two --otlp-temporality delta \
                         --otlp-compression none --otlp-buffer-megabytes 1 --otlp-protocol http/protobuf";
        let all = [&variables[..], &[grpc]].concat();
        let by_arguments = complete(&arguments.split_whitespace().collect::<Vec<_>>(), &all).unwrap();
        assert_eq!(by_arguments.client.url, "https://here/v1/metrics");
        assert_eq!((by_arguments.interval, by_arguments.client.gzip), (Duration::from_millis(500), false));
        assert_eq!(by_arguments.temporality, Temporality::Delta);
        assert_eq!(by_arguments.buffer_limits.bytes, 1_000_000);
        for (name, expected) in [
            ("robot", "2"),
            ("site", "north"),
            ("service.instance.id", "two"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("host.name", "spot-1"),
        ] {
            assert_eq!(value(&by_arguments, name), Some(expected));
        }
    }

    #[test]
    fn the_environment_can_turn_it_off_and_wrong_ones_are_logged() {
        let broken = [("OTEL_EXPORTER_OTLP_TIMEOUT", "broken"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "")];
        assert!(complete(&["--otlp-interval", "5"], &broken).is_none());
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://there:4318");
        assert!(complete(&[], &[endpoint, ("OTEL_SDK_DISABLED", "true")]).is_none());
        assert!(complete(&["--otlp-endpoint", "http://x"], &[("OTEL_METRICS_EXPORTER", "none")]).is_none());
        let options = Options::try_parse_from(["exporter", "--otlp-client-key", "/key.pem"]).unwrap();
        let get = |name: &str| {
            [endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]
                .iter()
                .find(|(other, _)| *other == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let (pushed, warnings) = options.push.complete("spot-1", get);
        let client = pushed.unwrap().client;
        assert!(client.client.is_none());
        assert_eq!(client.protocol, Protocol::HttpProtobuf);
        let warnings: Vec<_> = warnings.iter().map(Warning::to_string).collect();
        assert_eq!(
            warnings,
            [
                "OTEL_EXPORTER_OTLP_PROTOCOL is \"http/json\", and is ignored: it has to be http/protobuf or grpc",
                "The client certificate is \"/key.pem\", and is ignored: it needs both files, the certificate and its \
                 key",
            ]
        );
    }

    #[test]
    fn values_that_an_option_cannot_have_are_refused() {
        for line in [
            ["--otlp-interval", "0"],
            ["--otlp-interval", "NaN"],
            ["--otlp-interval", "inf"],
            ["--otlp-timeout", "1e9"],
            ["--otlp-retry-max", "-1"],
            ["--otlp-buffer-hours", "0"],
            ["--otlp-temporality", "lowmemory"],
            ["--otlp-compression", "zstd"],
            ["--otlp-protocol", "http/json"],
            ["--otlp-resource", "robot"],
        ] {
            let error = Options::try_parse_from(["exporter"].iter().chain(&line)).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line:?}");
        }
    }
}
