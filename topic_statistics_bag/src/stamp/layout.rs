// SPDX-License-Identifier: Apache-2.0

//! The layout of the fields before the header of a message.

use std::collections::HashMap;

use topic_statistics_core::header_stamp;

/// Returns the name of a type as `package/Name`.
pub(super) fn without_msg(name: &str) -> String {
    name.replace("/msg/", "/")
}

/// The fields of each type, by the name `package/Name`.
pub(super) type Definitions = HashMap<String, Vec<Field>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
}

/// The type of a field's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A primitive type with this size in bytes. The alignment equals the size.
    Primitive(u8),
    String,
    /// A string of wide characters. A character has 2 or 4 bytes, depending on the middleware.
    WString,
    /// Another message type, by the name `package/Name`.
    Named(String),
}

/// The number of elements of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    Array(u32),
    Sequence,
}

impl Kind {
    /// Returns the primitive type or the string type with this name in `.msg` files or in IDL.
    pub(super) fn primitive(name: &str) -> Option<Self> {
        Some(match name {
            "bool" | "boolean" | "byte" | "octet" | "char" | "int8" | "uint8" => Self::Primitive(1),
            "int16" | "uint16" | "short" => Self::Primitive(2),
            "int32" | "uint32" | "float32" | "float" | "long" => Self::Primitive(4),
            "int64" | "uint64" | "float64" | "double" => Self::Primitive(8),
            "string" => Self::String,
            "wstring" => Self::WString,
            _ => return None,
        })
    }
}

/// A step that skips fields before the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Skips `count` primitives of `size` bytes.
    Primitives {
        size: u8,
        count: u32,
    },
    String,
    /// Skips a sequence of primitives of `size` bytes.
    Sequence {
        size: u8,
    },
    /// Repeats the next `steps` steps `times` times. If `times` is `None`, the message contains the number of times.
    Repeat {
        steps: u32,
        times: Option<u32>,
    },
}

/// The steps from the start of a message to its header. If there are no steps, the header is the first field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout(pub(super) Box<[Step]>);

/// The position of the header stamp in messages of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderStamp {
    At(Layout),
    NoHeader,
    Unknown,
}

/// The largest number of steps in a layout. No real type needs more steps before its header.
const MAX_STEPS: usize = 256;
const MAX_DEPTH: usize = 16;

pub(super) fn find(definitions: &Definitions, name: &str) -> HeaderStamp {
    let fields = definitions.get(name);
    let position = |name: &str| fields?.iter().position(|field| field.name == name);
    let path = header_stamp::path(name.split_once('/').unwrap_or_default(), |name| {
        match &fields?[position(name)?] {
            Field { kind: Kind::Named(name), shape: Shape::One, .. } => name.split_once('/'),
            _ => None,
        }
    });
    // The stamp is the first field of the header, so only the fields before the header are skipped.
    let before = match (path, fields) {
        (Some([header, _]), Some(fields)) => &fields[..position(header).unwrap_or_default()],
        (Some(_), _) => &[],
        (None, Some(_)) => return HeaderStamp::NoHeader,
        (None, None) => return HeaderStamp::Unknown,
    };
    let mut steps = vec![];
    match append(definitions, before, &mut steps, 0) {
        Some(()) => HeaderStamp::At(Layout(steps.into())),
        None => HeaderStamp::Unknown,
    }
}

/// Appends the steps that skip the fields. Returns `None` if a field cannot be skipped, or if there are too many steps.
fn append(definitions: &Definitions, fields: &[Field], steps: &mut Vec<Step>, depth: usize) -> Option<()> {
    if depth > MAX_DEPTH {
        return None;
    }
    for field in fields {
        let times = match field.shape {
            Shape::Array(count) => Some(count),
            Shape::One | Shape::Sequence => None,
        };
        match (&field.kind, field.shape) {
            (Kind::Primitive(size), Shape::Sequence) => steps.push(Step::Sequence { size: *size }),
            (Kind::Primitive(size), _) => {
                steps.push(Step::Primitives { size: *size, count: times.unwrap_or(1) });
            }
            (Kind::String, Shape::One) => steps.push(Step::String),
            (Kind::String, _) => steps.extend([Step::Repeat { steps: 1, times }, Step::String]),
            (Kind::WString, _) => return None,
            (Kind::Named(name), shape) => {
                let fields = definitions.get(name)?;
                if shape == Shape::One {
                    append(definitions, fields, steps, depth + 1)?;
                } else {
                    let at = steps.len();
                    steps.push(Step::Repeat { steps: 0, times });
                    append(definitions, fields, steps, depth + 1)?;
                    let repeated = u32::try_from(steps.len() - at - 1).ok()?;
                    steps[at] = Step::Repeat { steps: repeated, times };
                }
            }
        }
        if steps.len() > MAX_STEPS {
            return None;
        }
    }
    Some(())
}

/// Adds the built-in types that definitions may leave out.
pub(super) fn add_common(definitions: &mut Definitions) {
    let word = |name: &str| Field { name: name.to_owned(), kind: Kind::Primitive(4), shape: Shape::One };
    for name in ["builtin_interfaces/Time", "builtin_interfaces/Duration"] {
        definitions.entry(name.to_owned()).or_insert_with(|| vec![word("sec"), word("nanosec")]);
    }
}
