// SPDX-License-Identifier: Apache-2.0

//! Reads the environment variables of OpenTelemetry that the exporter supports. An empty variable is treated as unset.
//!
//! Source: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/> and
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>.

use std::time::Duration;

use thiserror::Error;

use super::{gzip, pairs, PushOptions};

/// A warning about an environment variable: the variable is ignored, or the variable turns pushing off.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Warning {
    /// An invalid value, so the variable is ignored. `value` is `not valid` if it can be a secret.
    #[error("{variable} is {value}, and is ignored: {expected}")]
    Unusable { variable: String, value: String, expected: String },
    /// A variable turns pushing off.
    #[error("Nothing is pushed: {variable} is {value:?}")]
    Disabled { variable: &'static str, value: String },
    /// Options of OTLP are given, but no collector.
    #[error("Nothing is pushed: other options of OTLP are given, but not --otlp-endpoint")]
    NoEndpoint,
}

/// Returns the value of a variable that is set and not empty.
type Get<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the options, except the endpoint. Invalid values are ignored, as the specification requires.
pub fn read(get: Get<'_>) -> (PushOptions, Vec<Warning>) {
    let plain = |name: &str| Some((name.to_owned(), get(name)?));
    // `OTEL_EXPORTER_OTLP_METRICS_...`, which is only for metrics, takes precedence over `OTEL_EXPORTER_OTLP_...`.
    let otlp = |name: &str| {
        plain(&format!("OTEL_EXPORTER_OTLP_METRICS_{name}"))
            .or_else(|| plain(&format!("OTEL_EXPORTER_OTLP_{name}")))
    };
    let mut warnings = vec![];
    for (variable, only) in [
        (otlp("PROTOCOL"), "http/protobuf"),
        (plain("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"), "cumulative"),
    ] {
        parse(&mut warnings, variable, |value| value.eq_ignore_ascii_case(only).then_some(()).ok_or(only));
    }
    for (variable, value) in [otlp("CLIENT_CERTIFICATE"), otlp("CLIENT_KEY")].into_iter().flatten() {
        let expected = "an agent beside the exporter can have a client certificate".to_owned();
        warnings.push(Warning::Unusable { variable, value: format!("{value:?}"), expected });
    }
    let mut resource = parse(&mut warnings, plain("OTEL_RESOURCE_ATTRIBUTES"), pairs).unwrap_or_default();
    resource.extend(get("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
    let options = PushOptions {
        otlp_headers: parse(&mut warnings, otlp("HEADERS"), pairs),
        otlp_timeout: parse(&mut warnings, otlp("TIMEOUT"), milliseconds),
        otlp_compression: parse(&mut warnings, otlp("COMPRESSION"), gzip),
        otlp_certificate: otlp("CERTIFICATE").map(|(_, path)| path.into()),
        otlp_interval: parse(&mut warnings, plain("OTEL_METRIC_EXPORT_INTERVAL"), milliseconds),
        otlp_resource: Some(resource),
        ..PushOptions::default()
    };
    (options, warnings)
}

/// OpenTelemetry's SDKs read the same environment variables. Returns a warning if one of these variables turns pushing
/// off.
pub fn disabled(get: Get<'_>) -> Option<Warning> {
    for (variable, is_off) in [
        ("OTEL_SDK_DISABLED", (|value| value.eq_ignore_ascii_case("true")) as fn(&str) -> bool),
        ("OTEL_METRICS_EXPORTER", |value| value.split(',').all(|exporter| exporter.trim() != "otlp")),
    ] {
        if let Some(value) = get(variable).filter(|value| is_off(value)) {
            return Some(Warning::Disabled { variable, value });
        }
    }
    None
}

/// Returns the URL that the environment variables name for metrics.
pub fn url(get: Get<'_>) -> Option<String> {
    get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
        .or_else(|| get("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| metrics_url(&base)))
}

/// Returns the URL for metrics of a collector. If the base URL does not end with the path `/v1/metrics`, adds this path.
pub fn metrics_url(base: &str) -> String {
    let (base, query) = base.split_at(base.find(['?', '#']).unwrap_or(base.len()));
    let base = base.trim_end_matches('/');
    format!("{}/v1/metrics{query}", base.strip_suffix("/v1/metrics").unwrap_or(base))
}

fn milliseconds(text: &str) -> Result<Duration, &'static str> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.map(Duration::from_millis).ok_or("a whole number of milliseconds above 0")
}

/// Parses the value of a variable, if the variable is set. Adds a warning if the value is invalid.
fn parse<T>(
    warnings: &mut Vec<Warning>,
    found: Option<(String, String)>,
    parse: impl Fn(&str) -> Result<T, &'static str>,
) -> Option<T> {
    let (variable, value) = found?;
    let invalid = |right: &str| {
        // The values of headers can be secrets, so a warning does not show these values.
        let value = if variable.ends_with("HEADERS") { "not valid".to_owned() } else { format!("{value:?}") };
        warnings.push(Warning::Unusable { variable, value, expected: format!("it has to be {right}") });
    };
    parse(&value).map_err(invalid).ok()
}
