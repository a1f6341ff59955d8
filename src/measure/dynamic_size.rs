// SPDX-License-Identifier: Apache-2.0

//! Finds the serialized size of messages of a type that is known only at run time.

use rclrs::{
    ArrayValue, BaseType, BoundedSequenceValue, DynamicMessage, DynamicMessageView, MessageStructure,
    SequenceValue, SimpleValue, Value, ValueKind,
};

use super::size::{Payload, Place, Size, Step};

/// The steps that find the serialized size of the messages of a type.
///
/// rclrs does not give access to the C struct of a dynamic message, so the steps find the fields by name. If the
/// elements of a sequence are messages, they are read one by one.
pub(crate) struct DynamicSize(Size<Path>);

type Path = Vec<String>;

impl Place for Path {
    fn start() -> Self {
        vec![]
    }

    fn field(&self, name: &str, _offset: usize) -> Self {
        [self, &[name.to_owned()][..]].concat()
    }
}

impl DynamicSize {
    pub(crate) fn find(message_type: &str) -> Result<Self, String> {
        let size = Size::find(message_type, Payload::of_received, |structure| {
            has_short_elements(structure).then(|| {
                "rclrs cannot read short sequences of small messages, which it has, of a type known only at run time"
                    .to_owned()
            })
        });
        Ok(Self(size?))
    }

    /// Returns the size of a message in bytes; 0 if the size is unknown.
    pub(super) fn measure(&self, message: &DynamicMessage) -> u32 {
        match &self.0 {
            Size::Constant(size) => *size,
            Size::Variable(payload, steps) => {
                end(steps, &Element::Message(&message.view()), 0).map_or(0, |values| payload.size(values))
            }
        }
    }
}

/// Returns whether messages of this structure may have sequences for which rclrs 0.8 panics.
/// `TypeErasedSequence::proxy_elems` of rclrs asserts that all elements of a sequence together are at least as large as
/// rclrs's view of one element.
fn has_short_elements(structure: &MessageStructure) -> bool {
    structure.fields.iter().any(|field| {
        let BaseType::Message(element) = &field.base_type else { return false };
        let is_sequence = matches!(field.value_kind, ValueKind::Sequence | ValueKind::BoundedSequence { .. });
        (is_sequence && element.size < size_of::<DynamicMessageView<'_>>()) || has_short_elements(element)
    })
}

/// The value whose serialized size is being computed: a message, or an element of a sequence of strings.
enum Element<'a> {
    Message(&'a DynamicMessageView<'a>),
    /// A string or wide string with this number of characters.
    Text(usize),
}

/// Returns the offset in the serialized message at which the values of `steps` end, if these values start at `start`.
/// Returns `None` if `element` does not have the fields that the steps name.
fn end(steps: &[Step<Path>], element: &Element<'_>, start: usize) -> Option<usize> {
    steps.iter().try_fold(start, |at, step| match step {
        Step::Fixed(size) => Some(size.end(at)),
        Step::String { place } => Some(at + count(element, place)?),
        Step::Elements { place, element: each } => Some(each.end_of(count(element, place)?, at)),
        Step::Each { place, steps, .. } => {
            let Element::Message(message) = element else { return None };
            each_end(steps, &get(message, place)?, at)
        }
    })
}

/// Returns the number of characters of the string, or the number of elements of the sequence, to which `place` leads.
fn count(element: &Element<'_>, place: &[String]) -> Option<usize> {
    match element {
        Element::Message(message) => length(&get(message, place)?),
        Element::Text(length) => Some(*length),
    }
}

fn get<'a>(message: &DynamicMessageView<'a>, place: &[String]) -> Option<Value<'a>> {
    let (first, rest) = place.split_first()?;
    let value = message.get(first)?;
    match (rest, value) {
        ([], value) => Some(value),
        (_, Value::Simple(SimpleValue::Message(nested))) => get(&nested, rest),
        _ => None,
    }
}

/// Returns the number of characters of a string, or the number of elements of a sequence with elements of fixed size.
fn length(value: &Value<'_>) -> Option<usize> {
    use {BoundedSequenceValue as B, SequenceValue as S, SimpleValue as V};
    Some(match value {
        Value::Simple(V::String(text)) => text.len(),
        Value::Simple(V::BoundedString(text)) => text.len(),
        Value::Simple(V::WString(text)) => text.len(),
        Value::Simple(V::BoundedWString(text)) => text.len(),
        Value::Sequence(sequence) => match sequence {
            S::FloatSequence(values) => values.len(),
            S::DoubleSequence(values) => values.len(),
            S::BooleanSequence(values) => values.len(),
            S::CharSequence(values) | S::OctetSequence(values) | S::Uint8Sequence(values) => values.len(),
            S::Int8Sequence(values) => values.len(),
            S::Uint16Sequence(values) => values.len(),
            S::Int16Sequence(values) => values.len(),
            S::Uint32Sequence(values) => values.len(),
            S::Int32Sequence(values) => values.len(),
            S::Uint64Sequence(values) => values.len(),
            S::Int64Sequence(values) => values.len(),
            S::MessageSequence(values) => values.len(),
            _ => return None,
        },
        Value::BoundedSequence(sequence) => match sequence {
            B::FloatBoundedSequence(values) => values.len(),
            B::DoubleBoundedSequence(values) => values.len(),
            B::BooleanBoundedSequence(values) => values.len(),
            B::CharBoundedSequence(values)
            | B::OctetBoundedSequence(values)
            | B::Uint8BoundedSequence(values) => values.len(),
            B::Int8BoundedSequence(values) => values.len(),
            B::Uint16BoundedSequence(values) => values.len(),
            B::Int16BoundedSequence(values) => values.len(),
            B::Uint32BoundedSequence(values) => values.len(),
            B::Int32BoundedSequence(values) => values.len(),
            B::Uint64BoundedSequence(values) => values.len(),
            B::Int64BoundedSequence(values) => values.len(),
            B::MessageBoundedSequence(values) => values.len(),
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns the offset in the serialized message at which the elements of a sequence or an array end. The elements are
/// strings, wide strings or messages, whose sizes can differ.
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
        Value::Array(A::StringArray(values)) => texts!(values),
        Value::Array(A::BoundedStringArray(values)) => texts!(values),
        Value::Array(A::WStringArray(values)) => texts!(values),
        Value::Array(A::BoundedWStringArray(values)) => texts!(values),
        Value::Array(A::MessageArray(values)) => messages(values),
        Value::Sequence(S::StringSequence(values)) => texts!(values),
        Value::Sequence(S::BoundedStringSequence(values)) => texts!(values),
        Value::Sequence(S::WStringSequence(values)) => texts!(values),
        Value::Sequence(S::BoundedWStringSequence(values)) => texts!(values),
        Value::Sequence(S::MessageSequence(values)) => messages(values),
        Value::BoundedSequence(B::StringBoundedSequence(values)) => texts!(values),
        Value::BoundedSequence(B::BoundedStringBoundedSequence(values)) => texts!(values),
        Value::BoundedSequence(B::WStringBoundedSequence(values)) => texts!(values),
        Value::BoundedSequence(B::BoundedWStringBoundedSequence(values)) => texts!(values),
        Value::BoundedSequence(B::MessageBoundedSequence(values)) => messages(values),
        _ => None,
    }
}
