// SPDX-License-Identifier: Apache-2.0

//! Subscriptions of types that are known only at run time.

use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

use rclrs::{
    BaseType, DynamicMessage, DynamicMessageMetadata, DynamicMessageView, DynamicSubscriptionState,
    MessageInfo, MessageStructure, MessageTypeName, QoSProfile, SimpleValue, Value, ValueKind, WorkScope,
};
use topic_statistics_core::record::{
    clock::monotonic,
    recorder::{ReceivedMessage, Recorder, RunningCallback},
};

use super::{dynamic_size::DynamicSize, stamp::is_header, subscription::AnySubscription};
use crate::transport::Taken;

/// Where messages of a type have their header stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StampPlace {
    /// The type has none.
    None,
    /// In its field `header`.
    Header,
    /// The type is the header.
    Itself,
}

impl StampPlace {
    fn of(structure: &MessageStructure) -> Self {
        if is_header(structure) {
            return Self::Itself;
        }
        match structure.get_field_info("header").map(|field| (&field.base_type, field.value_kind)) {
            Some((BaseType::Message(header), ValueKind::Simple)) if is_header(header) => Self::Header,
            _ => Self::None,
        }
    }

    /// Returns a message's stamp in nanoseconds since the epoch; 0 if there is none, or if it is not set.
    fn read(self, message: &DynamicMessage) -> i64 {
        let stamp = match self {
            Self::None => None,
            Self::Header => nested(message.get("header")).and_then(|header| nested(header.get("stamp"))),
            Self::Itself => nested(message.get("stamp")),
        };
        let Some(stamp) = stamp else { return 0 };
        match (stamp.get("sec"), stamp.get("nanosec")) {
            (
                Some(Value::Simple(SimpleValue::Int32(sec))),
                Some(Value::Simple(SimpleValue::Uint32(nanosec))),
            ) => i64::from(*sec) * 1_000_000_000 + i64::from(*nanosec),
            _ => 0,
        }
    }
}

/// Returns whether a type has no header stamp; false if unknown.
pub(crate) fn has_no_stamp(message_type: &MessageTypeName) -> bool {
    let metadata = DynamicMessageMetadata::new(message_type.clone());
    metadata.is_ok_and(|metadata| StampPlace::of(metadata.structure()) == StampPlace::None)
}

fn nested(value: Option<Value<'_>>) -> Option<DynamicMessageView<'_>> {
    match value {
        Some(Value::Simple(SimpleValue::Message(message))) => Some(message),
        _ => None,
    }
}

/// The part of such a subscription's statistics that its callback calls.
pub(crate) struct DynamicProbe {
    /// Unknown before the first message: rclrs provides a type's structure with its messages.
    stamp: OnceLock<StampPlace>,
    /// None if unknown or not measured.
    size: Option<DynamicSize>,
    recorder: Arc<Recorder>,
}

impl DynamicProbe {
    pub(crate) fn new(size: Option<DynamicSize>, recorder: Arc<Recorder>) -> Self {
        Self { stamp: OnceLock::new(), size, recorder }
    }

    /// Reads a message for the statistics. Returns None while they are disabled.
    pub(crate) fn receive(&self, message: &DynamicMessage, info: &MessageInfo) -> Option<ReceivedMessage> {
        let epoch = self.recorder.epoch()?;
        let stamp = *self.stamp.get_or_init(|| {
            let stamp = StampPlace::of(message.structure());
            if stamp == StampPlace::None {
                self.recorder.accept_no_header();
            }
            stamp
        });
        let size = || self.size.as_ref().map_or(0, |size| size.of(message));
        Some(self.recorder.received_message(epoch, stamp.read(message), Taken(info), size))
    }

    /// Records a message at the start of its callback, now. Returns the argument of [`end`](Self::end), if a metric
    /// needs it.
    pub(crate) fn start(&self, message: Option<ReceivedMessage>) -> Option<RunningCallback> {
        self.recorder.record(&message?, monotonic)
    }

    /// Records that a callback ends now.
    pub(crate) fn end(&self, callback: Option<RunningCallback>) {
        if let Some(callback) = callback {
            self.recorder.record_end(callback, monotonic());
        }
    }
}

/// A dynamic subscription of rclrs, which does not report its QoS.
pub(crate) struct DynamicSubscription<Scope: WorkScope> {
    pub(crate) subscription: Arc<DynamicSubscriptionState<Scope>>,
    pub(crate) qos: QoSProfile,
}

impl<Scope: WorkScope + 'static> AnySubscription for DynamicSubscription<Scope> {
    fn topic_name(&self) -> String {
        self.subscription.topic_name()
    }

    fn qos(&self) -> QoSProfile {
        self.qos
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn structure(&self) -> Option<&MessageStructure> {
        Some(self.subscription.structure())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ros_env::{builtin_interfaces::msg::rmw::Time, sensor_msgs, std_msgs};

    const STAMP: Time = Time { sec: 1_790_000_000, nanosec: 123_456_789 };

    #[test]
    fn the_stamp_of_a_type_with_a_header_and_of_a_header_itself_is_read() {
        let mut imu = sensor_msgs::msg::rmw::Imu::default();
        imu.header.stamp = STAMP.clone();
        let imu = DynamicMessage::convert_from_rmw_message(imu).unwrap();
        assert_eq!(StampPlace::of(imu.structure()).read(&imu), 1_790_000_000_123_456_789);

        let header = std_msgs::msg::rmw::Header { stamp: STAMP, ..Default::default() };
        let header = DynamicMessage::convert_from_rmw_message(header).unwrap();
        assert_eq!(StampPlace::of(header.structure()).read(&header), 1_790_000_000_123_456_789);
    }

    #[test]
    fn a_type_without_a_header_has_no_stamp() {
        let text = DynamicMessage::new("std_msgs/msg/String".try_into().unwrap()).unwrap();
        assert_eq!(StampPlace::of(text.structure()), StampPlace::None);
        assert_eq!(StampPlace::None.read(&text), 0);
    }
}
