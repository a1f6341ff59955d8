// SPDX-License-Identifier: Apache-2.0

//! The types of `abi.rs` are those of the headers of this ROS 2.

use std::{fmt::Write, mem::offset_of, process::Command};

use test_support::{cpp::includes, skip};

use crate::abi::*;

/// The layout by Rust: a line of C that prints the same by C, and its output.
macro_rules! layout {
    ($($type:ty as $c_type:literal { $($field:ident as $c_field:literal),* })*) => {
        [$($((
            format!("printf(\"%zu\\n\", offsetof({}, {}));", $c_type, $c_field),
            offset_of!($type, $field),
            concat!($c_type, ".", $c_field),
        ),)*)*]
    };
}

#[test]
fn the_types_are_those_of_the_headers() {
    let mut layout = Vec::from(layout! {
        Node as "rmw_node_t" {
            implementation_identifier as "implementation_identifier", data as "data", name as "name",
            namespace as "namespace_", context as "context"
        }
        Endpoint as "rmw_publisher_t" {
            implementation_identifier as "implementation_identifier", data as "data", topic_name as "topic_name"
        }
        Endpoint as "rmw_subscription_t" {
            implementation_identifier as "implementation_identifier", data as "data", topic_name as "topic_name"
        }
        Subscription as "rmw_subscription_t" {
            options as "options", can_loan_messages as "can_loan_messages", is_cft_enabled as "is_cft_enabled"
        }
        SubscriptionOptions as "rmw_subscription_options_t" {
            payload as "rmw_specific_subscription_payload",
            ignore_local_publications as "ignore_local_publications",
            unique_network_flow_endpoints as "require_unique_network_flow_endpoints",
            content_filter_options as "content_filter_options"
        }
        GidBuffer as "rmw_gid_t" {
            implementation_identifier as "implementation_identifier", data as "data"
        }
        Endpoint as "rmw_service_t" {
            implementation_identifier as "implementation_identifier", data as "data", topic_name as "service_name"
        }
        Endpoint as "rmw_client_t" {
            implementation_identifier as "implementation_identifier", data as "data", topic_name as "service_name"
        }
        RequestId as "rmw_request_id_t" {
            writer_guid as "writer_guid", sequence_number as "sequence_number"
        }
        ServiceInfo as "rmw_service_info_t" {
            source_timestamp as "source_timestamp", received_timestamp as "received_timestamp",
            request_id as "request_id"
        }
        PublisherOptions as "rmw_publisher_options_t" {
            payload as "rmw_specific_publisher_payload",
            unique_network_flow_endpoints as "require_unique_network_flow_endpoints"
        }
        Qos as "rmw_qos_profile_t" {
            history as "history", depth as "depth", reliability as "reliability", durability as "durability",
            deadline as "deadline", lifespan as "lifespan", liveliness as "liveliness",
            liveliness_lease as "liveliness_lease_duration",
            avoid_ros_namespace_conventions as "avoid_ros_namespace_conventions"
        }
        MessageInfo as "rmw_message_info_t" {
            source_timestamp as "source_timestamp", received_timestamp as "received_timestamp",
            publication_sequence_number as "publication_sequence_number",
            reception_sequence_number as "reception_sequence_number",
            gid_implementation_identifier as "publisher_gid.implementation_identifier", gid as "publisher_gid.data"
        }
        SerializedMessage as "rmw_serialized_message_t" { buffer as "buffer", length as "buffer_length" }
        MessageSequence as "rmw_message_sequence_t" { data as "data", size as "size" }
        TypeSupport as "rosidl_message_type_support_t" {
            identifier as "typesupport_identifier", data as "data", func as "func"
        }
        Members as "rosidl_typesupport_introspection_c__MessageMembers" {
            namespace as "message_namespace_", name as "message_name_", count as "member_count_", size as "size_of_",
            has_key as "has_any_key_member_", members as "members_"
        }
        Member as "rosidl_typesupport_introspection_c__MessageMember" {
            name as "name_", type_id as "type_id_", string_upper_bound as "string_upper_bound_", members as "members_",
            is_key as "is_key_", is_array as "is_array_", array_size as "array_size_",
            is_upper_bound as "is_upper_bound_", offset as "offset_", default_value as "default_value_",
            functions as "size_function"
        }
        RosString as "rosidl_runtime_c__String" { data as "data", size as "size", capacity as "capacity" }
        Time as "builtin_interfaces__msg__Time" { sec as "sec", nanosec as "nanosec" }
        DataPoint as "statistics_msgs__msg__StatisticDataPoint" { data_type as "data_type", data as "data" }
        MetricsMessage as "statistics_msgs__msg__MetricsMessage" {
            measurement_source_name as "measurement_source_name", metrics_source as "metrics_source", unit as "unit",
            window_start as "window_start", window_stop as "window_stop", statistics as "statistics.data",
            statistics_size as "statistics.size", statistics_capacity as "statistics.capacity"
        }
        MetricsDistribution as "topic_statistics_interfaces__msg__MetricsDistribution" {
            measurement_source_name as "measurement_source_name", metrics_source as "metrics_source", unit as "unit",
            window_start as "window_start", window_stop as "window_stop", count as "count", sum as "sum",
            minimum as "minimum", maximum as "maximum", scale as "scale", zero_threshold as "zero_threshold",
            zero_count as "zero_count", positive_offset as "positive_offset", positive_counts as "positive_counts",
            negative_offset as "negative_offset", negative_counts as "negative_counts", p50 as "p50", p90 as "p90",
            p99 as "p99", p99_9 as "p99_9"
        }
        Counts as "rosidl_runtime_c__uint64__Sequence" { data as "data", size as "size", capacity as "capacity" }
    });
    let mut size = |c_type: &'static str, size| {
        layout.push((format!("printf(\"%zu\\n\", sizeof({c_type}));"), size, c_type));
    };
    size("rmw_publisher_options_t", size_of::<PublisherOptions>());
    size("rmw_qos_profile_t", size_of::<Qos>());
    size("rmw_request_id_t", size_of::<RequestId>());
    size("rmw_service_info_t", size_of::<ServiceInfo>());
    size("rosidl_typesupport_introspection_c__MessageMember", size_of::<Member>());
    size("statistics_msgs__msg__StatisticDataPoint", size_of::<DataPoint>());
    size("statistics_msgs__msg__MetricsMessage", size_of::<MetricsMessage>());
    size("topic_statistics_interfaces__msg__MetricsDistribution", size_of::<MetricsDistribution>());
    let constants = [
        ("RMW_RET_OK", OK),
        ("RMW_RET_UNSUPPORTED", UNSUPPORTED),
        ("RMW_QOS_POLICY_HISTORY_KEEP_LAST", Qos::KEEP_LAST),
        ("RMW_QOS_POLICY_RELIABILITY_RELIABLE", Qos::RELIABLE),
        ("RMW_QOS_POLICY_DURABILITY_VOLATILE", Qos::VOLATILE),
        ("rosidl_typesupport_introspection_c__ROS_TYPE_MESSAGE", Member::MESSAGE.into()),
    ];
    for (name, value) in constants {
        layout.push((format!("printf(\"%zu\\n\", (size_t){name});"), value as usize, name));
    }
    let lines: Vec<&str> = layout.iter().map(|(line, ..)| line.as_str()).collect();
    let Some(printed) = run(&lines) else { return };
    let by_rust = layout.iter().fold(String::new(), |mut text, (_, value, name)| {
        let _written = writeln!(text, "{name}: {value}");
        text
    });
    let by_c = layout.iter().zip(&printed).fold(String::new(), |mut text, ((_, _, name), value)| {
        let _written = writeln!(text, "{name}: {value}");
        text
    });
    assert_eq!(by_rust, by_c);
    assert!(size_of::<MessageInfoBuffer>() >= 2 * size_of::<MessageInfo>(), "room for later versions");
}

/// Compiles and runs a program of these lines. Returns what it prints; None if there is no compiler.
fn run(lines: &[&str]) -> Option<Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let [source, program] = ["layout.c", "layout"].map(|name| directory.path().join(name));
    let headers = [
        "stddef.h",
        "stdio.h",
        "rmw/rmw.h",
        "rosidl_typesupport_introspection_c/message_introspection.h",
        "rosidl_typesupport_introspection_c/field_types.h",
        "statistics_msgs/msg/metrics_message.h",
        "topic_statistics_interfaces/msg/metrics_distribution.h",
    ];
    let headers: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
    std::fs::write(&source, format!("{headers}int main(void) {{\n{}\nreturn 0;\n}}\n", lines.join("\n")))
        .unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let compiled = Command::new(&compiler).args(includes()).arg("-o").args([&program, &source]).output();
    let Ok(compiled) = compiled else {
        skip("the layout of rmw's types", &format!("there is no C compiler {compiler:?} (cc, or CC)"));
        return None;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().unwrap();
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}
