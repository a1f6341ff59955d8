// SPDX-License-Identifier: Apache-2.0

//! Subscriptions with message types that are known only at run time.

use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

use rclrs::{
    DynamicMessage, DynamicMessageMetadata, DynamicMessageView, DynamicSubscriptionState, MessageInfo,
    MessageStructure, MessageTypeName, QoSProfile, SimpleValue, Value, WorkScope,
};
use topic_statistics_core::{
    header_stamp,
    record::{
        clock::monotonic,
        recorder::{ReceivedMessage, Recorder, RunningCallback},
    },
};

use super::{dynamic_size::DynamicSize, stamp, subscription::AnySubscription};
use crate::transport::Taken;

/// Returns whether a message type certainly has no header stamp. Returns false if this is unknown.
pub(crate) fn has_no_stamp(message_type: &MessageTypeName) -> bool {
    let metadata = DynamicMessageMetadata::new(message_type.clone());
    metadata.is_ok_and(|metadata| stamp::path(metadata.structure()).is_none())
}

/// Returns the stamp of a message in nanoseconds since the epoch; 0 if the stamp is not set. `path` has the names of
/// the nested fields that lead to the stamp.
fn read_stamp(message: &DynamicMessage, path: &[&str]) -> i64 {
    let stamp = path.iter().try_fold(message.view(), |message, field| nested(message.get(field)));
    match stamp.map(|stamp| (stamp.get("sec"), stamp.get("nanosec"))) {
        Some((
            Some(Value::Simple(SimpleValue::Int32(sec))),
            Some(Value::Simple(SimpleValue::Uint32(nanosec))),
        )) => header_stamp::nanoseconds(*sec, *nanosec),
        _ => 0,
    }
}

fn nested(value: Option<Value<'_>>) -> Option<DynamicMessageView<'_>> {
    match value {
        Some(Value::Simple(SimpleValue::Message(message))) => Some(message),
        _ => None,
    }
}

pub(crate) struct DynamicProbe {
    /// The names of the nested fields that lead to the header stamp; `None` if the type has no header stamp. This field
    /// is set at the first message, because rclrs provides a type's structure only with a message.
    stamp: OnceLock<Option<&'static [&'static str]>>,
    /// `None` if sizes are unknown or not measured.
    size: Option<DynamicSize>,
    recorder: Arc<Recorder>,
}

impl DynamicProbe {
    pub(crate) fn new(size: Option<DynamicSize>, recorder: Arc<Recorder>) -> Self {
        Self { stamp: OnceLock::new(), size, recorder }
    }

    /// Reads the values that the statistics need from a message. Returns `None` while the statistics are disabled.
    pub(crate) fn receive(&self, message: &DynamicMessage, info: &MessageInfo) -> Option<ReceivedMessage> {
        let epoch = self.recorder.epoch()?;
        let path = *self.stamp.get_or_init(|| {
            let path = stamp::path(message.structure());
            if path.is_none() {
                self.recorder.accept_no_header();
            }
            path
        });
        let stamp = path.map_or(0, |path| read_stamp(message, path));
        let size = || self.size.as_ref().map_or(0, |size| size.measure(message));
        Some(self.recorder.received_message(epoch, stamp, Taken(info), size))
    }

    /// Records that the callback of a message starts now. If a metric needs the end of the callback, returns the
    /// argument of [`end`](Self::end).
    pub(crate) fn start(&self, message: Option<ReceivedMessage>) -> Option<RunningCallback> {
        self.recorder.record(&message?, monotonic)
    }

    pub(crate) fn end(&self, callback: Option<RunningCallback>) {
        if let Some(callback) = callback {
            self.recorder.record_end(callback, monotonic());
        }
    }
}

/// A dynamic subscription of rclrs, and its QoS, because rclrs does not report the QoS of dynamic subscriptions.
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
