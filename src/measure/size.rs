// SPDX-License-Identifier: Apache-2.0

//! Finds the serialized size of a message, from the introspection type support and the lengths of strings and
//! sequences.
//!
//! The format is CDR, version 1 of XCDR, which every rmw implementation of ROS 2 writes: a value of 2, 4 or 8 bytes
//! lies at a multiple of its size, counted from the end of the encapsulation header. A string consists of its length in
//! 32 bits, its bytes and a NUL. A wide string consists of its length in 32 bits and 32 bits for each UTF-16 code unit,
//! without a NUL. A sequence consists of its length in 32 bits and its elements. An array consists of its elements, and
//! a nested message consists of its fields.
//!
//! The strings of a received message are complete. But the strings that a publisher is about to send may contain a NUL,
//! and most rmw implementations send a string only up to its first NUL: see [`Middleware::sends_to_nul`].

use std::{ffi::CStr, marker::PhantomData};

use rclrs::{BaseType, DynamicMessageMetadata, MessageStructure, MessageTypeName, ValueKind};
use rosidl_runtime_rs::RmwMessage;

use super::layout::{offsets, Layout};
use crate::transport::{middleware_in_use, Middleware};

/// The size of the encapsulation header, in bytes. The header names the encoding of the rest of the message.
const HEADER: usize = 4;

/// How to find the serialized size of the messages of a type. `P` says where a field lies, and implements this trait:
/// [`Place`].
pub(super) enum Size<P> {
    /// All messages of the type have this size.
    Constant(u32),
    Variable(Payload, Box<[Step<P>]>),
}

impl<P: Place> Size<P> {
    /// `refuse` returns the reason if the sizes of messages of this structure cannot be found.
    ///
    /// If the encoding of the middleware is unknown, returns a warning for the user as the error.
    pub(super) fn find(
        message_type: &str,
        payload: fn() -> Result<Payload, String>,
        refuse: impl FnOnce(&MessageStructure) -> Option<String>,
    ) -> Result<Self, String> {
        let find = || {
            let metadata = MessageTypeName::try_from(message_type)
                .and_then(DynamicMessageMetadata::new)
                .map_err(|error| format!("its introspection type support cannot be loaded: {error}"))?;
            let structure = metadata.structure();
            refuse(structure).map_or(Ok(()), Err)?;
            let steps = Steps::from_structure(structure)
                .ok_or("the layout of its introspection type support cannot be followed")?;
            let payload = payload()?;
            Ok(match steps.fixed() {
                Some(size) => Self::Constant(payload.size(size.end(0))),
                None => Self::Variable(payload, steps.0.into()),
            })
        };
        find().map_err(|why: String| format!("The sizes of {message_type} messages will be NaN: {why}"))
    }
}

/// The steps that find the serialized size of messages of the C layout `M`.
pub(crate) struct SerializedSize<M>(Size<usize>, PhantomData<fn(&M)>);

impl<M: RmwMessage> SerializedSize<M> {
    pub(crate) fn of_received() -> Result<Self, String> {
        Self::find(Payload::of_received)
    }

    pub(crate) fn of_published() -> Result<Self, String> {
        Self::find(Payload::of_published)
    }

    fn find(payload: fn() -> Result<Payload, String>) -> Result<Self, String> {
        let size = Size::find(M::TYPE_NAME, payload, |structure| {
            (structure.size != size_of::<M>()).then(|| {
                format!(
                    "its Rust type has {} bytes, its introspection type support has {}",
                    size_of::<M>(),
                    structure.size
                )
            })
        });
        Ok(Self(size?, PhantomData))
    }

    /// Returns the size of a message in bytes. `message` is not called if all messages have the same size.
    #[inline]
    pub(crate) fn measure<'a>(&self, message: impl FnOnce() -> &'a M) -> u32
    where
        M: 'a,
    {
        match &self.0 {
            Size::Constant(size) => *size,
            Size::Variable(payload, steps) => {
                let message = std::ptr::from_ref(message()).cast();
                // SAFETY: `find` has derived the steps from the layout of `M`, and a value of `M` has valid strings and
                // sequences.
                payload.size(unsafe { end(steps, message, 0, payload.strings_end_at_nul) })
            }
        }
    }
}

/// The rules of a middleware for the size of a whole message.
#[derive(Clone, Copy)]
pub(crate) struct Payload {
    /// The size of a message is rounded up to a multiple of this number of bytes.
    alignment: usize,
    /// Whether a string is sent only up to its first NUL.
    strings_end_at_nul: bool,
}

impl Payload {
    pub(super) fn of_received() -> Result<Self, String> {
        Ok(Self { strings_end_at_nul: false, ..Self::of_published()? })
    }

    fn of_published() -> Result<Self, String> {
        let Middleware { pads, sends_to_nul, .. } =
            middleware_in_use().map_err(|name| format!("it is not known how {name} serializes messages"))?;
        Ok(Self { alignment: if *pads { 4 } else { 1 }, strings_end_at_nul: *sends_to_nul })
    }

    /// Returns the size in bytes of a message whose values take `values` bytes, including the encapsulation header. (No
    /// middleware sends messages that are too large for a `u32`.)
    pub(super) fn size(self, values: usize) -> u32 {
        (HEADER + values).next_multiple_of(self.alignment).try_into().unwrap_or(u32::MAX)
    }
}

/// The C struct of a string, a wide string or a sequence, with an element pointer that has no type.
#[repr(C)]
struct Elements {
    data: *const u8,
    size: usize,
    capacity: usize,
}

/// Returns the offset in the serialized message at which the values of `steps` end, if these values start at `start`.
/// The characters of strings are read only if `strings_end_at_nul` is true.
///
/// # Safety
///
/// `base` must point to a C struct with the layout that the steps describe. The strings and sequences of the struct
/// must be valid.
unsafe fn end(steps: &[Step<usize>], base: *const u8, start: usize, strings_end_at_nul: bool) -> usize {
    steps.iter().fold(start, |at, step| match step {
        Step::Fixed(size) => size.end(at),
        Step::String { place } => {
            // SAFETY: The caller guarantees that a string lies at the offset, and is aligned.
            let string = unsafe { &*base.add(*place).cast::<Elements>() };
            if !strings_end_at_nul || string.size == 0 {
                return at + string.size;
            }
            // SAFETY: The caller guarantees that the string has `size` bytes.
            let bytes = unsafe { std::slice::from_raw_parts(string.data, string.size) };
            at + CStr::from_bytes_until_nul(bytes).map_or(string.size, CStr::count_bytes)
        }
        Step::Elements { place, element } => {
            // SAFETY: The caller guarantees that a wide string or a sequence lies at the offset, and is aligned.
            let elements = unsafe { &*base.add(*place).cast::<Elements>() };
            element.end_of(elements.size, at)
        }
        Step::Each { place, count, stride, steps } => {
            // SAFETY: The caller guarantees that the offset lies in the struct.
            let base = unsafe { base.add(*place) };
            let (first, count) = match count {
                Count::Array(length) => (base, *length),
                Count::Sequence => {
                    // SAFETY: The caller guarantees that a sequence lies at `base`, and is aligned.
                    let elements = unsafe { &*base.cast::<Elements>() };
                    (elements.data, elements.size)
                }
            };
            // SAFETY: The caller guarantees `count` elements with the layout of the inner steps, one `stride` apart.
            (0..count).fold(at, |at, index| unsafe {
                end(steps, first.add(index * stride), at, strings_end_at_nul)
            })
        }
    })
}

/// Where a field lies: its offset in the C struct, or the names of the nested fields that lead to the field.
pub(super) trait Place {
    fn start() -> Self;

    fn field(&self, name: &str, offset: usize) -> Self;
}

impl Place for usize {
    fn start() -> Self {
        0
    }

    fn field(&self, _name: &str, offset: usize) -> Self {
        self + offset
    }
}

/// A part of a message. The steps of a message are in the order in which the parts are serialized.
#[derive(Clone, Debug)]
pub(crate) enum Step<P> {
    /// Values of fixed size. They are not read, because their size is known.
    Fixed(FixedSize),
    /// The characters of the string at this place.
    String { place: P },
    /// The elements of fixed size of the sequence at this place, or the characters of the wide string at this place.
    Elements { place: P, element: FixedSize },
    /// The elements, whose sizes differ, of the sequence or array at this place. `steps` finds an element's size.
    Each { place: P, count: Count, stride: usize, steps: Box<[Step<P>]> },
}

/// How many elements there are, and where they lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// The elements of an array, which lie in the C struct of the message.
    Array(usize),
    /// The elements of a sequence, which lie outside the C struct of the message.
    Sequence,
}

/// The number of bytes that values of fixed size take, including the padding before and between the values. This number
/// depends on the start offset modulo 8, which is the index of the array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedSize([usize; 8]);

impl FixedSize {
    const NONE: Self = Self([0; 8]);

    /// Returns the size of a value of 1, 2, 4 or 8 bytes.
    pub(super) fn primitive(size: usize) -> Self {
        Self::between(|start| start.next_multiple_of(size) + size)
    }

    /// Creates the size. For each start offset, `end` returns the offset at which the values end.
    fn between(end: impl Fn(usize) -> usize) -> Self {
        Self(std::array::from_fn(|start| end(start) - start))
    }

    /// Returns the offset at which the values end, if the values start at `start`.
    pub(super) fn end(&self, start: usize) -> usize {
        start + self.0[start % 8]
    }

    /// Returns the offset at which `count` repetitions of the values end.
    ///
    /// Wherever a repetition starts, it ends at the same offset modulo the largest alignment of the values. So all
    /// repetitions but the first start at the same offset modulo this alignment, and take the same number of bytes.
    pub(super) fn end_of(&self, count: usize, start: usize) -> usize {
        let Some(further) = count.checked_sub(1) else { return start };
        let first = self.end(start);
        first + further * self.0[first % 8]
    }

    fn followed_by(&self, next: &Self) -> Self {
        Self::between(|start| next.end(self.end(start)))
    }

    fn repeated(&self, count: usize) -> Self {
        Self::between(|start| self.end_of(count, start))
    }
}

/// The steps of a message. Consecutive values of fixed size are merged into one step.
pub(super) struct Steps<P>(pub(super) Vec<Step<P>>);

impl<P: Place> Steps<P> {
    /// Returns the steps of messages of this structure; `None` if the layout or the encoding is unknown.
    pub(super) fn from_structure(structure: &MessageStructure) -> Option<Self> {
        let mut steps = Self(vec![]);
        steps.push_fields(structure, &P::start())?;
        Some(steps)
    }

    fn push_fixed(&mut self, size: FixedSize) {
        match self.0.last_mut() {
            Some(Step::Fixed(last)) => *last = last.followed_by(&size),
            _ => self.0.push(Step::Fixed(size)),
        }
    }

    /// Appends the steps of the fields of a struct, which lies at `parent`.
    fn push_fields(&mut self, structure: &MessageStructure, parent: &P) -> Option<()> {
        for (field, offset) in structure.fields.iter().zip(offsets(structure)?) {
            let place = parent.field(&field.name, offset);
            match field.value_kind {
                ValueKind::Simple => self.push_value(&field.base_type, place)?,
                ValueKind::Array { length } => {
                    self.push_elements(&field.base_type, place, Count::Array(length))?;
                }
                ValueKind::Sequence | ValueKind::BoundedSequence { .. } => {
                    self.push_fixed(FixedSize::primitive(4)); // the length
                    self.push_elements(&field.base_type, place, Count::Sequence)?;
                }
            }
        }
        Some(())
    }

    fn push_value(&mut self, base_type: &BaseType, place: P) -> Option<()> {
        match base_type {
            BaseType::Message(structure) => return self.push_fields(structure, &place),
            BaseType::String | BaseType::BoundedString { .. } => {
                self.push_fixed(FixedSize::primitive(4)); // the length
                self.0.push(Step::String { place });
                self.push_fixed(FixedSize::primitive(1)); // NUL
            }
            BaseType::WString | BaseType::BoundedWString { .. } => {
                self.push_fixed(FixedSize::primitive(4)); // the length
                self.0.push(Step::Elements { place, element: FixedSize::primitive(4) });
            }
            // No .msg file can contain these types, and the rmw implementations serialize them differently.
            BaseType::WChar | BaseType::LongDouble => return None,
            _ => self.push_fixed(FixedSize::primitive(Layout::of_element(base_type)?.size)),
        }
        Some(())
    }

    fn push_elements(&mut self, base_type: &BaseType, place: P, count: Count) -> Option<()> {
        let mut element = Self(vec![]);
        element.push_value(base_type, P::start())?;
        match (element.fixed(), count) {
            (Some(size), Count::Array(length)) => self.push_fixed(size.repeated(length)),
            (Some(element), Count::Sequence) => self.0.push(Step::Elements { place, element }),
            (None, _) => {
                let stride = Layout::of_element(base_type)?.size;
                self.0.push(Step::Each { place, count, stride, steps: element.0.into() });
            }
        }
        Some(())
    }

    /// Returns the size of a message's values if all messages of the type have the same size.
    pub(super) fn fixed(&self) -> Option<FixedSize> {
        match self.0[..] {
            [] => Some(FixedSize::NONE),
            [Step::Fixed(size)] => Some(size),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ros_env::{builtin_interfaces, std_msgs};

    #[test]
    fn a_type_of_fixed_size_is_not_read() {
        fn constant<M: RmwMessage>() -> u32 {
            SerializedSize::<M>::of_received()
                .unwrap()
                .measure(|| unreachable!("the size does not depend on the message"))
        }
        assert_eq!(constant::<builtin_interfaces::msg::rmw::Time>(), 4 + 8);
        assert_eq!(constant::<std_msgs::msg::rmw::Float64>(), 4 + 8);
    }

    /// This test needs no introspection, so that Miri can run it.
    #[test]
    fn lengths_are_read_at_their_places_in_a_c_struct_and_its_elements() {
        #[repr(C)]
        struct Part {
            number: u8,
            name: Elements,
        }
        #[repr(C)]
        struct Message {
            flag: bool,
            names: [Part; 2],
            parts: Elements,
            values: Elements,
        }
        let elements = |data: *const u8, size| Elements { data, size, capacity: size };
        let part = |length| Part { number: 7, name: elements(std::ptr::null(), length) };
        let elsewhere = [part(1), part(0), part(9)];
        let message = Message {
            flag: true,
            names: [part(0), part(3)],
            parts: elements(elsewhere.as_ptr().cast(), elsewhere.len()),
            values: elements(std::ptr::null(), 5),
        };

        let (byte, length) = (FixedSize::primitive(1), FixedSize::primitive(4));
        let part: Box<[Step<usize>]> = Box::new([
            Step::Fixed(byte.followed_by(&length)),
            Step::String { place: std::mem::offset_of!(Part, name) },
            Step::Fixed(byte),
        ]);
        let each = |place, count| Step::Each { place, count, stride: size_of::<Part>(), steps: part.clone() };
        let steps = [
            Step::Fixed(byte),
            each(std::mem::offset_of!(Message, names), Count::Array(2)),
            Step::Fixed(length),
            each(std::mem::offset_of!(Message, parts), Count::Sequence),
            Step::Fixed(length),
            Step::Elements { place: std::mem::offset_of!(Message, values), element: FixedSize::primitive(8) },
        ];
        // The message has a flag, parts with 0 and 3 characters, parts with 1, 0 and 9 characters, and five numbers of
        // 8 bytes.
        let names = [1, 2, 4 + 4 + 1, 10, 12 + 4 + 3 + 1];
        let parts = [20, 20 + 4, 25, 28 + 4 + 1 + 1, 35, 36 + 4 + 1, 42, 44 + 4 + 9 + 1];
        let values = [60 + 4, 64 + 5 * 8];
        assert_eq!((names[4], parts[7], values[1]), (20, 58, 104));
        // SAFETY: The steps describe the struct. The data behind the null pointers in the struct are not read.
        assert_eq!(unsafe { end(&steps, std::ptr::from_ref(&message).cast(), 0, false) }, values[1]);
        assert_eq!(message.flag as u8 + message.names[0].number, 8);
    }

    /// This test also needs no introspection, so that Miri can run it.
    #[test]
    fn a_string_is_read_up_to_its_first_nul_if_it_is_sent_so() {
        let steps = [Step::Fixed(FixedSize::primitive(4)), Step::String { place: 0 }];
        for (text, sent) in [("", 0), ("abc", 3), ("ab\0c\0", 2), ("\0", 0), ("abc\0", 3)] {
            let string = Elements { data: text.as_ptr(), size: text.len(), capacity: text.len() + 1 };
            // SAFETY: The steps describe the struct.
            let end = |to_nul| unsafe { end(&steps, std::ptr::from_ref(&string).cast(), 0, to_nul) };
            assert_eq!([end(true), end(false)], [4 + sent, 4 + text.len()], "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn n_values_end_where_one_after_the_other_ends(
            sizes in prop::collection::vec((prop::sample::select(vec![1_usize, 2, 4, 8]), 0_usize..4), 1..6),
            count in 0_usize..20,
            start in 0_usize..64,
        ) {
            let value = sizes.iter().fold(FixedSize::NONE, |value, (size, count)| {
                value.followed_by(&FixedSize::primitive(*size).repeated(*count))
            });
            // The expected end, calculated by the alignment rule, value by value.
            let one_by_one = (0..count).fold(start, |at, _| {
                let each = sizes.iter().flat_map(|(size, count)| std::iter::repeat_n(size, *count));
                each.fold(at, |at, size| at.next_multiple_of(*size) + size)
            });
            prop_assert_eq!(value.end_of(count, start), one_by_one);
        }
    }
}
