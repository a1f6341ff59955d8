// SPDX-License-Identifier: Apache-2.0
//! Names in definitions and in Rust.

/// Rust's keywords, to which rosidl_generator_rs appends an underscore where a field or a constant has their name.
const KEYWORDS: [&str; 52] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "Self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// Whether a text is a keyword of Rust.
pub fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

/// Whether a text is a name in a definition, and so in Rust. Anything else would be written to the crate as code.
pub fn is_name(text: &str) -> bool {
    let is_of_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
    text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && text.chars().all(is_of_name)
        && text != "_"
}

/// Whether a text is a part of a type's name. A keyword is none: only fields and constants are renamed.
pub fn is_type_name(text: &str) -> bool {
    is_name(text) && !is_keyword(text)
}
