// SPDX-License-Identifier: Apache-2.0

//! The ROS interfaces that the library uses. They come from ros-env or, with the feature `use_ros_shim`, are stubs.

pub(crate) use ros_env::builtin_interfaces;
#[cfg(all(feature = "interfaces", not(feature = "use_ros_shim")))]
pub(crate) use ros_env::topic_statistics_interfaces;
#[cfg(not(feature = "use_ros_shim"))]
pub(crate) use ros_env::{diagnostic_msgs, statistics_msgs};
#[cfg(all(feature = "interfaces", feature = "use_ros_shim"))]
pub(crate) use shim::topic_statistics_interfaces;
#[cfg(feature = "use_ros_shim")]
pub(crate) use shim::{diagnostic_msgs, statistics_msgs};

/// Stubs of the interfaces that the shim of ros-env does not have, because rclrs does not use these interfaces. The
/// stubs compile, but never run, because no program links without ROS.
#[cfg(feature = "use_ros_shim")]
mod shim {
    macro_rules! messages {
        ($($type_name:literal: $name:ident { $($field:ident: $type:ty),* })+) => {$(
            #[derive(Clone, Debug, Default, PartialEq, PartialOrd)]
            pub struct $name {
                $(pub $field: $type,)*
            }

            impl rosidl_runtime_rs::Message for $name {
                type RmwMsg = Self;

                fn into_rmw_message(_: std::borrow::Cow<'_, Self>) -> std::borrow::Cow<'_, Self> {
                    unimplemented!("built with `use_ros_shim`")
                }

                fn from_rmw_message(_: Self) -> Self {
                    unimplemented!("built with `use_ros_shim`")
                }
            }

            impl rosidl_runtime_rs::RmwMessage for $name {
                const TYPE_NAME: &'static str = $type_name;

                fn get_type_support() -> *const std::ffi::c_void {
                    unimplemented!("built with `use_ros_shim`")
                }
            }
        )+};
    }

    pub(crate) mod diagnostic_msgs {
        pub(crate) mod msg {
            use ros_env::builtin_interfaces::msg::Time;

            messages! {
                "std_msgs/msg/Header": Header { stamp: Time, frame_id: String }
                "diagnostic_msgs/msg/KeyValue": KeyValue { key: String, value: String }
                "diagnostic_msgs/msg/DiagnosticStatus": DiagnosticStatus {
                    level: u8, name: String, message: String, hardware_id: String, values: Vec<KeyValue>
                }
                "diagnostic_msgs/msg/DiagnosticArray": DiagnosticArray {
                    header: Header, status: Vec<DiagnosticStatus>
                }
            }
        }
    }

    pub(crate) mod statistics_msgs {
        pub(crate) mod msg {
            use ros_env::builtin_interfaces::msg::Time;

            messages! {
                "statistics_msgs/msg/StatisticDataPoint": StatisticDataPoint { data_type: u8, data: f64 }
                "statistics_msgs/msg/MetricsMessage": MetricsMessage {
                    measurement_source_name: String, metrics_source: String, unit: String,
                    window_start: Time, window_stop: Time, statistics: Vec<StatisticDataPoint>
                }
            }

            pub(crate) struct StatisticDataType;

            impl StatisticDataType {
                pub(crate) const STATISTICS_DATA_TYPE_AVERAGE: u8 = 1;
                pub(crate) const STATISTICS_DATA_TYPE_MINIMUM: u8 = 2;
                pub(crate) const STATISTICS_DATA_TYPE_MAXIMUM: u8 = 3;
                pub(crate) const STATISTICS_DATA_TYPE_STDDEV: u8 = 4;
                pub(crate) const STATISTICS_DATA_TYPE_SAMPLE_COUNT: u8 = 5;
            }
        }
    }

    #[cfg(feature = "interfaces")]
    #[allow(non_camel_case_types)] // the generator names requests and responses like this
    pub(crate) mod topic_statistics_interfaces {
        pub(crate) mod msg {
            use ros_env::builtin_interfaces::msg::Time;

            messages! {
                "topic_statistics_interfaces/msg/MessagesLostEventTopicStat": MessagesLostEventTopicStat {
                    topic_name: String, messages_lost: u64
                }
                "topic_statistics_interfaces/msg/MessagesLostEvent": MessagesLostEvent {
                    node_name: String, messages_lost_statistics: Vec<MessagesLostEventTopicStat>
                }
                "topic_statistics_interfaces/msg/MetricTotals": MetricTotals {
                    metrics_source: String, unit: String, count: u64, p50: f64, p99: f64, maximum: f64
                }
                "topic_statistics_interfaces/msg/MetricsDistribution": MetricsDistribution {
                    measurement_source_name: String, metrics_source: String, unit: String,
                    window_start: Time, window_stop: Time,
                    count: u64, sum: f64, minimum: f64, maximum: f64,
                    scale: i32, zero_threshold: f64, zero_count: u64,
                    positive_offset: i32, positive_counts: Vec<u64>,
                    negative_offset: i32, negative_counts: Vec<u64>,
                    p50: f64, p90: f64, p99: f64, p99_9: f64
                }
                "topic_statistics_interfaces/msg/TopicStatistics": TopicStatistics {
                    topic_name: String, measurement_source_name: String,
                    messages_received: u64, messages_lost: u64, messages_out_of_order: u64, bytes_received: u64,
                    messages_rate: f64, first_message: Time, last_message: Time, metrics: Vec<MetricTotals>
                }
            }

            impl TopicStatistics {
                pub(crate) const UNKNOWN: u64 = u64::MAX;
            }
        }

        pub(crate) mod srv {
            use super::msg::TopicStatistics;

            messages! {
                "topic_statistics_interfaces/srv/GetTopicStatistics_Request": GetTopicStatistics_Request {}
                "topic_statistics_interfaces/srv/GetTopicStatistics_Response": GetTopicStatistics_Response {
                    node_name: String, topic_statistics: Vec<TopicStatistics>
                }
            }

            pub(crate) struct GetTopicStatistics;

            impl rosidl_runtime_rs::Service for GetTopicStatistics {
                type Request = GetTopicStatistics_Request;
                type Response = GetTopicStatistics_Response;

                fn get_type_support() -> *const std::ffi::c_void {
                    unimplemented!("built with `use_ros_shim`")
                }
            }
        }
    }
}
