// SPDX-License-Identifier: Apache-2.0

//! The writer of the black box: a thread that keeps the last messages, and writes them to a file after a trigger.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use mcap::write::Metadata;
use topic_statistics_observe::{
    format::number_of,
    recorded::{BLACK_BOX, TRIGGER},
    ros::signals::user_signal,
};

use super::{ring::Ring, schedule::Cause, shown, BlackBox};
use crate::record::{
    file::{BagFile, TopicInFile, WriteError},
    options::Options,
    queue::Next,
    topic::{QueuedMessage, Recording},
    totals::{Losses, Written},
    writer::Writer as RecordWriter,
    RecordError,
};

pub struct Writer {
    options: Options,
    black_box: Arc<BlackBox>,
    recording: Arc<Recording>,
    signal: Arc<AtomicBool>,
    ring: Ring,
    file: Option<OpenFile>,
    files: u32,
    has_reported_size: bool,
}

struct OpenFile {
    file: BagFile,
    path: PathBuf,
    triggered: Instant,
    kept: Duration,
    next_flush: Instant,
    metadata: BTreeMap<String, String>,
}

enum Ended {
    Complete,
    ProgramEnds,
    Failed(WriteError),
}

impl OpenFile {
    fn flush(&mut self) -> Result<(), WriteError> {
        self.next_flush = Instant::now() + RecordWriter::FLUSH;
        self.file.flush(alone)
    }
}

/// Returns a topic's counts in this file as its counts in the whole recording, because each file of the black box is a
/// recording of its own.
fn alone(in_file: &TopicInFile) -> (Written, Losses) {
    (in_file.written, in_file.lost())
}

impl Writer {
    /// The longest time between two checks of the triggers.
    const TICK: Duration = Duration::from_millis(100);

    pub fn new(
        options: Options,
        black_box: Arc<BlackBox>,
        recording: Arc<Recording>,
    ) -> Result<Self, RecordError> {
        let signal = user_signal().map_err(RecordError::Thread)?;
        let ring = Ring::new(black_box.max_bytes, Instant::now());
        let has_reported_size = false;
        Ok(Self { options, black_box, recording, signal, ring, file: None, files: 0, has_reported_size })
    }

    /// Runs until the queue is closed. Returns a line that describes what was written.
    pub fn run(mut self) -> Result<String, RecordError> {
        loop {
            match self.recording.queue.pop(Instant::now() + Self::TICK) {
                Next::Message(message) => {
                    let received = message.received;
                    self.step(received);
                    self.store(message);
                }
                Next::Nothing => self.step(Instant::now()),
                Next::Closed => break,
            }
        }
        self.write_triggers();
        self.end(Ended::ProgramEnds, Instant::now());
        if self.black_box.schedule().is_waiting() {
            self.begin();
            self.end(Ended::ProgramEnds, Instant::now());
        }
        self.recording.set_ended();
        let losses = self.recording.topics().iter().fold(Losses::NONE, |sum, topic| sum.and(topic.losses()));
        Ok(format!("wrote {}; {losses}", number_of(self.files.into(), "file")))
    }

    fn store(&mut self, message: QueuedMessage) {
        if let Some(open) = &mut self.file {
            let before = self.ring.losses_before(message.topic.index);
            if let Err(error) = open.file.write(&message, before) {
                self.end(Ended::Failed(error), Instant::now());
            }
        }
        self.ring.push(message);
        let kept = Instant::now().saturating_duration_since(self.ring.complete_since());
        let wanted = self.black_box.last;
        if self.ring.is_cut() && kept < wanted && !self.has_reported_size {
            self.has_reported_size = true;
            let (max, [kept, wanted]) =
                (self.black_box.max_bytes, [kept, wanted].map(|time| time.as_secs_f64()));
            self.black_box.report(format!(
                "only the last {kept:.1} s of messages fit in {max} bytes, not {wanted:.1} s: increase --max-cache-size"
            ));
        }
    }

    /// Begins and ends files. Before this call, all messages received before `now` must have been accepted.
    fn step(&mut self, now: Instant) {
        if self.signal.swap(false, Ordering::Relaxed) {
            self.black_box.trigger(Cause::Signal);
        }
        self.write_triggers();
        let over = self.black_box.schedule().end(now);
        if let Some(until) = over {
            self.end(Ended::Complete, until);
        }
        let flushed =
            self.file.as_mut().filter(|open| Instant::now() >= open.next_flush).map(OpenFile::flush);
        if let Some(Err(error)) = flushed {
            self.end(Ended::Failed(error), Instant::now());
        }
        let (keeps_from, is_due) = {
            let schedule = self.black_box.schedule();
            (schedule.keeps_from(now), schedule.is_due(Instant::now()))
        };
        self.ring.drop_before(keeps_from);
        if is_due {
            self.begin();
        }
    }

    fn write_triggers(&mut self) {
        let Some(open) = &mut self.file else { return };
        let triggers = self.black_box.schedule().take_triggers();
        let mut written =
            triggers.iter().map(|trigger| open.file.add_metadata(TRIGGER, trigger.to_metadata()));
        if let Some(error) = written.find_map(Result::err) {
            self.end(Ended::Failed(error), Instant::now());
        }
    }

    fn begin(&mut self) {
        let triggers = self.black_box.schedule().begin(Instant::now());
        let Some(first) = triggers.first() else { return };
        let path = self.black_box.files.path(first.time);
        let file = match BagFile::create(&path, &self.options) {
            Ok(file) => file,
            Err(error) => {
                self.black_box.schedule().abort();
                return self.black_box.report(format!("the file of {} is not written: {error}", first.cause));
            }
        };
        if let Err(error) = self.black_box.files.remove_oldest(&path) {
            self.black_box.report(format!("the oldest recording cannot be removed: {error}"));
        }
        let wanted = self.black_box.last;
        let kept = first.at.saturating_duration_since(self.ring.complete_since()).min(wanted);
        let metadata = [
            ("last_seconds", wanted.as_secs_f64().to_string()),
            ("after_seconds", self.black_box.after.as_secs_f64().to_string()),
            ("kept_seconds", kept.as_secs_f64().to_string()),
            ("max_cache_size", self.black_box.max_bytes.to_string()),
            ("is_cut_by_max_cache_size", (self.ring.is_cut() && kept < wanted).to_string()),
        ];
        let metadata = BTreeMap::from(metadata.map(|(key, value)| (key.to_owned(), value)));
        let next_flush = Instant::now() + RecordWriter::FLUSH;
        let mut open = OpenFile { file, path, triggered: first.at, kept, next_flush, metadata };
        let written = open.file.add_metadata(BLACK_BOX, open.metadata.clone()).and_then(|()| {
            triggers.iter().try_for_each(|trigger| open.file.add_metadata(TRIGGER, trigger.to_metadata()))?;
            self.ring.set_latched_times();
            let mut all = self.ring.latched().chain(self.ring.messages());
            all.try_for_each(|message| {
                open.file.write(message, self.ring.losses_before(message.topic.index))
            })?;
            open.flush()
        });
        self.file = Some(open);
        if let Err(error) = written {
            self.end(Ended::Failed(error), Instant::now());
        }
    }

    /// Ends the file that is being written, if a file is open. The file has the messages received up to `until`.
    fn end(&mut self, ended: Ended, until: Instant) {
        let Some(OpenFile { mut file, path, triggered, kept, mut metadata, .. }) = self.file.take() else {
            return;
        };
        let left_out = {
            let mut schedule = self.black_box.schedule();
            schedule.abort();
            schedule.take_left_out()
        };
        for topic in self.recording.topics() {
            file.set_losses(&topic, self.ring.losses_before(topic.index));
        }
        let (messages, path) = (file.info().messages, shown(&path));
        let [before, after] =
            [kept, until.saturating_duration_since(triggered)].map(|time| time.as_secs_f64());
        let reason = match ended {
            Ended::Complete => "complete",
            Ended::ProgramEnds => "program_ended",
            Ended::Failed(_) => "disk_full",
        };
        metadata.insert("ended".to_owned(), reason.to_owned());
        metadata.insert("triggers_left_out".to_owned(), left_out.to_string());
        let more = Metadata { name: BLACK_BOX.to_owned(), metadata };
        let finished = match ended {
            Ended::Failed(error @ WriteError::Failed(_)) => Err(error), // the file cannot be completed
            _ => file.finish(Some(more), alone),
        };
        self.files += 1;
        self.black_box.report(match finished {
            Err(error) => format!("{path} is not complete, {messages} messages: {error}"),
            Ok(()) if reason == "disk_full" => {
                format!("{path} ends early, because the disk is full: {}", number_of(messages, "message"))
            }
            Ok(()) => format!(
                "wrote {path}: {}, from {before:.1} s before to {after:.1} s after",
                number_of(messages, "message")
            ),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{
        black_box::{recover, schedule::Trigger},
        options::tests::options,
        queue::Queue,
        topic::tests,
        writer::tests::Disk,
    };
    use std::{fs, path::Path};

    /// The size of a message, in bytes.
    const SIZE: usize = 100_000;

    fn writer(directory: &Path, max_bytes: u64) -> Writer {
        let minute = Duration::from_secs(60);
        let mut options = options(directory.join("run.mcap"));
        (options.max_cache_size, options.black_box.after) = (Some(max_bytes), Some(minute));
        let recording = Arc::new(Recording::new(0, None));
        let black_box = Arc::new(BlackBox::new(&options, minute).unwrap());
        Writer::new(options, black_box, recording).unwrap()
    }

    fn store(writer: &mut Writer, number: u64) {
        let topic = Arc::new(tests::topic(0, &Arc::new(Queue::new(0))));
        writer.store(tests::message(&topic, 1, number, SIZE));
    }

    fn begin(writer: &mut Writer) -> PathBuf {
        writer.black_box.trigger(Cause::Signal);
        writer.begin();
        let files = writer.black_box.files.all().unwrap();
        files.last().unwrap().clone()
    }

    /// Returns the sequence numbers of the messages in a file, and the value of `ended` in its black box metadata.
    fn read(path: &Path) -> (Vec<u32>, String) {
        let bytes = fs::read(path).unwrap();
        let messages = mcap::MessageStream::new(&bytes).unwrap();
        let numbers: Vec<u32> = messages.map(|message| message.unwrap().sequence).collect();
        let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
        assert_eq!(summary.stats.unwrap().message_count, numbers.len() as u64);
        let records = mcap::read::LinearReader::new(&bytes).unwrap();
        let ended = records.filter_map(|record| match record.unwrap() {
            mcap::records::Record::Metadata(record) if record.name == BLACK_BOX => {
                record.metadata.get("ended").cloned()
            }
            _ => None,
        });
        (numbers, ended.last().unwrap_or_default())
    }

    #[test]
    fn file_on_a_full_disk_is_complete_and_the_next_one_too() {
        let Some(disk) = Disk::mount() else {
            return test_support::skip("a black box on a full disk", "no file system can be mounted");
        };
        let filler = disk.path().join("filler");
        fs::write(&filler, vec![0; 3 << 20]).unwrap();
        let mut writer = writer(disk.path(), 3_000_000);
        (0..100).for_each(|number| store(&mut writer, number));
        let first = begin(&mut writer);
        assert!(writer.file.is_none(), "the file has ended");
        let (numbers, ended) = read(&first);
        assert_eq!((&*ended, &numbers[..3]), ("disk_full", &[71, 72, 73][..]), "29 messages fit the ring");
        assert!(numbers.len() < 20, "{numbers:?}");
        let written = fs::read(&first).unwrap();

        fs::remove_file(filler).unwrap();
        let second = begin(&mut writer);
        store(&mut writer, 100);
        writer.end(Ended::Complete, Instant::now());
        assert_eq!(read(&second), (Vec::from_iter(71..101), "complete".to_owned()));
        assert_eq!(fs::read(&first).unwrap(), written);
    }

    #[test]
    fn no_existing_file_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = writer(directory.path(), 10_000_000);
        let black_box = Arc::clone(&writer.black_box);
        let seconds = |second: u64| second * 1_000_000_000;
        for second in 100..160 {
            fs::write(black_box.files.path(seconds(second)), "kept").unwrap();
        }
        let (at, time, cause) = (Instant::now(), seconds(100), Cause::Signal);
        black_box.schedule().trigger(Trigger { at, time, cause });
        writer.begin();
        let files = black_box.files.all().unwrap();
        assert_eq!(files.len(), 60);
        assert!(files.iter().all(|path| fs::read(path).unwrap() == b"kept"));
        let status = black_box.status().unwrap();
        assert!(writer.file.is_none() && status.contains("is not written"), "{status}");
    }

    #[test]
    fn file_of_a_killed_run_is_completed() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = writer(directory.path(), 10_000_000);
        (0..50).for_each(|number| store(&mut writer, number));
        let path = begin(&mut writer);
        let complete = |path| recover::complete(path, BagFile::options(&writer.options));
        assert!(matches!(complete(&path), Ok(None)), "it is being written");
        // A copy of the open file is like the file of a killed program: the test first uses a copy with all bytes, then
        // copies that are cut off.
        let killed = directory.path().join("run_20000101T000000Z.mcap");
        fs::copy(&path, &killed).unwrap();
        assert!(mcap::Summary::read(&fs::read(&killed).unwrap()).is_err());
        assert!(matches!(complete(&killed), Ok(Some(50))));
        assert_eq!(read(&killed), (Vec::from_iter(0..50), "killed".to_owned()));
        assert!(matches!(complete(&killed), Ok(None)), "it is complete");
        let bytes = fs::read(&path).unwrap();
        for (length, messages) in [(bytes.len() - 1_000, 44), (100, 0), (5, 0), (0, 0)] {
            fs::write(&killed, &bytes[..length]).unwrap();
            assert!(matches!(complete(&killed), Ok(Some(read)) if read == messages), "{length}");
            assert_eq!(read(&killed).0.len() as u64, messages);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "no other file is left");
    }
}
