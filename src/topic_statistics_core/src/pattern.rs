// SPDX-License-Identifier: Apache-2.0

//! Names and name patterns of topics and of sources of statistics.

use std::str::FromStr;

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
    Pattern(Glob),
    /// A pattern for the node of a source, and a pattern for its topic.
    Source(Glob, Glob),
    /// Patterns for the node, the input topic and the output topic of a hop. A hop is the path from the input topic to
    /// the output topic.
    Hop([Glob; 3]),
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
                // The name of a hop has two topics, separated by a colon.
                for topic in without_number(topic).splitn(2, ':') {
                    check(topic, "a topic's name")?;
                }
            }
        }
        let text = if text.starts_with('/') { text.to_owned() } else { format!("/{text}") };
        let form = match text.split_once(':') {
            _ if !text.contains(GLOB) => Form::Name,
            None => Form::Pattern(Glob::new(&text)?),
            Some((node, topics)) => match topics.split_once(':') {
                None => Form::Source(Glob::new(node)?, Glob::new(topics)?),
                Some((input, output)) => Form::Hop([Glob::new(node)?, Glob::new(input)?, Glob::new(output)?]),
            },
        };
        Ok(Self { text, form })
    }
}

/// The namespace of names that are written without a slash at their start. Default: the root, so that `imu` means
/// `/imu`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// The namespace without a slash at its end: empty for the root.
    text: String,
}

impl FromStr for Namespace {
    type Err = String;

    /// Errors if the text is not a valid namespace, such as `/r1` or `/fleet/r1`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "/" {
            return Ok(Self::default());
        }
        check(text, "a namespace")?;
        match text.contains(GLOB) {
            true => Err("a namespace is a name, not a pattern".to_owned()),
            false => Ok(Self { text: format!("/{}", text.strip_prefix('/').unwrap_or(text)) }),
        }
    }
}

/// A pattern for a whole name, or for one part of a source name: the node or a topic.
#[derive(Clone, Debug)]
struct Glob(String);

impl Glob {
    /// Returns an error if a bracket is not closed or not opened, or if the pattern starts with a `!`, which would
    /// invert the pattern.
    fn new(glob: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("the pattern is wrong: {why} in {glob:?}"));
        if glob.starts_with('!') {
            return wrong("! at the start");
        }
        let (mut is_in_class, mut braces) = (false, 0);
        for c in glob.chars() {
            match c {
                ']' if !is_in_class => return wrong("] without ["),
                '[' | ']' => is_in_class = c == '[',
                '{' if !is_in_class => braces += 1,
                '}' if !is_in_class && braces == 0 => return wrong("} without {"),
                '}' if !is_in_class => braces -= 1,
                _ => {}
            }
        }
        match (is_in_class, braces) {
            (true, _) => wrong("[ without ]"),
            (false, 1..) => wrong("{ without }"),
            (false, _) => Ok(Self(glob.to_owned())),
        }
    }

    fn is_match(&self, name: &str) -> bool {
        fast_glob::glob_match(&self.0, name)
    }
}

impl Pattern {
    /// Reads a name or a pattern. A text without a slash at its start is relative to the namespace. Returns the same
    /// errors as [`from_str`](Self::from_str).
    pub fn relative_to(namespace: &Namespace, text: &str) -> Result<Self, String> {
        match text.starts_with('/') || namespace.text.is_empty() {
            true => text.parse(),
            // The text is checked before the namespace is added, so that an error shows only what the user wrote.
            false => text.parse::<Self>().and_then(|_| format!("{}/{text}", namespace.text).parse()),
        }
    }

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
            Form::Pattern(glob) => glob.is_match(&format!("/{name}")),
            Form::Source(node, topic) => name.split_once(':').is_some_and(|(node_name, topic_name)| {
                node.is_match(&format!("/{node_name}")) && topic.is_match(topic_name)
            }),
            Form::Hop(patterns) => {
                let name = format!("/{name}");
                let mut parts = name.splitn(patterns.len(), ':');
                patterns.iter().all(|pattern| parts.next().is_some_and(|part| pattern.is_match(part)))
            }
        }
    }
}

/// Returns the topic of a source without the number that makes the source's name unique: `/imu` for `/imu (2)`, the
/// second source of a node for the topic `/imu`.
fn without_number(topic: &str) -> &str {
    let parts = topic.strip_suffix(')').and_then(|topic| topic.rsplit_once(" ("));
    parts.filter(|(_, number)| number.parse::<u64>().is_ok()).map_or(topic, |(plain, _)| plain)
}

const GLOB: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// Errors if a text is not a valid name or pattern of this kind. Topic names and node names both have to follow the
/// rules of rmw_validate_full_topic_name.
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
            ("listener/imu", &["listener/imu"], &[]), // the name of a source
            ("cpp_listener", &["cpp_listener"], &[]), // a source name of rclcpp is only the node's name
            ("/camera/*", &["/camera/image"], &["/camera/left/image"]),
            ("/camera/**", &["/camera/left/image"], &[]),
            ("/**/imu", &["/a/b/imu"], &[]),
            ("**", &["/a/b", "/r1/listener:/imu"], &[]),
            ("imu_{front,rear}", &["/imu_rear"], &[]),
            ("imu[0-9]", &["/imu7"], &["/imux"]),
            ("imu[!0-9]", &["/imux"], &["/imu7"]),
            ("imu{,_raw}", &["/imu", "/imu_raw"], &["/imu2"]),
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
    fn a_name_without_a_slash_is_relative_to_the_namespace() {
        for (namespace, text, expected) in [
            ("/", "imu", "/imu"),
            ("/r1", "imu", "/r1/imu"),
            ("fleet/r1", "camera/*", "/fleet/r1/camera/*"),
            ("/r1", "/imu", "/imu"),
            ("/r1", "**", "/r1/**"),
            ("/r1", "listener:/imu", "/r1/listener:/imu"),
        ] {
            let pattern = Pattern::relative_to(&namespace.parse().unwrap(), text).unwrap();
            assert_eq!(pattern.text(), expected, "{namespace} {text}");
        }
        for (namespace, reason) in [
            ("", "a namespace is not empty"),
            ("/r1/", "a / at its end"),
            ("/r*", "a namespace is a name, not a pattern"),
            ("/r 1", "not ' '"),
        ] {
            let error = namespace.parse::<Namespace>().unwrap_err();
            assert!(error.contains(reason), "{namespace}: {error}");
        }
        let r1 = "/r1".parse().unwrap();
        assert_eq!(Pattern::relative_to(&r1, "~/x").unwrap_err(), "~/x".parse::<Pattern>().unwrap_err());
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
            ("[a", "the pattern is wrong: [ without ]"),
            ("a]", "] without ["),
            ("{a", "{ without }"),
            ("a}", "} without {"),
            ("listener:!a*", "! at the start"),
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
