// SPDX-License-Identifier: Apache-2.0

//! What is read of a message, and when its callback's body starts and ends.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rclrs::MessageInfo;
use rosidl_runtime_rs::Message;

use crate::{
    middleware::{Middleware, ReceivedTimestamp},
    recorder::Recorder,
    stamp::StampField,
};

/// What measures the messages of one subscription, where its callback runs.
pub struct Probe<T: Message> {
    stamp: Option<StampField<T::RmwMsg>>,
    recorder: Arc<Recorder>,
}

/// A message as it is taken: what the statistics need of it. Times are in nanoseconds, 0 if there is none.
#[derive(Clone, Copy)]
pub struct ReceivedMessage {
    /// The time in which the statistics were on; see [`Recorder::epoch`].
    pub(crate) epoch: u32,
    pub(crate) header: i64,
    /// None if no metric needs it.
    pub(crate) transport: Option<TransportInfo>,
}

/// What the middleware reports with a message.
#[derive(Clone, Copy)]
pub(crate) struct TransportInfo {
    pub(crate) source: i64,
    /// When the message was received on this host; 0 where the middleware gives another time than that.
    pub(crate) received: i64,
    pub(crate) publisher: Gid,
    /// `u64::MAX` if it is not numbered.
    pub(crate) number: u64,
}

/// A callback's body that runs.
#[derive(Clone, Copy)]
pub(crate) struct RunningBody {
    pub(crate) epoch: u32,
    /// On the monotonic clock.
    pub(crate) started: i64,
}

/// A publisher, as the middleware tells publishers apart. rmw has room for more than the 16 bytes of a DDS GUID on
/// Humble, which no middleware uses.
pub(crate) type Gid = [u8; 16];

impl<T: Message> Probe<T> {
    pub(crate) fn new(stamp: Option<StampField<T::RmwMsg>>, recorder: Arc<Recorder>) -> Self {
        Self { stamp, recorder }
    }

    /// Reads what the statistics need of a message that was taken; None while they are off.
    ///
    /// The message is looked at only for its stamp: where Fast DDS loans one that it does not align, even a reference
    /// to it would be wrong. (The types that it loans have no header.)
    #[inline(always)]
    pub(crate) fn receive<'a>(
        &self,
        message: impl FnOnce() -> &'a T::RmwMsg,
        info: &MessageInfo,
    ) -> Option<ReceivedMessage> {
        let epoch = self.recorder.epoch()?;
        let header = self.stamp.as_ref().map_or(0, |field| field.read(message()));
        Some(self.recorder.received_message(epoch, header, info))
    }

    /// Records a message whose callback's body starts now; returns what is needed to record its end, if that is asked for.
    #[inline]
    pub(crate) fn start(&self, message: Option<ReceivedMessage>) -> Option<RunningBody> {
        self.recorder.record(&message?)
    }

    /// Records that a callback's body ends now.
    #[inline]
    pub(crate) fn end(&self, body: Option<RunningBody>) {
        if let Some(body) = body {
            self.recorder.record_end(body);
        }
    }
}

impl TransportInfo {
    pub(crate) fn new(info: &MessageInfo, middleware: &Middleware) -> Self {
        let mut publisher = Gid::default();
        publisher.iter_mut().zip(&info.publisher_gid.data).for_each(|(to, from)| *to = *from);
        Self {
            source: nanoseconds(info.source_timestamp),
            received: match middleware.received {
                ReceivedTimestamp::Reception => nanoseconds(info.received_timestamp),
                ReceivedTimestamp::Take | ReceivedTimestamp::Unknown => 0,
            },
            publisher,
            number: match middleware.has_sequence_numbers {
                true => info.publication_sequence_number,
                false => u64::MAX,
            },
        }
    }
}

/// A time in nanoseconds since the epoch, 0 if there is none, or if it is out of range (as after the year 2262).
#[inline]
fn nanoseconds(time: Option<SystemTime>) -> i64 {
    let Some(time) = time else { return 0 };
    // In 64 bits, as far as that goes: a Duration's own nanoseconds have 128.
    let signed = |duration: Duration| {
        let seconds = i64::try_from(duration.as_secs()).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(i64::from(duration.subsec_nanos()))
    };
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => signed(since).unwrap_or_default(),
        Err(before) => signed(before.duration()).map_or(0, |nanoseconds| -nanoseconds),
    }
}
