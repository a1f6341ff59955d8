// SPDX-License-Identifier: Apache-2.0

//! Requests that wait for the collector: in order and bounded, in memory or on disk.
//!
//! What cannot be written to the disk waits in memory, and is written as soon as that is possible. Only damage and the
//! limits remove a request that was not answered.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use thiserror::Error;

use super::store::{Store, StoreError, Stored};
use crate::state::DroppedRequests;

/// The limits of the waiting requests. Beyond them the oldest requests are dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Their bytes, compressed.
    pub bytes: u64,
    /// How long one waits, while an exporter runs. No clock that can be stepped measures it.
    pub age: Duration,
}

/// Why the directory cannot be used.
#[derive(Debug, Error)]
#[error("The directory {path} for requests that wait cannot be used: {source}")]
pub struct QueueError {
    path: PathBuf,
    source: StoreError,
}

/// A queue of requests. One of them at a time is [taken](Self::take), and then [finished](Self::finish) or
/// [put back](Self::put_back).
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    disk: Option<Disk>,
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    /// The one that is taken. It counts towards the limits, and is not dropped.
    taken: Option<Waiting>,
    /// Of the waiting requests and the taken one.
    bytes: u64,
    next: u64,
    /// How long exporters had run at `started`, as far as the queue has requests of theirs.
    before: Duration,
    started: Instant,
    dropped: DroppedRequests,
}

#[derive(Debug)]
struct Waiting {
    request: Stored,
    /// None if it is on disk only.
    body: Option<Arc<Vec<u8>>>,
    is_on_disk: bool,
}

/// The place on disk.
#[derive(Debug)]
struct Disk {
    directory: PathBuf,
    /// None if the file cannot be opened at present.
    store: Option<Store>,
    /// Requests that are still to be removed.
    removed: Vec<u64>,
    /// Why the last change failed.
    failure: Option<StoreError>,
    /// A damaged file that was set aside.
    set_aside: Option<PathBuf>,
}

impl Queue {
    /// A queue in memory.
    pub fn in_memory(limits: Limits) -> Self {
        Self {
            limits,
            disk: None,
            waiting: VecDeque::new(),
            taken: None,
            bytes: 0,
            next: 0,
            before: Duration::ZERO,
            started: Instant::now(),
            dropped: DroppedRequests::default(),
        }
    }

    /// A queue in a directory, with the requests that are still in it.
    ///
    /// A directory that does not exist is made, with permission for its owner only. A damaged file is set aside. On a
    /// full disk, requests wait in memory.
    pub fn in_directory(path: &Path, limits: Limits) -> Result<Self, QueueError> {
        let mut queue = Self::in_memory(limits);
        let directory = path.to_owned();
        queue.disk = Some(Disk { directory, store: None, removed: vec![], failure: None, set_aside: None });
        queue.write();
        queue.make_room(0);
        queue.write();
        match queue.disk.as_mut().and_then(|disk| disk.failure.take_if(|failure| !failure.is_full())) {
            Some(source) => Err(QueueError { path: path.to_owned(), source }),
            None => Ok(queue),
        }
    }

    /// Adds a request, as [`compress`](crate::compression::compress) gives it. The oldest that wait are dropped as far
    /// as the limits demand it.
    pub fn push(&mut self, body: Vec<u8>) {
        let bytes = body.len() as u64;
        if bytes + self.taken.as_ref().map_or(0, |taken| taken.request.bytes) > self.limits.bytes {
            self.dropped.overflow += 1;
            return;
        }
        self.make_room(bytes);
        let request = Stored { sequence: self.next, added: self.now(), bytes };
        self.next += 1;
        self.bytes += bytes;
        self.waiting.push_back(Waiting { request, body: Some(Arc::new(body)), is_on_disk: false });
        self.write();
    }

    /// The oldest request. It stays in the queue until it is finished. Damaged ones are dropped.
    ///
    /// An error is that of the disk, and the request is still there.
    pub fn take(&mut self) -> Result<Option<Arc<Vec<u8>>>, StoreError> {
        self.put_back();
        self.make_room(0);
        let taken = loop {
            let Some(oldest) = self.waiting.pop_front() else { break Ok(None) };
            match self.body(&oldest) {
                Ok(body) => {
                    self.taken = Some(oldest);
                    break Ok(Some(body));
                }
                Err(error) if error.is_damage() => {
                    self.dropped.damaged += 1;
                    self.discard(&oldest);
                }
                Err(error) => {
                    self.waiting.push_front(oldest);
                    break Err(error);
                }
            }
        };
        if self.disk.as_ref().is_some_and(|disk| !disk.removed.is_empty()) {
            self.write();
        }
        taken
    }

    fn body(&self, request: &Waiting) -> Result<Arc<Vec<u8>>, StoreError> {
        match (&request.body, &self.disk) {
            (Some(body), _) => Ok(Arc::clone(body)),
            (None, Some(disk)) => disk.read(request.request.sequence).map(Arc::new),
            (None, None) => Err(StoreError::Damaged),
        }
    }

    /// Removes the request that is taken.
    pub fn finish(&mut self) {
        if let Some(request) = self.taken.take() {
            self.discard(&request);
            self.write();
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

    /// Those of them that the end of the process would lose.
    pub fn in_memory_only(&self) -> usize {
        self.waiting.iter().chain(&self.taken).filter(|request| !request.is_on_disk).count()
    }

    /// Their bytes, compressed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The requests dropped since the queue was made.
    pub fn dropped(&self) -> DroppedRequests {
        self.dropped
    }

    /// Returns why requests wait in memory instead of on disk. None if they do not.
    pub fn failure(&self) -> Option<&StoreError> {
        self.disk.as_ref()?.failure.as_ref()
    }

    /// Returns a damaged file that was set aside since the last call.
    pub fn take_set_aside(&mut self) -> Option<PathBuf> {
        self.disk.as_mut()?.set_aside.take()
    }

    fn now(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    /// Drops the oldest until `bytes` more fit, and those that have waited for too long.
    fn make_room(&mut self, bytes: u64) {
        let now = self.now();
        while let Some(oldest) = self.waiting.front() {
            let reason = if self.bytes + bytes > self.limits.bytes {
                &mut self.dropped.overflow
            } else if now.saturating_sub(oldest.request.added) > self.limits.age {
                &mut self.dropped.expired
            } else {
                return;
            };
            *reason += 1;
            if let Some(oldest) = self.waiting.pop_front() {
                self.discard(&oldest);
            }
        }
    }

    /// Forgets a request. [`write`](Self::write) removes it from the disk.
    fn discard(&mut self, request: &Waiting) {
        self.bytes -= request.request.bytes;
        if let Some(disk) = self.disk.as_mut().filter(|_| request.is_on_disk) {
            disk.removed.push(request.request.sequence);
        }
    }

    /// Writes the changes to the disk, as far as that is possible.
    fn write(&mut self) {
        let mut result = self.try_write();
        if result.as_ref().is_err_and(StoreError::is_damage) {
            result = self.set_aside().and_then(|()| self.try_write());
        }
        if let Some(disk) = &mut self.disk {
            disk.failure = result.err();
        }
    }

    fn try_write(&mut self) -> Result<(), StoreError> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        if disk.store.is_none() {
            let store = Store::open(&disk.directory)?;
            let (stored, next) = store.list()?;
            disk.store = Some(store);
            self.append_to(stored, next);
        }
        let Some(Disk { store: Some(store), removed, .. }) = &mut self.disk else { return Ok(()) };
        if !removed.is_empty() {
            store.remove(removed)?;
            removed.clear();
        }
        let requests = self.taken.iter_mut().chain(&mut self.waiting);
        for request in requests.filter(|request| !request.is_on_disk) {
            if let Some(body) = &request.body {
                store.add(request.request, body)?;
                request.is_on_disk = true;
                request.body = None;
            }
        }
        Ok(())
    }

    /// Puts requests that are on disk before all others, whose sequence numbers follow.
    fn append_to(&mut self, stored: Vec<Stored>, next: u64) {
        let before = stored.iter().map(|request| request.added).max().unwrap_or_default();
        self.before += before;
        self.next = next;
        for request in self.taken.iter_mut().chain(&mut self.waiting) {
            request.request.sequence = self.next;
            request.request.added += before;
            self.next += 1;
        }
        for request in stored.into_iter().rev() {
            self.bytes += request.bytes;
            self.waiting.push_front(Waiting { request, body: None, is_on_disk: true });
        }
    }

    /// Sets a damaged file aside. What can still be read of it is in memory then.
    fn set_aside(&mut self) -> Result<(), StoreError> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let was_read = disk.store.is_some();
        for request in self.taken.iter_mut().chain(&mut self.waiting) {
            if request.body.is_none() {
                request.body = disk.read(request.request.sequence).ok().map(Arc::new);
            }
            request.is_on_disk = false;
        }
        let before = self.requests();
        self.taken.take_if(|request| request.body.is_none());
        self.waiting.retain(|request| request.body.is_some());
        self.bytes = self.waiting.iter().chain(&self.taken).map(|request| request.request.bytes).sum();
        // How many were in a file that cannot be opened is unknown.
        let lost = (before - self.requests()) as u64;
        self.dropped.damaged += if was_read { lost } else { 1 };
        let Some(disk) = &mut self.disk else { return Ok(()) };
        disk.store = None;
        disk.removed.clear();
        disk.set_aside = Some(Store::set_aside(&disk.directory)?);
        Ok(())
    }
}

impl Disk {
    fn read(&self, sequence: u64) -> Result<Vec<u8>, StoreError> {
        self.store.as_ref().ok_or(StoreError::Damaged)?.read(sequence)
    }
}

#[cfg(test)]
mod tests;
