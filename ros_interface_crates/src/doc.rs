// SPDX-License-Identifier: Apache-2.0
//! Converts comments of a definition to doc comments.
//!
//! Comments are plain text, but rustdoc reads Markdown: rustdoc would treat `<x>` as HTML, `[m]` as a link, and an
//! indented line as Rust code to test. So plain sentences are escaped, and paragraphs with a layout (indented lines,
//! columns, rulers) become code blocks of the language `text`.

/// Returns a comment as `///` lines, each of which begins with `indent`.
pub fn comment(lines: &[String], indent: &str) -> String {
    markdown(lines)
        .into_iter()
        .map(|line| format!("{indent}/// {line}").trim_end().to_owned() + "\n")
        .collect()
}

fn markdown(lines: &[String]) -> Vec<String> {
    let lines: Vec<String> = lines.iter().map(|line| clean(line)).collect();
    let indentation = |line: &String| line.len() - line.trim_start().len();
    let common = lines.iter().filter(|line| !line.is_empty()).map(indentation).min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| line.get(common..).unwrap_or_default()).collect();

    let mut markdown: Vec<String> = vec![];
    for paragraph in lines.split(|line| line.is_empty()).filter(|paragraph| !paragraph.is_empty()) {
        if !markdown.is_empty() {
            markdown.push(String::new());
        }
        if paragraph.iter().any(|line| has_layout(line)) {
            let fence = fence(paragraph);
            markdown.push(format!("{fence}text"));
            markdown.extend(paragraph.iter().map(|line| (*line).to_owned()));
            markdown.push(fence);
        } else {
            markdown.extend(paragraph.iter().map(|line| escape(line)));
        }
    }
    markdown
}

/// Removes the characters that a line of Rust must not contain: control characters and changes of text direction.
fn clean(line: &str) -> String {
    let is_mark = |c: &char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let plain = |c: char| if c.is_control() || c.is_whitespace() { ' ' } else { c };
    let clean: String = line.replace('\t', "    ").chars().filter(|c| !is_mark(c)).map(plain).collect();
    clean.trim_end().to_owned()
}

/// Returns whether a line has a layout: an indentation, columns or a ruler.
fn has_layout(line: &str) -> bool {
    let is_ruler = line.chars().all(|c| "-=~*_+# ".contains(c));
    line.starts_with(' ') || line.contains("   ") || line.starts_with('|') || is_ruler
}

/// Returns a row of backticks that does not occur in the lines.
fn fence(lines: &[&str]) -> String {
    let mut fence = "```".to_owned();
    while lines.iter().any(|line| line.contains(&fence)) {
        fence.push('`');
    }
    fence
}

/// Escapes characters with a meaning in Markdown. Web addresses become links.
fn escape(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len() + 8);
    let mut before = ' ';
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("http://") || rest.starts_with("https://") {
            let end = rest.find(|c: char| c.is_whitespace() || "<>\"`\\".contains(c)).unwrap_or(rest.len());
            let address = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'']);
            escaped += &format!("<{address}>");
            before = '>';
            rest = &rest[address.len()..];
            continue;
        }
        let after = rest[c.len_utf8()..].chars().next().unwrap_or(' ');
        let is_special = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '~' => true,
            '#' => before == ' ',
            '&' => after == '#' || after.is_alphabetic(),
            // An underscore within a name needs no escape.
            '_' => !is_name_character(before) || !is_name_character(after),
            _ => false,
        };
        if is_special {
            escaped.push('\\');
        }
        escaped.push(c);
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    escaped
}

fn is_name_character(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markdown(text: &str) -> String {
        super::markdown(&text.lines().map(str::to_owned).collect::<Vec<_>>()).join("\n")
    }

    #[test]
    fn comments_become_markdown_without_surprises() {
        for (text, expected) in [
            // HTML, links and emphasis are escaped.
            (
                "Use <b> and [m], a*b*c, `x`, frame_id, _private_ & &amp; #1 ~ C:\\x",
                r"Use \<b\> and \[m\], a\*b\*c, \`x\`, frame_id, \_private\_ & \&amp; \#1 \~ C:\\x",
            ),
            ("(see https://ros.org/a_b?c=1).", "(see <https://ros.org/a_b?c=1>)."),
            // Indented lines, columns and rulers become code blocks.
            ("  Row major:\n    [a b]\n\n  then prose", "```text\nRow major:\n  [a b]\n```\n\nthen prose"),
            ("Title\n=====", "```text\nTitle\n=====\n```"),
            ("a     b\n```\n", "````text\na     b\n```\n````"),
            ("a\tb", "```text\na    b\n```"),
            ("    the common indentation is removed", "the common indentation is removed"),
            // Characters that Rust forbids in comments are removed.
            ("a\u{202e}b\rc\u{7}d e", "ab c d e"),
        ] {
            assert_eq!(markdown(text), expected);
        }
        let lines = ["a".to_owned(), String::new(), "b".to_owned()];
        assert_eq!(comment(&lines, "  "), "  /// a\n  ///\n  /// b\n");
        assert_eq!(comment(&[], ""), "");
    }
}
