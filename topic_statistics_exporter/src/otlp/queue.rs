// SPDX-License-Identifier: Apache-2.0

//! Requests that wait for the collector: in order and bounded, in memory or in a directory.
//!
//! A request is held as a gzip stream. On disk its checksum shows damage.

use std::{
    collections::VecDeque,
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use flate2::{bufread::MultiGzDecoder, write::GzEncoder, Compression};
use rustix::fs::{flock, FlockOperation};
use thiserror::Error;

use crate::state::DroppedRequests;

/// The largest request, in bytes before compression, as OTLP's specification recommends to clients and servers.
pub const MAX_REQUEST: u64 = 20 << 20;

/// The end of the name of a request's file. Before it stands the sequence number.
const SUFFIX: &str = ".pb.gz";

/// The start of the name of a file that is not complete yet.
const INCOMPLETE: &str = ".incomplete-";

/// Compresses the bytes of a request.
pub fn compress(request: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // A Vec takes all that is written to it.
    let _never_fails = encoder.write_all(request);
    encoder.finish().unwrap_or_default()
}

/// The bytes of a request, from the output of [`compress`].
///
/// It is an error if they are damaged, or more than [`MAX_REQUEST`].
pub fn decompress(compressed: &[u8]) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    MultiGzDecoder::new(compressed).take(MAX_REQUEST + 1).read_to_end(&mut request)?;
    if request.len() as u64 > MAX_REQUEST {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    Ok(request)
}

/// The limits of the waiting requests. Beyond them the oldest requests are dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Requests.
    pub requests: usize,
    /// Their bytes, compressed.
    pub bytes: u64,
}

/// Why the directory cannot be used.
#[derive(Debug, Error)]
pub enum QueueError {
    /// It cannot be made, listed or locked.
    #[error("The directory {path} for requests that wait cannot be used: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Another exporter has it.
    #[error("The directory {path} for requests that wait is in use by another process: give each exporter its own")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
}

/// A queue of requests. One of them at a time is [taken](Self::take), and then [finished](Self::finish) or
/// [put back](Self::put_back).
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    directory: Option<Directory>,
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    /// The one that is taken. It counts towards the limits, and is not dropped.
    taken: Option<Waiting>,
    /// Of the waiting requests and the taken one.
    bytes: u64,
    next: u64,
    dropped: DroppedRequests,
}

#[derive(Debug)]
struct Waiting {
    sequence: u64,
    bytes: u64,
    /// None if it is on disk.
    body: Option<Arc<Vec<u8>>>,
}

impl Queue {
    /// A queue in memory.
    pub fn in_memory(limits: Limits) -> Self {
        Self {
            limits,
            directory: None,
            waiting: VecDeque::new(),
            taken: None,
            bytes: 0,
            next: 0,
            dropped: DroppedRequests::default(),
        }
    }

    /// A queue in a directory, with the requests that are still in it.
    ///
    /// A directory that does not exist is made, with permission for its owner only.
    pub fn in_directory(path: &Path, limits: Limits) -> Result<Self, QueueError> {
        let directory = Directory::open(path)?;
        let mut waiting =
            directory.list().map_err(|source| QueueError::Directory { path: path.to_owned(), source })?;
        waiting.sort_unstable_by_key(|request| request.sequence);
        let mut queue = Self::in_memory(limits);
        queue.directory = Some(directory);
        queue.next = waiting.last().map_or(0, |newest| newest.sequence + 1);
        queue.bytes = waiting.iter().map(|request| request.bytes).sum();
        queue.waiting = waiting.into();
        queue.make_room(0, 0);
        Ok(queue)
    }

    /// Adds a request, as [`compress`] gives it. The oldest that wait are dropped as far as the limits demand it.
    pub fn push(&mut self, body: Vec<u8>) {
        let bytes = body.len() as u64;
        let taken = self.taken.as_ref();
        if 1 + usize::from(taken.is_some()) > self.limits.requests
            || bytes + taken.map_or(0, |taken| taken.bytes) > self.limits.bytes
        {
            self.dropped.overflow += 1;
            return;
        }
        self.make_room(1, bytes);
        let sequence = self.next;
        let body = match &self.directory {
            Some(directory) => {
                if directory.write(sequence, &body).is_err() {
                    self.dropped.unwritten += 1;
                    return;
                }
                None
            }
            None => Some(Arc::new(body)),
        };
        self.next += 1;
        self.bytes += bytes;
        self.waiting.push_back(Waiting { sequence, bytes, body });
    }

    /// The oldest request. It stays in the queue until it is finished. Damaged ones are dropped.
    pub fn take(&mut self) -> Option<Arc<Vec<u8>>> {
        self.put_back();
        while let Some(request) = self.waiting.pop_front() {
            let body = match &self.directory {
                Some(directory) => directory.read(request.sequence).ok().map(Arc::new),
                None => request.body.clone(),
            };
            if let Some(body) = body {
                self.taken = Some(request);
                return Some(body);
            }
            self.discard(&request);
            self.dropped.damaged += 1;
        }
        None
    }

    /// Removes the request that is taken.
    pub fn finish(&mut self) {
        if let Some(request) = self.taken.take() {
            self.discard(&request);
        }
    }

    /// Lets the request that is taken wait again, as the oldest.
    pub fn put_back(&mut self) {
        if let Some(request) = self.taken.take() {
            self.waiting.push_front(request);
        }
    }

    /// Requests that wait, with the one that is taken.
    pub fn requests(&self) -> usize {
        self.waiting.len() + usize::from(self.taken.is_some())
    }

    /// Their bytes, compressed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The requests dropped since the queue was made.
    pub fn dropped(&self) -> DroppedRequests {
        self.dropped
    }

    /// Drops the oldest until `requests` more with `bytes` bytes fit.
    fn make_room(&mut self, requests: usize, bytes: u64) {
        while self.requests() + requests > self.limits.requests || self.bytes + bytes > self.limits.bytes {
            let Some(oldest) = self.waiting.pop_front() else { return };
            self.discard(&oldest);
            self.dropped.overflow += 1;
        }
    }

    fn discard(&mut self, request: &Waiting) {
        self.bytes -= request.bytes;
        if let Some(directory) = &self.directory {
            directory.remove(request.sequence);
        }
    }
}

/// The requests' files. No other process uses them.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// The lock ends with it.
    _lock: File,
}

impl Directory {
    fn open(path: &Path) -> Result<Self, QueueError> {
        let unusable = |source| QueueError::Directory { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let lock = File::create(path.join("lock")).map_err(unusable)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error == rustix::io::Errno::WOULDBLOCK {
                QueueError::InUse { path: path.to_owned() }
            } else {
                unusable(error.into())
            }
        })?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The requests that are there, in any order. Files that were never completed are removed; foreign ones are left.
    fn list(&self) -> io::Result<Vec<Waiting>> {
        let mut requests = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(INCOMPLETE) {
                fs::remove_file(entry.path())?;
            } else if let Some(sequence) = sequence(name) {
                requests.push(Waiting { sequence, bytes: entry.metadata()?.len(), body: None });
            }
        }
        Ok(requests)
    }

    fn file(&self, sequence: u64) -> PathBuf {
        self.path.join(format!("{sequence:020}{SUFFIX}"))
    }

    /// Writes a file that is there as a whole or not at all, also after a loss of power.
    fn write(&self, sequence: u64, body: &[u8]) -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(INCOMPLETE).tempfile_in(&self.path)?;
        file.write_all(body)?;
        file.as_file().sync_data()?;
        file.persist(self.file(sequence))?;
        Ok(())
    }

    fn read(&self, sequence: u64) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        File::open(self.file(sequence))?.take(MAX_REQUEST).read_to_end(&mut body)?;
        decompress(&body)?;
        Ok(body)
    }

    fn remove(&self, sequence: u64) {
        // Somebody may have removed it already. If it cannot be removed, it is sent again after a restart.
        let _is_gone = fs::remove_file(self.file(sequence));
    }
}

/// The sequence number in the name of a request's file; None for another name.
fn sequence(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let sequence = digits.parse().ok()?;
    // Only names that `file` writes, far from the last number.
    (sequence < u64::MAX / 2 && digits == format!("{sequence:020}")).then_some(sequence)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    const ANY: Limits = Limits { requests: usize::MAX, bytes: u64::MAX };

    /// A unique request of `bytes` bytes that do not compress.
    fn request(number: u64, bytes: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(number);
        compress(
            &number.to_be_bytes().into_iter().chain((0..bytes).map(|_| random.u8(..))).collect::<Vec<_>>(),
        )
    }

    fn number(body: &[u8]) -> u64 {
        u64::from_be_bytes(decompress(body).unwrap()[..8].try_into().unwrap())
    }

    /// Sends all that waits.
    fn drain(queue: &mut Queue) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some(body) = queue.take() {
            numbers.push(number(&body));
            queue.finish();
        }
        numbers
    }

    fn files(path: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| name != "lock");
        names.sort();
        names
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

        fn push(&mut self, number: u64, bytes: u64, limits: Limits) {
            self.requests.push((number, bytes));
            while self.requests.len() > limits.requests || self.bytes() > limits.bytes {
                let oldest = usize::from(self.is_taken);
                // A request that cannot fit displaces none.
                let kept: u64 = self.requests[..oldest].iter().map(|(_, bytes)| bytes).sum();
                let fits = oldest < limits.requests && kept + bytes <= limits.bytes;
                if fits {
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
        fn order_and_bounds_hold_after_any_steps(
            steps in steps(),
            on_disk in any::<bool>(),
            requests in 1..6_usize,
            bytes in 100..1500_u64,
        ) {
            let limits = Limits { requests, bytes };
            let directory = tempfile::tempdir().unwrap();
            let open = || Queue::in_directory(directory.path(), limits).unwrap();
            let mut queue = if on_disk { open() } else { Queue::in_memory(limits) };
            let mut model = Model::default();
            for (pushed, step) in (0..).zip(steps) {
                match step {
                    Step::Push(bytes) => {
                        let body = request(pushed, bytes);
                        model.push(pushed, body.len() as u64, limits);
                        queue.push(body);
                    }
                    Step::Take => {
                        let taken = queue.take().map(|body| number(&body));
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
                prop_assert_eq!(queue.bytes(), model.bytes());
                prop_assert_eq!(queue.dropped(), DroppedRequests { overflow: model.dropped, ..DroppedRequests::default() });
                prop_assert!(queue.requests() <= limits.requests && queue.bytes() <= limits.bytes);
                if on_disk {
                    prop_assert_eq!(files(directory.path()).len(), model.requests.len());
                }
            }
            let left: Vec<_> = model.requests.iter().map(|(number, _)| *number).collect();
            prop_assert_eq!(drain(&mut queue), left);
            prop_assert_eq!((queue.requests(), queue.bytes()), (0, 0));
            prop_assert!(files(directory.path()).is_empty());
        }
    }

    #[test]
    fn a_damaged_file_is_skipped_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let mut queue = Queue::in_directory(directory.path(), ANY).unwrap();
        (0..6).for_each(|number| queue.push(request(number, 1000)));
        drop(queue);
        let file = |number: u64| directory.path().join(format!("{number:020}.pb.gz"));
        let mut flipped = fs::read(file(1)).unwrap();
        flipped[600] ^= 1;
        fs::write(file(1), flipped).unwrap();
        fs::write(file(2), &fs::read(file(2)).unwrap()[..700]).unwrap();
        fs::write(file(3), b"").unwrap();
        let mut longer = fs::read(file(4)).unwrap();
        longer.extend(*b"and more");
        fs::write(file(4), longer).unwrap();
        let mut queue = Queue::in_directory(directory.path(), ANY).unwrap();
        assert_eq!(drain(&mut queue), [0, 5]);
        assert_eq!(queue.dropped(), DroppedRequests { damaged: 4, ..DroppedRequests::default() });
        assert_eq!((queue.requests(), queue.bytes()), (0, 0));
        assert!(files(directory.path()).is_empty());
    }

    #[test]
    fn a_request_that_swells_beyond_the_largest_is_damaged() {
        let bomb = compress(&vec![0; MAX_REQUEST as usize + 1]);
        assert!(bomb.len() < 200_000);
        assert!(decompress(&bomb).is_err());
        assert_eq!(decompress(&compress(&vec![0; MAX_REQUEST as usize])).unwrap().len() as u64, MAX_REQUEST);
    }

    #[test]
    fn files_that_were_never_completed_go_and_foreign_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let names = [
            ".incomplete-x1",
            "1.pb.gz",
            "99999999999999999999.pb.gz",
            "18446744073709551615.pb.gz",
            "notes.txt",
        ];
        names.iter().for_each(|name| fs::write(directory.path().join(name), b"x").unwrap());
        let mut queue = Queue::in_directory(directory.path(), ANY).unwrap();
        assert_eq!(queue.requests(), 0);
        queue.push(request(7, 0));
        assert_eq!(drain(&mut queue), [7]);
        let mut foreign = names[1..].to_vec();
        foreign.sort_unstable();
        assert_eq!(files(directory.path()), foreign);
    }

    #[test]
    fn after_a_restart_a_smaller_limit_holds() {
        let directory = tempfile::tempdir().unwrap();
        let mut queue = Queue::in_directory(directory.path(), ANY).unwrap();
        (0..5).for_each(|number| queue.push(request(number, 10)));
        drop(queue);
        let mut queue = Queue::in_directory(directory.path(), Limits { requests: 2, ..ANY }).unwrap();
        assert_eq!(queue.dropped().overflow, 3);
        assert_eq!(files(directory.path()).len(), 2);
        queue.push(request(5, 10));
        assert_eq!(drain(&mut queue), [4, 5]);
    }

    #[test]
    fn only_the_owner_can_read_what_waits() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("robot/otlp");
        let mut queue = Queue::in_directory(&path, ANY).unwrap();
        queue.push(request(0, 0));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join("00000000000000000000.pb.gz")), 0o600);
    }

    #[test]
    fn a_directory_is_of_one_process_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let queue = Queue::in_directory(directory.path(), ANY).unwrap();
        assert!(matches!(Queue::in_directory(directory.path(), ANY), Err(QueueError::InUse { .. })));
        drop(queue);
        assert!(Queue::in_directory(directory.path(), ANY).is_ok());
        let error = Queue::in_directory(Path::new("/proc/none"), ANY).unwrap_err();
        assert!(error
            .to_string()
            .starts_with("The directory /proc/none for requests that wait cannot be used: "));
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_the_rest_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("queue");
        let mut queue = Queue::in_directory(&path, ANY).unwrap();
        queue.push(request(0, 0));
        // Nothing can be written where there is no directory, whoever runs the test.
        let elsewhere = directory.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        queue.push(request(1, 0));
        assert_eq!(queue.dropped(), DroppedRequests { unwritten: 1, ..DroppedRequests::default() });
        fs::rename(&elsewhere, &path).unwrap();
        queue.push(request(2, 0));
        assert_eq!(drain(&mut queue), [0, 2]);
    }
}
