// SPDX-License-Identifier: Apache-2.0

//! OpenTelemetry's environment variables, as far as the exporter has them.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/> and
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.

use std::{path::PathBuf, time::Duration};

use percent_encoding::percent_decode_str;
use thiserror::Error;

use super::Protocol;

/// The values of the variables. An empty variable counts as unset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// `OTEL_EXPORTER_OTLP_PROTOCOL`: `http/protobuf` or `grpc`.
    pub protocol: Option<Protocol>,
    /// `OTEL_EXPORTER_OTLP_INSECURE`: whether gRPC has no TLS, at an endpoint without `http://` or `https://`.
    pub insecure: Option<bool>,
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    pub headers: Vec<(String, String)>,
    /// `OTEL_EXPORTER_OTLP_TIMEOUT`, in milliseconds.
    pub timeout: Option<Duration>,
    /// `OTEL_EXPORTER_OTLP_COMPRESSION`: `gzip` or `none`.
    pub gzip: Option<bool>,
    /// `OTEL_EXPORTER_OTLP_CERTIFICATE`.
    pub certificate: Option<PathBuf>,
    /// `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`.
    pub client_certificate: Option<PathBuf>,
    /// `OTEL_EXPORTER_OTLP_CLIENT_KEY`.
    pub client_key: Option<PathBuf>,
    /// `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE`.
    pub temporality: Option<Temporality>,
    /// `OTEL_METRIC_EXPORT_INTERVAL`, in milliseconds.
    pub interval: Option<Duration>,
    /// `OTEL_RESOURCE_ATTRIBUTES`, and `OTEL_SERVICE_NAME` as `service.name`.
    pub resource: Vec<(String, String)>,
}

/// A variable that has no effect, or ends the push side, with the reason. It is logged.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Warning {
    /// An unusable value.
    #[error("{variable} is {value}, and is ignored: {expected}")]
    Unusable {
        /// The variable.
        variable: String,
        /// Its value, unless that can be a secret.
        value: String,
        /// The right values.
        expected: &'static str,
    },
    /// Nothing is pushed because of it.
    #[error("Nothing is pushed: {variable} is {value:?}")]
    Disabled {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
}

/// Which samples a sum or a histogram has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Temporality {
    /// All samples since the start. A lost request costs only resolution in time.
    #[default]
    Cumulative,
    /// The samples since the request before.
    Delta,
}

impl Environment {
    /// Reads the variables. `get` returns the value of one. An unusable value counts as unset, as the specification
    /// says.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> (Self, Vec<Warning>) {
        let get = |name: &str| get_if_set(&get, name);
        // The more special variable wins.
        let otlp = |name: &str| {
            [format!("OTEL_EXPORTER_OTLP_METRICS_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")]
                .into_iter()
                .find_map(|variable| get(&variable).map(|value| (variable, value)))
        };
        let plain = |name: &str| get(name).map(|value| (name.to_owned(), value));
        let path = |name| otlp(name).map(|(_, path)| path.into());
        let mut warnings = vec![];
        let resource = plain("OTEL_RESOURCE_ATTRIBUTES");
        let mut resource = parse(&mut warnings, resource, PAIRS, key_values).unwrap_or_default();
        if let Some(name) = get("OTEL_SERVICE_NAME") {
            resource.push(("service.name".to_owned(), name));
        }
        let temporality = plain("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE");
        let environment = Self {
            protocol: parse(&mut warnings, otlp("PROTOCOL"), PROTOCOLS, Protocol::parse),
            insecure: parse(&mut warnings, otlp("INSECURE"), "it has to be true or false", |value| {
                value.to_ascii_lowercase().parse().ok()
            }),
            headers: parse(&mut warnings, otlp("HEADERS"), PAIRS, key_values).unwrap_or_default(),
            timeout: parse(&mut warnings, otlp("TIMEOUT"), MILLISECONDS, milliseconds),
            gzip: parse(
                &mut warnings,
                otlp("COMPRESSION"),
                "it has to be gzip or none",
                |value| match value {
                    "gzip" => Some(true),
                    "none" => Some(false),
                    _ => None,
                },
            ),
            certificate: path("CERTIFICATE"),
            client_certificate: path("CLIENT_CERTIFICATE"),
            client_key: path("CLIENT_KEY"),
            temporality: parse(&mut warnings, temporality, TEMPORALITIES, |value| {
                match value.to_ascii_lowercase().as_str() {
                    "cumulative" => Some(Temporality::Cumulative),
                    "delta" | "lowmemory" => Some(Temporality::Delta),
                    _ => None,
                }
            }),
            interval: parse(&mut warnings, plain("OTEL_METRIC_EXPORT_INTERVAL"), MILLISECONDS, milliseconds),
            resource,
        };
        (environment, warnings)
    }
}

/// Returns why nothing is pushed, if the variables of OpenTelemetry's SDKs say so. `get` returns a variable.
pub fn disabled(get: impl Fn(&str) -> Option<String>) -> Option<Warning> {
    let disabled = |variable, value| Some(Warning::Disabled { variable, value });
    let get = |name: &str| get_if_set(&get, name);
    match get("OTEL_SDK_DISABLED") {
        Some(value) if value.eq_ignore_ascii_case("true") => return disabled("OTEL_SDK_DISABLED", value),
        _ => {}
    }
    let exporters = get("OTEL_METRICS_EXPORTER")?;
    let has_otlp = exporters.split(',').any(|exporter| exporter.trim() == "otlp");
    if has_otlp {
        None
    } else {
        disabled("OTEL_METRICS_EXPORTER", exporters)
    }
}

/// The input of [`key_values`].
pub const KEY_VALUES: &str = "name=value,name=value, with %2C for a comma in a value";

const PAIRS: &str = "it has to be name=value,name=value, with %2C for a comma in a value";
const MILLISECONDS: &str = "it has to be a whole number of milliseconds above 0";
const PROTOCOLS: &str = "it has to be http/protobuf or grpc";
const TEMPORALITIES: &str = "it has to be cumulative, delta or lowmemory";

/// Where metrics go, and how far that is the URL of metrics.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoint {
    /// The collector, as `OTEL_EXPORTER_OTLP_ENDPOINT` names it.
    Collector(String),
    /// The URL of metrics, as `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` names it.
    Metrics(String),
}

impl Endpoint {
    /// The endpoint of the environment. `get` returns a variable.
    pub fn of_environment(get: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let metrics = get_if_set(&get, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT").map(Self::Metrics);
        metrics.or_else(|| get_if_set(&get, "OTEL_EXPORTER_OTLP_ENDPOINT").map(Self::Collector))
    }

    /// The URL for requests. It has the path of metrics once, before a query; with gRPC it has no path. Without a
    /// scheme, gRPC has TLS unless it is `insecure`.
    pub fn url(&self, protocol: Protocol, insecure: bool) -> String {
        match (protocol, self) {
            (Protocol::HttpProtobuf, Self::Metrics(url)) => url.clone(),
            (Protocol::HttpProtobuf, Self::Collector(url)) => {
                let (base, query) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
                let base = base.trim_end_matches('/');
                format!("{}/v1/metrics{query}", base.strip_suffix("/v1/metrics").unwrap_or(base))
            }
            (Protocol::Grpc, Self::Metrics(url) | Self::Collector(url)) => {
                match (url.contains("://"), insecure) {
                    (true, _) => url.clone(),
                    (false, true) => format!("http://{url}"),
                    (false, false) => format!("https://{url}"),
                }
            }
        }
    }
}

fn get_if_set(get: impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Names and values: `name=value,name=value`. Bytes can be written as `%` and two hexadecimal digits. None if it is not
/// that.
pub fn key_values(text: &str) -> Option<Vec<(String, String)>> {
    let decode =
        |text: &str| percent_decode_str(text.trim()).decode_utf8().ok().map(|text| text.into_owned());
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((decode(name).filter(|name| !name.is_empty())?, decode(value)?))
        })
        .collect()
}

fn milliseconds(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|number| *number > 0).map(Duration::from_millis)
}

/// Parses a variable, which may be unset. Adds a warning if its value cannot be used.
fn parse<T>(
    warnings: &mut Vec<Warning>,
    found: Option<(String, String)>,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let (variable, value) = found?;
    let parsed = parse(&value);
    if parsed.is_none() {
        // A value can be a secret.
        let value = if variable.ends_with("HEADERS") { "not valid".to_owned() } else { format!("{value:?}") };
        warnings.push(Warning::Unusable { variable, value, expected });
    }
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::shown;

    fn get<'a>(variables: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
    }

    /// Reads variables without a wrong one.
    fn read(variables: &[(&str, &str)]) -> Environment {
        let (environment, warnings) = Environment::read(get(variables));
        assert_eq!(warnings, []);
        environment
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn variables_have_the_meaning_that_opentelemetry_gives_them() {
        let all = read(&[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_INSECURE", "True"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%2Cb=, x = y ,"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/etc/robot.pem"),
            ("OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY", "/etc/robot.key"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Delta"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=arm,site=Z%C3%BCrich"),
            ("OTEL_SERVICE_NAME", "leg"),
        ]);
        let expected = Environment {
            protocol: Some(Protocol::Grpc),
            insecure: Some(true),
            headers: pairs(&[("api-key", "a,b="), ("x", "y")]),
            timeout: Some(Duration::from_millis(2500)),
            gzip: Some(false),
            certificate: Some("/etc/ca.pem".into()),
            client_certificate: Some("/etc/robot.pem".into()),
            client_key: Some("/etc/robot.key".into()),
            temporality: Some(Temporality::Delta),
            interval: Some(Duration::from_secs(60)),
            resource: pairs(&[("service.name", "arm"), ("site", "Z\u{fc}rich"), ("service.name", "leg")]),
        };
        assert_eq!(all, expected);
        let empty = ["ENDPOINT", "HEADERS", "TIMEOUT", "COMPRESSION"]
            .map(|name| format!("OTEL_EXPORTER_OTLP_{name}"));
        assert_eq!(read(&empty.each_ref().map(|name| (name.as_str(), " "))), Environment::default());
        let of_metrics = ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "2000");
        let both = read(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"), of_metrics]);
        assert_eq!(both.timeout, Some(Duration::from_secs(2)), "that of metrics wins");
    }

    #[test]
    fn an_endpoint_is_that_of_metrics_or_one_above_it() {
        let url = |variables: &[(&str, &str)]| {
            let endpoint = Endpoint::of_environment(get(variables));
            endpoint.map(|endpoint| endpoint.url(Protocol::HttpProtobuf, false))
        };
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base/");
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics/as/it/is");
        assert_eq!(url(&[endpoint]).as_deref(), Some("http://collector:4318/base/v1/metrics"));
        assert_eq!(url(&[endpoint, own]).as_deref(), Some("http://metrics/as/it/is"));
        assert_eq!(url(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), None);
        for (name, insecure, url) in [
            ("http://h:4317", false, "http://h:4317"),
            ("https://h:4317", true, "https://h:4317"),
            ("h:4317", false, "https://h:4317"),
            ("h:4317", true, "http://h:4317"),
        ] {
            assert_eq!(Endpoint::Collector(name.to_owned()).url(Protocol::Grpc, insecure), url);
        }
    }

    #[test]
    fn the_path_of_metrics_is_before_a_query_which_is_not_shown() {
        for (endpoint, url, is_shown) in [
            ("http://h:4318/", "http://h:4318/v1/metrics", "http://h:4318/v1/metrics"),
            ("http://h/v1/metrics/", "http://h/v1/metrics", "http://h/v1/metrics"),
            ("http://h?key=a/b", "http://h/v1/metrics?key=a/b", "http://h/v1/metrics"),
            ("http://h/v1/metrics?key=x", "http://h/v1/metrics?key=x", "http://h/v1/metrics"),
            ("https://h:4318/a/?x=1#y", "https://h:4318/a/v1/metrics?x=1#y", "https://h:4318/a/v1/metrics"),
            ("http://h/#?y", "http://h/v1/metrics#?y", "http://h/v1/metrics"),
            ("http://me:se@cret@h/a@b", "http://me:se@cret@h/a@b/v1/metrics", "http://h/a@b/v1/metrics"),
            ("me:secret@h", "me:secret@h/v1/metrics", "h/v1/metrics"),
            ("http://h\u{1b}", "http://h\u{1b}/v1/metrics", "http://h\\u{1b}/v1/metrics"),
        ] {
            let made = Endpoint::Collector(endpoint.to_owned()).url(Protocol::HttpProtobuf, false);
            assert_eq!((&*made, &*shown(&made)), (url, is_shown), "{endpoint}");
        }
    }

    #[test]
    fn a_wrong_variable_is_ignored_with_a_warning_without_secrets() {
        let warning = |name: &str, value: &str| {
            let (environment, warnings) = Environment::read(get(&[(name, value)]));
            assert_eq!((environment, warnings.len()), (Environment::default(), 1), "{name}");
            warnings[0].to_string()
        };
        let timeout = warning("OTEL_EXPORTER_OTLP_TIMEOUT", "10s");
        assert!(timeout.contains("\"10s\", and is ignored: it has to be a whole number"), "{timeout}");
        let headers = warning("OTEL_EXPORTER_OTLP_HEADERS", "secret");
        assert!(headers.contains("is not valid, and is ignored: it has to be name=value"), "{headers}");
        for (name, value) in [
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_INSECURE", "yes"),
            ("OTEL_RESOURCE_ATTRIBUTES", "robot"),
            ("OTEL_RESOURCE_ATTRIBUTES", "x=%ff"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "sum"),
        ] {
            let warning = warning(name, value);
            assert!(warning.starts_with(&format!("{name} is {value:?}, and is ignored: ")), "{warning}");
        }
    }

    #[test]
    fn the_variables_of_sdks_turn_the_push_side_off() {
        for (name, value, is_disabled) in [
            ("OTEL_SDK_DISABLED", "true", true),
            ("OTEL_SDK_DISABLED", "false", false),
            ("OTEL_SDK_DISABLED", "1", false),
            ("OTEL_METRICS_EXPORTER", "none", true),
            ("OTEL_METRICS_EXPORTER", "prometheus", true),
            ("OTEL_METRICS_EXPORTER", "otlp", false),
            ("OTEL_METRICS_EXPORTER", "prometheus, otlp", false),
        ] {
            let reason = disabled(get(&[(name, value)])).map(|reason| reason.to_string());
            let expected = is_disabled.then(|| format!("Nothing is pushed: {name} is {value:?}"));
            assert_eq!(reason, expected, "{name}={value}");
        }
    }
}
