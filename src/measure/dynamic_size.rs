// SPDX-License-Identifier: Apache-2.0

//! The serialized size of messages of a type that is known only at run time.

use rclrs::{
    ArrayValue, BaseType, BoundedSequenceValue, DynamicMessage, DynamicMessageMetadata, DynamicMessageView,
    MessageStructure, MessageTypeName, SequenceValue, SimpleValue, Value, ValueKind,
};

use super::size::{Payload, Place, Step, Steps};

/// How to find the serialized size of dynamic messages of a type.
///
/// rclrs does not give the C struct of a dynamic message, so its fields are found by name, and it lists the elements of
/// a sequence of messages one by one.
pub(crate) enum DynamicSize {
    /// The same for all messages.
    Constant(u32),
    Variable(Payload, Box<[Step<Path>]>),
}

/// The names that lead to a field.
pub(crate) type Path = Vec<String>;

impl Place for Path {
    fn start() -> Self {
        vec![]
    }

    fn field(&self, name: &str, _offset: usize) -> Self {
        [self, &[name.to_owned()][..]].concat()
    }
}

impl DynamicSize {
    /// Returns how to find the sizes of a type.
    ///
    /// Errors with a warning for the user if the encoding is unknown. Only the sizes need it.
    pub(crate) fn find(message_type: &MessageTypeName) -> Result<Self, String> {
        let fail = |why: String| Err(format!("The sizes of {message_type} messages will be NaN: {why}"));
        let metadata = match DynamicMessageMetadata::new(message_type.clone()) {
            Ok(metadata) => metadata,
            Err(error) => {
                return fail(format!("its introspection type support cannot be loaded: {error}"));
            }
        };
        let structure = metadata.structure();
        if has_short_elements(structure) {
            return fail(
                "rclrs cannot read short sequences of small messages, which it has, of a type known only at run time"
                    .to_owned(),
            );
        }
        let Some(steps) = Steps::of(structure) else {
            return fail("the layout of its introspection type support cannot be followed".to_owned());
        };
        let payload = match Payload::of_received() {
            Ok(payload) => payload,
            Err(error) => return fail(error),
        };
        Ok(match steps.fixed() {
            Some(size) => Self::Constant(payload.size(size.end(0))),
            None => Self::Variable(payload, steps.0.into()),
        })
    }

    /// Returns the size of a message in bytes; 0 if unknown.
    pub(super) fn of(&self, message: &DynamicMessage) -> u32 {
        match self {
            Self::Constant(size) => *size,
            Self::Variable(payload, steps) => {
                end(steps, &Element::Message(&message.view()), 0).map_or(0, |values| payload.size(values))
            }
        }
    }
}

/// Returns whether a message has sequences that rclrs 0.8 panics to read: its `TypeErasedSequence::proxy_elems` asserts
/// that all elements together are at least as large as its own view of one.
fn has_short_elements(structure: &MessageStructure) -> bool {
    structure.fields.iter().any(|field| {
        let BaseType::Message(element) = &field.base_type else { return false };
        let is_sequence = matches!(field.value_kind, ValueKind::Sequence | ValueKind::BoundedSequence { .. });
        (is_sequence && element.size < size_of::<DynamicMessageView<'_>>()) || has_short_elements(element)
    })
}

/// What steps are of.
enum Element<'a> {
    Message(&'a DynamicMessageView<'a>),
    /// A string or wide string of that many characters.
    Text(usize),
}

/// Returns the end of values that start at an offset in the serialized message. None if the steps do not fit the
/// element.
fn end(steps: &[Step<Path>], of: &Element<'_>, start: usize) -> Option<usize> {
    steps.iter().try_fold(start, |at, step| match step {
        Step::Fixed(size) => Some(size.end(at)),
        Step::String { place } => Some(at + count(of, place)?),
        Step::Elements { place, element } => Some(element.end_of(count(of, place)?, at)),
        Step::Each { place, steps, .. } => {
            let Element::Message(message) = of else { return None };
            each_end(steps, &get(message, place)?, at)
        }
    })
}

/// Returns the number of characters or elements at a place.
fn count(of: &Element<'_>, place: &[String]) -> Option<usize> {
    match of {
        Element::Message(message) => length(&get(message, place)?),
        Element::Text(length) => Some(*length),
    }
}

/// Returns the field that the names lead to.
fn get<'a>(message: &DynamicMessageView<'a>, place: &[String]) -> Option<Value<'a>> {
    let (first, rest) = place.split_first()?;
    let value = message.get(first)?;
    match (rest, value) {
        ([], value) => Some(value),
        (_, Value::Simple(SimpleValue::Message(nested))) => get(&nested, rest),
        _ => None,
    }
}

/// Returns the number of characters of a string, or of elements of a sequence of values of fixed size.
fn length(value: &Value<'_>) -> Option<usize> {
    use {BoundedSequenceValue as B, SequenceValue as S, SimpleValue as V};
    Some(match value {
        Value::Simple(V::String(text)) => text.len(),
        Value::Simple(V::BoundedString(text)) => text.len(),
        Value::Simple(V::WString(text)) => text.len(),
        Value::Simple(V::BoundedWString(text)) => text.len(),
        Value::Sequence(sequence) => match sequence {
            S::FloatSequence(of) => of.len(),
            S::DoubleSequence(of) => of.len(),
            S::BooleanSequence(of) => of.len(),
            S::CharSequence(of) | S::OctetSequence(of) | S::Uint8Sequence(of) => of.len(),
            S::Int8Sequence(of) => of.len(),
            S::Uint16Sequence(of) => of.len(),
            S::Int16Sequence(of) => of.len(),
            S::Uint32Sequence(of) => of.len(),
            S::Int32Sequence(of) => of.len(),
            S::Uint64Sequence(of) => of.len(),
            S::Int64Sequence(of) => of.len(),
            S::MessageSequence(of) => of.len(),
            _ => return None,
        },
        Value::BoundedSequence(sequence) => match sequence {
            B::FloatBoundedSequence(of) => of.len(),
            B::DoubleBoundedSequence(of) => of.len(),
            B::BooleanBoundedSequence(of) => of.len(),
            B::CharBoundedSequence(of) | B::OctetBoundedSequence(of) | B::Uint8BoundedSequence(of) => {
                of.len()
            }
            B::Int8BoundedSequence(of) => of.len(),
            B::Uint16BoundedSequence(of) => of.len(),
            B::Int16BoundedSequence(of) => of.len(),
            B::Uint32BoundedSequence(of) => of.len(),
            B::Int32BoundedSequence(of) => of.len(),
            B::Uint64BoundedSequence(of) => of.len(),
            B::Int64BoundedSequence(of) => of.len(),
            B::MessageBoundedSequence(of) => of.len(),
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns the end of elements with different sizes: strings, wide strings or messages.
fn each_end(steps: &[Step<Path>], value: &Value<'_>, start: usize) -> Option<usize> {
    use {ArrayValue as A, BoundedSequenceValue as B, SequenceValue as S};
    macro_rules! texts {
        ($elements:expr) => {
            $elements.iter().try_fold(start, |at, text| end(steps, &Element::Text(text.len()), at))
        };
    }
    let messages = |elements: &[DynamicMessageView<'_>]| {
        elements.iter().try_fold(start, |at, message| end(steps, &Element::Message(message), at))
    };
    match value {
        Value::Array(A::StringArray(of)) => texts!(of),
        Value::Array(A::BoundedStringArray(of)) => texts!(of),
        Value::Array(A::WStringArray(of)) => texts!(of),
        Value::Array(A::BoundedWStringArray(of)) => texts!(of),
        Value::Array(A::MessageArray(of)) => messages(of),
        Value::Sequence(S::StringSequence(of)) => texts!(of),
        Value::Sequence(S::BoundedStringSequence(of)) => texts!(of),
        Value::Sequence(S::WStringSequence(of)) => texts!(of),
        Value::Sequence(S::BoundedWStringSequence(of)) => texts!(of),
        Value::Sequence(S::MessageSequence(of)) => messages(of),
        Value::BoundedSequence(B::StringBoundedSequence(of)) => texts!(of),
        Value::BoundedSequence(B::BoundedStringBoundedSequence(of)) => texts!(of),
        Value::BoundedSequence(B::WStringBoundedSequence(of)) => texts!(of),
        Value::BoundedSequence(B::BoundedWStringBoundedSequence(of)) => texts!(of),
        Value::BoundedSequence(B::MessageBoundedSequence(of)) => messages(of),
        _ => None,
    }
}
