// SPDX-License-Identifier: Apache-2.0

use std::{fs, os::unix::fs::PermissionsExt};

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;
use crate::compression::{compress, decompress};

const ANY: Limits = Limits { bytes: u64::MAX / 2, age: Duration::MAX };

/// A unique request of `bytes` bytes that do not compress.
fn request(number: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    compress(&number.to_be_bytes().into_iter().chain((0..bytes).map(|_| random.u8(..))).collect::<Vec<_>>())
}

fn number(body: &[u8]) -> u64 {
    u64::from_be_bytes(decompress(body).unwrap()[..8].try_into().unwrap())
}

/// Sends all that waits.
fn drain(queue: &mut Queue) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(body) = queue.take().unwrap() {
        numbers.push(number(&body));
        queue.finish();
    }
    numbers
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Take,
    Finish,
    PutBack,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..400_usize).prop_map(Step::Push),
        2 => Just(Step::Take),
        2 => Just(Step::Finish),
        1 => Just(Step::PutBack),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 0..60)
}

/// The same, written as simply as possible: requests as number and size; whether the first is taken.
#[derive(Default)]
struct Model {
    requests: Vec<(u64, u64)>,
    is_taken: bool,
    dropped: u64,
}

impl Model {
    fn bytes(&self) -> u64 {
        self.requests.iter().map(|(_, bytes)| bytes).sum()
    }

    fn push(&mut self, number: u64, bytes: u64, limit: u64) {
        self.requests.push((number, bytes));
        while self.bytes() > limit {
            let oldest = usize::from(self.is_taken);
            // A request that cannot fit displaces none.
            let kept: u64 = self.requests[..oldest].iter().map(|(_, bytes)| bytes).sum();
            if kept + bytes <= limit {
                self.requests.remove(oldest)
            } else {
                self.requests.pop().unwrap()
            };
            self.dropped += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn order_and_bounds_hold_after_any_steps(steps in steps(), on_disk in any::<bool>(), bytes in 100..1500_u64) {
        let limits = Limits { bytes, ..ANY };
        let directory = tempfile::tempdir().unwrap();
        let open = || Queue::in_directory(directory.path(), limits).unwrap();
        let mut queue = if on_disk { open() } else { Queue::in_memory(limits) };
        let mut model = Model::default();
        for (pushed, step) in (0..).zip(steps) {
            match step {
                Step::Push(bytes) => {
                    let body = request(pushed, bytes);
                    model.push(pushed, body.len() as u64, limits.bytes);
                    queue.push(body);
                }
                Step::Take => {
                    let taken = queue.take().unwrap().map(|body| number(&body));
                    prop_assert_eq!(taken, model.requests.first().map(|(number, _)| *number));
                    model.is_taken = taken.is_some();
                }
                Step::Finish => {
                    queue.finish();
                    if std::mem::take(&mut model.is_taken) {
                        model.requests.remove(0);
                    }
                }
                Step::PutBack => {
                    queue.put_back();
                    model.is_taken = false;
                }
                Step::Restart if on_disk => {
                    drop(queue);
                    queue = open();
                    model.is_taken = false;
                    model.dropped = 0;
                }
                Step::Restart => {}
            }
            prop_assert_eq!(queue.requests(), model.requests.len());
            prop_assert_eq!(queue.in_memory_only(), if on_disk { 0 } else { model.requests.len() });
            prop_assert_eq!(queue.bytes(), model.bytes());
            prop_assert_eq!(queue.dropped(), DroppedRequests { overflow: model.dropped, ..DroppedRequests::default() });
            prop_assert!(queue.bytes() <= limits.bytes);
        }
        let left: Vec<_> = model.requests.iter().map(|(number, _)| *number).collect();
        prop_assert_eq!(drain(&mut queue), left);
        prop_assert_eq!((queue.requests(), queue.bytes()), (0, 0));
    }
}

/// What waits on disk: for the owner's eyes, of one process at a time, in order, and without what is damaged. A full disk
/// (as by a limit of pages: SQLITE_FULL) means memory, and then the disk again.
#[test]
fn a_disk_keeps_what_waits_unless_it_is_full_or_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("otlp");
    let open = || Queue::in_directory(&path, ANY);
    let mut queue = open().unwrap();
    queue.push(request(0, 1000));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let error = open().unwrap_err().to_string();
    assert!(error.contains("it is in use by another process"), "{error}");
    let limit = |queue: &Queue, pages| {
        queue.disk.as_ref().unwrap().store.as_ref().unwrap().limit_pages(pages);
    };
    limit(&queue, 1);
    (1..20).for_each(|number| queue.push(request(number, 5000)));
    assert!(queue.failure().unwrap().is_full() && queue.in_memory_only() >= 18);
    assert_eq!((queue.requests(), queue.dropped()), (20, DroppedRequests::default()));
    limit(&queue, 1 << 20);
    queue.push(request(20, 10));
    assert_eq!((queue.failure().is_none(), queue.in_memory_only()), (true, 0));
    drop(queue);
    let damage = "UPDATE requests SET body = substr(body, 1, 700) WHERE sequence = 1; \
                  UPDATE requests SET body = x'' WHERE sequence = 2; \
                  UPDATE requests SET body = body || 'and more' WHERE sequence = 3";
    Connection::open(path.join("requests.sqlite")).unwrap().execute_batch(damage).unwrap();
    let mut queue = open().unwrap();
    assert_eq!(drain(&mut queue), [0].into_iter().chain(4..=20).collect::<Vec<_>>());
    assert_eq!(queue.dropped(), DroppedRequests { damaged: 3, ..DroppedRequests::default() });
}

/// The age is the time that exporters have run since then. No step of a clock changes it.
#[test]
fn requests_expire_after_the_time_that_exporters_ran() {
    let hour = Duration::from_secs(3600);
    let mut queue = Queue::in_memory(Limits { age: 72 * hour, ..ANY });
    queue.push(request(0, 10));
    queue.before += 71 * hour;
    queue.push(request(1, 10));
    queue.before += 2 * hour;
    assert_eq!(number(&queue.take().unwrap().unwrap()), 1);
    assert_eq!(queue.dropped(), DroppedRequests { expired: 1, ..DroppedRequests::default() });
    queue.put_back();
    queue.before += 71 * hour;
    assert_eq!((drain(&mut queue), queue.dropped().expired), (vec![], 2));
}
