// SPDX-License-Identifier: Apache-2.0

//! Checks that several fuzz targets share.

use topic_statistics_core::Summary;

/// Returns whether a character controls a terminal or changes the order of text.
///
/// The documentation of `Escaped` promises to escape these characters. Its code also escapes some other characters.
fn is_control(c: char) -> bool {
    let is_bidirectional = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || is_bidirectional || matches!(c, '\u{2028}' | '\u{2029}')
}

pub fn has_no_control(text: &str, what: &str) {
    if let Some(wrong) = text.chars().find(|c| is_control(*c)) {
        panic!("{what} has {wrong:?}: {text:?}");
    }
}

/// Panics if the text has a control character other than a line break, or has not exactly this number of lines.
pub fn has_lines(text: &str, lines: usize, what: &str) {
    assert_eq!(text.lines().count(), lines, "lines of {what}: {text:?}");
    text.split('\n').for_each(|line| has_no_control(line, what));
}

pub fn is_no_infinity(figure: f64, what: &str) {
    assert!(!figure.is_infinite(), "{what} is {figure}");
}

pub fn has_no_infinity(summary: &Summary, what: &str) {
    let Summary { average, minimum, maximum, standard_deviation, .. } = *summary;
    [average, minimum, maximum, standard_deviation]
        .into_iter()
        .for_each(|figure| is_no_infinity(figure, what));
}
