// SPDX-License-Identifier: Apache-2.0

//! Reads the options from environment variables.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use topic_statistics_core::{metric::names, pattern::Namespace, Metric, SourceKind};

#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub period: Duration,
    pub metrics: Vec<Metric>,
    /// Whether hops are measured: the time from a received message to the publication that this message causes.
    pub has_hops: bool,
    pub has_executor: bool,
    /// Names and patterns of the measured topics and services. A pattern after `!` excludes topics. If the list is
    /// empty, all topics and services are measured.
    pub topics: Vec<String>,
    pub publish_topic: String,
    pub distributions: bool,
    /// The file of expectations; `None` if nothing is judged.
    pub expect: Option<PathBuf>,
    /// In the file `expect`, this namespace is put before names that have no slash at their start.
    pub expect_namespace: Namespace,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(1),
            metrics: vec![Metric::MessageAge, Metric::MessagePeriod],
            has_hops: false,
            has_executor: false,
            topics: vec![],
            publish_topic: "/statistics".to_owned(),
            distributions: false,
            expect: None,
            expect_namespace: Namespace::default(),
        }
    }
}

/// Topics that every node has, and the topics on which statistics are published.
const COMMON: [&str; 4] = ["/parameter_events", "/rosout", "/statistics", "/statistics/distribution"];

/// The last parts of the names of services that every node has.
const COMMON_SERVICES: [&str; 9] = [
    "describe_parameters",
    "get_logger_levels",
    "get_parameter_types",
    "get_parameters",
    "get_type_description",
    "list_parameters",
    "set_logger_levels",
    "set_parameters",
    "set_parameters_atomically",
];

/// The last parts of the names of the further services, and of the topic, that each lifecycle node has.
const LIFECYCLE: [&str; 6] = [
    "change_state",
    "get_available_states",
    "get_available_transitions",
    "get_state",
    "get_transition_graph",
    "transition_event",
];

/// Returns whether a topic or service has a name that each lifecycle node uses. Other nodes may also use such a name.
pub fn has_lifecycle_name(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|last| LIFECYCLE.contains(&last))
}

/// Sets an option to the value of a variable. The error has the expected values.
type Set = fn(&mut Options, &str) -> Result<(), String>;

/// The environment variables, and the functions that set their options.
const VARIABLES: [(&str, Set); 7] = [
    ("TOPIC_STATISTICS_PERIOD", |options, value| period(value).map(|period| options.period = period)),
    ("TOPIC_STATISTICS_METRICS", |options, value| {
        let chosen = metrics(value)?;
        options.has_hops = chosen.contains(&Metric::InputToOutput);
        options.has_executor = chosen.contains(&Metric::Busy);
        let of_subscriptions = |metric: &Metric| SourceKind::Subscription.measures(*metric);
        options.metrics = chosen.into_iter().filter(of_subscriptions).collect();
        Ok(())
    }),
    ("TOPIC_STATISTICS_TOPICS", |options, value| topics(value).map(|topics| options.topics = topics)),
    ("TOPIC_STATISTICS_PUBLISH_TOPIC", |options, value| {
        value.clone_into(&mut options.publish_topic);
        match value.starts_with('/') {
            true => check_topic(value, &[]),
            false => Err("a topic that begins with / is expected".to_owned()),
        }
    }),
    ("TOPIC_STATISTICS_DISTRIBUTIONS", |options, value| {
        let parsed = value.trim().parse().map_err(|_| "true or false is expected".to_owned());
        parsed.map(|distributions| options.distributions = distributions)
    }),
    ("TOPIC_STATISTICS_EXPECT", |options, value| {
        options.expect = Some(value.into());
        Ok(())
    }),
    ("TOPIC_STATISTICS_EXPECT_NAMESPACE", |options, value| {
        options.expect_namespace = value.parse()?;
        Ok(())
    }),
];

impl Options {
    /// Reads the options from environment variables. Ignores unrelated variables.
    ///
    /// The error names the invalid variable, its value and the expected values.
    pub fn read(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, String> {
        let text = |text: OsString| text.to_string_lossy().into_owned();
        let variables = variables.into_iter().map(|(name, value)| (text(name), text(value)));
        let mut variables: BTreeMap<_, _> =
            variables.filter(|(name, _)| name.starts_with("TOPIC_STATISTICS_")).collect();
        let mut options = Self::default();
        for (name, set) in VARIABLES {
            if let Some(value) = variables.remove(name) {
                set(&mut options, &value).map_err(|expected| format!("{name} is {value:?}: {expected}"))?;
            }
        }
        match variables.keys().next() {
            None => Ok(options),
            Some(other) => {
                let known = VARIABLES.map(|(name, _)| name).join(", ");
                Err(format!("{other} is unknown: some of {known} are expected"))
            }
        }
    }

    /// Returns whether the options select a topic or service. `is_lifecycle`: the topic or service belongs to the
    /// interface of lifecycle nodes.
    pub fn measures(&self, topic: &str, is_lifecycle: bool) -> bool {
        let (excluded, included): (Vec<_>, Vec<_>) =
            self.topics.iter().map(String::as_str).partition(|pattern| pattern.starts_with('!'));
        if included.contains(&topic) {
            return true;
        }
        let is_match = |pattern: &str| matches(pattern.as_bytes(), topic.as_bytes());
        let is_common_service = topic.rsplit('/').next().is_some_and(|last| COMMON_SERVICES.contains(&last));
        let is_common =
            COMMON.contains(&topic) || topic == self.publish_topic || is_common_service || is_lifecycle;
        !is_common
            && !is_hidden(topic)
            && !excluded.iter().any(|pattern| is_match(&pattern[1..]))
            && (included.is_empty() || included.iter().any(|pattern| is_match(pattern)))
    }
}

/// Returns whether a topic or service is hidden, like the topics and services of an action.
pub fn is_hidden(name: &str) -> bool {
    name.split('/').any(|part| part.starts_with('_'))
}

fn period(value: &str) -> Result<Duration, String> {
    let seconds = value.trim().parse().ok().filter(|seconds| (0.001..=86400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("a number of seconds is expected, 0.001 to 86400".to_owned())
}

fn metrics(value: &str) -> Result<Vec<Metric>, String> {
    let known = [Metric::OF_SUBSCRIPTIONS, &[Metric::InputToOutput, Metric::Busy]].concat();
    if value.trim() == "all" {
        return Ok(known);
    }
    let parse = |name: &str| {
        let name = name.trim();
        let metric = known.iter().copied().find(|metric| metric.name() == name);
        metric.ok_or_else(|| match name {
            "all" => "`all` is expected alone".to_owned(),
            _ => format!(
                "{name:?} is no metric that can be chosen; `all` is expected, or some of {}",
                names(&known)
            ),
        })
    };
    value.split(',').map(parse).collect()
}

fn topics(value: &str) -> Result<Vec<String>, String> {
    let topic = |text: &str| {
        let text = text.trim();
        let (mark, name) = text.strip_prefix('!').map_or(("", text), |name| ("!", name));
        let slash = if name.starts_with('/') { "" } else { "/" };
        let pattern = format!("{slash}{name}");
        let wrong = |why| {
            let expected = "names of topics are expected, or patterns such as /camera/* and !/camera/raw";
            format!("{text:?}: {why}; {expected}")
        };
        check_topic(&pattern, b"*").map_err(wrong)?;
        Ok(format!("{mark}{pattern}"))
    };
    value.split(',').map(topic).collect()
}

/// Errors unless a text that begins with `/` is a valid topic name. The characters in `others` are also valid.
fn check_topic(name: &str, others: &[u8]) -> Result<(), String> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"/_".contains(&byte) || others.contains(&byte);
    if let Some(wrong) = name.chars().find(|c| !u8::try_from(*c).is_ok_and(is_valid)) {
        return Err(format!("a topic's name has letters, digits, _ and / only, not {wrong:?}"));
    }
    match name.split('/').skip(1).any(str::is_empty) {
        true => {
            Err("a topic's name has no part without a character, such as // or a / at its end".to_owned())
        }
        false => Ok(()),
    }
}

/// Returns whether a name matches a pattern. `*` matches within one part of the name, `**` matches across parts.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'*', b'*', b'/', rest @ ..] if matches(rest, name) => true,
        [b'*', b'*', rest @ ..] => (0..=name.len()).any(|taken| matches(rest, &name[taken..])),
        [b'*', rest @ ..] => {
            let part = name.iter().position(|byte| *byte == b'/').unwrap_or(name.len());
            (0..=part).any(|taken| matches(rest, &name[taken..]))
        }
        [first, rest @ ..] => {
            name.split_first().is_some_and(|(next, name)| next == first && matches(rest, name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Options, String> {
        Options::read(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn wrong_options_are_reported_with_the_expected_values() {
        assert_eq!(read(&[]), Ok(Options::default()));
        let all = read(&[
            ("TOPIC_STATISTICS_PERIOD", "0.25"),
            ("TOPIC_STATISTICS_METRICS", "message_age, publication_seq_gap"),
            ("TOPIC_STATISTICS_TOPICS", "imu,/camera/*"),
            ("TOPIC_STATISTICS_PUBLISH_TOPIC", "/r1/statistics"),
            ("TOPIC_STATISTICS_DISTRIBUTIONS", "true"),
            ("TOPIC_STATISTICS_EXPECT", "/etc/robot.yaml"),
            ("TOPIC_STATISTICS_EXPECT_NAMESPACE", "/r1"),
        ]);
        let expected = Options {
            period: Duration::from_millis(250),
            metrics: vec![Metric::MessageAge, Metric::PublicationSeqGap],
            has_hops: false,
            has_executor: false,
            topics: vec!["/imu".to_owned(), "/camera/*".to_owned()],
            publish_topic: "/r1/statistics".to_owned(),
            distributions: true,
            expect: Some("/etc/robot.yaml".into()),
            expect_namespace: "/r1".parse().unwrap(),
        };
        assert_eq!(all, Ok(expected));
        assert_eq!(read(&[("PATH", "/bin"), ("TOPIC", "/imu")]), Ok(Options::default()), "other variables");
        let misspelt = read(&[("TOPIC_STATISTICS_TOPIC", "/imu")]).unwrap_err();
        assert!(misspelt.starts_with("TOPIC_STATISTICS_TOPIC is unknown: "), "{misspelt}");
        assert!(misspelt.contains("TOPIC_STATISTICS_TOPICS, "), "{misspelt}");
        // If a known variable is wrong and there is also an unknown variable, the error names the known one, in any
        // order of the two.
        let both = [("TOPIC_STATISTICS_TOPIC", "/imu"), ("TOPIC_STATISTICS_PERIOD", "x")];
        assert!(read(&both).unwrap_err().starts_with("TOPIC_STATISTICS_PERIOD is \"x\": "));
        let last = [("TOPIC_STATISTICS_PERIOD", "x"), ("TOPIC_STATISTICS_PERIOD", "0.5")];
        assert_eq!(read(&last).unwrap().period, Duration::from_millis(500), "the last value counts");
        let all = read(&[("TOPIC_STATISTICS_METRICS", "all")]).unwrap();
        assert_eq!((all.metrics.len(), all.metrics.contains(&Metric::CallbackDuration)), (12, true));
        assert!(all.has_hops && all.has_executor && !Options::default().has_hops);
        let some = read(&[("TOPIC_STATISTICS_METRICS", "message_age,input_to_output_ms")]).unwrap();
        assert_eq!((some.metrics, some.has_hops), (vec![Metric::MessageAge], true));
        for (name, value, expected) in [
            ("TOPIC_STATISTICS_PERIOD", "0", "0.001 to 86400"),
            ("TOPIC_STATISTICS_PERIOD", "NaN", "0.001 to 86400"),
            ("TOPIC_STATISTICS_PERIOD", "fast", "0.001 to 86400"),
            ("TOPIC_STATISTICS_METRICS", "message_jitter", "message_age, message_period"),
            ("TOPIC_STATISTICS_METRICS", "", "some of message_age"),
            ("TOPIC_STATISTICS_METRICS", "all,foo", "`all` is expected alone"),
            ("TOPIC_STATISTICS_METRICS", "message_age,foo", "\"foo\" is no metric"),
            (
                "TOPIC_STATISTICS_METRICS",
                "publish_period",
                "is no metric that can be chosen; `all` is expected",
            ),
            ("TOPIC_STATISTICS_TOPICS", "/imu,,", "\"\": a topic's name has no part without a character"),
            ("TOPIC_STATISTICS_TOPICS", "/imu,/a b", "\"/a b\": a topic's name has letters"),
            ("TOPIC_STATISTICS_TOPICS", "[a", "only, not '['; names of topics"),
            ("TOPIC_STATISTICS_PUBLISH_TOPIC", "statistics", "begins with /"),
            ("TOPIC_STATISTICS_PUBLISH_TOPIC", "/", "no part without a character"),
            ("TOPIC_STATISTICS_PUBLISH_TOPIC", "/bad!", "letters, digits, _ and / only, not '!'"),
            ("TOPIC_STATISTICS_DISTRIBUTIONS", "all", "true or false"),
            ("TOPIC_STATISTICS_EXPECT_NAMESPACE", "/r*", "not a pattern"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(
                error.starts_with(&format!("{name} is {value:?}: ")) && error.contains(expected),
                "{error}"
            );
        }
    }

    #[test]
    fn names_and_patterns_select_topics() {
        let measures = |topics: &str, topic: &str| {
            read(&[("TOPIC_STATISTICS_TOPICS", topics)]).unwrap().measures(topic, false)
        };
        let default = Options::default();
        assert!(default.measures("/imu", false) && default.measures("/camera/front/image", false));
        for common in [
            "/rosout",
            "/parameter_events",
            "/statistics",
            "/fibonacci/_action/status",
            "/imu/get_parameters",
        ] {
            assert!(!default.measures(common, false), "{common}");
            assert!(!measures("**", common), "{common}");
            assert!(measures(common, common), "the option names {common}");
        }
        assert!(has_lifecycle_name("/arm/get_state") && !has_lifecycle_name("/get_state/arm"));
        assert!(default.measures("/arm/get_state", false) && !default.measures("/arm/get_state", true));
        let named = read(&[("TOPIC_STATISTICS_TOPICS", "/arm/get_state")]).unwrap();
        assert!(named.measures("/arm/get_state", true), "the option names the service");
        assert!(measures("/camera/*", "/camera/front") && !measures("/camera/*", "/camera/front/image"));
        assert!(measures("/camera/**", "/camera/front/image") && measures("**/imu", "/r1/imu"));
        assert!(measures("/**/imu", "/imu") && measures("/cam*/info", "/camera/info"));
        assert!(!measures("/imu", "/imu2") && !measures("/imu2", "/imu"));
        assert!(measures("!/camera/*", "/imu") && !measures("!/camera/*", "/camera/front"));
        assert!(!measures("/camera/*,!/camera/raw", "/camera/raw"));
    }
}
