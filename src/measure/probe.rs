// SPDX-License-Identifier: Apache-2.0

//! Reads what the statistics need of a message, and when its callback starts and ends.

use std::sync::Arc;

use rclrs::MessageInfo;
use rosidl_runtime_rs::Message;

use super::{
    clock::monotonic,
    recorder::{ReceivedMessage, Recorder, RunningCallback},
    size::SerializedSize,
    stamp::StampField,
};

/// The part of a subscription's statistics that its callback calls.
#[allow(missing_debug_implementations)] // no other crate can name it
pub struct Probe<T: Message> {
    stamp: Option<StampField<T::RmwMsg>>,
    /// None if it is not known or not measured.
    size: Option<Box<SerializedSize<T::RmwMsg>>>,
    recorder: Arc<Recorder>,
}

impl<T: Message> Probe<T> {
    pub(crate) fn new(
        stamp: Option<StampField<T::RmwMsg>>,
        size: Option<Box<SerializedSize<T::RmwMsg>>>,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self { stamp, size, recorder }
    }

    /// Reads what the statistics need of a message that was taken. Returns None while they are disabled.
    ///
    /// The message is read only for its stamp and for the lengths that decide its size: Fast DDS loans some messages misaligned, and
    /// even a reference to such a message would be undefined behaviour. (The types that it loans have no header, and a fixed size.)
    #[inline(always)]
    pub(crate) fn receive<'a>(
        &self,
        message: impl FnOnce() -> &'a T::RmwMsg + Copy,
        info: &MessageInfo,
    ) -> Option<ReceivedMessage> {
        let epoch = self.recorder.epoch()?;
        let header = self.stamp.as_ref().map_or(0, |field| field.read(message()));
        // Captured by value: nothing is stored for it where no size is measured.
        let size = move || self.size.as_ref().map_or(0, |size| size.of(message));
        Some(self.recorder.received_message(epoch, header, info, size))
    }

    /// Records a message whose callback starts now. Returns what [`end`](Self::end) needs, if a metric needs it.
    #[inline]
    pub(crate) fn start(&self, message: Option<ReceivedMessage>) -> Option<RunningCallback> {
        self.recorder.record(&message?, monotonic)
    }

    /// Records that a callback ends now.
    #[inline]
    pub(crate) fn end(&self, callback: Option<RunningCallback>) {
        if let Some(callback) = callback {
            self.recorder.record_end(callback, monotonic());
        }
    }
}
