// SPDX-License-Identifier: Apache-2.0

//! Parses IDL definitions, as rosbag2 and MCAP store them: before each type, there are a line of `=` and a line
//! `IDL: package/msg/Name`.
//!
//! This parser supports the part of IDL that `.idl` files of ROS use: modules, structs, typedefs and constants, with
//! annotations. A definition with other constructs is not read.

use std::collections::HashMap;

use ros_idl_tokens::tokens;

use super::layout::{add_common, Definitions, Field, Kind, Shape};

/// Parses definitions. Returns `None` if the text is not valid, or uses constructs that this module does not support.
pub(super) fn parse(text: &str) -> Option<Definitions> {
    let is_of_idl = |line: &&str| !["====", "IDL:"].iter().any(|start| line.trim_start().starts_with(start));
    let text: String = text.split_inclusive('\n').filter(is_of_idl).collect();
    let mut parser =
        Parser { tokens: tokens(&text).collect(), position: 0, scope: vec![], typedefs: HashMap::new() };
    let mut definitions = Definitions::new();
    parser.definitions(&mut definitions, 0)?;
    if parser.peek().is_some() {
        return None;
    }
    add_common(&mut definitions);
    Some(definitions)
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    position: usize,
    scope: Vec<&'a str>,
    /// The typedefs, by their scoped names.
    typedefs: HashMap<String, (Kind, Shape)>,
}

impl<'a> Parser<'a> {
    const MAX_DEPTH: usize = 16;

    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.position).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn accept(&mut self, token: &str) -> bool {
        let is_next = self.peek() == Some(token);
        self.position += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: &str) -> Option<()> {
        self.accept(token).then_some(())
    }

    fn skip_behind(&mut self, token: &str) -> Option<()> {
        while self.next()? != token {}
        Some(())
    }

    /// Skips annotations: `@name` or `@name(...)`.
    fn annotations(&mut self) -> Option<()> {
        while self.accept("@") {
            self.scoped_name()?;
            if self.accept("(") {
                let mut depth = 1;
                while depth > 0 {
                    match self.next()? {
                        "(" => depth += 1,
                        ")" => depth -= 1,
                        _ => {}
                    }
                }
            }
        }
        Some(())
    }

    /// Reads the content of a module, or of the whole text.
    fn definitions(&mut self, definitions: &mut Definitions, depth: usize) -> Option<()> {
        if depth > Self::MAX_DEPTH {
            return None;
        }
        loop {
            self.annotations()?;
            match self.peek() {
                None => return Some(()),
                Some("}") => return (depth > 0).then_some(()),
                Some("module") => {
                    self.position += 1;
                    let name = self.next()?;
                    self.scope.push(name);
                    self.expect("{")?;
                    self.definitions(definitions, depth + 1)?;
                    self.expect("}")?;
                    self.scope.pop();
                    self.accept(";");
                }
                Some("const") => self.skip_behind(";")?,
                Some("typedef") => {
                    self.position += 1;
                    let field = self.field()?;
                    self.typedefs.insert(self.scoped(&field.name), (field.kind, field.shape));
                }
                Some("struct") => {
                    self.position += 1;
                    let name = self.next()?;
                    let name = self.scoped(name);
                    self.expect("{")?;
                    let mut fields = vec![];
                    while !self.accept("}") {
                        self.annotations()?;
                        fields.push(self.field()?);
                    }
                    self.accept(";");
                    definitions.insert(name, fields);
                }
                Some(_) => return None,
            }
        }
    }

    /// Returns a name in the current scope as `package/Name`. The module `msg` is left out.
    fn scoped(&self, name: &str) -> String {
        let modules = self.scope.iter().copied().filter(|module| *module != "msg");
        modules.chain([name]).collect::<Vec<_>>().join("/")
    }

    /// Reads `type name;` or `type name[count];`.
    fn field(&mut self) -> Option<Field> {
        let (kind, mut shape) = self.kind()?;
        let name = self.next()?.to_owned();
        while self.accept("[") {
            let count: u32 = self.next()?.parse().ok()?;
            shape = match shape {
                Shape::One => Shape::Array(count),
                Shape::Array(before) => Shape::Array(before.checked_mul(count)?),
                Shape::Sequence => return None,
            };
            self.expect("]")?;
        }
        self.expect(";")?;
        Some(Field { name, kind, shape })
    }

    fn kind(&mut self) -> Option<(Kind, Shape)> {
        if self.accept("sequence") {
            self.expect("<")?;
            // A sequence of sequences is not valid. Without this check, a definition could overflow the stack.
            if self.peek() == Some("sequence") {
                return None;
            }
            let (kind, shape) = self.kind()?;
            if self.accept(",") {
                self.next()?;
            }
            self.expect(">")?;
            return (shape == Shape::One).then_some((kind, Shape::Sequence));
        }
        let is_unsigned = self.accept("unsigned");
        let first = self.peek()?;
        if is_unsigned || matches!(first, "long" | "short") {
            return self.integer();
        }
        if let Some(kind) = Kind::primitive(first) {
            self.position += 1;
            // The bound of a string is ignored.
            if matches!(first, "string" | "wstring") && self.accept("<") {
                self.next()?;
                self.expect(">")?;
            }
            return Some((kind, Shape::One));
        }
        let parts = self.scoped_name()?;
        let parts: Vec<_> = parts.into_iter().filter(|part| *part != "msg").collect();
        let name = match parts.as_slice() {
            [name] => self.scoped(name),
            parts => parts.join("/"),
        };
        Some(self.typedefs.get(&name).cloned().unwrap_or((Kind::Named(name), Shape::One)))
    }

    /// Reads `short`, `long` or `long long`.
    fn integer(&mut self) -> Option<(Kind, Shape)> {
        let size = match self.next()? {
            "short" => 2,
            "long" if self.accept("long") => 8,
            // `long double` has 16 bytes. ROS has no such type.
            "long" if self.peek() == Some("double") => return None,
            "long" => 4,
            _ => return None,
        };
        Some((Kind::Primitive(size), Shape::One))
    }

    fn scoped_name(&mut self) -> Option<Vec<&'a str>> {
        self.accept_scope();
        let mut parts = vec![self.next()?];
        while self.accept_scope() {
            parts.push(self.next()?);
        }
        Some(parts)
    }

    fn accept_scope(&mut self) -> bool {
        self.accept(":") && self.accept(":")
    }
}
