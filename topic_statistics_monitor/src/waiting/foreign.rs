// SPDX-License-Identifier: Apache-2.0

//! Messages of services and actions whose types are known only at run time.
//!
//! rclrs 0.8 supports dynamic messages only for `msg` types. This module reads only the first fields of a message,
//! which are the same for all services, or for all actions. So one struct with enough room can hold a message of any of
//! these types.

use std::{
    borrow::Cow,
    cell::Cell,
    ffi::{c_char, c_void},
    fmt, mem, ptr,
};

use rosidl_runtime_rs::{Message, RmwMessage};

use crate::type_support::{load, type_support};

/// The maximum size of the C struct of a message, in words of 8 bytes.
const WORDS: usize = 512;

/// The type support of a message type.
#[derive(Clone, Copy)]
pub struct ForeignType {
    type_support: *const c_void,
    /// The function that frees the memory that a message owns, but not the message itself.
    fini: Fini,
}

type Fini = unsafe extern "C" fn(*mut c_void);

// SAFETY: The type support and the function are constants and code of libraries that stay loaded.
unsafe impl Send for ForeignType {}
// SAFETY: As for `Send`, both pointers are to constants and code of libraries that stay loaded.
unsafe impl Sync for ForeignType {}

/// The first fields of `rosidl_message_type_support_t`, up to `data`.
#[repr(C)]
struct TypeSupport {
    identifier: *const c_char,
    data: *const c_void,
}

/// The first fields of `rosidl_typesupport_introspection_c__MessageMembers`, up to the size of the message's struct.
#[repr(C)]
struct Members {
    namespace: *const c_char,
    name: *const c_char,
    count: u32,
    size: usize,
}

impl ForeignType {
    /// Loads a message type such as `example_interfaces/srv/AddTwoInts_Event`.
    pub fn load(name: &str) -> Result<Self, String> {
        let is_word = |part: &&str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let parts: Vec<_> = name.split('/').filter(is_word).collect();
        let [package, kind @ ("srv" | "action"), message] = parts[..] else {
            return Err("it is no message type of a service or an action".to_owned());
        };
        let name = format!("{kind}__{message}");
        let handle = |library| type_support(package, library, "get_message_type_support_handle", &name);
        let introspection: *const TypeSupport = handle("rosidl_typesupport_introspection_c")?.cast();
        // SAFETY: The handle points to an introspection type support, whose data is a `MessageMembers`. In all ROS
        // distributions, both structs begin with the fields declared above.
        let size = unsafe { (*(*introspection).data.cast::<Members>()).size };
        if size > 8 * WORDS {
            return Err(format!("its struct has {size} bytes, and {} are read at most", 8 * WORDS));
        }
        // SAFETY: rosidl generates a function of this name with this signature.
        let fini =
            unsafe { load::<Fini>(package, "rosidl_generator_c", &format!("{package}__{name}__fini"))? };
        Ok(Self { type_support: handle("rosidl_typesupport_c")?, fini })
    }

    /// Calls `create`, which creates a subscription to messages of this type.
    pub fn subscribe<R>(self, create: impl FnOnce() -> R) -> R {
        CREATED.set(self.type_support);
        let created = create();
        CREATED.set(ptr::null());
        created
    }
}

thread_local! {
    /// The type support of the subscription that this thread is creating, stored for rclrs, which asks the Rust type
    /// for it.
    static CREATED: Cell<*const c_void> = const { Cell::new(ptr::null()) };
}

/// A message: the C struct, and unused memory after it. If [`first_fields`](Self::first_fields) is not called, for
/// example when a subscription ends, the memory that the message owns is leaked.
#[repr(C, align(16))] // the alignment of a long double
pub struct ForeignMessage([u64; WORDS]);

impl ForeignMessage {
    /// Reads the first fields of the message, and frees the memory that the message owns.
    ///
    /// # Safety
    ///
    /// The message is of the type `foreign_type`. Its C struct begins with a `T`, and any bits are a valid `T`.
    pub unsafe fn first_fields<T: Copy>(mut self, foreign_type: ForeignType) -> T {
        const { assert!(mem::size_of::<T>() <= 8 * WORDS && mem::align_of::<T>() <= 16) };
        let struct_: *mut c_void = self.0.as_mut_ptr().cast();
        // SAFETY: The caller guarantees the type of the message. The struct is not used after this block.
        unsafe {
            let first = *struct_.cast::<T>();
            (foreign_type.fini)(struct_);
            first
        }
    }
}

/// Creates a zeroed struct, in which no sequence and no string owns memory. rosidl's `init` also sets default values.
impl Default for ForeignMessage {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

/// The traits of rclrs require `Clone`, but no code clones a message. A clone is empty.
impl Clone for ForeignMessage {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for ForeignMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignMessage").finish_non_exhaustive()
    }
}

impl Message for ForeignMessage {
    type RmwMsg = Self;

    fn into_rmw_message(message: Cow<'_, Self>) -> Cow<'_, Self> {
        message
    }

    fn from_rmw_message(message: Self) -> Self {
        message
    }
}

impl RmwMessage for ForeignMessage {
    const TYPE_NAME: &'static str = "foreign";

    fn get_type_support() -> *const c_void {
        CREATED.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_cannot_be_loaded_has_a_reason() {
        let reason = |name: &str| ForeignType::load(name).err().unwrap();
        assert!(reason("std_msgs/msg/String").contains("no message type of a service"));
        assert!(reason("../../srv/x").contains("no message type of a service"));
        assert!(reason("no_msgs/srv/Plan_Event").contains("no_msgs is not on AMENT_PREFIX_PATH"));
        assert!(reason("test_msgs/srv/Nothing_Event").contains("Nothing_Event"));
        assert!(ForeignType::load("test_msgs/srv/Arrays_Event").is_ok());
        assert!(ForeignType::load("test_msgs/action/Fibonacci_FeedbackMessage").is_ok());
    }
}
