// SPDX-License-Identifier: Apache-2.0

//! The types of `abi.rs` have the layout of the types in the C headers of the installed ROS 2.

use std::mem::offset_of;

use test_support::{compiles, cpp::includes};

// This test includes the source file instead of linking the library, because the library measures a program that links
// it.
#[allow(dead_code)]
#[path = "../../src/abi.rs"]
mod abi;
use abi::*;

/// Returns lines of C that compile only if each field has the same offset in C as in Rust, and each type with `sizeof`
/// has the same size.
macro_rules! layout {
    ($($type:ty as $c_type:literal { $($field:ident $(as $c_field:literal)?),* } $(; $size:ident)?)*) => {
        [$($(equal(
            &format!("offsetof({}, {})", $c_type, [stringify!($field) $(, $c_field)?].last().unwrap()),
            offset_of!($type, $field),
        ),)* $(equal(&format!("{}({})", stringify!($size), $c_type), size_of::<$type>()),)?)*]
    };
}

fn equal(expression: &str, value: usize) -> String {
    format!("_Static_assert({expression} == {value}, \"{expression} is {value} in Rust\");\n")
}

#[test]
fn the_types_are_those_of_the_headers() {
    let mut layout = Vec::from(layout! {
        Node as "rmw_node_t" {
            implementation_identifier, data, name, namespace as "namespace_", context
        }
        Endpoint as "rmw_publisher_t" { implementation_identifier, data, topic_name }
        Endpoint as "rmw_subscription_t" { implementation_identifier, data, topic_name }
        Endpoint as "rmw_service_t" { implementation_identifier, data, topic_name as "service_name" }
        Endpoint as "rmw_client_t" { implementation_identifier, data, topic_name as "service_name" }
        Subscription as "rmw_subscription_t" { options, can_loan_messages, is_cft_enabled }
        SubscriptionOptions as "rmw_subscription_options_t" {
            payload as "rmw_specific_subscription_payload", ignore_local_publications,
            unique_network_flow_endpoints as "require_unique_network_flow_endpoints", content_filter_options
        }
        GidBuffer as "rmw_gid_t" { implementation_identifier, data }
        TimerCallInfo as "rcl_timer_call_info_t" { expected as "expected_call_time", actual as "actual_call_time" }; sizeof
        Clock as "rcl_clock_t" { kind as "type" }
        RequestId as "rmw_request_id_t" { writer_guid, sequence_number }; sizeof
        ServiceInfo as "rmw_service_info_t" { source_timestamp, received_timestamp, request_id }; sizeof
        PublisherOptions as "rmw_publisher_options_t" {
            payload as "rmw_specific_publisher_payload",
            unique_network_flow_endpoints as "require_unique_network_flow_endpoints"
        }; sizeof
        Qos as "rmw_qos_profile_t" {
            history, depth, reliability, durability, deadline, lifespan, liveliness,
            liveliness_lease as "liveliness_lease_duration", avoid_ros_namespace_conventions
        }; sizeof
        MessageInfo as "rmw_message_info_t" {
            source_timestamp, received_timestamp, publication_sequence_number, reception_sequence_number,
            gid_implementation_identifier as "publisher_gid.implementation_identifier", gid as "publisher_gid.data"
        }
        SerializedMessage as "rmw_serialized_message_t" { buffer, length as "buffer_length" }
        MessageSequence as "rmw_message_sequence_t" { data, size }
        TypeSupport as "rosidl_message_type_support_t" { identifier as "typesupport_identifier", data, func }
        Members as "rosidl_typesupport_introspection_c__MessageMembers" {
            namespace as "message_namespace_", name as "message_name_", count as "member_count_", size as "size_of_",
            has_key as "has_any_key_member_", members as "members_"
        }
        Member as "rosidl_typesupport_introspection_c__MessageMember" {
            name as "name_", type_id as "type_id_", string_upper_bound as "string_upper_bound_", members as "members_",
            is_key as "is_key_", is_array as "is_array_", array_size as "array_size_",
            is_upper_bound as "is_upper_bound_", offset as "offset_", default_value as "default_value_",
            functions as "size_function"
        }; sizeof
        RosString as "rosidl_runtime_c__String" { data, size, capacity }
        RosSequence<u64> as "rosidl_runtime_c__uint64__Sequence" { data, size, capacity }
        Time as "builtin_interfaces__msg__Time" { sec, nanosec }
        DataPoint as "statistics_msgs__msg__StatisticDataPoint" { data_type, data }; sizeof
        MetricsMessage as "statistics_msgs__msg__MetricsMessage" {
            measurement_source_name, metrics_source, unit, window_start, window_stop, statistics
        }; sizeof
        KeyValue as "diagnostic_msgs__msg__KeyValue" { key, value }; sizeof
        DiagnosticStatus as "diagnostic_msgs__msg__DiagnosticStatus" {
            level, name, message, hardware_id, values
        }; sizeof
        DiagnosticArray as "diagnostic_msgs__msg__DiagnosticArray" {
            stamp as "header.stamp", frame_id as "header.frame_id", status
        }; sizeof
        MetricsDistribution as "topic_statistics_interfaces__msg__MetricsDistribution" {
            measurement_source_name, metrics_source, unit, window_start, window_stop, count, sum, minimum, maximum,
            scale, zero_threshold, zero_count, positive_offset, positive_counts, negative_offset, negative_counts,
            p50, p90, p99, p99_9
        }; sizeof
    });
    layout.extend([
        equal("RMW_RET_OK", OK as usize),
        equal("RMW_RET_UNSUPPORTED", UNSUPPORTED as usize),
        equal("RMW_QOS_POLICY_HISTORY_KEEP_LAST", Qos::KEEP_LAST as usize),
        equal("RMW_QOS_POLICY_RELIABILITY_RELIABLE", Qos::RELIABLE as usize),
        equal("RMW_QOS_POLICY_DURABILITY_VOLATILE", Qos::VOLATILE as usize),
        equal("rosidl_typesupport_introspection_c__ROS_TYPE_MESSAGE", Member::MESSAGE.into()),
    ]);
    let headers = [
        "stddef.h",
        "rmw/rmw.h",
        "rcl/timer.h",
        "rosidl_typesupport_introspection_c/message_introspection.h",
        "rosidl_typesupport_introspection_c/field_types.h",
        "diagnostic_msgs/msg/diagnostic_array.h",
        "statistics_msgs/msg/metrics_message.h",
        "topic_statistics_interfaces/msg/metrics_distribution.h",
    ];
    let source = headers.map(|header| format!("#include <{header}>\n")).concat() + &layout.concat();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("layout.c");
    std::fs::write(&path, source).unwrap();
    let mut arguments = includes().chain(["-fsyntax-only".into(), path.into()]);
    compiles("the layout of rmw's types", ["CC", "cc"], &mut arguments);
    assert!(size_of::<MessageInfoBuffer>() >= 2 * size_of::<MessageInfo>(), "room for later versions");
}
