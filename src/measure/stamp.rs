// SPDX-License-Identifier: Apache-2.0

//! Finds the header stamp in messages of a type, from the introspection type support.

use std::marker::PhantomData;

use crate::interfaces::builtin_interfaces::msg::rmw::Time;
use rclrs::{BaseType, DynamicMessageMetadata, MessageStructure, MessageTypeName, ValueKind};
use rosidl_runtime_rs::RmwMessage;
use topic_statistics_core::header_stamp;

use super::layout::offset_of;

/// The place of the header stamp in messages of the C layout `M`.
pub(crate) struct StampField<M> {
    /// The offset of a `builtin_interfaces/Time` in `M`, in bytes. The `Time` lies within `M` and is aligned.
    offset: usize,
    message: PhantomData<fn(&M)>,
}

impl<M: RmwMessage> StampField<M> {
    /// Finds the stamp of a type that has a `std_msgs/Header header`, or of the type `std_msgs/Header` itself. Returns
    /// `None` for other types.
    ///
    /// If the type has, or may have, a stamp whose place cannot be determined, returns a warning for the user as the
    /// error. Only ages need the stamp.
    pub(crate) fn find() -> Result<Option<Self>, String> {
        let fail = |why: &str| format!("The ages of {} messages will be NaN{why}", M::TYPE_NAME);
        let metadata = MessageTypeName::try_from(M::TYPE_NAME).and_then(DynamicMessageMetadata::new);
        let metadata = metadata.map_err(|error| {
            fail(&format!(
                ", also if they have a header stamp: their introspection type support cannot be loaded: {error}"
            ))
        })?;
        let structure = metadata.structure();
        let Some(path) = path(structure) else { return Ok(None) };
        let offset = offset_at(structure, path)
            .ok_or_else(|| fail(": the layout of its introspection type support cannot be followed"))?;
        let field = Self::at(offset).filter(|_| structure.size == size_of::<M>());
        field.map(Some).ok_or_else(|| {
            fail(&format!(
                ": its Rust type has {} bytes, its introspection type support has {}",
                size_of::<M>(),
                structure.size
            ))
        })
    }
}

impl<M> StampField<M> {
    /// Returns `None` if a stamp at this offset would not lie within `M`, or would not be aligned.
    fn at(offset: usize) -> Option<Self> {
        let is_inside = offset.checked_add(size_of::<Time>())? <= size_of::<M>();
        let is_aligned = offset % align_of::<Time>() == 0 && align_of::<M>() >= align_of::<Time>();
        (is_inside && is_aligned).then_some(Self { offset, message: PhantomData })
    }

    /// Returns a message's stamp in nanoseconds since the epoch; 0 if the stamp is not set.
    #[inline]
    pub(crate) fn read(&self, message: &M) -> i64 {
        let stamp = std::ptr::from_ref(message).cast::<u8>();
        // SAFETY: `at` has checked that the offset lies within `M` and is aligned, and `find` has checked that a
        // builtin_interfaces/Time lies there: two integers, for which any bits are valid.
        let Time { sec, nanosec } = unsafe { &*stamp.add(self.offset).cast::<Time>() };
        header_stamp::nanoseconds(*sec, *nanosec)
    }
}

/// Returns the names of the fields that lead to the header stamp of messages of this structure; `None` if the messages
/// have no header stamp.
pub(super) fn path(structure: &MessageStructure) -> Option<&'static [&'static str]> {
    header_stamp::path(name(structure), |field| message_field(structure, field).map(name))
}

fn name(structure: &MessageStructure) -> (&str, &str) {
    (&structure.namespace, &structure.type_name)
}

/// Returns the structure of the field with this name, if the field is a single message.
fn message_field<'a>(structure: &'a MessageStructure, name: &str) -> Option<&'a MessageStructure> {
    let field = structure.fields.iter().find(|field| field.name == name)?;
    match (&field.base_type, field.value_kind) {
        (BaseType::Message(message), ValueKind::Simple) => Some(message),
        _ => None,
    }
}

/// Returns the offset, in a C struct, of the field to which the names in `path` lead; `None` if the layout is unknown.
fn offset_at(mut structure: &MessageStructure, path: &[&str]) -> Option<usize> {
    let mut offset = 0;
    for field in path {
        offset += offset_of(structure, field)?;
        structure = message_field(structure, field)?;
    }
    Some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ros_env::{geometry_msgs, sensor_msgs, std_msgs, test_msgs};

    const STAMP: Time = Time { sec: 1_790_000_000, nanosec: 123_456_789 };

    #[test]
    fn the_stamp_of_a_header_is_read() {
        let mut imu = sensor_msgs::msg::rmw::Imu::default();
        imu.header.stamp = STAMP;
        assert_eq!(StampField::find().unwrap().unwrap().read(&imu), 1_790_000_000_123_456_789);

        let mut pose = geometry_msgs::msg::rmw::PoseStamped::default();
        pose.header.stamp = Time { sec: -1, nanosec: 999_999_999 };
        assert_eq!(StampField::find().unwrap().unwrap().read(&pose), -1);

        let header = std_msgs::msg::rmw::Header { stamp: STAMP, ..Default::default() };
        assert_eq!(StampField::find().unwrap().unwrap().read(&header), 1_790_000_000_123_456_789);
    }

    #[test]
    fn a_type_without_a_header_has_no_stamp() {
        assert!(StampField::<std_msgs::msg::rmw::String>::find().unwrap().is_none());
        assert!(StampField::<test_msgs::msg::rmw::Builtins>::find().unwrap().is_none());
    }

    /// This test needs no introspection, so that Miri can run it.
    #[test]
    fn a_stamp_is_read_at_its_place_in_a_c_struct_and_nowhere_outside() {
        #[repr(C)]
        struct Header {
            stamp: Time,
            frame_id: [usize; 3],
        }
        #[repr(C)]
        struct Message {
            flag: bool,
            count: u16,
            header: Header,
        }
        let message = Message { flag: true, count: 7, header: Header { stamp: STAMP, frame_id: [0; 3] } };
        let offset = std::mem::offset_of!(Message, header) + std::mem::offset_of!(Header, stamp);
        assert_eq!(StampField::at(offset).unwrap().read(&message), 1_790_000_000_123_456_789);

        let size = size_of::<Message>();
        assert_eq!(StampField::at(size - 8).unwrap().read(&message), 0, "the last bytes, which are zero");
        let refused = [size - 7, size - 4, size, usize::MAX, 1, 2, offset + 1];
        assert!(refused.iter().all(|offset| StampField::<Message>::at(*offset).is_none()));
        assert!(StampField::<[u8; 16]>::at(0).is_none(), "a type that need not be aligned");
    }

    #[test]
    fn a_header_may_follow_other_fields() {
        // No type of the common packages has fields before its header, so this test inserts some.
        let imu = DynamicMessageMetadata::new("sensor_msgs/msg/Imu".try_into().unwrap()).unwrap();
        let mut message = imu.structure().clone();
        let field = |name: &str, base_type| {
            let mut field = imu.structure().fields[0].clone();
            (field.name, field.base_type) = (name.to_owned(), base_type);
            field
        };
        message.fields.truncate(1);
        message.fields.splice(0..0, [field("flag", BaseType::Boolean), field("count", BaseType::Uint16)]);
        message.size = 40;
        // The header is aligned to 8 bytes, because its frame_id contains a pointer.
        assert_eq!(offset_at(&message, path(&message).unwrap()), Some(8));

        message.size = 48;
        let path = path(&message).expect("a stamp, which is worth a warning");
        assert_eq!(offset_at(&message, path), None, "the layout does not result in this size");
    }
}
