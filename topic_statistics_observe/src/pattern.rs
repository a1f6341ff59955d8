// SPDX-License-Identifier: Apache-2.0

//! Names and name patterns of topics and of sources of statistics, and the selection of topics.

pub use topic_statistics_core::pattern::{Namespace, Pattern};

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

    pub fn is_wanted(&self, name: &str) -> bool {
        let is_common = Self::COMMON.contains(&name)
            || self.own.as_deref() == Some(name)
            || name.split('/').any(|part| part.starts_with('_'));
        self.is_named(name)
            || ((self.all || !is_common)
                && (self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.is_match(name))))
    }
}
