// SPDX-License-Identifier: Apache-2.0

//! Reads properties of rclrs primitives: the kind, the name, and whether a timer is due.

use std::{
    ffi::{c_char, c_void, CStr},
    ptr,
    time::Duration,
};

use rclrs::{RclPrimitive, RclPrimitiveHandle};
use topic_statistics_core::{
    record::executions::{CallbackId, ExecutorNames},
    CallbackKind, ExecutorCallback,
};

const OK: i32 = 0;

/// The value `RCL_STEADY_TIME` of `rcl_clock_type_t`.
const STEADY_TIME: u32 = 3;

// Functions of librcl and librcl_action, which rclrs is linked to. The types of the handles in rclrs are private, so
// this crate passes each handle as a pointer to the same C object.
extern "C" {
    fn rcl_subscription_get_topic_name(subscription: *const c_void) -> *const c_char;
    fn rcl_service_get_service_name(service: *const c_void) -> *const c_char;
    fn rcl_client_get_service_name(client: *const c_void) -> *const c_char;
    fn rcl_action_server_get_action_name(action_server: *const c_void) -> *const c_char;
    fn rcl_action_client_get_action_name(action_client: *const c_void) -> *const c_char;
    fn rcl_timer_get_period(timer: *const c_void, period: *mut i64) -> i32;
    fn rcl_timer_get_time_until_next_call(timer: *const c_void, time_until_next_call: *mut i64) -> i32;
    fn rcl_timer_clock(timer: *const c_void, clock: *mut *const ClockType) -> i32;
}

/// The first field of an `rcl_clock_t`: the type of the clock.
#[repr(C)]
struct ClockType(u32);

#[derive(Clone, Copy)]
pub(super) struct Primitive {
    pub(super) callback: CallbackId,
    pub(super) kind: CallbackKind,
    /// Whether the primitive is a timer on the steady clock, which is the monotonic clock.
    pub(super) is_steady: bool,
}

impl Primitive {
    pub(super) fn new(primitive: &dyn RclPrimitive, names: &ExecutorNames) -> Self {
        let handle = primitive.handle();
        let (kind, name) = describe(&handle);
        let is_steady = match &handle {
            RclPrimitiveHandle::Timer(timer) => is_steady(pointer(&**timer)),
            _ => false,
        };
        Self { callback: names.id(ExecutorCallback::new(kind, name)), kind, is_steady }
    }

    /// Returns whether a callback of this primitive runs as a task in the node's scope. rclrs creates the task when it
    /// takes the message or request.
    pub(super) fn creates_tasks(self) -> bool {
        use CallbackKind::{ActionServer, Service, Subscription};
        matches!(self.kind, Subscription | Service | ActionServer)
    }
}

/// Returns the address of a primitive, which does not change while the primitive is in the wait set.
pub(super) fn address(primitive: &dyn RclPrimitive) -> usize {
    ptr::from_ref(primitive).cast::<()>() as usize
}

/// Returns how long a timer has been due, in nanoseconds on its clock; `None` if the timer is not due, or is canceled.
/// rclrs also calls only timers that are due.
pub(super) fn overdue(primitive: &dyn RclPrimitive) -> Option<i64> {
    let RclPrimitiveHandle::Timer(timer) = primitive.handle() else { return None };
    let mut left = 0;
    // SAFETY: The handle of a primitive is a valid timer, and the guard of rclrs's mutex is held. The second argument
    // is a valid place for an i64.
    let result = unsafe { rcl_timer_get_time_until_next_call(pointer(&*timer), &mut left) };
    (result == OK && left <= 0).then_some(left.saturating_neg())
}

fn pointer<T>(handle: &T) -> *const c_void {
    ptr::from_ref(handle).cast()
}

fn describe(handle: &RclPrimitiveHandle<'_>) -> (CallbackKind, String) {
    // SAFETY: The handle of a primitive is a valid rcl entity of the type that the function takes.
    let name = unsafe {
        match handle {
            RclPrimitiveHandle::Subscription(handle) => rcl_subscription_get_topic_name(pointer(&**handle)),
            RclPrimitiveHandle::Service(handle) => rcl_service_get_service_name(pointer(&**handle)),
            RclPrimitiveHandle::Client(handle) => rcl_client_get_service_name(pointer(&**handle)),
            RclPrimitiveHandle::ActionServer(handle) => rcl_action_server_get_action_name(pointer(&**handle)),
            RclPrimitiveHandle::ActionClient(handle) => rcl_action_client_get_action_name(pointer(&**handle)),
            RclPrimitiveHandle::Timer(_)
            | RclPrimitiveHandle::GuardCondition(_)
            | RclPrimitiveHandle::Event(_) => ptr::null(),
        }
    };
    let kind = match handle {
        RclPrimitiveHandle::Subscription(_) => CallbackKind::Subscription,
        RclPrimitiveHandle::Service(_) => CallbackKind::Service,
        RclPrimitiveHandle::Client(_) => CallbackKind::Client,
        RclPrimitiveHandle::ActionServer(_) => CallbackKind::ActionServer,
        RclPrimitiveHandle::ActionClient(_) => CallbackKind::ActionClient,
        RclPrimitiveHandle::Timer(timer) => return (CallbackKind::Timer, period(pointer(&**timer))),
        RclPrimitiveHandle::GuardCondition(_) | RclPrimitiveHandle::Event(_) => CallbackKind::Internal,
    };
    let name = match name.is_null() {
        true => String::new(),
        // SAFETY: rcl returns a null-terminated string, which lives as long as the entity. The string is copied at
        // once.
        false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
    };
    (kind, name)
}

/// Returns the period of a valid timer as text, for example `10ms`. This text is the timer's name.
fn period(timer: *const c_void) -> String {
    let mut period = 0;
    // SAFETY: The caller has a valid timer. The second argument is a valid place for an i64.
    let result = unsafe { rcl_timer_get_period(timer, &mut period) };
    match u64::try_from(period) {
        Ok(period) if result == OK => format!("{:?}", Duration::from_nanos(period)),
        _ => String::new(),
    }
}

fn is_steady(timer: *const c_void) -> bool {
    let mut clock = ptr::null();
    // SAFETY: The caller has a valid timer. The second argument is a valid place for a pointer.
    let result = unsafe { rcl_timer_clock(timer, &mut clock) };
    // SAFETY: If rcl succeeds, the pointer is to the clock of the timer, which rclrs keeps alive with the timer. A
    // `rcl_clock_t` starts with its type, an enumeration of 32 bits.
    result == OK && unsafe { clock.as_ref() }.is_some_and(|clock| clock.0 == STEADY_TIME)
}
