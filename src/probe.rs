//! What is read of a message, and when its callback's body starts and ends.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rclrs::MessageInfo;
use rosidl_runtime_rs::Message;

use crate::{
    recorder::{Needs, Recorder},
    stamp::StampField,
};

/// What measures the messages of one subscription, where its callback runs.
pub struct Probe<T: Message> {
    stamp: Option<StampField<T::RmwMsg>>,
    recorder: Arc<Recorder>,
}

/// What the statistics need of a message as it is taken. Times are in nanoseconds, 0 if there is none.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub(crate) header: i64,
    /// None if no metric needs it.
    pub(crate) told: Option<Told>,
}

/// What the middleware tells of a message.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub(crate) source: i64,
    pub(crate) received: i64,
    pub(crate) publisher: Gid,
    pub(crate) number: u64,
}

/// A publisher, as the middleware tells publishers apart. rmw has room for more than the 16 bytes of a DDS GUID on
/// Humble, which no middleware uses.
pub(crate) type Gid = [u8; 16];

impl<T: Message> Probe<T> {
    pub(crate) fn new(recorder: Arc<Recorder>) -> Self {
        Self { stamp: StampField::find(), recorder }
    }

    /// Reads what the statistics need of a message that was taken; None while they are off.
    ///
    /// The message is looked at only for its stamp: where Fast DDS loans one that it does not align, even a reference
    /// to it would be wrong. (The types that it loans have no header.)
    #[inline(always)]
    pub(crate) fn arrive<'a>(
        &self,
        message: impl FnOnce() -> &'a T::RmwMsg,
        info: &MessageInfo,
    ) -> Option<Arrival> {
        if !self.recorder.is_enabled() {
            return None;
        }
        let header = self.stamp.as_ref().map_or(0, |field| field.read(message()));
        Some(Arrival::new(header, info, self.recorder.needs))
    }

    /// Records a message whose callback's body starts now; returns when that is, if the end is to be recorded too.
    #[inline]
    pub(crate) fn start(&self, arrival: Option<Arrival>) -> Option<i64> {
        let started = self.recorder.record(arrival.as_ref()?);
        self.recorder.needs.duration.then_some(started)
    }

    /// Records that a callback's body ends now.
    #[inline]
    pub(crate) fn end(&self, started: Option<i64>) {
        if let Some(started) = started {
            self.recorder.record_end(started);
        }
    }
}

impl Arrival {
    /// Puts together a message's stamp and what the middleware tells of it.
    #[inline(always)]
    pub(crate) fn new(header: i64, info: &MessageInfo, needs: Needs) -> Self {
        Self { header, told: needs.info.then(|| Told::new(info)) }
    }
}

impl Told {
    fn new(info: &MessageInfo) -> Self {
        let mut publisher = Gid::default();
        publisher.iter_mut().zip(&info.publisher_gid.data).for_each(|(to, from)| *to = *from);
        Self {
            source: nanoseconds(info.source_timestamp),
            received: nanoseconds(info.received_timestamp),
            publisher,
            number: info.publication_sequence_number,
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
