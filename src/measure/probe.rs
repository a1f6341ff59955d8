// SPDX-License-Identifier: Apache-2.0

//! Records a message, and the start and the end of its callback.

use std::sync::Arc;

use rclrs::MessageInfo;
use rosidl_runtime_rs::Message;
use topic_statistics_core::record::{
    clock::monotonic,
    recorder::{ReceivedMessage, Recorder, RunningCallback},
};

use super::{size::SerializedSize, stamp::StampField};
use crate::transport::Taken;

/// Records the messages of a subscription, and the starts and ends of its callback. The wrapped callback calls this
/// probe.
#[allow(missing_debug_implementations)] // no other crate can name this type
pub struct Probe<T: Message> {
    stamp: Option<StampField<T::RmwMsg>>,
    /// `None` if sizes are unknown or not measured.
    size: Option<Box<SerializedSize<T::RmwMsg>>>,
    recorder: Arc<Recorder>,
}

impl<T: Message> Probe<T> {
    /// `stamp` is an error if it is unknown whether the type has a header stamp, or where the header stamp lies.
    pub(crate) fn new<E>(
        stamp: Result<Option<StampField<T::RmwMsg>>, E>,
        size: Option<Box<SerializedSize<T::RmwMsg>>>,
        recorder: Arc<Recorder>,
    ) -> Self {
        match stamp {
            Ok(Some(_)) => {}
            Ok(None) => recorder.accept_no_header(),
            Err(_) => recorder.accept_no_stamps(),
        }
        Self { stamp: stamp.ok().flatten(), size, recorder }
    }

    /// Reads what the statistics need from a taken message. Returns `None` while the statistics are disabled.
    ///
    /// `message` is called only to read a stamp, or the lengths of strings and sequences on which the size depends.
    /// Messages for which neither is necessary are not touched, because some messages that Fast DDS loans are
    /// misaligned, and even a reference to such a message would be undefined behaviour. (Fast DDS loans only types
    /// without a header and with a fixed size.)
    #[inline(always)]
    pub fn receive<'a>(
        &self,
        message: impl FnOnce() -> &'a T::RmwMsg + Copy,
        info: &MessageInfo,
    ) -> Option<ReceivedMessage> {
        let epoch = self.recorder.epoch()?;
        let header = self.stamp.as_ref().map_or(0, |field| field.read(message()));
        // With `move`, the closure takes no memory if sizes are not measured.
        let size = move || self.size.as_ref().map_or(0, |size| size.measure(message));
        Some(self.recorder.received_message(epoch, header, Taken(info), size))
    }

    /// Records that the callback of a message starts now. If a metric needs the end of the callback, returns the
    /// argument of [`end`](Self::end).
    #[inline]
    pub fn start(&self, message: Option<ReceivedMessage>) -> Option<RunningCallback> {
        self.recorder.record(&message?, monotonic)
    }

    /// Records that a callback ends now.
    #[inline]
    pub fn end(&self, callback: Option<RunningCallback>) {
        if let Some(callback) = callback {
            self.recorder.record_end(callback, monotonic());
        }
    }
}
