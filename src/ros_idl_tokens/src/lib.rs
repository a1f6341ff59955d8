// SPDX-License-Identifier: Apache-2.0

//! Splits ROS 2 interface definitions in IDL into tokens.

use std::iter;

/// The source code of this file. If this source changes, `ros_interface_crates` generates the interface crates again.
#[doc(hidden)]
pub const SOURCE: &str = include_str!("lib.rs");

/// Returns the tokens of an IDL text: words, strings with their quotes, and single characters. Comments and
/// preprocessor lines are omitted.
///
/// A word consists of letters, digits and `_`, so the number `1.5` has three tokens. A string without a closing quote
/// ends at the end of the text.
///
/// ```
/// let idl = "#include \"Other.idl\"\nmodule p { const string S = L\"a // \\\"b\\\"\"; /* end */ };";
/// let tokens: Vec<_> = ros_idl_tokens::tokens(idl).collect();
/// assert_eq!(tokens[..6], ["module", "p", "{", "const", "string", "S"]);
/// assert_eq!(tokens[6..], ["=", "L", r#""a // \"b\"""#, ";", "}", ";"]);
/// ```
pub fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    let all = iter::from_fn(move || {
        let (token, after) = rest.split_at(length(rest));
        rest = after;
        Some(token).filter(|token| !token.is_empty())
    });
    let is_skipped = |token: &str| {
        token.starts_with(char::is_whitespace)
            || ["//", "/*", "#"].iter().any(|start| token.starts_with(start))
    };
    all.filter(move |token| !is_skipped(token))
}

/// Returns the length of the token at the start of a text: a comment, a string, a word or a character.
fn length(text: &str) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    if text.starts_with("//") || text.starts_with('#') {
        text.find('\n').unwrap_or(text.len())
    } else if text.starts_with("/*") {
        text.find("*/").map_or(text.len(), |end| end + 2)
    } else if let Some(string) = text.strip_prefix('"') {
        let mut is_escaped = false;
        let end = string.find(|c| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        end.map_or(text.len(), |end| end + 2)
    } else {
        text.find(|c: char| !(c == '_' || c.is_alphanumeric())).unwrap_or(text.len()).max(first)
    }
}

/// Returns a hash of the constants in an IDL text; `None` if the text has no constants. Comments do not change the
/// hash.
///
/// The generator of interface crates records this hash, and the library's build script compares the recorded hash with
/// the hash of the installed definition. Both programs compute the hash from the tokens of the text, and not from the
/// values of the constants.
pub fn constants_hash(idl: &str) -> Option<String> {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325; // FNV-1a
    let (mut module, mut before, mut is_constant, mut has_constants) = ("", "", false, false);
    let mut add = |token: &str| {
        for byte in token.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for token in tokens(idl) {
        if before == "module" {
            module = token;
        }
        if token == "const" {
            (is_constant, has_constants) = (true, true);
            add(module);
        }
        if is_constant {
            add(token);
            is_constant = token != ";";
        }
        before = token;
    }
    has_constants.then(|| format!("{hash:016x}"))
}

#[cfg(test)]
mod tests {
    use super::constants_hash;

    #[test]
    fn the_hash_depends_on_constants_but_not_on_comments() {
        let idl = |comment: &str, constants: &str| {
            constants_hash(&format!(
                "// {comment}\n#include \"{comment}.idl\"\nmodule p {{ module msg {{ module M_Constants {{\n\
                 @verbatim (language=\"comment\", text=\"a \\\"{comment}\\\" const\" \"\\n\")\n/* const {comment}; */ \
                 {constants}\n}};\n@unit (value=\"{comment}\")\nstruct M {{ uint8 constant; }}; }}; }};"
            ))
        };
        assert_eq!(idl("none", ""), None);
        let before = idl("x", "const uint8 A = 1; const string<5> S = \"a // b\";");
        assert!(before.is_some());
        assert_eq!(before, idl("y;", "const uint8 A  =\n1;\n const string<5>S= \"a // b\";"));
        for changed in [
            "const uint8 A = 2; const string<5> S = \"a // b\";",
            "const int8 A = 1; const string<5> S = \"a // b\";",
            "const uint8 A = 1; const string<5> S = \"a // c\";",
            "const uint8 A = 1; const string<5> S = \"a  // b\";",
            "const uint8 A = 1; const string<5> T = \"a // b\";",
            "const uint8 A = 1;",
            "const uint8 A = 1; }; module M_Result_Constants { const string<5> S = \"a // b\";",
        ] {
            assert_ne!(before, idl("x", changed), "{changed}");
        }
    }
}
