// SPDX-License-Identifier: Apache-2.0

//! Makes names from other nodes safe for a log or a terminal.

use std::fmt::{self, Write};

/// Displays a name from another node without control characters. After 255 characters, `…` replaces the rest of the
/// name.
///
/// Characters that a terminal interprets (escape sequences, line breaks), and characters that change the order of text
/// (Unicode's bidirectional controls), are written in Rust's escaped form: `\u{1b}`.
///
/// ```
/// use topic_statistics_core::Escaped;
///
/// assert_eq!(Escaped("imu\u{1b}[2J").to_string(), r"imu\u{1b}[2J");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl Escaped<'_> {
    /// The longest name of a topic or node that rmw accepts, in bytes (RMW_TOPIC_MAX_NAME_LENGTH is a little less).
    const LONGEST: usize = 255;
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, c) in self.0.chars().enumerate() {
            if index == Self::LONGEST {
                return f.write_char('…');
            }
            if is_control(c) {
                write!(f, "{}", c.escape_unicode())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// Returns whether a terminal interprets a character instead of showing it.
pub(crate) fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_interprets_is_escaped() {
        let hostile = "x\u{1b}]0;PWNED\u{7}\u{1b}[2J\n/imu 1 100.0\u{9b}\u{202e}\u{7f}";
        let shown = Escaped(hostile).to_string();
        assert!(!shown.chars().any(is_control), "{shown}");
        assert!(shown.starts_with("x\\u{1b}]0;PWNED\\u{7}"), "{shown}");
    }

    #[test]
    fn names_are_shown_as_they_are_and_longer_ones_are_cut() {
        assert_eq!(Escaped("/r1/imu_listener:/imu").to_string(), "/r1/imu_listener:/imu");
        assert_eq!(Escaped(&"x".repeat(10_000)).to_string().chars().count(), 256);
    }
}
