// SPDX-License-Identifier: Apache-2.0
//! Reads constants and comments, which type descriptions lack, from the `.idl` file of an interface.
//!
//! Every interface has an installed `.idl` file. rosidl_adapter writes this file from the `.msg`, `.srv` or `.action`
//! file; a few interfaces are defined only in IDL. The generators of rosidl, including rosidl_generator_rs, read only
//! this file. Like rosidl_parser, this reader understands constants with literal values in a module
//! `<structure>_Constants`, and the annotations `@verbatim (language="comment", text=...)` and `@unit (value=...)`.

use std::collections::BTreeMap;

use ros_idl_tokens::tokens;

use crate::{model::Constant, names::is_name};

/// The constants and comments of one structure (`Name`, `Name_Request`, `Name_Goal`, ...).
#[derive(Debug, Default, PartialEq)]
pub struct Structure {
    pub constants: Vec<Constant>,
    pub comment: Vec<String>,
    /// The comments of the fields, by field name.
    pub field_comments: BTreeMap<String, Vec<String>>,
}

/// The structures of a file by name, and notes on constants without a Rust value.
#[derive(Debug, Default)]
pub struct File {
    pub structures: BTreeMap<String, Structure>,
    pub notes: Vec<String>,
}

pub fn read(text: &str) -> Result<File, String> {
    let mut reader = Reader {
        tokens: tokens(text).collect::<Vec<_>>().into_iter().peekable(),
        file: File::default(),
        depth: 0,
        is_adapted: text.lines().next().is_some_and(|line| line.contains("generated from rosidl_adapter")),
    };
    reader.definitions(None)?;
    Ok(reader.file)
}

/// Repairs a string: rosidl_adapter has read the UTF-8 bytes of the string as Latin-1 characters
/// (`string_to_idl_string_literal`).
fn repair_encoding(text: &str) -> String {
    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| text.to_owned())
}

fn unquote(token: &str) -> Result<String, String> {
    let text =
        token.strip_prefix('"').and_then(|text| text.strip_suffix('"')).ok_or("a string is not closed")?;
    let mut string = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => {
                let Some((_, escaped)) = chars.next() else { break };
                let (radix, digits, first) = match escaped {
                    'x' => (16, 2, ""),
                    'u' => (16, 4, ""),
                    '0'..='7' => (8, 2, &text[index + 1..index + 2]),
                    _ => (0, 0, ""),
                };
                let mut number = first.to_owned();
                while let Some((_, digit)) =
                    chars.next_if(|(_, c)| number.len() < digits + first.len() && c.is_digit(radix.max(2)))
                {
                    number.push(digit);
                }
                string.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'v' => '\u{b}',
                    'b' => '\u{8}',
                    'r' => '\r',
                    'f' => '\u{c}',
                    'a' => '\u{7}',
                    _ if radix > 0 => u32::from_str_radix(&number, radix)
                        .ok()
                        .and_then(char::from_u32)
                        .ok_or_else(|| format!("\\{escaped}{number} is not a character"))?,
                    other => other,
                });
            }
            c => string.push(c),
        }
    }
    Ok(string)
}

fn is_string(token: &str) -> bool {
    token.starts_with('"')
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c == '_' || c.is_alphanumeric())
}

struct Reader<'a> {
    tokens: std::iter::Peekable<std::vec::IntoIter<&'a str>>,
    file: File,
    /// The number of modules around the definitions.
    depth: usize,
    /// Whether rosidl_adapter wrote the file.
    is_adapted: bool,
}

impl<'a> Reader<'a> {
    /// The largest depth of nested modules, which protects the stack. An interface needs three levels: package,
    /// namespace, constants.
    const MAX_DEPTH: usize = 32;

    fn next(&mut self) -> Result<&'a str, String> {
        self.tokens.next().ok_or_else(|| "the file ends within a definition".to_owned())
    }

    fn word(&mut self) -> Result<&'a str, String> {
        match self.next()? {
            word if is_word(word) => Ok(word),
            other => Err(format!("{other:?} found, a name is expected")),
        }
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        match self.next()? {
            found if found == mark => Ok(()),
            other => Err(format!("{other:?} found, {mark:?} is expected")),
        }
    }

    fn next_if(&mut self, mark: &str) -> bool {
        self.tokens.next_if_eq(&mark).is_some()
    }

    /// Returns the tokens up to the next `mark`, and skips the mark.
    fn until(&mut self, mark: &str) -> Result<Vec<&'a str>, String> {
        let mut taken = vec![];
        loop {
            match self.next()? {
                found if found == mark => return Ok(taken),
                token => taken.push(token),
            }
        }
    }

    fn string(&self, token: &str) -> Result<String, String> {
        let string = unquote(token)?;
        Ok(if self.is_adapted { repair_encoding(&string) } else { string })
    }

    /// Reads definitions up to the end of the file or of `module`.
    fn definitions(&mut self, module: Option<&str>) -> Result<(), String> {
        loop {
            let comment = self.comment()?;
            if module.is_some() && self.next_if("}") {
                return Ok(());
            }
            if self.next_if(";") {
                continue;
            }
            if module.is_none() && self.tokens.peek().is_none() {
                return Ok(());
            }
            match self.word()? {
                "module" => {
                    let name = self.word()?;
                    self.expect("{")?;
                    if self.depth == Self::MAX_DEPTH {
                        return Err("modules are nested too deep".to_owned());
                    }
                    self.depth += 1;
                    self.definitions(Some(name))?;
                    self.depth -= 1;
                }
                "const" => self.constant(module.unwrap_or_default(), comment)?,
                "struct" => self.structure(comment)?,
                "enum" | "bitmask" | "union" => {
                    self.until("}")?;
                }
                _ => {
                    self.until(";")?;
                }
            }
        }
    }

    /// Reads the annotations before a definition. Returns its comment.
    fn comment(&mut self) -> Result<Vec<String>, String> {
        let (mut comment, mut unit) = (vec![], None);
        while self.next_if("@") {
            let name = self.word()?;
            if !self.next_if("(") {
                continue;
            }
            let mut parameters: BTreeMap<&str, String> = BTreeMap::new();
            let mut parameter = "";
            let mut depth = 1;
            while depth > 0 {
                match self.next()? {
                    "(" => depth += 1,
                    ")" => depth -= 1,
                    // Adjacent string literals are joined.
                    text if is_string(text) => {
                        *parameters.entry(parameter).or_default() += &self.string(text)?
                    }
                    word if is_word(word) && self.tokens.peek() == Some(&"=") => parameter = word,
                    _ => {}
                }
            }
            if name == "verbatim" && parameters.get("language").is_some_and(|language| language == "comment")
            {
                let text = parameters.remove("text").unwrap_or_default();
                comment.extend(text.lines().map(str::to_owned));
            } else if name == "unit" {
                unit = parameters.into_values().next();
            }
        }
        if let Some(unit) = unit {
            if !comment.is_empty() {
                comment.push(String::new());
            }
            comment.push(format!("Unit: {unit}"));
        }
        Ok(comment)
    }

    fn constant(&mut self, module: &str, comment: Vec<String>) -> Result<(), String> {
        let mut ty = self.until("=")?;
        let name = ty.pop().filter(|name| is_word(name)).ok_or("a constant has no name")?;
        let value = self.until(";")?;
        let Some(structure) = module.strip_suffix("_Constants") else { return Ok(()) };
        let strings = value.iter().filter(|token| is_string(token)).map(|token| self.string(token));
        let strings: Vec<String> = strings.collect::<Result<_, _>>()?;
        // The type without the bound of a string.
        let ty: Vec<_> = ty.into_iter().take_while(|token| is_word(token)).collect();
        match literal(&ty.join(" "), &value, &strings.concat()) {
            Some(_) if !is_name(name) => {
                let note = format!("a constant of {structure} is left out: {name:?} is not a valid name");
                self.file.notes.push(note);
            }
            Some((ty, value)) => {
                let constant = Constant { name: name.to_owned(), ty, value, comment };
                self.file.structures.entry(structure.to_owned()).or_default().constants.push(constant);
            }
            None => self.file.notes.push(format!(
                "the constant {name} of {structure} is left out: its value is not a literal of its type"
            )),
        }
        Ok(())
    }

    fn structure(&mut self, comment: Vec<String>) -> Result<(), String> {
        let name = self.word()?;
        if self.next_if(";") {
            return Ok(()); // this is a forward declaration
        }
        self.until("{")?; // the base of a derived structure is before the brace
        let mut fields = BTreeMap::new();
        loop {
            let field_comment = self.comment()?;
            if self.next_if("}") {
                break;
            }
            // A member is a type and one or more names. Array lengths can follow each name.
            let member = self.until(";")?;
            let mut depth = 0;
            let mut name = None;
            for token in member.into_iter().chain([","]) {
                match token {
                    "<" | "[" => depth += 1,
                    ">" | "]" => depth -= 1,
                    "," if depth == 0 => {
                        if let Some(name) = name.take() {
                            fields.insert(name, field_comment.clone());
                        }
                    }
                    word if depth == 0 && is_word(word) => name = Some(word.to_owned()),
                    _ => {}
                }
            }
        }
        let structure = self.file.structures.entry(name.to_owned()).or_default();
        structure.comment = comment;
        structure.field_comments = fields;
        Ok(())
    }
}

/// Returns the Rust type and the Rust literal of a constant; `None` if the value is not a literal of the type. `text`
/// is the joined text of the strings in the value.
fn literal(ty: &str, value: &[&str], text: &str) -> Option<(&'static str, String)> {
    if matches!(ty, "string" | "wstring") {
        let is_literal = value.iter().all(|token| is_string(token) || *token == "L");
        return is_literal.then(|| ("&'static str", format!("{text:?}")));
    }
    let (negative, word) = match value {
        ["-", word @ ..] => (true, word.concat()),
        ["+", word @ ..] | word => (false, word.concat()),
    };
    // `1 + 2` is not a literal, but `1e+2` is a literal.
    if !word.starts_with(|c: char| c == '.' || c.is_alphanumeric()) {
        return None;
    }
    let signed = if negative { format!("-{word}") } else { word.clone() };
    match ty {
        "boolean" if !negative => match word.as_str() {
            "TRUE" => return Some(("bool", "true".to_owned())),
            "FALSE" => return Some(("bool", "false".to_owned())),
            _ => return None,
        },
        // `{v:?}` writes the shortest number that is read as the same value.
        "float" => {
            return signed.parse().ok().filter(|v: &f32| v.is_finite()).map(|v| ("f32", format!("{v:?}")))
        }
        "double" => {
            return signed.parse().ok().filter(|v: &f64| v.is_finite()).map(|v| ("f64", format!("{v:?}")))
        }
        _ if !word.chars().all(char::is_alphanumeric) => return None,
        _ => {}
    }
    let magnitude = match word.strip_prefix("0x").or(word.strip_prefix("0X")) {
        Some(digits) => i128::from_str_radix(digits, 16).ok()?,
        None if word.len() > 1 && word.starts_with('0') => i128::from_str_radix(&word, 8).ok()?,
        None => word.parse().ok()?,
    };
    let number = if negative { -magnitude } else { magnitude };
    let (ty, range) = match ty {
        "int8" => ("i8", i8::MIN.into()..=i8::MAX.into()),
        "octet" | "char" | "uint8" => ("u8", u8::MIN.into()..=u8::MAX.into()),
        "short" | "int16" => ("i16", i16::MIN.into()..=i16::MAX.into()),
        "unsigned short" | "uint16" | "wchar" => ("u16", u16::MIN.into()..=u16::MAX.into()),
        "long" | "int32" => ("i32", i32::MIN.into()..=i32::MAX.into()),
        "unsigned long" | "uint32" => ("u32", u32::MIN.into()..=u32::MAX.into()),
        "long long" | "int64" => ("i64", i64::MIN.into()..=i64::MAX.into()),
        "unsigned long long" | "uint64" => ("u64", u64::MIN.into()..=u64::MAX.into()),
        _ => return None,
    };
    range.contains(&number).then(|| (ty, number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_every_type_become_rust_literals() {
        let file = read(
            r#"module p { module msg { module C_Constants {
                const boolean B = TRUE; const octet BY = 255; const char C = 100; const int8 I8 = -128;
                const uint8 U8 = 0xff; const int16 I16 = -32768; const unsigned short U16 = 65535;
                const long I32 = -2147483648; const uint32 U32 = 4294967295;
                const int64 I64 = -9223372036854775808; const uint64 U64 = 18446744073709551615;
                const float F32 = -1.5; const double F64 = 1e20; const double SMALL = 1.5e-07; const double WHOLE = 3;
                const string S = "say \"hé\"" "\n"; const wstring<7> W = L"wide";
                const uint8 TOO_MUCH = 256; const int32 OTHER = U8; const int8 SUM = 1 + 2;
                const uint8 1x = 1; const uint8 B² = 2;
            }; struct C { uint8 x; }; }; };"#,
        )
        .unwrap();
        let constants: Vec<_> =
            file.structures["C"].constants.iter().map(|c| format!("{} {}", c.ty, c.value)).collect();
        let expected = "bool true, u8 255, u8 100, i8 -128, u8 255, i16 -32768, u16 65535, i32 -2147483648, \
                        u32 4294967295, i64 -9223372036854775808, u64 18446744073709551615, f32 -1.5, f64 1e20, \
                        f64 1.5e-7, f64 3.0, &'static str \"say \\\"hé\\\"\\n\", &'static str \"wide\"";
        assert_eq!(constants.join(", "), expected);
        let left_out: Vec<_> = file.notes.iter().map(|note| note.split(' ').nth(2).unwrap()).collect();
        assert_eq!(left_out[..3], ["TOO_MUCH", "OTHER", "SUM"]);
        assert_eq!(left_out.len(), 5, "two have invalid names");
    }

    #[test]
    fn comments_and_units_belong_to_the_next_definition() {
        let file = read(
            r#"
            #include "std_msgs/msg/Header.idl"
            // struct No { uint8 no; };
            module p { module msg {
              typedef double double__9[9];
              module M_Constants {
                @verbatim (language="comment", text= "of A" "\n"        "  indented")
                const uint8 A = 1;
                const uint8 B = 2;
              };
              @verbatim (language="comment", text="of the type")
              struct M {
                @verbatim (language="comment", text="with (a) bracket")
                @default (value=3)
                @unit (value="m/s")
                sequence<p::msg::Other, 3> speeds;
                @key @unit (value="kg") double mass, masses[3];
                double__9 plain;
              };
            }; };"#,
        )
        .unwrap();
        let structure = &file.structures["M"];
        assert_eq!(structure.comment, ["of the type"]);
        assert_eq!(structure.constants[0].comment, ["of A", "  indented"]);
        assert!(structure.constants[1].comment.is_empty());
        let comments =
            structure.field_comments.iter().map(|(name, lines)| format!("{name}: {}", lines.join("|")));
        let expected =
            ["mass: Unit: kg", "masses: Unit: kg", "plain: ", "speeds: with (a) bracket||Unit: m/s"];
        assert_eq!(comments.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn only_the_encoding_of_rosidl_adapter_is_repaired() {
        let text = "module p { module msg {\n@verbatim (language=\"comment\", text=\"Grad (Â°)\")\nstruct M { uint8 x; }; }; };";
        let comment = |text: &str| read(text).unwrap().structures["M"].comment.concat();
        assert_eq!(comment(text), "Grad (Â°)");
        assert_eq!(comment(&format!("// generated from rosidl_adapter/x\n{text}")), "Grad (°)");
    }

    #[test]
    fn a_cut_file_or_too_deep_nesting_is_an_error() {
        let nested = |depth| read(&format!("{}{}", "module m { ".repeat(depth), "};".repeat(depth)));
        assert!(nested(32).is_ok());
        assert!(nested(100_000).unwrap_err().contains("too deep"));
        assert!(read("module p { struct M { uint8 x;").is_err());
        assert!(read("module p { const string S = \"x").is_err());
    }
}
