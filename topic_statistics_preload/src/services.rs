// SPDX-License-Identifier: Apache-2.0

//! The requests of services and the calls of clients that wait for their response.

use std::{collections::VecDeque, sync::Mutex};

use topic_statistics_core::{
    metric_set::MetricSet,
    mutex::lock,
    record::{
        calls::{CallRecorder, WaitingCall},
        clock::monotonic,
        requests::{ActiveRequest, RequestRecorder},
        source::SourceHandle,
        transport::Transport,
    },
    Metric, SourceKind,
};

use crate::abi::{RequestId, ServiceInfo};

/// Requests or calls that wait for their response. The oldest entry is the first.
struct Waiting<K, V>(VecDeque<(K, V)>);

impl<K: PartialEq, V> Waiting<K, V> {
    /// The largest number of entries. A further entry replaces the oldest entry.
    const BOUND: usize = 1024;

    fn new() -> Self {
        Self(VecDeque::with_capacity(8))
    }

    fn add(&mut self, key: K, value: V) {
        if self.0.len() >= Self::BOUND {
            self.0.pop_front();
        }
        self.0.push_back((key, value));
    }

    /// Removes an entry. The search starts at the newest entry, because old entries may never get a response.
    fn remove(&mut self, key: &K) -> Option<V> {
        let index = self.0.iter().rposition(|(present, _)| present == key)?;
        self.0.remove(index).map(|(_, value)| value)
    }
}

pub struct Service {
    /// The first field, so it is dropped first. When it is dropped, the statistics end, while the other fields still
    /// exist.
    _source: SourceHandle,
    recorder: RequestRecorder,
    transport: &'static Transport,
    requests: Mutex<Waiting<RequestId, ActiveRequest>>,
}

impl Service {
    /// Returns a recorder that does not measure callback panics. rmw's calls do not show a panic: they only show the
    /// response of a callback.
    pub fn recorder() -> RequestRecorder {
        let known = RequestRecorder::metrics(true).iter().filter(|metric| *metric != Metric::CallbackPanics);
        RequestRecorder::new(known.collect(), Default::default(), true)
    }

    pub fn new(source: SourceHandle, recorder: RequestRecorder, transport: &'static Transport) -> Self {
        Self { _source: source, recorder, transport, requests: Mutex::new(Waiting::new()) }
    }

    pub fn take(&self, info: &ServiceInfo) {
        if let Some(mut request) = self.recorder.take(|| info.timestamps(self.transport)) {
            request.start(monotonic);
            lock(&self.requests).add(info.request_id, request);
        }
    }

    /// Records a response that was sent at `time` on the monotonic clock.
    pub fn respond(&self, request: &RequestId, time: i64) {
        let request = lock(&self.requests).remove(request);
        if let Some(request) = request {
            request.respond(|| time);
        }
    }
}

pub struct Client {
    /// The first field, so it is dropped first. When it is dropped, the statistics end, while the other fields still
    /// exist.
    _source: SourceHandle,
    recorder: CallRecorder,
    transport: &'static Transport,
    calls: Mutex<Calls>,
}

/// The calls of a client, by the sequence numbers of the calls' requests.
struct Calls {
    waiting: Waiting<i64, WaitingCall>,
    /// The number of requests that threads are sending now. The sequence numbers of these requests are not known yet.
    sending: u32,
    /// Responses that another thread took before the sequence number of the request was known here.
    early: Waiting<i64, Response>,
}

/// A taken response: the time of the take on the monotonic clock, and the timestamps that the middleware reports.
struct Response {
    time: i64,
    stamps: (i64, i64),
}

impl Response {
    fn end(self, call: WaitingCall) {
        call.respond(|| self.time, || self.stamps);
    }
}

impl Client {
    /// Returns a recorder that does not measure dropped calls, which cannot be observed through rmw.
    pub fn recorder() -> CallRecorder {
        let all = MetricSet::of(SourceKind::Client.metrics());
        CallRecorder::new(all.iter().filter(|metric| *metric != Metric::DroppedCalls).collect())
    }

    pub fn new(source: SourceHandle, recorder: CallRecorder, transport: &'static Transport) -> Self {
        let calls = Calls { waiting: Waiting::new(), sending: 0, early: Waiting::new() };
        Self { _source: source, recorder, transport, calls: Mutex::new(calls) }
    }

    /// Records that a request is about to be sent. Returns the time on the monotonic clock.
    pub fn begin(&self) -> i64 {
        lock(&self.calls).sending += 1;
        monotonic()
    }

    /// Records that a request was sent with the sequence number `number`. `None` means that the request was not sent.
    /// `began` is the result of [`begin`](Self::begin).
    pub fn sent(&self, began: i64, number: Option<i64>) {
        let mut calls = lock(&self.calls);
        calls.sending = calls.sending.saturating_sub(1);
        if let Some(number) = number {
            let Ok(((), call)) = self.recorder.call(began, || Ok::<_, std::convert::Infallible>(()));
            match (call, calls.early.remove(&number)) {
                (Some(call), Some(response)) => response.end(call),
                (Some(call), None) => calls.waiting.add(number, call),
                (None, _) => {}
            }
        }
        if calls.sending == 0 {
            calls.early.0.clear();
        }
    }

    pub fn take(&self, info: &ServiceInfo) {
        let response = Response { time: monotonic(), stamps: info.timestamps(self.transport) };
        let number = info.request_id.sequence_number;
        let mut calls = lock(&self.calls);
        match calls.waiting.remove(&number) {
            Some(call) => response.end(call),
            None if calls.sending > 0 => calls.early.add(number, response),
            None => {}
        }
    }
}

impl ServiceInfo {
    fn timestamps(&self, transport: &Transport) -> (i64, i64) {
        transport.service_timestamps(self.source_timestamp.max(0), self.received_timestamp.max(0))
    }
}
