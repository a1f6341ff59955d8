// SPDX-License-Identifier: Apache-2.0

//! The C types of rmw and rosidl that this library reads or writes, with the layout of Jazzy and Kilted. The test
//! `tests/null/headers.rs` has the C name of each type, and compares the types with the C headers.
//!
//! A type that the middleware creates is declared only up to the last field that this library uses.

use std::ffi::{c_char, c_int, c_void};

/// `rmw_ret_t`.
pub type Ret = c_int;

pub const OK: Ret = 0;
pub const UNSUPPORTED: Ret = 3;

#[repr(C)]
pub struct Node {
    pub implementation_identifier: *const c_char,
    pub data: *mut c_void,
    pub name: *const c_char,
    pub namespace: *const c_char,
    pub context: *mut c_void,
}

/// The start of `rmw_publisher_t`, `rmw_subscription_t`, `rmw_service_t` and `rmw_client_t`.
#[repr(C)]
pub struct Endpoint {
    pub implementation_identifier: *const c_char,
    pub data: *mut c_void,
    pub topic_name: *const c_char,
}

#[repr(C)]
pub struct Subscription {
    pub endpoint: Endpoint,
    pub options: SubscriptionOptions,
    pub can_loan_messages: bool,
    pub is_cft_enabled: bool,
}

#[repr(C)]
pub struct SubscriptionOptions {
    pub payload: *mut c_void,
    pub ignore_local_publications: bool,
    pub unique_network_flow_endpoints: c_int,
    pub content_filter_options: *mut c_void,
}

/// A buffer with enough room for a `rmw_gid_t`: an identifier and 16 bytes (24 bytes on Humble).
#[repr(C)]
pub struct GidBuffer {
    pub implementation_identifier: *const c_char,
    pub data: [u8; 16],
    pub rest: [u64; 4],
}

#[repr(C)]
pub struct PublisherOptions {
    pub payload: *mut c_void,
    pub unique_network_flow_endpoints: c_int,
}

/// `rmw_time_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RmwTime {
    pub sec: u64,
    pub nsec: u64,
}

#[repr(C)]
pub struct Qos {
    pub history: c_int,
    pub depth: usize,
    pub reliability: c_int,
    pub durability: c_int,
    pub deadline: RmwTime,
    pub lifespan: RmwTime,
    pub liveliness: c_int,
    pub liveliness_lease: RmwTime,
    pub avoid_ros_namespace_conventions: bool,
}

impl Qos {
    pub const KEEP_LAST: c_int = 1;
    pub const RELIABLE: c_int = 1;
    /// `RMW_QOS_POLICY_DURABILITY_TRANSIENT_LOCAL`.
    const TRANSIENT_LOCAL: c_int = 1;
    pub const VOLATILE: c_int = 2;
    /// `RMW_QOS_POLICY_DURABILITY_BEST_AVAILABLE`: transient local if all publishers are transient local.
    const BEST_AVAILABLE: c_int = 4;

    /// Returns whether a subscription may receive messages that were published before the subscription was created.
    pub fn may_have_history(&self) -> bool {
        matches!(self.durability, Self::TRANSIENT_LOCAL | Self::BEST_AVAILABLE)
    }
}

/// The start of `rmw_message_info_t`. On Humble the GID has 8 more bytes.
#[repr(C)]
pub struct MessageInfo {
    pub source_timestamp: i64,
    pub received_timestamp: i64,
    pub publication_sequence_number: u64,
    pub reception_sequence_number: u64,
    pub gid_implementation_identifier: *const c_char,
    pub gid: [u8; 16],
}

/// A buffer with enough room for a `rmw_message_info_t`, also in later versions of ROS 2.
#[repr(C)]
pub struct MessageInfoBuffer {
    pub info: MessageInfo,
    pub rest: [u64; 16],
}

/// `rcl_timer_call_info_t`. The times are in nanoseconds on the timer's clock.
#[repr(C)]
pub struct TimerCallInfo {
    pub expected: i64,
    pub actual: i64,
}

/// The start of `rcl_clock_t`.
#[repr(C)]
pub struct Clock {
    pub kind: c_int,
}

impl Clock {
    /// `RCL_STEADY_TIME`.
    pub const STEADY: c_int = 3;
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestId {
    pub writer_guid: [u8; 16],
    pub sequence_number: i64,
}

#[repr(C)]
pub struct ServiceInfo {
    pub source_timestamp: i64,
    pub received_timestamp: i64,
    pub request_id: RequestId,
}

/// The start of `rmw_serialized_message_t`.
#[repr(C)]
pub struct SerializedMessage {
    pub buffer: *const u8,
    pub length: usize,
}

/// The start of `rmw_message_sequence_t`.
#[repr(C)]
pub struct MessageSequence {
    pub data: *const *const c_void,
    pub size: usize,
}

/// The start of `rosidl_message_type_support_t`.
#[repr(C)]
pub struct TypeSupport {
    pub identifier: *const c_char,
    pub data: *const c_void,
    pub func: Option<unsafe extern "C-unwind" fn(*const TypeSupport, *const c_char) -> *const TypeSupport>,
}

/// The start of introspection's `MessageMembers`. The layout is the same in C and C++.
#[repr(C)]
pub struct Members {
    pub namespace: *const c_char,
    pub name: *const c_char,
    pub count: u32,
    pub size: usize,
    pub has_key: bool,
    pub members: *const Member,
}

/// Introspection's `MessageMember`. The layout is the same in C and C++.
#[repr(C)]
pub struct Member {
    pub name: *const c_char,
    pub type_id: u8,
    pub string_upper_bound: usize,
    pub members: *const TypeSupport,
    pub is_key: bool,
    pub is_array: bool,
    pub array_size: usize,
    pub is_upper_bound: bool,
    pub offset: u32,
    pub default_value: *const c_void,
    pub functions: [*const c_void; 6],
}

impl Member {
    /// `ROS_TYPE_MESSAGE`.
    pub const MESSAGE: u8 = 18;
}

#[repr(C)]
pub struct RosString {
    pub data: *const c_char,
    pub size: usize,
    pub capacity: usize,
}

/// `builtin_interfaces__msg__Time`. The layout is the same in C and C++.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    pub sec: i32,
    pub nanosec: u32,
}

#[repr(C)]
pub struct DataPoint {
    pub data_type: u8,
    pub data: f64,
}

/// A sequence type of rosidl, such as `diagnostic_msgs__msg__KeyValue__Sequence`.
#[repr(C)]
pub struct RosSequence<T> {
    pub data: *const T,
    pub size: usize,
    pub capacity: usize,
}

impl<T> RosSequence<T> {
    /// Returns a sequence that is valid as long as the elements live.
    pub fn of(elements: &[T]) -> Self {
        Self { data: elements.as_ptr(), size: elements.len(), capacity: elements.len() }
    }
}

#[repr(C)]
pub struct KeyValue {
    pub key: RosString,
    pub value: RosString,
}

#[repr(C)]
pub struct DiagnosticStatus {
    pub level: u8,
    pub name: RosString,
    pub message: RosString,
    pub hardware_id: RosString,
    pub values: RosSequence<KeyValue>,
}

#[repr(C)]
pub struct DiagnosticArray {
    pub stamp: Time,
    pub frame_id: RosString,
    pub status: RosSequence<DiagnosticStatus>,
}

#[repr(C)]
pub struct MetricsDistribution {
    pub measurement_source_name: RosString,
    pub metrics_source: RosString,
    pub unit: RosString,
    pub window_start: Time,
    pub window_stop: Time,
    pub count: u64,
    pub sum: f64,
    pub minimum: f64,
    pub maximum: f64,
    pub scale: i32,
    pub zero_threshold: f64,
    pub zero_count: u64,
    pub positive_offset: i32,
    pub positive_counts: RosSequence<u64>,
    pub negative_offset: i32,
    pub negative_counts: RosSequence<u64>,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
}

#[repr(C)]
pub struct MetricsMessage {
    pub measurement_source_name: RosString,
    pub metrics_source: RosString,
    pub unit: RosString,
    pub window_start: Time,
    pub window_stop: Time,
    pub statistics: RosSequence<DataPoint>,
}
