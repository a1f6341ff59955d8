// SPDX-License-Identifier: Apache-2.0

//! OpenTelemetry's environment variables, as far as the exporter has them.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/> and
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.

use std::{path::PathBuf, time::Duration};

use percent_encoding::percent_decode_str;
use thiserror::Error;

/// The values of the variables. An empty variable counts as unset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    pub headers: Vec<(String, String)>,
    /// `OTEL_EXPORTER_OTLP_TIMEOUT`, in milliseconds.
    pub timeout: Option<Duration>,
    /// `OTEL_EXPORTER_OTLP_COMPRESSION`: `gzip` or `none`.
    pub gzip: Option<bool>,
    /// `OTEL_EXPORTER_OTLP_CERTIFICATE`.
    pub certificate: Option<PathBuf>,
    /// `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE`.
    pub temporality: Option<Temporality>,
    /// `OTEL_METRIC_EXPORT_INTERVAL`, in milliseconds.
    pub interval: Option<Duration>,
    /// `OTEL_RESOURCE_ATTRIBUTES`, and `OTEL_SERVICE_NAME` as `service.name`.
    pub resource: Vec<(String, String)>,
}

/// An unusable value of a variable.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{variable} is {value}: {expected}")]
pub struct EnvironmentError {
    variable: String,
    value: String,
    expected: &'static str,
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
    /// Reads the variables. `get` returns the value of one.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, EnvironmentError> {
        let get = |name: &str| get_if_set(&get, name);
        // The more special variable wins.
        let otlp = |name: &str| {
            [format!("OTEL_EXPORTER_OTLP_METRICS_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")]
                .into_iter()
                .find_map(|variable| get(&variable).map(|value| (variable, value)))
        };
        let plain = |name: &str| get(name).map(|value| (name.to_owned(), value));
        parse(otlp("PROTOCOL"), "this exporter has http/protobuf only", |value| {
            (value == "http/protobuf").then_some(())
        })?;
        let mut resource = parse(plain("OTEL_RESOURCE_ATTRIBUTES"), PAIRS, key_values)?.unwrap_or_default();
        if let Some(name) = get("OTEL_SERVICE_NAME") {
            resource.push(("service.name".to_owned(), name));
        }
        Ok(Self {
            headers: parse(otlp("HEADERS"), PAIRS, key_values)?.unwrap_or_default(),
            timeout: parse(otlp("TIMEOUT"), MILLISECONDS, milliseconds)?,
            gzip: parse(otlp("COMPRESSION"), "it has to be gzip or none", |value| match value {
                "gzip" => Some(true),
                "none" => Some(false),
                _ => None,
            })?,
            certificate: otlp("CERTIFICATE").map(|(_, path)| path.into()),
            temporality: parse(
                plain("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"),
                TEMPORALITIES,
                |value| match value.to_ascii_lowercase().as_str() {
                    "cumulative" => Some(Temporality::Cumulative),
                    "delta" | "lowmemory" => Some(Temporality::Delta),
                    _ => None,
                },
            )?,
            interval: parse(plain("OTEL_METRIC_EXPORT_INTERVAL"), MILLISECONDS, milliseconds)?,
            resource,
        })
    }
}

/// The input of [`key_values`].
pub const KEY_VALUES: &str = "name=value,name=value, with %2C for a comma in a value";

const PAIRS: &str = "it has to be name=value,name=value, with %2C for a comma in a value";
const MILLISECONDS: &str = "it has to be a whole number of milliseconds above 0";
const TEMPORALITIES: &str = "it has to be cumulative, delta or lowmemory";

/// The URL for metrics: `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` as it is, or derived from `OTEL_EXPORTER_OTLP_ENDPOINT`.
/// `get` returns a variable.
pub fn environment_url(get: impl Fn(&str) -> Option<String>) -> Option<String> {
    get_if_set(&get, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
        .or_else(|| get_if_set(&get, "OTEL_EXPORTER_OTLP_ENDPOINT").map(|endpoint| metrics_url(&endpoint)))
}

fn get_if_set(get: impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The URL that takes metrics, of the base URL of an endpoint.
pub fn metrics_url(endpoint: &str) -> String {
    format!("{}/v1/metrics", endpoint.trim_end_matches('/'))
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

fn parse<T>(
    found: Option<(String, String)>,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, EnvironmentError> {
    let Some((variable, value)) = found else { return Ok(None) };
    match parse(&value) {
        Some(parsed) => Ok(Some(parsed)),
        None => {
            // A value can be a secret.
            let value =
                if variable.ends_with("HEADERS") { "not valid".to_owned() } else { format!("{value:?}") };
            Err(EnvironmentError { variable, value, expected })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, String> {
        let get = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        Environment::read(get).map_err(|error| error.to_string())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn variables_that_are_not_set_or_empty_say_nothing() {
        assert_eq!(read(&[]), Ok(Environment::default()));
        let empty = ["ENDPOINT", "HEADERS", "TIMEOUT", "COMPRESSION"]
            .map(|name| format!("OTEL_EXPORTER_OTLP_{name}"));
        assert_eq!(read(&empty.each_ref().map(|name| (name.as_str(), " "))), Ok(Environment::default()));
    }

    #[test]
    fn variables_have_the_meaning_that_opentelemetry_gives_them() {
        let all = read(&[
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%2Cb=, x = y ,"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Delta"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=arm,site=Z%C3%BCrich"),
            ("OTEL_SERVICE_NAME", "leg"),
        ]);
        let expected = Environment {
            headers: pairs(&[("api-key", "a,b="), ("x", "y")]),
            timeout: Some(Duration::from_millis(2500)),
            gzip: Some(false),
            certificate: Some("/etc/ca.pem".into()),
            temporality: Some(Temporality::Delta),
            interval: Some(Duration::from_secs(60)),
            resource: pairs(&[("service.name", "arm"), ("site", "Z\u{fc}rich"), ("service.name", "leg")]),
        };
        assert_eq!(all, Ok(expected));
    }

    #[test]
    fn the_variables_of_metrics_win() {
        let both =
            read(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"), ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "2000")])
                .unwrap();

        assert_eq!(both.timeout, Some(Duration::from_secs(2)));
    }

    #[test]
    fn metrics_have_a_url_of_their_own_or_one_below_the_endpoint() {
        let url = |variables: &[(&str, &str)]| {
            environment_url(|name| {
                variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base/");
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics/as/it/is");
        assert_eq!(url(&[endpoint]).as_deref(), Some("http://collector:4318/base/v1/metrics"));
        assert_eq!(url(&[endpoint, own]).as_deref(), Some("http://metrics/as/it/is"));
        assert_eq!(url(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), None);
    }

    #[test]
    fn what_cannot_be_used_is_an_error_that_shows_no_secret() {
        let error = |name: &str, value: &str| read(&[(name, value)]).unwrap_err();
        assert_eq!(
            error("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            "OTEL_EXPORTER_OTLP_TIMEOUT is \"10s\": it has to be a whole number of milliseconds above 0"
        );
        assert_eq!(
            error("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            "OTEL_EXPORTER_OTLP_HEADERS is not valid: it has to be name=value,name=value, with %2C for a comma in a value"
        );
        for (name, value) in [
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "-5"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zip"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_RESOURCE_ATTRIBUTES", "=x"),
            ("OTEL_RESOURCE_ATTRIBUTES", "x=%ff"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "sum"),
        ] {
            assert!(error(name, value).starts_with(&format!("{name} is {value:?}: ")));
        }
    }
}
