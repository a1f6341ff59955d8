// SPDX-License-Identifier: Apache-2.0

//! The errors that can occur while statistics are set up.

use std::time::Duration;

use rclrs::{Node, RclrsError};
use topic_statistics_core::{metric::names, source_kind::SourceKind, Metric};

/// An error that occurred while statistics were set up. If a call fails, everything that it has created is dropped.
///
/// If rclrs or the operating system caused the error, [`source`](std::error::Error::source) returns this error. The
/// text of the statistics error does not repeat the text of its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatisticsError {
    /// The publish period is out of range.
    #[error("A publish period of {period:?} is not possible: it has to be from 1 ms to a day (86400 s)")]
    InvalidPublishPeriod {
        /// The requested period.
        period: Duration,
    },
    /// The custom source name is empty.
    #[error("The source name of statistics is empty: it has to have at least one character")]
    EmptySourceName,
    /// Sources of this kind cannot measure this metric.
    #[error(
        "{article} {kind} has no metric {name:?}: it has {names}",
        article = if kind.to_string().starts_with(['a', 'e', 'i', 'o', 'u']) { "An" } else { "A" },
        name = metric.name(),
        names = names(kind.metrics())
    )]
    UnsupportedMetric {
        /// The kind of the source.
        kind: SourceKind,
        /// The requested metric.
        metric: Metric,
    },
    /// Sources of this kind do not have this option.
    #[error("A {kind} has no {option}: it receives no messages")]
    UnsupportedOption {
        /// The kind of the source.
        kind: SourceKind,
        /// The method of [`StatisticsOptions`](crate::StatisticsOptions) that sets the option.
        option: &'static str,
    },
    /// A condition is about a quantity that the source does not measure.
    #[error("The condition {condition:?} cannot be expected: {reason}")]
    InvalidExpectation {
        /// The condition.
        condition: String,
        /// The quantity that is not measured, and the quantities that the source measures.
        reason: String,
    },
    /// The event rate is out of range.
    #[cfg(feature = "interfaces")]
    #[error(
        "A maximal event rate of {rate} Hz is not possible: it has to be 0 (no events), or from 0.00001 to \
         1000 Hz"
    )]
    InvalidEventRate {
        /// The requested rate, in Hz.
        rate: f64,
    },
    /// The file of totals cannot be written.
    #[cfg(feature = "totals_file")]
    #[error("The totals of the node {node:?} cannot be written to {path:?}")]
    TotalsFile {
        /// The fully qualified name of the node.
        node: String,
        /// The requested file.
        path: std::path::PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// rclrs could not create the measured entity, such as a subscription, or an entity that the statistics need.
    #[error(
        "The {kind} {name:?} could not be created for the node {node:?}{rule}",
        rule = match kind {
            SourceKind::Timer => "",
            _ => " (a name has letters, digits, '_' and '/', and no part that is empty or starts with a digit)",
        }
    )]
    Create {
        /// The kind of the entity that could not be created.
        kind: SourceKind,
        /// The unresolved name of the topic, service or action. For a timer, the name of the timer's source.
        name: String,
        /// The fully qualified name of the node.
        node: String,
        /// The error of rclrs.
        source: RclrsError,
    },
    /// The new callback of a subscription cannot replace the first callback, because only one of the two callbacks
    /// takes a [`ReadOnlyLoanedMessage`](rclrs::ReadOnlyLoanedMessage) of an idiomatic message type.
    #[error(
        "The callback of the subscription of {topic:?} cannot be replaced by one that takes messages in another form: \
         either both or none of them has to take a ReadOnlyLoanedMessage"
    )]
    CallbackForm {
        /// The resolved topic.
        topic: String,
    },
    /// A ROS parameter has an invalid value, on the command line or in a parameter file.
    #[error("The parameter {name:?} of the node {node:?} cannot be used: {reason}")]
    InvalidParameter {
        /// The name of the parameter.
        name: &'static str,
        /// The fully qualified name of the node.
        node: String,
        /// The refused value, if rclrs reports this value, and the rule for valid values.
        reason: String,
    },
    /// The operating system could not start the thread that ends and publishes the windows.
    #[error("The thread that publishes the statistics of the node {node:?} could not be started")]
    SpawnThread {
        /// The fully qualified name of the node.
        node: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

pub(crate) fn creation_error(
    node: &Node,
    kind: SourceKind,
    name: String,
    source: RclrsError,
) -> StatisticsError {
    StatisticsError::Create { kind, name, node: node.fully_qualified_name(), source }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn every_message_of_the_library_is_explained() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = fs::read_to_string(project.join("docs/errors.md")).unwrap();
        // The code spans in the first column of the tables of docs/errors.md. In these spans, `...` stands for any
        // text.
        let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        let explained: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();

        let error = fs::read_to_string(project.join("src/error.rs")).unwrap();
        let enumeration =
            error.split("pub enum StatisticsError {\n").nth(1).unwrap().split("\n}\n").next().unwrap();
        let variants = enumeration.lines().filter_map(|line| line.strip_prefix("    "));
        let variants = variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
        let variants: Vec<_> = variants.map(|line| line.trim_end_matches([' ', '{', ','])).collect();
        assert!(variants.contains(&"SpawnThread"), "{variants:?}");
        for variant in variants {
            assert!(explained.contains(&variant), "docs/errors.md has no row for StatisticsError::{variant}");
        }

        let mut messages = vec![];
        add_messages(&project.join("src"), &mut messages);
        let build_script = fs::read_to_string(project.join("build.rs")).unwrap();
        messages.extend(build_script.split("cargo::error=").skip(1).map(without_values));
        assert!(
            messages.iter().any(|message| message.starts_with("The ages of ... messages")),
            "{messages:?}"
        );
        let is_explained = |message: &str| {
            explained.iter().any(|pattern| {
                let mut rest = Some(message);
                for part in pattern.split("...") {
                    rest = rest.and_then(|rest| Some(rest.split_once(part)?.1));
                }
                rest.is_some() && pattern.contains(' ')
            })
        };
        messages.retain(|message| !is_explained(message));
        assert!(messages.is_empty(), "docs/errors.md has no row for {messages:#?}");
    }

    /// Adds the message texts in the source files of a directory: log texts, and the reasons why a parameter is
    /// refused. `...` replaces each formatted value.
    fn add_messages(directory: &Path, messages: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add_messages(&path, messages);
            } else if path.file_name().unwrap() != "tests.rs" {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                let is_code = |line: &&str| !line.trim_start().starts_with("//");
                let code = code.lines().filter(is_code).collect::<Vec<_>>().join("\n");
                for call in ["format!(", "write!(f,"] {
                    let literals =
                        code.split(call).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
                    messages.extend(literals.map(without_values).filter(|text| is_sentence(text)));
                }
            }
        }
    }

    /// Returns the string literal at the start of `code`, with `...` in place of each formatted value.
    fn without_values(code: &str) -> String {
        let end = code.match_indices('"').find(|(index, _)| !code[..*index].ends_with('\\')).unwrap().0;
        let lines = code[..end].split("\\\n").map(str::trim_start);
        let literal = lines.collect::<String>();
        let mut parts = literal.split('{');
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |text, part| format!("{text}...{}", part.split_once('}').unwrap_or(("", part)).1))
    }

    fn is_sentence(text: &str) -> bool {
        let words = text.split(|c: char| !c.is_ascii_lowercase()).filter(|word| word.len() > 1);
        text.starts_with(|c: char| c.is_ascii_uppercase() || c == '.') && words.count() >= 4
    }
}
