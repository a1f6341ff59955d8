// SPDX-License-Identifier: Apache-2.0

//! The messages that the process takes, passes to callbacks, and publishes.

use std::{
    ffi::c_void,
    ptr::NonNull,
    sync::atomic::{AtomicI64, Ordering},
};

use topic_statistics_core::record::{
    clock::{monotonic, system_time},
    recorder::IntraProcessMessage,
    transport::{Delivered, ReceivedTimestamp, Transport, TransportInfo},
};

use crate::{
    abi::{Endpoint, MessageInfo},
    callbacks::{not_ending, CALLBACKS},
    cause::{self, Message},
    executor,
    process::{has_ended, measured_publisher, measured_subscription, Publisher},
    thread::{self, IntraProcessPublication, Measured, Running, TakenMessage, Thread},
    timers,
};

pub enum Taken<'a> {
    Message(*const c_void),
    Serialized(&'a [u8]),
}

/// Records a message that was taken now.
/// Safety: The message must be of the subscription's type.
#[inline]
pub unsafe fn record_taken(subscription: *const Endpoint, taken: &Taken, info: Option<&MessageInfo>) {
    let address = subscription.addr();
    let Some(subscription) = measured_subscription(subscription) else {
        cause::note(|activity| activity.take(Message::UNMEASURED));
        return;
    };
    if info.is_some_and(|info| subscription.callbacks.discard(info, subscription.context)) {
        return;
    }
    if cause::is_enabled() {
        let source = info.map_or(0, |info| info.source_timestamp.max(0));
        let message = Message { topic: subscription.topic, source, taken: monotonic() };
        match subscription.callbacks.are_reported() {
            true => cause::note(|activity| activity.take_for_callback(message, address)),
            false => cause::note(|activity| activity.take(message)),
        }
    }
    let Some(epoch) = subscription.recorder.epoch() else { return };
    let header = match (subscription.stamp, taken) {
        (Some(_), _) if subscription.node.clocks.load(Ordering::Relaxed) > 0 => {
            subscription.recorder.accept_no_stamps(); // the stamps are of simulated time, which is unknown here
            0
        }
        // SAFETY: By contract.
        (Some(stamp), Taken::Message(message)) => unsafe { stamp.of_message(*message) },
        (Some(stamp), Taken::Serialized(bytes)) => stamp.of_serialized(bytes).unwrap_or_else(|| {
            subscription.recorder.accept_no_stamps();
            0
        }),
        (None, _) => 0,
    };
    let message = subscription.recorder.received_message(
        epoch,
        header,
        Reported { transport: subscription.transport, info, filtered_until: &subscription.filtered_until },
        || match taken {
            Taken::Message(_) => UNKNOWN_SIZE,
            Taken::Serialized(bytes) => size(bytes.len()),
        },
    );
    let wait = |thread: &Thread| {
        let waits = subscription.callbacks.take(thread.address());
        let reports_reception = subscription.transport.received == ReceivedTimestamp::Reception;
        let received = info.filter(|_| reports_reception).map_or(0, |info| info.received_timestamp.max(0));
        thread.taken.set(waits.then_some(TakenMessage { subscription: address, message, received }));
        waits
    };
    if !subscription.callbacks.are_reported() || thread::with(wait) != Some(true) {
        subscription.recorder.record_start(&message, monotonic);
    }
}

/// The values that the middleware reports with a message.
struct Reported<'a> {
    transport: &'static Transport,
    /// The message info; `None` if the host took the message without message info.
    info: Option<&'a MessageInfo>,
    filtered_until: &'a AtomicI64,
}

impl Delivered for Reported<'_> {
    fn transport(&self) -> &'static Transport {
        self.transport
    }

    fn is_filtered(&self) -> bool {
        let until = self.filtered_until.load(Ordering::Relaxed);
        until != 0
            && self.info.is_some_and(|info| info.received_timestamp.max(info.source_timestamp) <= until)
    }

    fn info(&self, transport: &Transport) -> TransportInfo {
        match self.info {
            None => TransportInfo::new(transport, 0, || 0, Default::default(), u64::MAX),
            Some(info) => TransportInfo::new(
                transport,
                info.source_timestamp.max(0),
                || info.received_timestamp.max(0),
                info.gid,
                info.publication_sequence_number,
            ),
        }
    }
}

/// The size that is recorded for a message that is not serialized.
pub const UNKNOWN_SIZE: u32 = 0;

/// Returns the size of a serialized message.
pub fn size(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(UNKNOWN_SIZE)
}

pub struct Started {
    publisher: &'static Publisher,
    /// The start, in nanoseconds on the monotonic clock.
    at: i64,
    /// Whether the same message was passed on within the process just before: this publication was already counted
    /// then.
    is_counted: bool,
}

/// Returns the publication that starts now, if the publisher is measured.
#[inline]
pub fn start_publication(address: *const Endpoint) -> Option<Started> {
    let publisher = measured_publisher(address)?;
    if !publisher.publications.is_enabled() {
        return None;
    }
    let is_counted = publisher.intra_process.load(Ordering::Relaxed) != 0
        && thread::with(|thread| {
            let last = thread.intra_process.get();
            let is_last = last.publisher == address.addr();
            if is_last {
                thread.intra_process.set(IntraProcessPublication { publisher: 0, ..last });
            }
            is_last
        }) == Some(true);
    Some(Started { publisher, at: monotonic(), is_counted })
}

/// Records a publication that has succeeded now. The publisher still exists, because the host does not destroy a
/// publisher during a publication.
#[inline]
pub fn record_published(started: &Started, size: u32) {
    let Started { publisher, at, is_counted } = *started;
    if let Some(hops) = publisher.hops.as_ref().filter(|_| !is_counted) {
        hops.hops.record(cause::publication_cause(), at);
    }
    publisher.publications.record_published(at, is_counted, size, monotonic);
}

pub fn publish_within_process(address: *const Endpoint) {
    let Some(publisher) = measured_publisher(address).filter(|publisher| publisher.publications.is_enabled())
    else {
        thread::with(|thread| thread.intra_process.set(IntraProcessPublication { publisher: 0, at: 0 }));
        return;
    };
    let at = publisher.publications.record_intra_process(monotonic);
    if let Some(hops) = &publisher.hops {
        hops.hops.record(cause::publication_cause(), at);
    }
    thread::with(|thread| {
        thread.intra_process.set(IntraProcessPublication { publisher: address.addr(), at })
    });
}

#[inline]
pub fn start_callback(callback: usize, is_intra_process: bool) {
    if has_ended() {
        return;
    }
    let owner = CALLBACKS.get(callback);
    thread::with(|thread| {
        let mut started = None;
        let measured = match owner {
            None => {
                cause::note(|activity| activity.start_callback(None));
                Measured::Nothing
            }
            Some(owner) if is_intra_process => {
                cause::note(|activity| activity.start_callback(None));
                start_intra_process(thread, owner.as_ptr(), &mut started)
            }
            Some(owner) => start_of(thread, owner.as_ptr(), &mut started),
        };
        let started = || started.unwrap_or_else(|| thread::Started { at: monotonic(), ready: None });
        let is_executed = executor::start(thread, callback, started);
        thread.running.set(Running { callback, measured, is_executed });
    });
}

#[inline]
fn start_of(thread: &Thread, owner: *mut Endpoint, started: &mut Option<thread::Started>) -> Measured {
    let Some(subscription) = measured_subscription(owner) else {
        cause::note(|activity| activity.start_callback(None));
        let Some(timer) = timers::measured_timer(owner.addr()) else { return Measured::Nothing };
        let (running, at) = timer.start(thread.address());
        *started = Some(at);
        return Measured::Timer { timer: owner.addr(), running };
    };
    cause::note(|activity| activity.start_callback(Some(owner.addr())));
    subscription.callbacks.start(thread.address());
    let Some(taken) = thread.taken.take().filter(|taken| taken.subscription == owner.addr()) else {
        return Measured::Nothing;
    };
    let at = subscription.recorder.record_start(&taken.message, monotonic);
    // If the system clock was stepped since the reception of the message, the time `ready` is wrong. The core drops all
    // these times in a window in which the clock was stepped.
    let ready = || at.saturating_sub(system_time().saturating_sub(taken.received));
    let ready = (taken.received != 0 && executor::is_enabled()).then(ready);
    *started = Some(thread::Started { at, ready });
    let running = subscription.recorder.running(taken.message.epoch(), at);
    running.map_or(Measured::Nothing, |running| Measured::Message { subscription: owner.addr(), running })
}

fn start_intra_process(
    thread: &Thread,
    owner: *mut Endpoint,
    started: &mut Option<thread::Started>,
) -> Measured {
    let dequeued = thread.dequeued.take().filter(|(subscription, _)| *subscription == owner.addr());
    // If a subscription is ending at this moment, this message is not counted.
    let Some(_not_ending) = not_ending() else { return Measured::Nothing };
    let Some(subscription) = measured_subscription(owner) else { return Measured::Nothing };
    let Some(epoch) = subscription.recorder.epoch() else { return Measured::Nothing };
    let unknown = IntraProcessMessage { published: 0, buffer: Default::default(), number: u64::MAX };
    let message = dequeued.map_or(unknown, |(_, message)| message);
    let at = subscription.recorder.record_intra_process(epoch, &message, monotonic);
    let published = (message.published != 0).then_some(message.published);
    *started = Some(thread::Started { at, ready: published });
    cause::note(|activity| {
        activity.start_callback_of(published.map(|published| {
            let source = system_time().saturating_sub(at.saturating_sub(published));
            Message { topic: subscription.topic, source, taken: at }
        }));
    });
    let running = subscription.recorder.running(epoch, at);
    running
        .map_or(Measured::Nothing, |running| Measured::IntraProcess { subscription: owner.addr(), running })
}

#[inline]
pub fn end_callback(callback: usize) {
    thread::with(|thread| {
        let running = thread.running.replace(Running::NOTHING);
        let Running { callback: started, measured, is_executed } = running;
        // If a callback has run another callback, for example by `spin_some`, only the inner callback was recorded, and
        // the outer callback's end is not.
        if has_ended() || started != callback || (matches!(measured, Measured::Nothing) && !is_executed) {
            return;
        }
        let now = monotonic();
        let subscription = |address| measured_subscription(std::ptr::without_provenance(address));
        match measured {
            Measured::Nothing => {}
            Measured::Message { subscription: address, running } => {
                subscription(address).inspect(|subscription| subscription.recorder.record_end(running, now));
            }
            Measured::IntraProcess { subscription: address, running } => {
                let owner = |owner: NonNull<Endpoint>| owner.addr().get() == address;
                if let Some(_not_ending) = not_ending().filter(|_| CALLBACKS.get(callback).is_some_and(owner))
                {
                    subscription(address)
                        .inspect(|subscription| subscription.recorder.record_end(running, now));
                }
            }
            Measured::Timer { timer, running } => {
                timers::measured_timer(timer).inspect(|timer| timer.finish(running, now));
            }
        }
        if is_executed {
            executor::end(thread, now);
        }
    });
}
