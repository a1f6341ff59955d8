// SPDX-License-Identifier: Apache-2.0

//! Finds the header stamp in messages of a type: in C structs, in C++ structs and in serialized messages. The type's
//! introspection data tell where the stamp is.

use std::ffi::{c_char, c_void, CStr};

use topic_statistics_core::header_stamp;

use crate::{
    abi::{Member, Members, Time, TypeSupport},
    real,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageType {
    /// The place of the header stamp; `None` if the type has no header stamp, or if the place is unknown.
    pub stamp: Option<Stamp>,
    /// Whether the type is `rosgraph_msgs/Clock`.
    pub is_clock: bool,
    /// The size of the struct in bytes; 0 if the size is unknown.
    pub size: usize,
    /// Whether nothing is known about the type, because its introspection library is missing.
    pub is_unknown: bool,
}

/// The place of a header stamp in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The offset of the stamp in the struct, in bytes.
    offset: usize,
    /// Whether the stamp is the first field. If it is another field, the place of the stamp in a serialized message is
    /// unknown.
    is_first: bool,
}

impl MessageType {
    /// Reads the properties of a type from its type support.
    /// Safety: The type support must be null, or a type support that rmw accepts.
    pub unsafe fn from_type_support(type_support: *const TypeSupport) -> Self {
        // SAFETY: By contract.
        match unsafe { introspect(type_support) } {
            Some(members) => Self::of_members(members),
            None => Self { is_unknown: !type_support.is_null(), ..Self::default() },
        }
    }

    fn of_members(members: &'static Members) -> Self {
        Self {
            stamp: Stamp::find(members).filter(|stamp| stamp.offset + size_of::<Time>() <= members.size),
            is_clock: matches!(name(members), Some(("rosgraph_msgs__msg" | "rosgraph_msgs::msg", "Clock"))),
            size: members.size,
            is_unknown: false,
        }
    }
}

/// Returns whether a message or a service belongs to the interface of lifecycle nodes.
/// Safety: The type support must be null, or a type support that rmw accepts.
pub unsafe fn is_of_lifecycle(type_support: *const TypeSupport) -> bool {
    const NAMESPACES: [&CStr; 4] =
        [c"lifecycle_msgs__msg", c"lifecycle_msgs::msg", c"lifecycle_msgs__srv", c"lifecycle_msgs::srv"];
    // SAFETY: By contract. The introspection of messages and of services begins with the namespace.
    let namespace =
        unsafe { introspection(type_support).and_then(|data| data.cast::<*const c_char>().as_ref()) };
    // SAFETY: Introspection's names are constant strings.
    namespace.is_some_and(|name| !name.is_null() && NAMESPACES.contains(&unsafe { CStr::from_ptr(*name) }))
}

/// Returns the introspection of a message type; `None` if the introspection library is missing.
/// Safety: The type support must be null, or a type support that rmw accepts.
unsafe fn introspect(type_support: *const TypeSupport) -> Option<&'static Members> {
    // SAFETY: By contract. The data of an introspection type support are the type's members, which are constants.
    let members = unsafe { introspection(type_support)?.cast::<Members>().as_ref() }?;
    is_of_known_layout(members).then_some(members)
}

/// Returns the introspection data of a message or a service; `None` if the introspection library is missing.
/// Safety: The type support must be null, or a type support that rmw accepts.
unsafe fn introspection(type_support: *const TypeSupport) -> Option<*const c_void> {
    // SAFETY: The caller guarantees that the pointer is null or valid.
    let support = unsafe { type_support.as_ref() }?;
    if support.identifier.is_null() {
        return None;
    }
    // SAFETY: rosidl's identifiers are constant strings.
    let is_cpp = unsafe { CStr::from_ptr(support.identifier) }.to_bytes().ends_with(b"_cpp");
    let wanted = match is_cpp {
        true => c"rosidl_typesupport_introspection_cpp",
        false => c"rosidl_typesupport_introspection_c",
    };
    // SAFETY: rosidl calls the function with these arguments.
    let found = unsafe { support.func?(type_support, wanted.as_ptr()).as_ref() };
    if found.is_none() {
        reset_error();
    }
    Some(found?.data)
}

/// Returns whether the introspection has the layout of [`Members`]. In Humble's introspection, the pointer to the
/// members is in the place of `has_key`.
fn is_of_known_layout(members: &Members) -> bool {
    let has_key = std::ptr::from_ref(&members.has_key).cast::<usize>();
    // SAFETY: `has_key` with the padding after it, or the pointer, has the size of a `usize`, is aligned, and is
    // initialised, because it is part of a constant.
    unsafe { has_key.read_volatile() <= 1 }
}

/// Clears the error that a failed call of this library has set in the thread's error state of rcutils, because this
/// state belongs to the host.
pub fn reset_error() {
    if let Some(reset) = real::rcutils_reset_error() {
        // SAFETY: The function has no arguments.
        unsafe { reset() };
    }
}

fn name(members: &Members) -> Option<(&'static str, &'static str)> {
    Some((text(members.namespace)?, text(members.name)?))
}

fn text(name: *const c_char) -> Option<&'static str> {
    // SAFETY: Introspection's names are constant strings.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?.to_str().ok()
}

/// Finds the field with this name, if it is a message and no array. Returns the field's index, the field, and the
/// members of its type.
fn message_field(
    members: &'static Members,
    name: &str,
) -> Option<(usize, &'static Member, &'static Members)> {
    if members.members.is_null() {
        return None;
    }
    // SAFETY: The introspection data has `count` members.
    let all = unsafe { std::slice::from_raw_parts(members.members, members.count as usize) };
    let is_it = |member: &Member| {
        text(member.name) == Some(name) && member.type_id == Member::MESSAGE && !member.is_array
    };
    let (index, member) = all.iter().enumerate().find(|(_, member)| is_it(member))?;
    // SAFETY: The `members` of a message field point to a type support of the same kind (C or C++).
    Some((index, member, unsafe { introspect(member.members) }?))
}

impl Stamp {
    fn find(members: &'static Members) -> Option<Self> {
        let path = header_stamp::path(name(members)?, |field| name(message_field(members, field)?.2))?;
        let (mut stamp, mut message) = (Self { offset: 0, is_first: true }, members);
        for field in path {
            let (index, member, nested) = message_field(message, field)?;
            stamp.offset += member.offset as usize;
            stamp.is_first &= index == 0;
            message = nested;
        }
        (message.size == size_of::<Time>()).then_some(stamp)
    }

    /// Returns the stamp of a message in nanoseconds since the epoch; 0 if the stamp is not set.
    /// Safety: `message` must point to a struct of the message type.
    #[inline]
    pub unsafe fn of_message(self, message: *const c_void) -> i64 {
        // SAFETY: The caller guarantees that a Time lies at the offset. A loaned message may be misaligned: the read is
        // unaligned.
        let time = unsafe { message.cast::<u8>().add(self.offset).cast::<Time>().read_unaligned() };
        header_stamp::nanoseconds(time.sec, time.nanosec)
    }

    /// Returns the stamp of a serialized message in nanoseconds since the epoch; 0 if the stamp is not set, `None` if
    /// the place of the stamp is unknown or the message is too short.
    pub fn of_serialized(self, bytes: &[u8]) -> Option<i64> {
        self.is_first.then(|| header_stamp::read_first(bytes))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stamp_of_a_serialized_message_is_read_if_it_is_the_first_field() {
        let stamp = Stamp { offset: 0, is_first: true };
        let message = [&[0, 1, 0, 0][..], &7_i32.to_le_bytes(), &5_u32.to_le_bytes(), &[9]].concat();
        assert_eq!(stamp.of_serialized(&message), Some(7_000_000_005));
        assert_eq!(stamp.of_serialized(&message[..11]), None, "the message is too short");
        assert_eq!(Stamp { is_first: false, ..stamp }.of_serialized(&message), None);
    }
}
