// SPDX-License-Identifier: Apache-2.0

//! The calls of a service, derived from the events that the nodes of the service and of the clients publish (REP 2012).
//!
//! Any process can publish events, so all memory is limited.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use rclrs_topic_statistics::Metric;
use topic_statistics_observe::{format::milliseconds, row::Window};

use super::window::Samples;

/// A step of a call: the `event_type` of `service_msgs/msg/ServiceEventInfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The client sent the request.
    RequestSent,
    /// The service received the request.
    RequestReceived,
    /// The service sent the response.
    ResponseSent,
    /// The client received the response.
    ResponseReceived,
}

/// An event of a call.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The step of the call that the event reports.
    pub step: Step,
    /// The identifier of the call: the GID of the client, and the sequence number that the client gave the call.
    pub call: ([u8; 16], i64),
    /// The time of the event, in nanoseconds since the epoch. `None` if the node's clock differs much from the system
    /// clock of the monitor, for example on simulated time.
    pub stamp: Option<i64>,
    /// When the event was received.
    pub at: Instant,
}

impl Event {
    /// The maximum difference between the clock of a node and the monitor's system clock, in nanoseconds.
    const OFF: u64 = 10_000_000_000;

    /// Returns the event with these fields, received at the time `at`, which is `now` in nanoseconds since the epoch.
    /// `None` if the `event_type` is unknown.
    pub fn new(
        event_type: u8,
        call: ([u8; 16], i64),
        (sec, nanosec): (i32, u32),
        at: Instant,
        now: i64,
    ) -> Option<Self> {
        const STEPS: [Step; 4] =
            [Step::RequestSent, Step::RequestReceived, Step::ResponseSent, Step::ResponseReceived];
        let step = *STEPS.get(usize::from(event_type))?;
        let call = (of_client(call.0), call.1);
        let stamp = i64::from(sec) * 1_000_000_000 + i64::from(nanosec);
        Some(Self { step, call, stamp: (stamp.abs_diff(now) <= Self::OFF).then_some(stamp), at })
    }
}

/// Converts the GID of a client to the GID that the service reports in its events. On Jazzy with rmw_fastrtps_cpp,
/// clients report the GUID of their request writer (`0x03`), but services report the GUID of the client's response
/// reader (`0x04`), which is created just before the writer. From Kilted on, all events have the GUID of the reader.
fn of_client(mut gid: [u8; 16]) -> [u8; 16] {
    const WRITER: u8 = 0x03;
    const READER: u8 = 0x04;
    if gid[15] == WRITER {
        let key = u32::from_be_bytes([0, gid[12], gid[13], gid[14]]).wrapping_sub(1);
        gid[12..15].copy_from_slice(&key.to_be_bytes()[1..]);
        gid[15] = READER;
    }
    gid
}

/// The calls of a service.
#[derive(Debug)]
pub struct Calls {
    calls: HashMap<([u8; 16], i64), Call>,
    samples: Samples,
    /// For each step, whether an event was ever received. A node without service introspection publishes no events.
    is_known: [bool; 4],
    /// The number of requests since the start of the monitor.
    pub received: u64,
}

/// A call, with its received events.
#[derive(Debug)]
struct Call {
    events: [Option<Event>; 4],
    /// When the first event of the call was received.
    since: Instant,
    /// When an event showed that the call has been answered. `None` if the call still waits.
    answered: Option<Instant>,
}

impl Default for Calls {
    fn default() -> Self {
        let samples = Samples::new(Self::METRICS);
        Self { calls: HashMap::new(), samples, is_known: [false; 4], received: 0 }
    }
}

impl Calls {
    /// The metrics of a window of a service.
    pub const METRICS: &'static [Metric] = &[
        Metric::Requests,
        Metric::ResponseDuration,
        Metric::ActiveRequests,
        Metric::Calls,
        Metric::Responses,
        Metric::DroppedCalls,
        Metric::RoundTrip,
        Metric::RequestDelay,
        Metric::ResponseDelay,
        Metric::OldestCall,
    ];
    /// The metrics that are counts of events, each with the step whose events it counts.
    const COUNTS: [(Metric, Step); 3] = [
        (Metric::Calls, Step::RequestSent),
        (Metric::Requests, Step::RequestReceived),
        (Metric::Responses, Step::ResponseReceived),
    ];
    /// The maximum number of calls that are followed at the same time.
    const MAX_CALLS: usize = 10_000;
    /// For this time, a call without a response is followed: a client that stops waiting publishes no event.
    const LONGEST: Duration = Duration::from_secs(600);
    /// How long a call is kept after its response, because the events of two nodes arrive in any order.
    const LATE: Duration = Duration::from_secs(5);
    /// If the time between the stamps of two events and the time between their receptions differ by more than this (in
    /// ms), the clock of the node was stepped between the events.
    const STEP: f64 = 1000.0;

    /// Adds an event. Returns `false` if there is no room for the call of the event.
    pub fn add_event(&mut self, event: Event) -> bool {
        if !self.calls.contains_key(&event.call) && self.calls.len() >= Self::MAX_CALLS {
            return false;
        }
        let call = self.calls.entry(event.call).or_insert_with(|| Call {
            events: [None; 4],
            since: event.at,
            answered: None,
        });
        let step = event.step as usize;
        if call.events[step].is_some() {
            return true; // A node publishes each event once, so the second event is ignored.
        }
        call.events[step] = Some(event);
        self.is_known[step] = true;
        if let Some((count, _)) = Self::COUNTS.iter().find(|(_, counted)| *counted == event.step) {
            self.samples.count(*count);
        }
        call.answered = call.is_answered().then(|| call.answered.unwrap_or(event.at));
        for (metric, from, to, is_of_one_node) in [
            (Metric::RequestDelay, Step::RequestSent, Step::RequestReceived, false),
            (Metric::ResponseDuration, Step::RequestReceived, Step::ResponseSent, true),
            (Metric::ResponseDelay, Step::ResponseSent, Step::ResponseReceived, false),
            (Metric::RoundTrip, Step::RequestSent, Step::ResponseReceived, true),
        ] {
            if [from, to].contains(&event.step) {
                if let Some(sample) = call.between(from, to, is_of_one_node) {
                    self.samples.add(metric, sample);
                }
            }
        }
        true
    }

    /// Ends a window. `window` has only times, and the function adds the metrics to it.
    pub fn end_window(&mut self, window: Window) -> Window {
        let now = window.ended;
        let before = self.calls.len();
        let has_time = |since: Instant, limit| now.saturating_duration_since(since) < limit;
        let samples = &mut self.samples;
        self.calls.retain(|_, call| match call.answered {
            Some(answered) => has_time(answered, Self::LATE),
            None => {
                has_time(call.since, Self::LONGEST) || {
                    samples.count(Metric::DroppedCalls);
                    false
                }
            }
        });
        if self.calls.len() < before / 4 {
            self.calls.shrink_to_fit();
        }
        let waiting = self.calls.values().filter(|call| call.answered.is_none());
        let (count, oldest) = waiting.fold((0_u64, None), |(count, oldest), call| {
            (count + 1, Some(oldest.map_or(call.since, |oldest: Instant| oldest.min(call.since))))
        });
        let is_known = self.is_known.contains(&true);
        let age = milliseconds(now.saturating_duration_since(oldest.unwrap_or(now)));
        let mut others = vec![
            (Metric::ActiveRequests, is_known.then_some(count as f64)),
            (Metric::OldestCall, is_known.then_some(age)),
        ];
        // If no event of a step was ever received, the count of this step is unknown, not 0.
        others.extend((!is_known).then_some((Metric::DroppedCalls, None)));
        let unknown = Self::COUNTS.iter().filter(|(_, step)| !self.is_known[*step as usize]);
        others.extend(unknown.map(|(metric, _)| (*metric, None)));
        // The larger count is used, because either the clients or the service may publish no events.
        let requests = self.samples.counted(Metric::Requests).max(self.samples.counted(Metric::Calls));
        self.received += requests;
        self.samples.end(&others, window, is_known.then_some(requests))
    }
}

impl Call {
    /// Returns whether the client received the response or, if the client publishes no events, the service sent it.
    fn is_answered(&self) -> bool {
        let has = |step: Step| self.events[step as usize].is_some();
        has(Step::ResponseReceived) || (!has(Step::RequestSent) && has(Step::ResponseSent))
    }

    /// Returns the milliseconds between the stamps of two events. If a stamp is missing, as on simulated time, and both
    /// events are of one node, returns the time between their receptions. `None` if an event is missing, if a stamp is
    /// missing and the events are of two nodes, or if the clock of one node was stepped between its events.
    fn between(&self, from: Step, to: Step, is_of_one_node: bool) -> Option<f64> {
        let (from, to) = (self.events[from as usize]?, self.events[to as usize]?);
        let received = to.at.checked_duration_since(from.at).map(milliseconds);
        let (Some(sent), Some(stamp)) = (from.stamp, to.stamp) else {
            return received.filter(|_| is_of_one_node);
        };
        let stamped = stamp.saturating_sub(sent) as f64 / 1e6;
        let is_stepped = stamped < 0.0 || (stamped - received.unwrap_or(0.0)).abs() > Calls::STEP;
        (!(is_of_one_node && is_stepped)).then_some(stamped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::window::tests::{empty, figures};
    use topic_statistics_observe::testing::at;

    const CLIENT: [u8; 16] = [7; 16];

    /// Returns an event at a time in ms, from a node whose clock is ahead by `offset`, in ms.
    fn event(step: u8, number: i64, milliseconds: i64, offset: i64) -> Event {
        let stamp = 1_000_000 + milliseconds + offset;
        let stamp = ((stamp / 1000) as i32, (stamp % 1000) as u32 * 1_000_000);
        let received = at(0) + Duration::from_millis(milliseconds as u64);
        Event::new(step, (CLIENT, number), stamp, received, (1_000_000 + milliseconds) * 1_000_000).unwrap()
    }

    /// Returns the calls of a service with one call, which has these events. Each event has a step, a time and a clock
    /// offset.
    fn calls(events: &[(u8, i64, i64)]) -> Calls {
        let mut calls = Calls::default();
        assert!(events.iter().all(|&(step, time, offset)| calls.add_event(event(step, 1, time, offset))));
        calls
    }

    /// Ends a window at this time. Returns the means of the named metrics.
    fn means(calls: &mut Calls, milliseconds: u64, names: &str) -> Vec<f64> {
        figures(&calls.end_window(empty(milliseconds)), names).iter().map(|(mean, _)| *mean).collect()
    }

    #[test]
    fn a_call_has_the_parts_that_its_events_tell() {
        const NAN: f64 = f64::NAN;
        let parts =
            "round_trip_ms response_duration_ms request_delay_ms response_delay_ms calls requests responses \
                     active_requests";
        // The clock of the service is 5 s ahead.
        let all = [(0, 0, 0), (1, 40, 5000), (2, 95, 5000), (3, 125, 0)];
        let right = [125.0, 55.0, 5040.0, -4970.0, 1.0, 1.0, 1.0, 0.0];
        // In these events, the nodes are on a simulated time that does not advance.
        let simulated =
            |at| [(0, 10), (1, 50), (2, 150), (3, 210)].map(|(step, time)| (step, time, at - time));
        let real = [200.0, 100.0, NAN, NAN, 1.0, 1.0, 1.0, 0.0];
        let stepped = [(0, 0, 0), (1, 10, 0), (2, 20, -2000), (3, 30, 3000)];
        for (events, expected) in [
            (&all[..], right),
            (&[all[0], all[2], all[1], all[3]], right),
            (&[all[3], all[2], all[1], all[0]], right),
            (&[all[1], all[2], all[0], all[3]], right),
            (&[(1, 0, 0), (2, 30, 0)], [NAN, 30.0, NAN, NAN, NAN, 1.0, NAN, 0.0]), // only events of the service
            (&[(0, 0, 0), (3, 30, 0)], [30.0, NAN, NAN, NAN, 1.0, NAN, 1.0, 0.0]), // only events of the client
            (&stepped, [NAN, NAN, 10.0, 5010.0, 1.0, 1.0, 1.0, 0.0]),
            (&simulated(-1_000_000), real), // before simulated time began
            (&simulated(-500_000), real),
            (&simulated(1_000_000_000), real),
        ] {
            let found = means(&mut calls(events), 1000, parts);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{events:?}");
        }
        let (mut none, mut one) = (Calls::default(), calls(&all));
        let nothing = none.end_window(empty(1000));
        assert!(nothing.rate.is_nan() && nothing.received.is_none());
        assert_eq!((one.end_window(empty(1000)).rate, one.received), (1.0, 1));
    }

    #[test]
    fn gids_of_a_client_and_of_its_service_are_the_same() {
        let gid = |key: u8, kind: u8| {
            let mut gid = CLIENT;
            gid[12..].copy_from_slice(&[0, 0, key, kind]);
            gid
        };
        let (writer, reader, other) = (gid(0x14, 3), gid(0x13, 4), gid(0x15, 4));
        assert_eq!(of_client(writer), of_client(reader));
        assert_ne!(of_client(other), of_client(reader));
        let first = of_client([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(first[12..], [0xff, 0xff, 0xff, 4], "a GID can have any bytes");
    }

    #[test]
    fn a_call_without_an_answer_ages_until_it_is_given_up() {
        // The service sends the response, but the client does not receive it.
        let mut calls = calls(&[(0, 0, 0), (1, 10, 0), (2, 20, 0)]);
        let mut end = |second: u64| means(&mut calls, second * 1000, "oldest_call_ms dropped_calls");
        for second in 1..600 {
            assert_eq!(end(second), [second as f64 * 1000.0, 0.0]);
        }
        assert_eq!([end(600), end(601)], [[0.0, 1.0], [0.0, 0.0]]);
    }

    #[test]
    fn calls_have_a_bound_and_an_answered_one_makes_room() {
        let mut calls = Calls::default();
        let most = Calls::MAX_CALLS as i64;
        assert!((0..most).all(|number| calls.add_event(event(0, number, 0, 0))));
        assert!(!calls.add_event(event(0, most, 0, 0)) && calls.add_event(event(3, 0, 1, 0)));
        means(&mut calls, 5002, "calls");
        assert!(calls.add_event(event(0, most, 5003, 0)));
        means(&mut calls, 700_000, "calls");
        assert!(calls.calls.is_empty() && calls.calls.capacity() < 100);
    }
}
