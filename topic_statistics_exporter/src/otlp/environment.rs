// SPDX-License-Identifier: Apache-2.0

//! Reads the environment variables of OpenTelemetry that the exporter supports.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/> and
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.

use std::{path::PathBuf, time::Duration};

use percent_encoding::percent_decode_str;
use thiserror::Error;

/// The values of the environment variables. An empty variable is treated as unset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// The headers of `OTEL_EXPORTER_OTLP_HEADERS`.
    pub headers: Vec<(String, String)>,
    /// The time limit of a request, from `OTEL_EXPORTER_OTLP_TIMEOUT`, which is in milliseconds.
    pub timeout: Option<Duration>,
    /// Whether requests are compressed: `OTEL_EXPORTER_OTLP_COMPRESSION` is `gzip` or `none`.
    pub gzip: Option<bool>,
    /// The file of certificates that `OTEL_EXPORTER_OTLP_CERTIFICATE` names.
    pub certificate: Option<PathBuf>,
    /// The time between two reports, from `OTEL_METRIC_EXPORT_INTERVAL`, which is in milliseconds.
    pub interval: Option<Duration>,
    /// The attributes of `OTEL_RESOURCE_ATTRIBUTES`. `OTEL_SERVICE_NAME` sets the attribute `service.name`.
    pub resource: Vec<(String, String)>,
}

/// A warning about an environment variable: the variable is ignored, or the variable turns pushing off.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Warning {
    /// The value of a variable is invalid, so the variable is ignored.
    #[error("{variable} is {value}, and is ignored: {expected}")]
    Unusable {
        /// The name of the variable.
        variable: String,
        /// The value, or the text `not valid` if the value can be a secret.
        value: String,
        /// A description of the valid values.
        expected: &'static str,
    },
    /// A variable turns pushing off.
    #[error("Nothing is pushed: {variable} is {value:?}")]
    Disabled {
        /// The name of the variable.
        variable: &'static str,
        /// The value of the variable.
        value: String,
    },
}

impl Environment {
    /// Reads the variables. `get` returns the value of a variable. A variable with an invalid value is treated as
    /// unset, as the specification requires.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> (Self, Vec<Warning>) {
        let get = |name: &str| get_if_set(&get, name);
        // `OTEL_EXPORTER_OTLP_METRICS_...`, which is only for metrics, takes precedence over `OTEL_EXPORTER_OTLP_...`.
        let otlp = |name: &str| {
            [format!("OTEL_EXPORTER_OTLP_METRICS_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")]
                .into_iter()
                .find_map(|variable| get(&variable).map(|value| (variable, value)))
        };
        let plain = |name: &str| get(name).map(|value| (name.to_owned(), value));
        let mut warnings = vec![];
        let resource = plain("OTEL_RESOURCE_ATTRIBUTES");
        let mut resource = parse(&mut warnings, resource, PAIRS, key_values).unwrap_or_default();
        if let Some(name) = get("OTEL_SERVICE_NAME") {
            resource.push(("service.name".to_owned(), name));
        }
        let temporality = plain("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE");
        for (variable, expected, only) in [
            (otlp("PROTOCOL"), "it has to be http/protobuf", Some("http/protobuf")),
            (temporality, "it has to be cumulative", Some("cumulative")),
            (otlp("CLIENT_CERTIFICATE"), NO_CLIENT_CERTIFICATE, None),
            (otlp("CLIENT_KEY"), NO_CLIENT_CERTIFICATE, None),
        ] {
            parse(&mut warnings, variable, expected, |value| {
                only.is_some_and(|only| value.eq_ignore_ascii_case(only)).then_some(())
            });
        }
        let environment = Self {
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
            certificate: otlp("CERTIFICATE").map(|(_, path)| path.into()),
            interval: parse(&mut warnings, plain("OTEL_METRIC_EXPORT_INTERVAL"), MILLISECONDS, milliseconds),
            resource,
        };
        (environment, warnings)
    }
}

/// Returns a warning if an environment variable that OpenTelemetry's SDKs also read turns pushing off. `get` returns
/// the value of a variable.
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

/// A description of the valid texts for [`key_values`].
pub const KEY_VALUES: &str = "name=value,name=value, with %2C for a comma in a value";

const PAIRS: &str = "it has to be name=value,name=value, with %2C for a comma in a value";
const MILLISECONDS: &str = "it has to be a whole number of milliseconds above 0";
const NO_CLIENT_CERTIFICATE: &str = "an agent beside the exporter can have a client certificate";

/// The destination of metrics: the base URL of a collector, or the complete URL for metrics.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoint {
    /// The base URL of the collector, from `OTEL_EXPORTER_OTLP_ENDPOINT` or the option `--otlp-endpoint`.
    Collector(String),
    /// The complete URL for metrics, from `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`.
    Metrics(String),
}

impl Endpoint {
    /// Returns the endpoint that the environment variables name. `get` returns the value of a variable.
    pub fn of_environment(get: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let metrics = get_if_set(&get, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT").map(Self::Metrics);
        metrics.or_else(|| get_if_set(&get, "OTEL_EXPORTER_OTLP_ENDPOINT").map(Self::Collector))
    }

    /// Returns the URL for requests. If a base URL does not end with the path `/v1/metrics`, adds this path.
    pub fn url(&self) -> String {
        match self {
            Self::Metrics(url) => url.clone(),
            Self::Collector(url) => {
                let (base, query) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
                let base = base.trim_end_matches('/');
                format!("{}/v1/metrics{query}", base.strip_suffix("/v1/metrics").unwrap_or(base))
            }
        }
    }
}

fn get_if_set(get: impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Parses names and values: `name=value,name=value`. A byte can be written as `%` and two hexadecimal digits. Returns
/// `None` if the text is not valid.
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

/// Parses the value of a variable, if the variable is set. Adds a warning if the value is invalid.
fn parse<T>(
    warnings: &mut Vec<Warning>,
    found: Option<(String, String)>,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let (variable, value) = found?;
    let parsed = parse(&value);
    if parsed.is_none() {
        // The values of headers can be secrets, so a warning does not show these values.
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

    #[test]
    fn variables_have_the_meaning_that_opentelemetry_gives_them() {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let all = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%2Cb=, x = y ,"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "2500"), // takes precedence
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Cumulative"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=arm,site=Z%C3%BCrich"),
            ("OTEL_SERVICE_NAME", "leg"),
        ];
        let environment = Environment {
            headers: pairs(&[("api-key", "a,b="), ("x", "y")]),
            timeout: Some(Duration::from_millis(2500)),
            gzip: Some(false),
            certificate: Some("/etc/ca.pem".into()),
            interval: Some(Duration::from_secs(60)),
            resource: pairs(&[("service.name", "arm"), ("site", "Z\u{fc}rich"), ("service.name", "leg")]),
        };
        let empty = all.map(|(name, _)| (name, " "));
        for (variables, expected) in [(all, environment), (empty, Environment::default())] {
            assert_eq!(Environment::read(get(&variables)), (expected, vec![]));
        }
    }

    #[test]
    fn an_endpoint_is_that_of_metrics_or_one_above_it() {
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics/as/it/is");
        let endpoint = |value| ("OTEL_EXPORTER_OTLP_ENDPOINT", value);
        assert_eq!(Endpoint::of_environment(get(&[endpoint(" ")])), None);
        let environment = Endpoint::of_environment(get(&[endpoint("http://h"), own])).unwrap();
        assert_eq!(environment.url(), own.1);
        // The path for metrics comes before the query. The query is not shown.
        for (value, url, is_shown) in [
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
            let made = Endpoint::of_environment(get(&[endpoint(value)])).unwrap().url();
            assert_eq!((&*made, &*shown(&made)), (url, is_shown), "{value}");
        }
    }

    #[test]
    fn a_wrong_variable_is_ignored_with_a_warning_without_secrets() {
        let pairs = "it has to be name=value";
        for (name, value, shown, expected) in [
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "\"10s\"", "it has to be a whole number"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0", "\"0\"", "it has to be a whole number"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret", "not valid", pairs),
            ("OTEL_RESOURCE_ATTRIBUTES", "robot", "\"robot\"", pairs),
            ("OTEL_RESOURCE_ATTRIBUTES", "x=%ff", "\"x=%ff\"", pairs),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "\"zstd\"", "it has to be gzip"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "\"grpc\"", "it has to be http/protobuf"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key", "\"/key\"", "an agent beside the exporter"),
            ("OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE", "/x", "\"/x\"", "an agent beside the exporter"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
                "lowmemory",
                "\"lowmemory\"",
                "it has to be cumulative",
            ),
        ] {
            let (environment, warnings) = Environment::read(get(&[(name, value)]));
            assert_eq!((environment, warnings.len()), (Environment::default(), 1), "{name}");
            let start = format!("{name} is {shown}, and is ignored: {expected}");
            assert!(warnings[0].to_string().starts_with(&start), "{}", warnings[0]);
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
