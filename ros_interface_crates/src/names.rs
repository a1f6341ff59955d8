// SPDX-License-Identifier: Apache-2.0
//! Checks names in definitions and in Rust.

/// Rust's keywords. Like rosidl_generator_rs, this generator appends an underscore to the names of fields and constants
/// that are keywords.
const KEYWORDS: [&str; 52] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "Self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

pub fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

/// Returns whether a text is a valid name in a definition and in Rust. Any other text could inject code into the crate.
pub fn is_name(text: &str) -> bool {
    let is_of_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
    !text.is_empty()
        && text != "_"
        && text.chars().all(is_of_name)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns whether a text is a valid part of a type name. A keyword is not valid, because only fields and constants are
/// renamed.
pub fn is_type_name(text: &str) -> bool {
    is_name(text) && !is_keyword(text)
}
