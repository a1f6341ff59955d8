//! Names of topics, and patterns of them.

use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};

/// A name of a topic, or a pattern of names.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// With its first slash.
    text: String,
    /// None: it is a name.
    glob: Option<GlobMatcher>,
}

impl FromStr for Pattern {
    type Err = String;

    /// Errors if it can be no topic's name, with what is wrong.
    fn from_str(text: &str) -> Result<Self, String> {
        check(text)?;
        let text = if text.starts_with('/') { text.to_owned() } else { format!("/{text}") };
        let glob = if text.contains(GLOB) {
            let glob = GlobBuilder::new(&text).literal_separator(true).build();
            Some(glob.map_err(|error| format!("the pattern is wrong: {}", error.kind()))?.compile_matcher())
        } else {
            None
        };
        Ok(Self { text, glob })
    }
}

impl Pattern {
    /// Returns the name or pattern with its first slash.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name, if it is one.
    pub fn name(&self) -> Option<&str> {
        self.glob.is_none().then_some(&*self.text)
    }

    /// Returns whether that is, or has the form of, a topic's name; a first slash may be missing.
    pub fn is_match(&self, topic: &str) -> bool {
        let topic = topic.strip_prefix('/').unwrap_or(topic);
        match &self.glob {
            Some(glob) => glob.is_match(format!("/{topic}")),
            None => self.text[1..] == *topic,
        }
    }
}

const GLOB: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// Errors if a text can be no topic's name, by the rules of rmw_validate_full_topic_name.
fn check(text: &str) -> Result<(), String> {
    let name = text.strip_prefix('/').unwrap_or(text);
    if name.is_empty() {
        return Err("a topic's name is not empty".to_owned());
    }
    if name.starts_with('~') {
        return Err("private names (~) are those of a node; give the whole name".to_owned());
    }
    if text.len() > 255 {
        return Err(format!("a topic's name has at most 255 characters, not {}", text.len()));
    }
    let is_allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '-' | '!' | ',') || GLOB.contains(&c);
    if let Some(wrong) = name.chars().find(|c| !is_allowed(*c)) {
        return Err(format!("a topic's name has letters, digits, _ and / only, not {wrong:?}"));
    }
    let is_pattern = name.contains(GLOB);
    if let Some(wrong) = name.chars().find(|c| !is_pattern && matches!(c, '-' | '!' | ',')) {
        return Err(format!("a topic's name has letters, digits, _ and / only, not {wrong:?}"));
    }
    if name.split('/').any(str::is_empty) {
        return Err("a topic's name has no part without a character, as // or a / at its end".to_owned());
    }
    if let Some(part) = name.split('/').find(|part| part.starts_with(|c: char| c.is_ascii_digit())) {
        return Err(format!("no part of a topic's name starts with a digit, as {part:?} does"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, topic: &str) -> bool {
        pattern.parse::<Pattern>().unwrap().is_match(topic)
    }

    #[test]
    fn names_match_themselves_with_a_first_slash_or_without() {
        assert!(is_match("imu", "/imu") && is_match("/imu", "/imu"));
        assert!(!is_match("imu", "/imu2") && !is_match("imu", "/a/imu"));
        assert_eq!("a/b".parse::<Pattern>().unwrap().name(), Some("/a/b"));
        assert_eq!("a/*".parse::<Pattern>().unwrap().name(), None);
        assert!(is_match("listener/imu", "listener/imu"), "a name of statistics");
    }

    #[test]
    fn stars_stay_within_a_part_and_double_stars_do_not() {
        assert!(is_match("/camera/*", "/camera/image") && !is_match("/camera/*", "/camera/left/image"));
        assert!(is_match("/camera/**", "/camera/left/image") && is_match("/**/imu", "/a/b/imu"));
        assert!(is_match("**", "/a/b"));
        assert!(is_match("imu_{front,rear}", "/imu_rear") && is_match("imu[0-9]", "/imu7"));
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "not empty"),
            ("/", "not empty"),
            ("a//b", "//"),
            ("imu/", "end"),
            ("/1imu", "\"1imu\""),
            ("a b", "' '"),
            ("imu-front", "'-'"),
            ("~/x", "private"),
            ("[a", "pattern is wrong"),
        ] {
            let error = text.parse::<Pattern>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
