// SPDX-License-Identifier: Apache-2.0

//! The writer: a thread that writes the waiting messages to files.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use topic_statistics_observe::format;

use super::{
    file::{BagFile, TopicInFile, WriteError},
    metadata::{self, FileInfo},
    options::Options,
    queue::Next,
    topic::{QueuedMessage, RecordedTopic, Recording},
    totals::{Losses, Written},
    RecordError,
};

enum Ended {
    Closed,
    AtLimit,
    Failed(WriteError),
}

pub struct Writer {
    options: Options,
    recording: Arc<Recording>,
    file: BagFile,
    files: u32,
    ended: Vec<FileInfo>,
    /// For each topic, by its number, the losses up to the end of the previous file.
    before: BTreeMap<usize, Losses>,
}

impl Writer {
    /// The longest time between two writes of a chunk to the disk.
    pub const FLUSH: Duration = Duration::from_secs(1);

    pub fn new(options: Options, recording: Arc<Recording>) -> Result<Self, RecordError> {
        let file = BagFile::create(&options.file(0), &options)?;
        Ok(Self { options, recording, file, files: 1, ended: vec![], before: BTreeMap::new() })
    }

    /// Writes until the queue is closed, a limit is reached, or the file cannot be written. Returns a line that
    /// describes what was recorded. Errors if not all messages could be written.
    pub fn run(mut self) -> Result<String, RecordError> {
        let ended = self.write_all().unwrap_or_else(Ended::Failed);
        // From here on, the recording accepts no message.
        self.recording.close();
        if let Ended::Failed(_) = ended {
            while let Next::Message(message) = self.recording.queue.pop(Instant::now()) {
                message.topic.lose();
            }
        }
        if !matches!(ended, Ended::AtLimit) {
            for topic in self.recording.topics() {
                let before = self.losses_before(topic.index);
                self.file.set_losses(&topic, before);
            }
        }
        self.before.extend(self.file.topics.iter().map(|(index, in_file)| (*index, in_file.losses)));
        self.ended.push(self.file.info());
        let ended = match ended {
            Ended::Failed(WriteError::Failed(_)) => ended, // the file cannot be completed
            _ => match self.file.finish(None, whole) {
                Ok(()) => ended,
                Err(error) => Ended::Failed(error),
            },
        };
        let topics = self.recording.topics();
        let lost = |topic: usize| self.before.get(&topic).copied().unwrap_or(Losses::NONE);
        let counted = topics.iter().map(|topic| (topic.written(), lost(topic.index)));
        let mut summary = summary(counted, &self.options, self.files);
        if self.options.split {
            summary += &write_metadata(&self.options, &self.ended, &topics);
        }
        self.recording.set_ended();
        match ended {
            Ended::Closed | Ended::AtLimit => Ok(summary),
            Ended::Failed(WriteError::Full) => Err(RecordError::DiskFull { summary }),
            Ended::Failed(WriteError::Failed(reason)) => Err(RecordError::Write { reason, summary }),
        }
    }

    fn write_all(&mut self) -> Result<Ended, WriteError> {
        let (mut next_flush, mut is_flushed) = (Instant::now() + Self::FLUSH, true);
        loop {
            let limit = self.file.time_left(&self.options).map(|left| Instant::now() + left);
            let until = limit.map_or(next_flush, |limit| limit.min(next_flush));
            match self.recording.queue.pop(until) {
                Next::Message(message) => {
                    self.write(&message)?;
                    is_flushed = false;
                }
                Next::Nothing => {}
                Next::Closed => return Ok(Ended::Closed),
            }
            if Instant::now() >= next_flush {
                if !is_flushed {
                    self.file.flush(whole)?;
                }
                (next_flush, is_flushed) = (Instant::now() + Self::FLUSH, true);
            }
            if self.file.is_at_limit(&self.options) {
                if !self.options.split {
                    return Ok(Ended::AtLimit);
                }
                match self.file.messages > 0 {
                    true => self.next_file()?,
                    false => self.file.started = Instant::now(),
                }
            }
        }
    }

    fn write(&mut self, message: &QueuedMessage) -> Result<(), WriteError> {
        let before = self.losses_before(message.topic.index);
        if let Err(error) = self.file.write(message, before) {
            message.topic.lose();
            return Err(error);
        }
        Ok(())
    }

    fn losses_before(&self, topic: usize) -> Losses {
        self.before.get(&topic).copied().unwrap_or(Losses::NONE)
    }

    fn next_file(&mut self) -> Result<(), WriteError> {
        let path = self.options.file(self.files);
        let next =
            BagFile::create(&path, &self.options).map_err(|error| WriteError::Failed(error.to_string()))?;
        self.files += 1;
        let file = std::mem::replace(&mut self.file, next);
        self.ended.push(file.info());
        self.before.extend(file.topics.iter().map(|(index, in_file)| (*index, in_file.losses)));
        file.finish(None, whole)
    }
}

/// Returns the counts of a topic in all files up to this file.
fn whole(in_file: &TopicInFile) -> (Written, Losses) {
    (in_file.topic.written(), in_file.losses)
}

/// Writes metadata.yaml. Returns a text for the summary: empty, or the reason why metadata.yaml was not written.
fn write_metadata(options: &Options, files: &[FileInfo], topics: &[Arc<RecordedTopic>]) -> String {
    let directory = options.path().parent().filter(|parent| !parent.as_os_str().is_empty());
    let topics = topics.iter().filter(|topic| topic.written().messages > 0);
    let topics = topics.map(|topic| topic.info(topic.offered_qos(true), topic.written().messages));
    match metadata::write(directory.unwrap_or(Path::new(".")), files, topics) {
        Ok(true) => String::new(),
        Ok(false) => "; metadata.yaml is there and stays: it is another bag's".to_owned(),
        Err(error) => format!("; metadata.yaml could not be written: {error}"),
    }
}

fn summary(topics: impl Iterator<Item = (Written, Losses)>, options: &Options, files: u32) -> String {
    let (mut messages, mut bytes, mut losses) = (0, 0, Losses::NONE);
    for (written, lost) in topics {
        messages += written.messages;
        bytes += written.bytes;
        losses = losses.and(lost);
    }
    let last = options.file(files - 1);
    let name = format::name(&options.file(0).display().to_string());
    let place = match files {
        1 => name,
        _ => format!("{name} to {}", format::name(&last.display().to_string())),
    };
    format!("recorded {} ({bytes} bytes) in {place}; {losses}", format::number_of(messages, "message"))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::record::{options::tests::options, topic::tests::info};
    use rclrs::{DynamicMessage, MessageTypeName};
    use ros_env::std_msgs::msg::rmw::String as Text;
    use std::process::Command;
    use topic_statistics_observe::recorded::TOTALS;

    /// A file system of 6 MiB, mounted on a temporary directory.
    pub struct Disk(tempfile::TempDir);

    impl Disk {
        /// Mounts the file system. `None` if this fails because the user is not root.
        pub fn mount() -> Option<Self> {
            let disk = Self(tempfile::tempdir().unwrap());
            let mut mount = Command::new("mount");
            let mount = mount.args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(disk.path()).output();
            mount.is_ok_and(|output| output.status.success()).then_some(disk)
        }

        pub fn path(&self) -> &Path {
            self.0.path()
        }
    }

    impl Drop for Disk {
        fn drop(&mut self) {
            let _unmounted = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
        }
    }

    #[test]
    fn messages_are_on_the_disk_while_further_messages_arrive() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.mcap");
        let recording = Arc::new(Recording::new(100_000_000, None));
        let name = MessageTypeName::try_from("std_msgs/msg/Empty").unwrap();
        let (topic, message) =
            (recording.topic("/chatter", &name).unwrap(), DynamicMessage::new(name).unwrap());
        let writer = Writer::new(options(&path), Arc::clone(&recording)).unwrap();
        let writer = std::thread::spawn(move || writer.run());
        let has_message = || {
            let bytes = std::fs::read(&path).unwrap();
            let options = mcap::read::Options::IgnoreEndMagic.into();
            let messages = mcap::MessageStream::new_with_options(&bytes, options);
            messages.is_ok_and(|mut messages| matches!(messages.next(), Some(Ok(_))))
        };
        // One message for each check: the messages of a minute are smaller than a chunk, so only a flush writes them.
        let mut numbers = 1..;
        test_support::wait_for("message on the disk", || {
            numbers.next().is_some_and(|number| {
                topic.record(&message, &info(number));
                has_message()
            })
        });
        recording.close();
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn a_full_disk_leaves_a_complete_file_with_totals() {
        let Some(disk) = Disk::mount() else {
            return test_support::skip("a full disk", "no file system can be mounted");
        };
        let path = disk.path().join("run.mcap");
        let recording = Arc::new(Recording::new(100_000_000, None));
        let name = MessageTypeName::try_from("std_msgs/msg/String").unwrap();
        let topic = recording.topic("/chatter", &name).unwrap();
        let writer = Writer::new(options(&path), Arc::clone(&recording)).unwrap();
        let text = Text { data: "x".repeat(100_000).as_str().into() };
        let message = DynamicMessage::convert_from_rmw_message(text).unwrap();
        (1..=100).for_each(|number| topic.record(&message, &info(number)));
        let error = writer.run().unwrap_err().to_string();
        assert!(error.contains("disk is full") && error.contains("recorded "), "{error}");
        let (written, lost) = (topic.written(), topic.losses());
        assert_eq!((written.messages + lost.in_recorder, lost.in_transport), (100, Some(0)));
        assert!((20..60).contains(&written.messages), "{written:?}");

        let bytes = std::fs::read(&path).unwrap();
        let read = mcap::MessageStream::new(&bytes).unwrap().map(Result::unwrap).count() as u64;
        let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
        assert_eq!((read, summary.stats.unwrap().message_count), (written.messages, written.messages));
        assert_eq!(summary.metadata_indexes.iter().filter(|index| index.name == TOTALS).count(), 2);
        // An existing file is not overwritten.
        let error = Writer::new(options(&path), recording).map(drop).unwrap_err();
        assert!(error.to_string().contains("cannot be created"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}
