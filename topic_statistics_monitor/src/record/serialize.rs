// SPDX-License-Identifier: Apache-2.0

//! The bytes of a message as the middleware serializes it.
//!
//! rclrs 0.8 takes no serialized message, and does not give the C struct of a dynamic one. It lends references to the
//! fields, though, which lie in the struct: from the address of one and its offset follows that of the struct.

use std::{ffi::c_void, mem, ptr};

use rclrs::{
    ArrayValue, BaseType, BoundedSequenceValue, DynamicMessageView, MessageFieldInfo, MessageStructure,
    MessageTypeName, SequenceValue, SimpleValue, Value, ValueKind,
};
use rosidl_runtime_rs::Sequence;

use super::{definition::Prefixes, error::RecordError};
use crate::origin;

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

// Functions of librcutils and librmw_implementation, which rclrs is linked to.
extern "C" {
    fn rcutils_get_default_allocator() -> Allocator;
    fn rcutils_reset_error();
    fn rcutils_uint8_array_init(array: *mut ByteArray, capacity: usize, allocator: *const Allocator) -> i32;
    fn rcutils_uint8_array_fini(array: *mut ByteArray) -> i32;
    fn rmw_serialize(message: *const c_void, type_support: *const c_void, to: *mut ByteArray) -> i32;
}

/// `RCUTILS_RET_OK` and `RMW_RET_OK`.
const OK: i32 = 0;

/// A C struct of a sequence of messages: `{data, size, capacity}`.
type RawSequence = [usize; 3];

/// Serializes messages of a type.
pub struct Serializer {
    type_support: *const c_void,
    place: Place,
    bytes: ByteArray,
    /// Whether the middleware pads a payload to a multiple of 4 bytes, as DDS does.
    pads: bool,
    /// Keeps the type support loaded.
    _library: libloading::Library,
}

// SAFETY: The pointers are to constants of the library, and to memory of libc's allocator. Neither depends on a thread.
unsafe impl Send for Serializer {}

/// What leads to the C struct of a message.
enum Place {
    /// A field whose value lies in the struct.
    Field { name: String, offset: usize },
    /// There is none: all fields are sequences of messages, whose elements lie elsewhere. A struct with the same
    /// sequences is made.
    Sequences(Vec<String>),
}

impl Serializer {
    /// Loads the type support of a type. Errors if there is none, or if rclrs does not give access to its messages.
    pub fn new(message_type: &MessageTypeName, structure: &MessageStructure) -> Result<Self, RecordError> {
        let place = Place::of(structure)
            .ok_or_else(|| RecordError::Layout { message_type: message_type.to_string() })?;
        let (library, type_support) = load(message_type)
            .map_err(|reason| RecordError::TypeSupport { message_type: message_type.to_string(), reason })?;
        // SAFETY: The function has no arguments.
        let allocator = unsafe { rcutils_get_default_allocator() };
        let mut bytes = ByteArray { buffer: ptr::null_mut(), length: 0, capacity: 0, allocator };
        // SAFETY: The array is zero-initialized, and the allocator is valid.
        if unsafe { rcutils_uint8_array_init(&mut bytes, 0, &allocator) } != OK {
            let reason = "no memory".to_owned();
            return Err(RecordError::TypeSupport { message_type: message_type.to_string(), reason });
        }
        let pads = origin::middleware() != "rmw_zenoh_cpp";
        Ok(Self { type_support, place, bytes, pads, _library: library })
    }

    /// Returns the bytes of a message of the type: in CDR, with the encapsulation header. `None` if the middleware
    /// cannot serialize it.
    pub fn serialize(&mut self, message: &DynamicMessageView<'_>) -> Option<Vec<u8>> {
        let mut sequences: Vec<RawSequence>;
        let address = match &self.place {
            Place::Field { name, offset } => start(of_value(&message.get(name)?)?, *offset),
            Place::Sequences(names) => {
                let all = names.iter().map(|name| sequence(&message.get(name)?));
                sequences = all.collect::<Option<_>>()?;
                sequences.as_mut_ptr().cast_const().cast()
            }
        };
        // SAFETY: The address is that of the message's C struct, which the caller keeps, or of a struct with the same
        // values. The type support is of that type, and the array is valid. The function only reads the message.
        let result = unsafe { rmw_serialize(address.cast(), self.type_support, &mut self.bytes) };
        if result != OK {
            // SAFETY: The function has no arguments. The next error would warn that it overwrites this one.
            unsafe { rcutils_reset_error() };
            return None;
        }
        let ByteArray { buffer, length, .. } = self.bytes;
        // SAFETY: The middleware has filled that many bytes.
        let mut data = unsafe { std::slice::from_raw_parts(buffer, length) }.to_vec();
        if self.pads {
            data.resize(length.next_multiple_of(4), 0);
        }
        Some(data)
    }
}

impl Drop for Serializer {
    fn drop(&mut self) {
        // SAFETY: The array was initialized, and nothing refers to it.
        unsafe { rcutils_uint8_array_fini(&mut self.bytes) };
    }
}

/// Loads the C type support of a type, as rclrs does.
fn load(message_type: &MessageTypeName) -> Result<(libloading::Library, *const c_void), String> {
    let MessageTypeName { package_name, type_name } = message_type;
    let prefix = Prefixes::new().of_package(package_name);
    let prefix = prefix.ok_or_else(|| format!("{package_name} is not on AMENT_PREFIX_PATH"))?;
    let path = prefix.join("lib").join(format!("lib{package_name}__rosidl_typesupport_c.so"));
    let symbol =
        format!("rosidl_typesupport_c__get_message_type_support_handle__{package_name}__msg__{type_name}");
    // SAFETY: The library is a type support. Its initialization does nothing but that, and rclrs has loaded it already.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
    // SAFETY: rosidl generates functions of this name with this signature.
    let type_support = unsafe {
        let handle = library.get::<unsafe extern "C" fn() -> *const c_void>(symbol.as_bytes());
        handle.map_err(|error| error.to_string())?()
    };
    match type_support.is_null() {
        true => Err(format!("{symbol} returns nothing")),
        false => Ok((library, type_support)),
    }
}

impl Place {
    /// Returns what leads to the struct of a message. `None` if nothing does.
    fn of(structure: &MessageStructure) -> Option<Self> {
        let mut offset = 0;
        for field in &structure.fields {
            if lies_in_struct(field) {
                // Sequences lie before it, so every offset is a multiple of 8.
                let is_aligned = field.base_type != BaseType::LongDouble || offset == 0;
                return is_aligned.then(|| Self::Field { name: field.name.clone(), offset });
            }
            offset += match field.base_type {
                // From Lyrical on, sequences of primitives and strings have flags; sequences of messages do not.
                BaseType::Message(_) => mem::size_of::<RawSequence>(),
                _ => mem::size_of::<Sequence<u8>>(),
            };
        }
        let is_readable = |field: &MessageFieldInfo| match &field.base_type {
            BaseType::Message(element) => {
                !is_short(element) && matches!(Self::of(element), Some(Self::Field { .. }))
            }
            _ => false,
        };
        let is_possible = structure.size == offset && structure.fields.iter().all(is_readable);
        is_possible
            .then(|| Self::Sequences(structure.fields.iter().map(|field| field.name.clone()).collect()))
    }
}

/// Returns whether rclrs lends a reference into the struct for the value of a field.
fn lies_in_struct(field: &MessageFieldInfo) -> bool {
    match (&field.value_kind, &field.base_type) {
        (ValueKind::Simple | ValueKind::Array { .. }, BaseType::Message(structure)) => {
            matches!(Place::of(structure), Some(Place::Field { .. }))
        }
        (ValueKind::Simple | ValueKind::Array { .. }, _) => true,
        // Those have no reference to a sequence, but to each element.
        (ValueKind::Sequence, base) => !matches!(
            base,
            BaseType::Message(_) | BaseType::BoundedString { .. } | BaseType::BoundedWString { .. }
        ),
        (ValueKind::BoundedSequence { .. }, _) => false,
    }
}

/// Returns whether rclrs 0.8 may panic to read a sequence of such messages: its `TypeErasedSequence::proxy_elems`
/// asserts that all elements together are at least as large as its own view of one.
fn is_short(element: &MessageStructure) -> bool {
    element.size < mem::size_of::<DynamicMessageView<'_>>()
}

/// Returns the address of a message's struct.
fn address(message: &DynamicMessageView<'_>) -> Option<*const u8> {
    match Place::of(message.structure())? {
        Place::Field { name, offset } => Some(start(of_value(&message.get(&name)?)?, offset)),
        Place::Sequences(_) => None,
    }
}

/// Returns where the struct of a field starts, as a pointer that may read all of it.
///
/// A pointer derived from the field's reference could not: its provenance is the field. rclrs keeps the struct in a
/// buffer, and C has had a pointer to the whole of it to fill it in, which exposed its provenance.
fn start(field: *const u8, offset: usize) -> *const u8 {
    ptr::with_exposed_provenance(field.addr() - offset)
}

/// Returns a sequence of messages as C has it.
fn sequence(value: &Value<'_>) -> Option<RawSequence> {
    let elements: &[DynamicMessageView<'_>] = match value {
        Value::Sequence(SequenceValue::MessageSequence(elements)) => elements,
        Value::BoundedSequence(BoundedSequenceValue::MessageBoundedSequence(elements)) => elements,
        _ => return None,
    };
    match elements.first() {
        None => Some([0; 3]),
        Some(first) => Some([address(first)? as usize, elements.len(), elements.len()]),
    }
}

fn of<T: ?Sized>(value: &T) -> Option<*const u8> {
    Some(ptr::from_ref(value).cast())
}

/// Returns the address of a value that lies in the struct.
fn of_value(value: &Value<'_>) -> Option<*const u8> {
    match value {
        Value::Simple(value) => of_simple(value),
        Value::Array(value) => of_array(value),
        Value::Sequence(value) => of_sequence(value),
        Value::BoundedSequence(_) => None,
    }
}

fn of_simple(value: &SimpleValue<'_>) -> Option<*const u8> {
    use SimpleValue as V;
    match value {
        V::Float(value) => of(*value),
        V::Double(value) => of(*value),
        V::LongDouble(value) => Some(*value),
        V::Boolean(value) => of(*value),
        V::Char(value) | V::Octet(value) | V::Uint8(value) => of(*value),
        V::Int8(value) => of(*value),
        V::WChar(value) | V::Uint16(value) => of(*value),
        V::Int16(value) => of(*value),
        V::Uint32(value) => of(*value),
        V::Int32(value) => of(*value),
        V::Uint64(value) => of(*value),
        V::Int64(value) => of(*value),
        V::String(value) => of(*value),
        V::BoundedString(value) => of::<rosidl_runtime_rs::String>(value),
        V::WString(value) => of(*value),
        V::BoundedWString(value) => of::<rosidl_runtime_rs::WString>(value),
        V::Message(message) => address(message),
    }
}

fn of_array(value: &ArrayValue<'_>) -> Option<*const u8> {
    use ArrayValue as V;
    match value {
        V::FloatArray(values) => of(*values),
        V::DoubleArray(values) => of(*values),
        V::LongDoubleArray(values, _) => Some(*values),
        V::BooleanArray(values) => of(*values),
        V::CharArray(values) | V::OctetArray(values) | V::Uint8Array(values) => of(*values),
        V::Int8Array(values) => of(*values),
        V::WCharArray(values) | V::Uint16Array(values) => of(*values),
        V::Int16Array(values) => of(*values),
        V::Uint32Array(values) => of(*values),
        V::Int32Array(values) => of(*values),
        V::Uint64Array(values) => of(*values),
        V::Int64Array(values) => of(*values),
        V::StringArray(values) => of(*values),
        V::BoundedStringArray(values) => of::<rosidl_runtime_rs::String>(values.first()?),
        V::WStringArray(values) => of(*values),
        V::BoundedWStringArray(values) => of::<rosidl_runtime_rs::WString>(values.first()?),
        V::MessageArray(messages) => address(messages.first()?),
    }
}

fn of_sequence(value: &SequenceValue<'_>) -> Option<*const u8> {
    use SequenceValue as V;
    match value {
        V::FloatSequence(values) => of(*values),
        V::DoubleSequence(values) => of(*values),
        V::LongDoubleSequence(values) => Some(*values),
        V::BooleanSequence(values) => of(*values),
        V::CharSequence(values) | V::OctetSequence(values) | V::Uint8Sequence(values) => of(*values),
        V::Int8Sequence(values) => of(*values),
        V::WCharSequence(values) | V::Uint16Sequence(values) => of(*values),
        V::Int16Sequence(values) => of(*values),
        V::Uint32Sequence(values) => of(*values),
        V::Int32Sequence(values) => of(*values),
        V::Uint64Sequence(values) => of(*values),
        V::Int64Sequence(values) => of(*values),
        V::StringSequence(values) => of(*values),
        V::WStringSequence(values) => of(*values),
        V::BoundedStringSequence(_) | V::BoundedWStringSequence(_) | V::MessageSequence(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rclrs::{DynamicMessage, DynamicMessageMetadata};
    use ros_env::{geometry_msgs, sensor_msgs, std_msgs, test_msgs};
    use rosidl_runtime_rs::RmwMessage;

    /// For Miri: a pointer derived from the field alone may not read what lies around it.
    #[test]
    fn the_start_of_a_struct_may_read_all_of_it() {
        let mut storage = vec![1_u8, 2, 3, 4].into_boxed_slice();
        storage.as_mut_ptr().expose_provenance(); // as a call of C does
        let field = &storage[2..3];
        // SAFETY: The struct has four bytes, and nothing writes to it.
        let whole = unsafe { std::slice::from_raw_parts(start(field.as_ptr(), 2), 4) };
        assert_eq!(whole, [1, 2, 3, 4]);
    }

    fn serializer(name: &str) -> Result<Serializer, RecordError> {
        let message_type = MessageTypeName::try_from(name).unwrap();
        let metadata = DynamicMessageMetadata::new(message_type.clone()).unwrap();
        Serializer::new(&message_type, metadata.structure())
    }

    /// Asserts that a dynamic message has the bytes of its struct. Returns their number.
    fn assert_same<M: RmwMessage>(message: M) -> usize {
        let mut serializer = serializer(M::TYPE_NAME).unwrap();
        let address = ptr::from_ref(&message).cast();
        // SAFETY: The message is a struct of the type, and the array is valid.
        let result = unsafe { rmw_serialize(address, serializer.type_support, &mut serializer.bytes) };
        assert_eq!(result, OK);
        // SAFETY: The middleware has filled that many bytes.
        let direct = unsafe { std::slice::from_raw_parts(serializer.bytes.buffer, serializer.bytes.length) };
        let mut direct = direct.to_vec();
        direct.resize(direct.len().next_multiple_of(4), 0);
        let dynamic = DynamicMessage::convert_from_rmw_message(message).unwrap();
        let dynamic = serializer.serialize(&dynamic.view()).unwrap();
        assert_eq!(dynamic, direct, "{}", M::TYPE_NAME);
        dynamic.len()
    }

    #[test]
    fn the_bytes_of_a_dynamic_message_are_those_of_its_struct() {
        let mut imu = sensor_msgs::msg::rmw::Imu::default();
        (imu.header.stamp.sec, imu.angular_velocity.z) = (1_790_000_000, 0.25);
        imu.header.frame_id = "imu_link".into();
        assert!(assert_same(imu) > 320);
        assert_eq!(assert_same(std_msgs::msg::rmw::String { data: "three".into() }), 16);
        assert_same(std_msgs::msg::rmw::Empty::default());
        assert_same(test_msgs::msg::rmw::BasicTypes { uint64_value: 7, ..Default::default() });
        assert_same(test_msgs::msg::rmw::Arrays::default());
        assert_same(test_msgs::msg::rmw::Strings::default());
        assert_same(test_msgs::msg::rmw::WStrings::default());
        assert_same(test_msgs::msg::rmw::Nested::default());
        assert_same(test_msgs::msg::rmw::UnboundedSequences::default());
        assert_same(test_msgs::msg::rmw::Builtins::default());
        assert_same(sensor_msgs::msg::rmw::CameraInfo::default());
    }

    #[test]
    fn a_message_that_is_a_sequence_of_messages_is_serialized_too() {
        use ros_env::action_msgs::msg::rmw::{GoalStatus, GoalStatusArray};
        for count in [0, 1, 3] {
            let status = |number: i8| GoalStatus { status: number, ..Default::default() };
            let list: Vec<GoalStatus> = (1..=count).map(status).collect();
            let message = GoalStatusArray { status_list: list.as_slice().into() };
            assert!(assert_same(message) >= 8 + 25 * count as usize);
        }
        let status = serializer("action_msgs/msg/GoalStatusArray").unwrap();
        assert!(matches!(&status.place, Place::Sequences(names) if names == &["status_list"]));
        let refused = serializer("geometry_msgs/msg/Polygon");
        assert!(matches!(refused, Err(RecordError::Layout { .. })), "rclrs cannot read its messages");
        // A sequence is as in C.
        let poses: Vec<geometry_msgs::msg::rmw::Pose> = vec![Default::default(); 3];
        let array =
            geometry_msgs::msg::rmw::PoseArray { poses: poses.as_slice().into(), ..Default::default() };
        let expected = [array.poses.as_ptr() as usize, 3, 3];
        let message = DynamicMessage::convert_from_rmw_message(array).unwrap();
        assert_eq!(sequence(&message.get("poses").unwrap()), Some(expected));
    }
}
