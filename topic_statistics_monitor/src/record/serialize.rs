// SPDX-License-Identifier: Apache-2.0

//! Serializes messages to the bytes that the middleware sends.
//!
//! rclrs 0.8 cannot receive serialized messages. So the middleware serializes the C struct of a received dynamic
//! message again. The view of a dynamic message contains a pointer to this struct.

use std::{ffi::c_void, mem, ptr};

use rclrs::{DynamicMessageView, MessageTypeName};

use super::RecordError;
use crate::{process, type_support::type_support};

/// `rcutils_allocator_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Allocator {
    functions: [*const c_void; 4],
    state: *const c_void,
}

/// `rmw_serialized_message_t`, a `rcutils_uint8_array_t`.
#[repr(C)]
struct ByteArray {
    buffer: *mut u8,
    length: usize,
    capacity: usize,
    allocator: Allocator,
}

// Functions of librcutils and librmw_implementation. rclrs links to these libraries.
extern "C" {
    fn rcutils_get_default_allocator() -> Allocator;
    fn rcutils_reset_error();
    fn rcutils_uint8_array_init(array: *mut ByteArray, capacity: usize, allocator: *const Allocator) -> i32;
    fn rcutils_uint8_array_fini(array: *mut ByteArray) -> i32;
    fn rmw_serialize(message: *const c_void, type_support: *const c_void, to: *mut ByteArray) -> i32;
}

/// `RCUTILS_RET_OK` and `RMW_RET_OK`.
const OK: i32 = 0;

pub struct Serializer {
    type_support: *const c_void,
    bytes: ByteArray,
    /// Whether the middleware pads a sent message to a multiple of 4 bytes, as DDS does.
    pads: bool,
}

// SAFETY: The pointers are to constants of the library, and to memory of libc's allocator. Neither of them is bound to
// a thread.
unsafe impl Send for Serializer {}

impl Serializer {
    pub fn new(message_type: &MessageTypeName) -> Result<Self, RecordError> {
        let MessageTypeName { package_name, type_name } = message_type;
        let error = |reason| RecordError::TypeSupport { message_type: message_type.to_string(), reason };
        let function = "get_message_type_support_handle";
        let name = format!("msg__{type_name}");
        let type_support =
            type_support(package_name, "rosidl_typesupport_c", function, &name).map_err(error)?;
        // SAFETY: The function has no arguments.
        let allocator = unsafe { rcutils_get_default_allocator() };
        let mut bytes = ByteArray { buffer: ptr::null_mut(), length: 0, capacity: 0, allocator };
        // SAFETY: The array is zero-initialized, and the allocator is valid.
        if unsafe { rcutils_uint8_array_init(&mut bytes, 0, &allocator) } != OK {
            return Err(error("no memory".to_owned()));
        }
        let pads = process::middleware() != "rmw_zenoh_cpp";
        Ok(Self { type_support, bytes, pads })
    }

    /// Returns a message in CDR with the encapsulation header. `None` if the middleware cannot serialize it.
    pub fn serialize(&mut self, message: &DynamicMessageView<'_>) -> Option<Vec<u8>> {
        let message = struct_of(message)?;
        // SAFETY: The pointer is to the C struct of a message, and the caller keeps the message during this call. The
        // type support is for the type of the message, and the array is valid. The function only reads the message.
        let result = unsafe { rmw_serialize(message.cast(), self.type_support, &mut self.bytes) };
        if result != OK {
            // SAFETY: The function has no arguments. Without this call, the next error would print a warning that it
            // overwrites the present error.
            unsafe { rcutils_reset_error() };
            return None;
        }
        let ByteArray { buffer, length, .. } = self.bytes;
        // SAFETY: The middleware has written `length` bytes to the buffer.
        let bytes = unsafe { std::slice::from_raw_parts(buffer, length) };
        let padded = if self.pads { length.next_multiple_of(4) } else { length };
        let mut data = Vec::with_capacity(padded); // `resize` alone could double the capacity
        data.extend_from_slice(bytes);
        data.resize(padded, 0);
        Some(data)
    }
}

impl Drop for Serializer {
    fn drop(&mut self) {
        // SAFETY: The array was initialized, and nothing refers to it.
        unsafe { rcutils_uint8_array_fini(&mut self.bytes) };
    }
}

/// The three words of a view: a reference to the structure, and a slice (two words) with the bytes of the C struct.
type Words = [*const u8; 3];

const _: () = assert!(mem::size_of::<DynamicMessageView<'_>>() == mem::size_of::<Words>());

/// Returns the pointer to the C struct of a message. `None` if the view does not have the expected layout.
///
/// rclrs 0.8 gives access only to the fields, and a pointer to one field must not be used to read other fields. The
/// order of a view's words is unspecified. But the address of the structure and the size of the struct are known, so
/// the remaining third word is the pointer.
fn struct_of(message: &DynamicMessageView<'_>) -> Option<*const u8> {
    // SAFETY: A view of rclrs 0.8 is a reference and a slice, as large as three words: all bytes are initialized. Any
    // word is valid as a raw pointer.
    let words: Words = unsafe { mem::transmute_copy(message) };
    let structure = message.structure();
    let position = |is_it: &dyn Fn(*const u8) -> bool| words.iter().position(|word| is_it(*word));
    let reference = position(&|word| word == ptr::from_ref(structure).cast())?;
    let length = position(&|word| word.addr() == structure.size)?;
    words.get(3_usize.checked_sub(reference + length)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs::{DynamicMessage, MessageStructure, Proxy};
    use ros_env::{
        action_msgs::msg::rmw::{GoalStatus, GoalStatusArray},
        geometry_msgs::msg::rmw::{Point32, Polygon},
        sensor_msgs::msg::rmw::{CameraInfo, Imu},
        std_msgs::msg::rmw::{Empty, String as Text},
        test_msgs::msg::rmw::*,
    };
    use rosidl_runtime_rs::RmwMessage;

    /// Miri can run this test, because the test calls no C function.
    #[test]
    fn the_pointer_to_a_struct_may_read_all_of_it() {
        let structure = MessageStructure {
            fields: vec![],
            size: 4,
            namespace: "my_msgs__msg".to_owned(),
            type_name: "Four".to_owned(),
        };
        let storage = vec![1_u8, 2, 3, 4].into_boxed_slice();
        // SAFETY: A structure without fields fits any bytes.
        let view: DynamicMessageView<'_> = unsafe { Proxy::new(&storage, &structure) };
        let pointer = struct_of(&view).unwrap();
        assert_eq!(pointer, storage.as_ptr());
        // SAFETY: The struct has four bytes, and nothing writes to it.
        assert_eq!(unsafe { std::slice::from_raw_parts(pointer, 4) }, [1, 2, 3, 4]);
    }

    /// Asserts that a dynamic message is serialized to the same bytes as its C struct. Returns the number of bytes.
    fn assert_same<M: RmwMessage>(message: M) -> usize {
        let mut serializer = Serializer::new(&M::TYPE_NAME.try_into().unwrap()).unwrap();
        let (address, type_support) = (ptr::from_ref(&message).cast(), serializer.type_support);
        // SAFETY: The message is a struct of the type, and the array is valid.
        assert_eq!(unsafe { rmw_serialize(address, type_support, &mut serializer.bytes) }, OK);
        let ByteArray { buffer, length, .. } = serializer.bytes;
        // SAFETY: The middleware has written `length` bytes to the buffer.
        let mut direct = unsafe { std::slice::from_raw_parts(buffer, length) }.to_vec();
        direct.resize(length.next_multiple_of(4), 0);
        let dynamic = DynamicMessage::convert_from_rmw_message(message).unwrap();
        let dynamic = serializer.serialize(&dynamic.view()).unwrap();
        assert_eq!(dynamic, direct, "{}", M::TYPE_NAME);
        dynamic.len()
    }

    #[test]
    fn the_bytes_of_a_dynamic_message_are_those_of_its_struct() {
        let mut imu = Imu::default();
        (imu.header.stamp.sec, imu.angular_velocity.z) = (1_790_000_000, 0.25);
        imu.header.frame_id = "imu_link".into();
        assert!(assert_same(imu) > 320);
        assert_eq!(assert_same(Text { data: "three".into() }), 16);
        assert_same(Empty::default());
        assert_same(BasicTypes { uint64_value: 7, ..Default::default() });
        assert_same(Arrays::default());
        assert_same(Strings::default());
        assert_same(WStrings::default());
        assert_same(UnboundedSequences::default());
        assert_same(BoundedSequences::default());
        assert_same(MultiNested::default());
        assert_same(Builtins::default());
        assert_same(CameraInfo::default());
        for count in [0, 1, 3] {
            let status = |number: i8| GoalStatus { status: number, ..Default::default() };
            let list: Vec<GoalStatus> = (1..=count).map(status).collect();
            let message = GoalStatusArray { status_list: list.as_slice().into() };
            assert!(assert_same(message) >= 8 + 25 * count as usize);
            let message = Polygon { points: vec![Point32::default(); count as usize].as_slice().into() };
            assert_eq!(assert_same(message), 8 + 12 * count as usize);
        }
    }
}
