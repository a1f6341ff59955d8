// SPDX-License-Identifier: Apache-2.0

//! Reads a file that says what is expected of topics, for example their rates. Programs with the option `--expect`,
//! nodes and preloaded processes use the same file format.
//!
//! docs/expectations.schema.json is the schema of the file. A test compares the keys in the schema with the keys in
//! this module.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use saphyr::{LoadableYamlNode, MarkedYaml, Marker, Scalar, YamlData};

use crate::{
    condition::{Condition, ConditionError, Conditions},
    escape::Escaped,
    health::{Expectations, Names, Silence},
    input,
    pattern::{Namespace, Pattern},
    source_kind::SourceKind,
};

/// The expectations of topics, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct ExpectationFile {
    entries: Vec<Entry>,
}

/// The expectations of the topics that match a name or a pattern.
#[derive(Clone, Debug)]
struct Entry {
    topics: Pattern,
    warn_unless: Vec<Conditions>,
    error_unless: Vec<Conditions>,
    settings: Settings,
}

/// When a health level is raised and cleared, and which level silence leads to. A setting is `None` if neither the
/// entry nor the file's defaults have it. Then the setting of an earlier entry for the same topic applies; if there is
/// none, the library's default applies.
#[derive(Clone, Copy, Debug, Default)]
struct Settings {
    raise_after: Option<u32>,
    clear_after: Option<u32>,
    first_message_within: Option<Duration>,
    stale_after: Option<Duration>,
    silence: Option<Silence>,
}

/// The reason why a file cannot be used. `Display` writes the path, the line and the column if these are known, and
/// then the mistake.
#[derive(Debug, PartialEq, Eq)]
pub struct FileError {
    path: Option<PathBuf>,
    /// The line and the column, which count from 1.
    place: Option<(usize, usize)>,
    text: String,
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", Escaped(&path.to_string_lossy()))?;
        }
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.text)
    }
}

impl ExpectationFile {
    /// The maximum size of a file, in bytes.
    const MAX_SIZE: u64 = 1 << 20;
    const KEYS: [&str; 2] = ["defaults", "topics"];

    /// Reads a file. Names without a slash at their start are relative to the namespace.
    ///
    /// # Errors
    ///
    /// Errors if the file cannot be read, has more than 1 MiB, or has wrong content.
    pub fn read(path: &Path, namespace: &Namespace) -> Result<Self, FileError> {
        let unreadable = |text| FileError { path: None, place: None, text };
        input::read_text(path, Self::MAX_SIZE)
            .map_err(unreadable)
            .and_then(|text| Self::parse_in(&text, namespace))
            .map_err(|error| FileError { path: Some(path.to_owned()), ..error })
    }

    /// Reads the text of a file, with names relative to the root.
    ///
    /// # Errors
    ///
    /// Errors with the place of wrong content.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        Self::parse_in(text, &Namespace::default())
    }

    /// Reads the text of a file. Names without a slash at their start are relative to the namespace.
    ///
    /// # Errors
    ///
    /// Errors with the place of wrong content.
    pub fn parse_in(text: &str, namespace: &Namespace) -> Result<Self, FileError> {
        input::check_depth(text).map_err(|(place, why)| at(&place, format!("it is no YAML: {why}")))?;
        let documents = MarkedYaml::load_from_str(text)
            .map_err(|error| at(error.marker(), format!("it is no YAML: {}", error.info())))?;
        let document = match &documents[..] {
            [document] => document,
            [_, second, ..] => return Err(error(second, "it is a second document; a file has one")),
            [] => return Err(at(&Marker::new(0, 1, 0), "it has to have a key 'topics'".to_owned())),
        };
        let mut file = Self::default();
        let (mut defaults, mut topics) = (Settings::default(), None);
        for (key, value) in mapping(document, "the file")? {
            match string(key)? {
                "defaults" => {
                    for (key, value) in mapping(value, "defaults")? {
                        if !defaults.read(string(key)?, value)? {
                            return Err(unknown_key(key, &Settings::KEYS));
                        }
                    }
                }
                "topics" => topics = Some(value),
                _ => return Err(unknown_key(key, &Self::KEYS)),
            }
        }
        let topics = topics.ok_or_else(|| error(document, "it has to have a key 'topics'"))?;
        for (key, value) in mapping(topics, "topics")? {
            file.entries.push(Entry::read(key, value, defaults, namespace)?);
        }
        if file.entries.is_empty() {
            return Err(error(topics, "it has no topic"));
        }
        Ok(file)
    }

    /// Returns the names and patterns of the topics.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.entries.iter().map(|entry| &entry.topics)
    }

    /// Returns the expectations of a topic, or of a source with this name: the conditions of all entries that match the
    /// name. Each setting is from the last matching entry that has this setting. Returns `None` if no entry matches.
    pub fn expectations(&self, name: &str) -> Option<Expectations> {
        self.expectations_of(|topics| topics.is_match(name))
    }

    /// Returns what the file expects of a source that belongs to the process that reads the file; `None` if no entry
    /// matches. An entry for topics applies only to subscriptions, because a process judges a topic by the messages
    /// that it receives. An entry for sources (`NODE:TOPIC`) applies to a source of any kind with this name.
    #[doc(hidden)] // for authors of nodes
    pub fn source_expectations(&self, names: Names<'_>, kind: SourceKind) -> Option<Expectations> {
        self.expectations_of(|topics| is_about(topics, names, kind))
    }

    /// Returns the conditions of entries that name this source or its topic. Entries with a pattern are ignored. If the
    /// node cannot judge one of these conditions, the node logs a warning about it.
    #[doc(hidden)] // for authors of nodes
    pub fn named_conditions(&self, names: Names<'_>, kind: SourceKind) -> Vec<Condition> {
        let named = self.entries.iter().filter(|entry| entry.topics.name().is_some());
        let matching = named.filter(|entry| is_about(&entry.topics, names, kind));
        let conditions = matching.flat_map(|entry| entry.error_unless.iter().chain(&entry.warn_unless));
        conditions.flat_map(Conditions::iter).cloned().collect()
    }

    fn expectations_of(&self, is_match: impl Fn(&Pattern) -> bool) -> Option<Expectations> {
        let mut matching = self.entries.iter().filter(|entry| is_match(&entry.topics)).peekable();
        matching.peek()?;
        let mut expectations = Expectations::new();
        for Entry { warn_unless, error_unless, settings, .. } in matching {
            expectations = settings.apply_to(expectations);
            expectations.warn_unless.extend(warn_unless.iter().flat_map(Conditions::iter).cloned());
            expectations.error_unless.extend(error_unless.iter().flat_map(Conditions::iter).cloned());
        }
        Some(expectations)
    }
}

/// Returns whether an entry for `topics` applies to a source that belongs to the process that reads the file.
fn is_about(topics: &Pattern, names: Names<'_>, kind: SourceKind) -> bool {
    match topics.is_of_sources() {
        true => topics.is_match(names.source),
        false => kind == SourceKind::Subscription && names.topic.is_some_and(|topic| topics.is_match(topic)),
    }
}

impl Entry {
    /// The keys of an entry besides the keys of [`Settings`].
    const KEYS: [&str; 2] = ["warn_unless", "error_unless"];

    fn read(
        topics: &MarkedYaml,
        node: &MarkedYaml,
        defaults: Settings,
        namespace: &Namespace,
    ) -> Result<Self, FileError> {
        let name = string(topics)?;
        let topics = Pattern::relative_to(namespace, name)
            .map_err(|why| error(topics, &format!("topic {name:?}: {why}")))?;
        let mut entry = Self { topics, warn_unless: vec![], error_unless: vec![], settings: defaults };
        // An entry without a value is valid: the only expectation is that the topic is not silent.
        let is_empty = matches!(node.data, YamlData::Value(Scalar::Null));
        let mapping = if is_empty { vec![] } else { mapping(node, name)? };
        for (key, value) in mapping {
            match string(key)? {
                "warn_unless" => entry.warn_unless = conditions(value)?,
                "error_unless" => entry.error_unless = conditions(value)?,
                other => {
                    if !entry.settings.read(other, value)? {
                        return Err(unknown_key(key, &[&Self::KEYS[..], &Settings::KEYS].concat()));
                    }
                }
            }
        }
        Ok(entry)
    }
}

impl Settings {
    const KEYS: [&str; 5] = ["raise_after", "clear_after", "first_message_within", "stale_after", "silence"];

    /// Reads the setting with this key. Returns `false` if the key is not the key of a setting.
    fn read(&mut self, key: &str, value: &MarkedYaml) -> Result<bool, FileError> {
        match key {
            "raise_after" => self.raise_after = Some(windows(value)?),
            "clear_after" => self.clear_after = Some(windows(value)?),
            "first_message_within" => self.first_message_within = Some(seconds(value)?),
            "stale_after" if is(value, "never") => self.stale_after = Some(Duration::MAX),
            "stale_after" => self.stale_after = Some(seconds(value)?),
            "silence" if is(value, "stale") => self.silence = Some(Silence::Stale),
            "silence" if is(value, "error") => self.silence = Some(Silence::Error),
            "silence" => return Err(error(value, "silence is 'stale' or 'error'")),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn apply_to(self, expectations: Expectations) -> Expectations {
        Expectations {
            raise_after: self.raise_after.unwrap_or(expectations.raise_after),
            clear_after: self.clear_after.unwrap_or(expectations.clear_after),
            first_message_within: self.first_message_within.or(expectations.first_message_within),
            stale_after: self.stale_after.or(expectations.stale_after),
            silence: self.silence.unwrap_or(expectations.silence),
            ..expectations
        }
    }
}

/// Reads conditions from a text, or from a list of texts.
fn conditions(node: &MarkedYaml) -> Result<Vec<Conditions>, FileError> {
    let texts = match &node.data {
        YamlData::Sequence(texts) => &texts[..],
        _ => std::slice::from_ref(node),
    };
    let read = |node: &MarkedYaml| {
        let text = string(node)?;
        let conditions: Conditions = text.parse().map_err(|why: ConditionError| {
            let before = text[..why.place().start].chars().count();
            let mut error = error(node, &why.to_string());
            // The exact column of an error is known only if the text is on one line, because YAML joins the lines of a
            // longer text.
            if node.span.start.line() == node.span.end.line() {
                let written = node.span.end.col() - node.span.start.col();
                let quote = usize::from(written > text.chars().count());
                error.place = error.place.map(|(line, column)| (line, column + before + quote));
            }
            error
        })?;
        match conditions.iter().find_map(|condition| condition.topic()) {
            Some(topic) => Err(error(node, &format!("the topic {topic:?} has to be a key of 'topics'"))),
            None => Ok(conditions),
        }
    };
    texts.iter().map(read).collect()
}

fn mapping<'a>(
    node: &'a MarkedYaml<'a>,
    name: &str,
) -> Result<Vec<(&'a MarkedYaml<'a>, &'a MarkedYaml<'a>)>, FileError> {
    match &node.data {
        YamlData::Mapping(mapping) => Ok(mapping.iter().collect()),
        _ => Err(error(node, &format!("{name} has to have keys, each with a value"))),
    }
}

fn string<'a>(node: &'a MarkedYaml) -> Result<&'a str, FileError> {
    match &node.data {
        YamlData::Value(Scalar::String(text)) => Ok(text),
        _ => Err(error(node, "it has to be a text")),
    }
}

fn is(node: &MarkedYaml, word: &str) -> bool {
    matches!(&node.data, YamlData::Value(Scalar::String(text)) if text == word)
}

fn windows(node: &MarkedYaml) -> Result<u32, FileError> {
    match &node.data {
        YamlData::Value(Scalar::Integer(windows @ 1..=1000)) => Ok(*windows as u32),
        _ => Err(error(node, "it has to be a number of windows from 1 to 1000")),
    }
}

fn seconds(node: &MarkedYaml) -> Result<Duration, FileError> {
    let seconds = match &node.data {
        YamlData::Value(Scalar::Integer(seconds)) => *seconds as f64,
        YamlData::Value(Scalar::FloatingPoint(seconds)) => seconds.into_inner(),
        _ => f64::NAN,
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(error(node, "it has to be a number of seconds above 0")),
    }
}

fn unknown_key(key: &MarkedYaml, known: &[&str]) -> FileError {
    let name = string(key).unwrap_or_default();
    error(key, &format!("there is no key {:?}; the keys are {}", Escaped(name).to_string(), known.join(", ")))
}

fn error(node: &MarkedYaml, text: &str) -> FileError {
    at(&node.span.start, text.to_owned())
}

fn at(place: &Marker, text: String) -> FileError {
    FileError { path: None, place: Some((place.line(), place.col() + 1)), text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Level;
    use std::{collections::BTreeSet, fs};

    #[test]
    fn all_entries_that_match_count_and_the_last_one_sets_the_rest() {
        let file = ExpectationFile::parse(
            "defaults: {raise_after: 5, silence: error}\n\
             topics:\n\
             \x20 /**: {error_unless: lost=0, clear_after: 7}\n\
             \x20 /camera/*:\n\
             \x20   warn_unless: [rate=30±10% age<50ms, bandwidth>1MB/s]\n\
             \x20   stale_after: 1.5\n\
             \x20   raise_after: 1\n\
             \x20 /map:\n",
        )
        .unwrap();
        let map: Vec<String> =
            file.expectations("/map").unwrap().conditions().map(|it| it.1.to_string()).collect();
        assert_eq!(map, ["lost=0"]);
        let conditions = |text: &str| text.parse::<Conditions>().unwrap();
        let expected = Expectations::new()
            .error_unless(conditions("lost=0"))
            .warn_unless(conditions("rate=30±10% age<50ms"))
            .warn_unless(conditions("bandwidth>1MB/s"))
            .raise_after(1)
            .clear_after(7)
            .stale_after(Duration::from_millis(1500))
            .silence(Silence::Error);
        assert_eq!(file.expectations("/camera/left"), Some(expected));
        let only = ExpectationFile::parse("topics: {imu: {stale_after: never}}").unwrap();
        assert_eq!(only.expectations("/odom"), None);
        assert_eq!(only.expectations("/imu"), Some(Expectations::new().stale_after(Duration::MAX)));
        assert!(only.expectations("/imu").unwrap().conditions().all(|(level, _)| level == Level::Ok));
    }

    #[test]
    fn a_process_judges_the_subscriptions_of_a_topic_and_the_sources_of_a_name() {
        let file = ExpectationFile::parse_in(
            "topics:\n\
             \x20 imu: {error_unless: rate>=50 publishers=1}\n\
             \x20 /r1/**: {warn_unless: age<50ms}\n\
             \x20 talker:/r1/imu: {error_unless: publish_period.max<20ms}\n",
            &"/r1".parse().unwrap(),
        )
        .unwrap();
        let conditions = |source: &str, topic: &str, kind| {
            let topic = Some(topic);
            let names = Names { source, plain_source: source, topic, given: topic };
            let expected = file.source_expectations(names, kind);
            let all = expected.map(|own| own.conditions().map(|it| it.1.to_string()).collect::<Vec<_>>());
            let named: Vec<_> = file.named_conditions(names, kind).iter().map(ToString::to_string).collect();
            (all.unwrap_or_default().join(" "), named.join(" "))
        };
        let texts = |all: &str, named: &str| (all.to_owned(), named.to_owned());
        use SourceKind::{Publisher, Subscription};
        let imu = conditions("/r1/listener:/r1/imu", "/r1/imu", Subscription);
        assert_eq!(imu, texts("rate>=50 publishers=1 age<50ms", "rate>=50 publishers=1"));
        assert_eq!(conditions("/r1/listener:/r1/odom", "/r1/odom", Subscription), texts("age<50ms", ""));
        let talker = conditions("/r1/talker:/r1/imu", "/r1/imu", Publisher);
        assert_eq!(talker, texts("publish_period.max<20ms", "publish_period.max<20ms"));
        assert_eq!(conditions("/r1/other:/r1/imu", "/r1/imu", Publisher), texts("", ""));
        assert_eq!(conditions("/r2/listener:/imu", "/imu", Subscription), texts("", ""));
    }

    #[test]
    fn an_error_names_the_line_the_column_and_what_is_right() {
        for (text, expected) in [
            ("", "line 1, column 1: it has to have a key 'topics'"),
            ("topics: [", "line 2, column 1: it is no YAML: "),
            ("- /imu", "line 1, column 1: the file has to have keys"),
            ("topics:\n  /imu: {}\n  /imu: {}", "line 3, column 3: it is no YAML: duplicated key"),
            (
                "topic:\n  /imu: {}",
                "line 1, column 1: there is no key \"topic\"; the keys are defaults, topics",
            ),
            ("defaults: {}", "line 1, column 1: it has to have a key 'topics'"),
            ("topics: {}", "line 1, column 9: it has no topic"),
            ("topics:\n  a//b: {}", "line 2, column 3: topic \"a//b\": "),
            (
                "topics:\n  /imu:\n    warn: rate>1",
                "line 3, column 5: there is no key \"warn\"; the keys are warn_unless, ",
            ),
            ("topics:\n  /imu: rate>1", "line 2, column 9: /imu has to have keys"),
            ("topics:\n  /imu:\n    warn_unless: rate>1 lost<fast", "line 3, column 30: "),
            ("topics:\n  /imu:\n    warn_unless: [rate>1, \"rte>1\"]", "line 3, column 28: "),
            ("topics:\n  /imu:\n    warn_unless: 5", "line 3, column 18: it has to be a text"),
            (
                "topics:\n  /imu:\n    warn_unless: '/odom: rate>1'",
                "line 3, column 18: the topic \"/odom\" has to be a key",
            ),
            ("topics:\n  /imu: {raise_after: 0}", "line 2, column 23: it has to be a number of windows"),
            ("topics:\n  /imu: {stale_after: soon}", "line 2, column 23: it has to be a number of seconds"),
            (
                "topics:\n  /imu: {first_message_within: -1}",
                "line 2, column 32: it has to be a number of seconds",
            ),
            ("topics:\n  /imu: {silence: bad}", "line 2, column 19: silence is 'stale' or 'error'"),
            ("topics: {a: {}}\n---\ntopics: {b: {}}", "line 3, column 1: it is a second document"),
            ("topics:\n  \"a\\e[1mb\": {}", ""),
            ("topics:\n  a: {\"\\e[1m\": 1}", ""),
            ("topics:\n  a: {warn_unless: \"\\e[1m\"}", ""),
        ] {
            let error = ExpectationFile::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:?}: {error:?}, not {expected:?}");
            assert!(!error.contains('\u{1b}'));
        }
    }

    #[test]
    fn a_file_that_is_too_large_or_not_there_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("expect.yaml");
        let error = |path: &Path| ExpectationFile::read(path, &Namespace::default()).unwrap_err().to_string();
        assert!(error(&path).contains("expect.yaml: No such file"), "{}", error(&path));
        fs::write(&path, "#".repeat((ExpectationFile::MAX_SIZE + 1) as usize)).unwrap();
        assert!(error(&path).contains("more than 1048576"));
        assert!(error(Path::new("/dev/zero")).contains("/dev/zero: it has more than 1048576 bytes"));
        fs::write(&path, format!("topics:\n {}x", "- ".repeat(5000))).unwrap();
        assert!(error(&path).contains("nested deeper than 32"), "{}", error(&path));
    }

    #[test]
    fn the_schema_has_the_same_keys() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/expectations.schema.json");
        let schema: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let entry = &schema["properties"]["topics"]["additionalProperties"]["anyOf"][0];
        for (value, keys) in [
            (&schema, ExpectationFile::KEYS.to_vec()),
            (&schema["properties"]["defaults"], Settings::KEYS.to_vec()),
            (entry, [&Settings::KEYS[..], &Entry::KEYS].concat()),
        ] {
            assert_eq!(value["additionalProperties"], false);
            let properties: BTreeSet<&str> =
                value["properties"].as_object().unwrap().keys().map(|key| &**key).collect();
            assert_eq!(properties, BTreeSet::from_iter(keys));
        }
    }
}
