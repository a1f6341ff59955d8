// SPDX-License-Identifier: Apache-2.0

//! Finds the header stamp of a message: which field has the stamp, and what the bytes of the stamp mean.
//!
//! There are three descriptions of a message type: the introspection of C, the introspection of C++, and the definition
//! in a recording. The same rule finds the stamp in all three: [`path`] returns the names of the fields that lead to
//! the stamp, and the caller looks for these fields in the description that it has.

/// Returns the names of the fields that lead to the header stamp, a `builtin_interfaces/Time`; `None` if the type has
/// no header stamp.
///
/// A `std_msgs/Header` has a stamp. A type with a field `header` that is a single `std_msgs/Header` has a stamp, too.
/// `message_type` is the namespace and the name of a type: the namespace is `std_msgs__msg` in C, `std_msgs::msg` in
/// C++ and `std_msgs` in a definition. `field_type` returns the type of the field with the given name; `None` if the
/// field is not a single message.
pub fn path<'a>(
    message_type: (&str, &str),
    field_type: impl FnOnce(&str) -> Option<(&'a str, &'a str)>,
) -> Option<&'static [&'static str]> {
    const PATH: &[&str] = &["header", "stamp"];
    let is_header = |(namespace, name): (&str, &str)| {
        matches!(namespace, "std_msgs__msg" | "std_msgs::msg" | "std_msgs") && name == "Header"
    };
    if is_header(message_type) {
        return Some(&PATH[1..]);
    }
    field_type(PATH[0]).is_some_and(is_header).then_some(PATH)
}

/// Converts a stamp into nanoseconds since the Unix epoch (1970-01-01 UTC).
#[inline]
pub const fn nanoseconds(sec: i32, nanosec: u32) -> i64 {
    sec as i64 * 1_000_000_000 + nanosec as i64
}

/// Reads the header stamp of a serialized message whose first field is the stamp. Returns the stamp in nanoseconds,
/// like [`nanoseconds`]; `None` if the message is too short or has an unknown encoding.
pub fn read_first(message: &[u8]) -> Option<i64> {
    let (encapsulation, values) = message.split_first_chunk()?;
    let (sec, values) = values.split_first_chunk()?;
    let order = ByteOrder::new(*encapsulation)?;
    Some(nanoseconds(order.u32(*sec) as i32, order.u32(*values.first_chunk()?)))
}

/// The order of the bytes of a serialized message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The highest byte comes first.
    BigEndian,
    /// The lowest byte comes first.
    LittleEndian,
}

impl ByteOrder {
    /// Reads the byte order from the encapsulation header, the first four bytes of a message.
    ///
    /// Returns `None` unless the encoding is CDR of XCDR version 1, which ROS 2 writes. In XCDR version 2, nested types
    /// that are not final start with their length, and no ROS definition says which types are final.
    pub const fn new(encapsulation: [u8; 4]) -> Option<Self> {
        match encapsulation {
            [0, 0, ..] => Some(Self::BigEndian),
            [0, 1, ..] => Some(Self::LittleEndian),
            _ => None,
        }
    }

    /// Returns a number from its bytes.
    pub const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::BigEndian => u32::from_be_bytes(bytes),
            Self::LittleEndian => u32::from_le_bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_std_msgs_header_named_header_has_the_stamp() {
        for namespace in ["std_msgs__msg", "std_msgs::msg", "std_msgs"] {
            let header = (namespace, "Header");
            assert_eq!(path(header, |_| None), Some(&["stamp"][..]));
            let find = |name: &str, field_type| {
                path(("my_msgs", "Pose"), |field| (field == name).then_some(field_type))
            };
            assert_eq!(find("header", header), Some(&["header", "stamp"][..]));
            assert_eq!(find("head", header), None);
            assert_eq!(find("header", (namespace, "String")), None);
            assert_eq!(find("header", ("my_msgs", "Header")), None);
        }
        assert_eq!(path(("my_msgs", "Header"), |_| None), None, "an array or a number `header`");
    }

    #[test]
    fn a_stamp_is_read_in_either_byte_order() {
        let little = [&[0, 1, 0, 0][..], &(-7_i32).to_le_bytes(), &5_u32.to_le_bytes(), &[9]].concat();
        let big = [&[0, 0, 0, 0][..], &(-7_i32).to_be_bytes(), &5_u32.to_be_bytes()].concat();
        assert_eq!([read_first(&little), read_first(&big)], [Some(-6_999_999_995); 2]);
        assert_eq!(read_first(&little[..11]), None, "the message is too short");
        for [first, kind] in
            [[0, 2], [0, 3], [0, 6], [0, 7], [0, 8], [0, 9], [0, 10], [0, 11], [0, 255], [0x28, 0xb5]]
        {
            assert_eq!(read_first(&[&[first, kind], &little[2..]].concat()), None);
        }
    }
}
