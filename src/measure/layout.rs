// SPDX-License-Identifier: Apache-2.0

//! Finds where the fields of a message lie in its C struct.
//!
//! The introspection type support, which every interface package has, lists the fields in the order of the C struct.
//! rclrs does not expose the offsets of the fields, so this module calculates the offsets by the rules of the C layout.
//! To confirm the calculated offsets, this module compares the calculated size of the struct with the size in the
//! introspection type support.

use crate::interfaces::builtin_interfaces::msg::rmw::Time;
use rclrs::{BaseType, MessageFieldInfo, MessageStructure, ValueKind};
use rosidl_runtime_rs::{Sequence, String, WString};

/// Size and alignment in C, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) size: usize,
    pub(super) align: usize,
}

/// Returns the offsets of all fields by the C layout rules, in order. Returns `None` if the calculated size of the
/// struct differs from its size in the introspection type support.
pub(super) fn offsets(structure: &MessageStructure) -> Option<Vec<usize>> {
    let mut offsets = Vec::with_capacity(structure.fields.len());
    let mut layout = Layout { size: 0, align: 1 };
    for field in &structure.fields {
        let next = Layout::of_field(field)?;
        let offset = layout.size.next_multiple_of(next.align);
        offsets.push(offset);
        layout = Layout { size: offset + next.size, align: layout.align.max(next.align) };
    }
    (layout.size.next_multiple_of(layout.align) == structure.size).then_some(offsets)
}

/// Returns the offset of a field; `None` if no field has this name, or if [`offsets`] returns `None`.
pub(super) fn offset_of(structure: &MessageStructure, name: &str) -> Option<usize> {
    let index = structure.fields.iter().position(|field| field.name == name)?;
    offsets(structure)?.get(index).copied()
}

impl Layout {
    fn of<T>() -> Self {
        Self { size: size_of::<T>(), align: align_of::<T>() }
    }

    fn of_field(field: &MessageFieldInfo) -> Option<Self> {
        match field.value_kind {
            ValueKind::Simple => Self::of_element(&field.base_type),
            ValueKind::Array { length } => {
                let element = Self::of_element(&field.base_type)?;
                Some(Self { size: element.size * length, ..element })
            }
            ValueKind::Sequence | ValueKind::BoundedSequence { .. } => Some(match field.base_type {
                // From ROS 2 Lyrical on, the C struct of a sequence contains flags if the elements are primitives or
                // strings, but not if they are messages.
                BaseType::Message(_) => Self::of::<Sequence<Time>>(),
                _ => Self::of::<Sequence<u8>>(),
            }),
        }
    }

    /// Returns the layout of one value of a type; `None` if the layout depends on the compiler.
    pub(super) fn of_element(base_type: &BaseType) -> Option<Self> {
        Some(match base_type {
            BaseType::Boolean | BaseType::Char | BaseType::Octet | BaseType::Uint8 | BaseType::Int8 => {
                Self::of::<u8>()
            }
            BaseType::WChar | BaseType::Uint16 | BaseType::Int16 => Self::of::<u16>(),
            BaseType::Float | BaseType::Uint32 | BaseType::Int32 => Self::of::<u32>(),
            BaseType::Double | BaseType::Uint64 | BaseType::Int64 => Self::of::<u64>(),
            BaseType::LongDouble => return None,
            BaseType::String | BaseType::BoundedString { .. } => Self::of::<String>(),
            BaseType::WString | BaseType::BoundedWString { .. } => Self::of::<WString>(),
            BaseType::Message(structure) => {
                let aligns = structure.fields.iter().map(|field| Some(Self::of_field(field)?.align));
                Self { size: structure.size, align: aligns.collect::<Option<Vec<_>>>()?.into_iter().max()? }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs::DynamicMessageMetadata;
    use ros_env::{sensor_msgs, test_msgs};
    use rosidl_runtime_rs::RmwMessage;

    fn structure<M: RmwMessage>() -> MessageStructure {
        DynamicMessageMetadata::new(M::TYPE_NAME.try_into().unwrap()).unwrap().structure().clone()
    }

    #[test]
    fn the_c_layout_rules_lead_to_the_compilers_offsets() {
        macro_rules! check {
            ($message:ty: $($field:ident),+) => {
                let structure = structure::<$message>();
                $(assert_eq!(
                    offset_of(&structure, stringify!($field)),
                    Some(std::mem::offset_of!($message, $field)),
                    "{}", stringify!($message.$field)
                );)+
            };
        }
        check!(test_msgs::msg::rmw::BasicTypes: bool_value, float64_value, int8_value, uint16_value, uint64_value);
        check!(test_msgs::msg::rmw::Arrays: byte_values, string_values, basic_types_values, alignment_check);
        check!(test_msgs::msg::rmw::BoundedSequences: char_values, defaults_values, alignment_check);
        check!(test_msgs::msg::rmw::UnboundedSequences: bool_values, string_values_default, alignment_check);
        check!(test_msgs::msg::rmw::WStrings: wstring_value, array_of_wstrings, unbounded_sequence_of_wstrings);
        check!(test_msgs::msg::rmw::Builtins: duration_value, time_value);
        check!(sensor_msgs::msg::rmw::CameraInfo: header, d, k, p, roi);
        check!(sensor_msgs::msg::rmw::BatteryState: header, voltage, present, cell_voltage, serial_number);
    }
}
