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

fn open(path: &Path) -> Queue {
    Queue::in_directory(path, ANY).unwrap()
}

/// The bytes of all files of a queue.
fn size(path: &Path) -> u64 {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Changes the file as somebody else. The queue is closed.
fn change(path: &Path, change: &str) {
    Connection::open(path.join("requests.sqlite")).unwrap().execute_batch(change).unwrap();
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

#[test]
fn a_damaged_request_is_skipped_and_counted_and_the_others_are_sent() {
    let directory = tempfile::tempdir().unwrap();
    let mut queue = open(directory.path());
    (0..5).for_each(|number| queue.push(request(number, 1000)));
    drop(queue);
    change(
        directory.path(),
        "UPDATE requests SET body = substr(body, 1, 700) WHERE sequence = 1; \
         UPDATE requests SET body = x'' WHERE sequence = 2; \
         UPDATE requests SET body = body || 'and more' WHERE sequence = 3",
    );
    let mut queue = open(directory.path());
    assert_eq!(drain(&mut queue), [0, 4]);
    assert_eq!(queue.dropped(), DroppedRequests { damaged: 3, ..DroppedRequests::default() });
    assert_eq!((queue.requests(), queue.bytes()), (0, 0));
    drop(queue);
    assert_eq!(open(directory.path()).requests(), 0);
}

#[test]
fn a_file_that_is_no_database_is_set_aside_and_said() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("requests.sqlite"), b"x".repeat(10_000)).unwrap();
    let mut queue = open(directory.path());
    assert_eq!(queue.dropped().damaged, 1);
    let aside = queue.take_set_aside().unwrap();
    assert_eq!(fs::read(aside).unwrap(), b"x".repeat(10_000), "somebody can look at it");
    queue.push(request(7, 0));
    drop(queue);
    let mut queue = open(directory.path());
    assert_eq!((queue.dropped().damaged, queue.take_set_aside()), (0, None));
    assert_eq!(drain(&mut queue), [7]);
}

/// A page in the middle is overwritten: what other pages have is sent, in order.
#[test]
fn a_damaged_page_costs_the_requests_on_it_only() {
    let directory = tempfile::tempdir().unwrap();
    let mut queue = open(directory.path());
    (0..200).for_each(|number| queue.push(request(number, 1000)));
    drop(queue);
    let file = directory.path().join("requests.sqlite");
    let mut bytes = fs::read(&file).unwrap();
    let page = bytes.len() / 2 / 4096 * 4096;
    bytes[page..page + 4096].fill(0xff);
    fs::write(&file, bytes).unwrap();
    let mut queue = open(directory.path());
    let sent = drain(&mut queue);
    let damaged = queue.dropped().damaged;
    assert!(sent.is_sorted_by(|before, after| before < after), "{sent:?}");
    assert!(damaged > 0 && sent.len() <= 199, "{damaged} damaged, {} sent", sent.len());
    queue.push(request(1000, 10));
    assert_eq!((drain(&mut queue), queue.failure().is_none()), (vec![1000], true));
}

/// A limit of pages has the effect of a full disk: SQLITE_FULL.
#[test]
fn a_full_disk_means_memory_and_then_the_disk_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut queue = open(directory.path());
    queue.push(request(0, 1000));
    let set_limit = |queue: &Queue, pages: u32| {
        let store = queue.disk.as_ref().unwrap().store.as_ref().unwrap();
        store.limit_pages(pages);
    };
    set_limit(&queue, 1);
    (1..20).for_each(|number| queue.push(request(number, 5000)));
    assert!(queue.failure().unwrap().is_full());
    assert_eq!((queue.requests(), queue.dropped()), (20, DroppedRequests::default()));
    assert!(queue.in_memory_only() >= 18, "{}", queue.in_memory_only());
    // Requests are sent as before.
    assert_eq!(number(&queue.take().unwrap().unwrap()), 0);
    queue.finish();
    set_limit(&queue, 1 << 20);
    queue.push(request(20, 10));
    assert_eq!((queue.failure().is_none(), queue.in_memory_only()), (true, 0));
    drop(queue);
    assert_eq!(drain(&mut open(directory.path())), (1..=20).collect::<Vec<_>>(), "in order");
}

#[test]
fn a_file_that_cannot_be_written_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut queue = open(directory.path());
    queue.push(request(0, 10));
    let store = |queue: &Queue, sql: &str| {
        queue.disk.as_ref().unwrap().store.as_ref().unwrap().execute(sql);
    };
    store(&queue, "PRAGMA query_only = 1");
    (1..4).for_each(|number| queue.push(request(number, 10)));
    assert_eq!(number(&queue.take().unwrap().unwrap()), 0);
    queue.finish();
    assert!(queue.failure().is_some());
    assert_eq!(
        (queue.requests(), queue.in_memory_only(), queue.dropped()),
        (3, 3, DroppedRequests::default())
    );
    store(&queue, "PRAGMA query_only = 0");
    queue.push(request(4, 10));
    assert!(queue.failure().is_none());
    drop(queue);
    // The first one was answered: it is not sent again.
    assert_eq!(drain(&mut open(directory.path())), [1, 2, 3, 4]);
}

#[test]
fn the_file_has_a_bound_and_its_room_is_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { bytes: 2_000_000, ..ANY };
    let mut queue = Queue::in_directory(directory.path(), limits).unwrap();
    for number in 0..1000 {
        queue.push(request(number, 10_000));
        assert!(queue.bytes() <= limits.bytes);
    }
    assert!(queue.dropped().overflow >= 800, "{:?}", queue.dropped());
    let size = size(directory.path());
    assert!(size < 2 * limits.bytes + (5 << 20), "{size} bytes");
    let left = drain(&mut queue);
    assert_eq!(left.last(), Some(&999));
    assert!(left.is_sorted());
}

#[test]
fn after_a_restart_a_smaller_limit_holds() {
    let directory = tempfile::tempdir().unwrap();
    let mut queue = open(directory.path());
    (0..500).for_each(|number| queue.push(request(number, 1000)));
    drop(queue);
    let limits = Limits { bytes: 2500, ..ANY };
    let mut queue = Queue::in_directory(directory.path(), limits).unwrap();
    assert_eq!(queue.dropped().overflow, 498);
    queue.push(request(500, 10));
    assert_eq!(drain(&mut queue), [498, 499, 500]);
}

/// The age is the time that exporters have run since then. No step of a clock changes it, nor the time that a robot is
/// switched off for.
#[test]
fn requests_expire_after_the_time_that_exporters_ran() {
    let directory = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3600);
    let limits = Limits { age: 72 * hour, ..ANY };
    let open = || Queue::in_directory(directory.path(), limits).unwrap();
    let mut queue = open();
    queue.push(request(0, 10));
    queue.before += 71 * hour;
    queue.push(request(1, 10));
    drop(queue);
    let mut queue = open();
    assert_eq!(queue.requests(), 2, "71 hours");
    queue.before += 2 * hour;
    assert_eq!(number(&queue.take().unwrap().unwrap()), 1);
    assert_eq!(queue.dropped(), DroppedRequests { expired: 1, ..DroppedRequests::default() });
    queue.put_back();
    queue.before += 71 * hour;
    assert_eq!((drain(&mut queue), queue.dropped().expired), (vec![], 2));
    drop(queue);
    assert_eq!(open().requests(), 0);
}

#[test]
fn only_the_owner_can_read_what_waits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("robot/otlp");
    let mut queue = open(&path);
    queue.push(request(0, 0));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_directory_is_of_one_process_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut queue = open(directory.path());
    queue.push(request(0, 0));
    let error = Queue::in_directory(directory.path(), ANY).unwrap_err().to_string();
    assert!(error.contains("it is in use by another process"), "{error}");
    drop(queue);
    assert_eq!(drain(&mut open(directory.path())), [0]);
    let error = Queue::in_directory(Path::new("/proc/none"), ANY).unwrap_err().to_string();
    assert!(error.starts_with("The directory /proc/none for requests that wait cannot be used: "), "{error}");
}

/// SIGKILL at any moment: a process pushes and removes, and is killed. What it had confirmed is there, in order, and
/// nothing else.
#[test]
fn what_was_confirmed_is_there_after_sigkill() {
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };
    const PATH: &str = "TOPIC_STATISTICS_QUEUE";
    if let Some(path) = std::env::var_os(PATH) {
        let mut queue = open(Path::new(&path));
        let first = queue.waiting.back().map_or(0, |last| number(&queue.body(last).unwrap()) + 1);
        for number in first.. {
            println!("+{number}");
            queue.push(request(number, 3000));
            println!("={number}");
            if number % 3 == 0 {
                let oldest = self::number(&queue.take().unwrap().unwrap());
                println!("-{oldest}");
                queue.finish();
                println!("_{oldest}");
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let mut expected: Vec<u64> = vec![];
    for run in 0..12 {
        let test = std::thread::current().name().unwrap().to_owned();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &test, "--nocapture"]).env(PATH, directory.path()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut pushing, mut finishing, mut steps) = (None, None, 0);
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some((action, Ok(number))) =
                line.split_at_checked(1).map(|(action, rest)| (action, rest.parse()))
            else {
                continue;
            };
            match action {
                "+" => pushing = Some(number),
                "=" => expected.extend(pushing.take()),
                "-" => finishing = Some(number),
                "_" => expected.retain(|kept| Some(*kept) != finishing),
                _ => continue,
            }
            if action == "_" {
                finishing = None;
            }
            steps += 1;
            if steps == 20 + 7 * run {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let queue = open(directory.path());
        let there: Vec<u64> =
            queue.waiting.iter().map(|request| number(&queue.body(request).unwrap())).collect();
        assert_eq!(queue.dropped(), DroppedRequests::default());
        // What had only begun may be there or not.
        let confirmed: Vec<u64> =
            expected.iter().copied().filter(|number| Some(*number) != finishing).collect();
        let without: Vec<u64> = there
            .iter()
            .copied()
            .filter(|number| Some(*number) != pushing && Some(*number) != finishing)
            .collect();
        assert_eq!(without, confirmed, "run {run}");
        assert!(there.is_sorted_by(|before, after| before < after));
        expected = there;
    }
    assert!(expected.len() > 50, "{}", expected.len());
}

/// A robot of 50 topics sends 10.7 kB each 10 s: the default limits hold 16 hours of it, also over restarts.
#[test]
fn sixteen_hours_without_a_network_are_kept_in_order() {
    const HOUR: u64 = 360;
    let limits = Limits { bytes: 64_000_000, age: Duration::from_secs(72 * 3600) };
    // The order is meant here, not the disk.
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let directory = directory.unwrap();
    let body = request(0, 10_600);
    let push = |queue: &mut Queue, numbers: std::ops::Range<u64>| {
        for _ in numbers {
            queue.push(body.clone());
        }
    };
    let mut queue = Queue::in_directory(directory.path(), limits).unwrap();
    push(&mut queue, 0..8 * HOUR);
    drop(queue);
    let mut queue = Queue::in_directory(directory.path(), limits).unwrap();
    push(&mut queue, 8 * HOUR..16 * HOUR);
    assert_eq!((queue.requests(), queue.in_memory_only()), (16 * HOUR as usize, 0));
    assert_eq!(queue.dropped(), DroppedRequests::default());
    push(&mut queue, 16 * HOUR..18 * HOUR);
    let overflow = queue.dropped().overflow;
    assert!((HOUR..2 * HOUR).contains(&overflow) && queue.bytes() <= limits.bytes, "{overflow}");
    drop(queue);
    let mut queue = Queue::in_directory(directory.path(), limits).unwrap();
    let mut last = None;
    for _ in 0..18 * HOUR - overflow {
        let sequence = queue.waiting.front().unwrap().request.sequence;
        assert!(last.is_none_or(|last| sequence == last + 1), "{sequence} after {last:?}");
        last = Some(sequence);
        assert_eq!(**queue.take().unwrap().unwrap(), body);
        queue.finish();
    }
    assert!(queue.take().unwrap().is_none());
}
