// SPDX-License-Identifier: Apache-2.0

//! Names and name patterns of topics and of sources of statistics, and the selection of topics.

use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};

/// A name of a topic or of a source of statistics, or a pattern of names.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The text of the name or pattern, with a slash at its start.
    text: String,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Name,
    /// A pattern for a whole name.
    Pattern(GlobMatcher),
    /// A pattern for the node of a source, and a pattern for its topic.
    Source(GlobMatcher, GlobMatcher),
    /// Patterns for the node, the input topic and the output topic of a hop. A hop is the way of messages through one
    /// node.
    Hop([GlobMatcher; 3]),
}

impl FromStr for Pattern {
    type Err = String;

    /// Errors if the text is not a valid name or pattern of a topic, or of a source of statistics (`NODE:TOPIC` or
    /// `NODE:TOPIC:TOPIC`).
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None => check(text, "a topic's name")?,
            Some((node, topic)) => {
                check(node, "a node's name")?;
                // A hop has two topics.
                for topic in without_number(topic).splitn(2, ':') {
                    check(topic, "a topic's name")?;
                }
            }
        }
        let text = if text.starts_with('/') { text.to_owned() } else { format!("/{text}") };
        let form = match text.split_once(':') {
            _ if !text.contains(GLOB) => Form::Name,
            None => Form::Pattern(matcher(&text)?),
            Some((node, topics)) => match topics.split_once(':') {
                None => Form::Source(matcher(node)?, matcher(topics)?),
                Some((input, output)) => Form::Hop([matcher(node)?, matcher(input)?, matcher(output)?]),
            },
        };
        Ok(Self { text, form })
    }
}

fn matcher(glob: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(glob).literal_separator(true).build();
    Ok(glob.map_err(|error| format!("the pattern is wrong: {}", error.kind()))?.compile_matcher())
}

impl Pattern {
    /// Returns the name or pattern with a slash at its start.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name. `None` for a pattern.
    pub fn name(&self) -> Option<&str> {
        matches!(self.form, Form::Name).then_some(&*self.text)
    }

    /// Returns whether the pattern can match only sources of statistics, not topics: the pattern contains a colon, as
    /// in `NODE:TOPIC`.
    pub fn is_of_sources(&self) -> bool {
        self.text.contains(':')
    }

    /// Returns whether a name matches the pattern. The name may have no slash at its start.
    pub fn is_match(&self, name: &str) -> bool {
        let name = name.strip_prefix('/').unwrap_or(name);
        match &self.form {
            Form::Name => self.text[1..] == *name,
            Form::Pattern(glob) => glob.is_match(format!("/{name}")),
            Form::Source(node, topic) => name.split_once(':').is_some_and(|(node_name, topic_name)| {
                node.is_match(format!("/{node_name}")) && topic.is_match(topic_name)
            }),
            Form::Hop(patterns) => {
                let name = format!("/{name}");
                let mut parts = name.splitn(patterns.len(), ':');
                patterns.iter().all(|pattern| parts.next().is_some_and(|part| pattern.is_match(part)))
            }
        }
    }
}

/// The topics that a program shows or measures.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Names and patterns of the selected topics. Empty to select all topics.
    pub patterns: Vec<Pattern>,
    /// Whether patterns also match common topics (such as `/rosout`) and hidden topics.
    pub all: bool,
    /// A topic that the program itself publishes. This topic is treated as a common topic.
    pub own: Option<String>,
}

impl Selection {
    /// Common topics: many nodes publish these topics, and users rarely want to see them.
    const COMMON: [&str; 4] = ["/parameter_events", "/rosout", "/statistics", "/statistics/distribution"];

    /// Returns the topics that are selected by their full names, not by a pattern.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().filter_map(Pattern::name)
    }

    /// Returns whether a topic is selected by its full name, not by a pattern.
    pub fn is_named(&self, name: &str) -> bool {
        self.names().any(|named| named == name)
    }

    /// Returns whether a topic is selected.
    pub fn is_wanted(&self, name: &str) -> bool {
        let is_common = Self::COMMON.contains(&name)
            || self.own.as_deref() == Some(name)
            || name.split('/').any(|part| part.starts_with('_'));
        self.is_named(name)
            || ((self.all || !is_common)
                && (self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.is_match(name))))
    }
}

/// Returns the topic of a source without the number that makes the source's name unique: `/imu` for `/imu (2)`, the
/// second source of a node for the topic `/imu`.
fn without_number(topic: &str) -> &str {
    let parts = topic.strip_suffix(')').and_then(|topic| topic.rsplit_once(" ("));
    parts.filter(|(_, number)| number.parse::<u64>().is_ok()).map_or(topic, |(plain, _)| plain)
}

const GLOB: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// Errors if a text is not a valid name or pattern of this kind. The rules of rmw_validate_full_topic_name also apply
/// to node names.
fn check(text: &str, kind: &str) -> Result<(), String> {
    let name = text.strip_prefix('/').unwrap_or(text);
    if name.is_empty() {
        return Err(format!("{kind} is not empty"));
    }
    if name.starts_with('~') {
        return Err("private names (~) belong to a node; give the whole name".to_owned());
    }
    let length = name.len() + 1; // with the slash
    if length > 255 {
        return Err(format!("{kind} has at most 255 characters, not {length}"));
    }
    let is_allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '-' | '!' | ',') || GLOB.contains(&c);
    if let Some(wrong) = name.chars().find(|c| !is_allowed(*c)) {
        return Err(format!("{kind} has letters, digits, _ and / only, not {wrong:?}"));
    }
    let is_pattern = name.contains(GLOB);
    if let Some(wrong) = name.chars().find(|c| !is_pattern && matches!(c, '-' | '!' | ',')) {
        return Err(format!("{kind} has letters, digits, _ and / only, not {wrong:?}"));
    }
    if name.split('/').any(str::is_empty) {
        return Err(format!("{kind} has no part without a character, such as // or a / at its end"));
    }
    if let Some(part) = name.split('/').find(|part| part.starts_with(|c: char| c.is_ascii_digit())) {
        return Err(format!("no part of {kind} starts with a digit, as {part:?} does"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_and_sources() {
        let hop = "/planner:/points:/plan";
        let second = "/relay:/imu (2)"; // the second source of the same topic
        for (pattern, matched, others) in [
            ("imu", &["/imu"][..], &["/imu2", "/a/imu", "/r1/listener:/imu"][..]),
            ("/imu", &["/imu"], &["/r1/listener:/imu"]),
            ("listener/imu", &["listener/imu"], &[]), // a name of statistics
            ("cpp_listener", &["cpp_listener"], &[]), // rclcpp's bare node name
            ("/camera/*", &["/camera/image"], &["/camera/left/image"]),
            ("/camera/**", &["/camera/left/image"], &[]),
            ("/**/imu", &["/a/b/imu"], &[]),
            ("**", &["/a/b", "/r1/listener:/imu"], &[]),
            ("imu_{front,rear}", &["/imu_rear"], &[]),
            ("imu[0-9]", &["/imu7"], &["/imux"]),
            ("/r1/listener:/imu", &["/r1/listener:/imu"], &["/r2/listener:/imu"]),
            ("r1/listener:/imu", &["/r1/listener:/imu"], &[]),
            ("/*/listener:/imu", &["/r2/listener:/imu"], &[]),
            ("/*:/imu", &["/listener:/imu"], &["/r2/listener:/imu"]),
            ("**:/imu", &["/r2/listener:/imu"], &["/r2/listener:/r2/imu"]),
            ("/r1/**", &["/r1/listener:/imu"], &[]),
            ("/bridge:get_*/front", &["/bridge:get_lidar_data/front"], &[]), // the source of a stopwatch
            (hop, &[hop], &[]),
            ("/planner:/*:/plan", &[hop], &[]),
            ("**:**:**", &[hop], &["/planner:/points"]),
            ("/planner:**", &[hop], &[]),
            ("/planner:/points", &[], &[hop]),
            (second, &[second], &[]),
            ("/relay:/imu", &[], &[second]),
            ("/relay:/imu*", &[second], &[]),
        ] {
            let parsed: Pattern = pattern.parse().unwrap();
            assert!(matched.iter().all(|name| parsed.is_match(name)), "{pattern}");
            assert!(!others.iter().any(|name| parsed.is_match(name)), "{pattern}");
            assert_eq!(parsed.is_of_sources(), pattern.contains(':'), "{pattern}");
        }
        assert_eq!("a/b".parse::<Pattern>().unwrap().name(), Some("/a/b"));
        assert_eq!("a/*".parse::<Pattern>().unwrap().name(), None);
    }

    #[test]
    fn invalid_names_are_refused_with_the_reason() {
        let longest = "a".repeat(254);
        for name in [longest.clone(), format!("/{longest}"), format!("{longest}:/imu")] {
            let text = name.parse::<Pattern>().unwrap().text().to_owned();
            assert_eq!(text.parse::<Pattern>().unwrap().text(), text, "the text is a pattern again");
        }
        let too_long = ["{}a", "/{}a", "{}a:/imu"].map(|name| name.replace("{}", &longest));
        let all = too_long.iter().map(|name| (&**name, "not 256")).chain([
            ("", "not empty"),
            ("/", "not empty"),
            ("a//b", "//"),
            ("imu/", "end"),
            ("/1imu", "no part of a topic's name starts with a digit"),
            ("a b", "' '"),
            ("/imu (2)", "' '"),
            ("a:b (c)", "' '"),
            ("imu-front", "'-'"),
            ("~/x", "private"),
            ("[a", "pattern is wrong"),
            (":/imu", "a node's name is not empty"),
            ("/listener:", "a topic's name is not empty"),
            ("a:b:c:d", "':'"),
        ]);
        for (text, reason) in all {
            let error = text.parse::<Pattern>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
