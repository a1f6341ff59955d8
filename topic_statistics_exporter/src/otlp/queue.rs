// SPDX-License-Identifier: Apache-2.0

//! The queue of requests that wait in memory for the collector. Its size is limited, and it keeps the order of the
//! requests.

use std::{
    collections::VecDeque,
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::state::DroppedRequests;

/// The limits of the waiting requests. If a limit is exceeded, the oldest requests are dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The largest total size of the compressed requests, in bytes.
    pub bytes: u64,
    /// The longest time that a request may wait in the queue, measured with the monotonic clock.
    pub age: Duration,
}

/// A queue of requests. A [taken](Self::take) request is [finished](Self::finish) or [put back](Self::put_back).
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    /// The waiting requests. The oldest request comes first.
    waiting: VecDeque<Waiting>,
    /// Whether the oldest request is taken. A taken request counts towards the limits but is never dropped.
    is_taken: bool,
    /// The total size of the waiting requests and the taken request, in bytes.
    pub bytes: u64,
    /// The counts of the requests dropped since the queue was created.
    pub dropped: DroppedRequests,
}

#[derive(Debug)]
struct Waiting {
    body: Arc<Vec<u8>>,
    added: Instant,
}

impl Queue {
    pub fn new(limits: Limits) -> Self {
        let (waiting, dropped) = (VecDeque::new(), DroppedRequests::default());
        Self { limits, waiting, is_taken: false, bytes: 0, dropped }
    }

    /// Adds a compressed request. Drops the oldest waiting requests if the limits are exceeded.
    pub fn push(&mut self, body: Vec<u8>, now: Instant) {
        let bytes = body.len() as u64;
        let taken = self.waiting.front().filter(|_| self.is_taken).map_or(0, Waiting::bytes);
        if bytes + taken > self.limits.bytes {
            self.dropped.overflow += 1;
            return;
        }
        self.make_room(bytes, now);
        self.bytes += bytes;
        self.waiting.push_back(Waiting { body: Arc::new(body), added: now });
    }

    /// Takes the oldest request. The request counts towards the limits until it is finished.
    pub fn take(&mut self, now: Instant) -> Option<Arc<Vec<u8>>> {
        self.is_taken = false;
        self.make_room(0, now);
        let oldest = self.waiting.front()?;
        self.is_taken = true;
        Some(Arc::clone(&oldest.body))
    }

    pub fn finish(&mut self) {
        if mem::take(&mut self.is_taken) {
            self.bytes -= self.waiting.pop_front().map_or(0, |taken| taken.bytes());
        }
    }

    pub fn put_back(&mut self) {
        self.is_taken = false;
    }

    /// Returns the number of requests, including the taken request.
    pub fn requests(&self) -> usize {
        self.waiting.len()
    }

    /// Drops requests that have waited for too long, and the oldest requests until `bytes` more bytes fit.
    fn make_room(&mut self, bytes: u64, now: Instant) {
        let first = usize::from(self.is_taken);
        while let Some(oldest) = self.waiting.get(first) {
            let reason = if self.bytes + bytes > self.limits.bytes {
                &mut self.dropped.overflow
            } else if now.saturating_duration_since(oldest.added) > self.limits.age {
                &mut self.dropped.expired
            } else {
                return;
            };
            *reason += 1;
            self.bytes -= oldest.bytes();
            self.waiting.remove(first);
        }
    }
}

impl Waiting {
    fn bytes(&self) -> u64 {
        self.body.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row has a step and the state after this step: the first byte of each waiting request, the number of
    /// requests dropped because of the limit of bytes, and the number dropped because of their age.
    #[test]
    fn order_and_bounds_hold_after_each_step() {
        enum Step {
            Push(u8, usize),
            Take(Option<u8>),
            Finish,
            PutBack,
            Hours(u64),
        }
        use Step::*;
        const HOUR: Duration = Duration::from_secs(3600);
        let mut queue = Queue::new(Limits { bytes: 100, age: 72 * HOUR });
        let mut now = Instant::now();
        for (number, (step, waiting, overflow, expired)) in [
            (Take(None), &[][..], 0, 0),
            (Push(0, 40), &[0], 0, 0),
            (Push(1, 40), &[0, 1], 0, 0),
            (Push(2, 30), &[1, 2], 1, 0),  // request 0, the oldest, is dropped
            (Push(3, 101), &[1, 2], 2, 0), // request 3 never fits, so no other request is dropped
            (Take(Some(1)), &[2], 2, 0),
            (Push(4, 60), &[4], 3, 0), // request 2 is dropped, because request 1 is taken
            (Push(5, 61), &[4], 4, 0), // requests 5 and 1 (taken) do not fit together
            (PutBack, &[1, 4], 4, 0),
            (Take(Some(1)), &[4], 4, 0),
            (Take(Some(1)), &[4], 4, 0), // request 1 is taken again, because it is not finished
            (Finish, &[4], 4, 0),
            (Finish, &[4], 4, 0),
            (Hours(72), &[4], 4, 0),
            (Push(6, 10), &[4, 6], 4, 0),
            (Hours(1), &[4, 6], 4, 0),
            (Take(Some(6)), &[], 4, 1), // request 4 has expired
            (Hours(99), &[], 4, 1),
            (Push(7, 10), &[7], 4, 1), // request 6 does not expire, because it is taken
            (PutBack, &[6, 7], 4, 1),
            (Take(Some(7)), &[], 4, 2),
            (Finish, &[], 4, 2),
        ]
        .into_iter()
        .enumerate()
        {
            match step {
                Push(request, bytes) => queue.push(vec![request; bytes], now),
                Take(expected) => assert_eq!(queue.take(now).map(|body| body[0]), expected, "step {number}"),
                Finish => queue.finish(),
                PutBack => queue.put_back(),
                Hours(hours) => now += hours as u32 * HOUR,
            }
            let is = queue.waiting.iter().map(|request| request.body[0]).collect::<Vec<_>>();
            let is = &is[usize::from(queue.is_taken)..];
            let bytes = queue.waiting.iter().map(Waiting::bytes).sum();
            assert_eq!((is, queue.bytes), (waiting, bytes), "step {number}");
            assert_eq!(queue.dropped, DroppedRequests { overflow, expired }, "step {number}");
        }
        assert_eq!((queue.requests(), queue.bytes), (0, 0));
    }
}
