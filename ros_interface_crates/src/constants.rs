// SPDX-License-Identifier: Apache-2.0
//! The hash of an interface's constants, for the record of a crate.
//!
//! The build script of rclrs_topic_statistics, which has no dependencies, contains copies of these functions. It
//! compares a record with the installed `.idl` files. So the text of the file is hashed, not the Rust values.

/// Returns a hash of the constants in an `.idl` file. `None` if there are none. Comments do not count.
pub fn constants_hash(idl: &str) -> Option<String> {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325; // FNV-1a
    let (mut module, mut before, mut is_constant, mut has_constants) = ("", "", false, false);
    let mut add = |token: &str| {
        for byte in token.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    let mut rest = idl;
    while !rest.is_empty() {
        let (token, after) = rest.split_at(token_length(rest));
        rest = after;
        if token.starts_with(char::is_whitespace)
            || ["//", "/*", "#"].iter().any(|start| token.starts_with(start))
        {
            continue;
        }
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

/// Returns the length of the comment, the string, the word or the character with which an IDL text begins.
fn token_length(text: &str) -> usize {
    let is_of_word = |c: char| c == '_' || c.is_alphanumeric();
    let length = text.chars().next().map_or(0, char::len_utf8);
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
        text.find(|c| !is_of_word(c)).unwrap_or(text.len()).max(length)
    }
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
