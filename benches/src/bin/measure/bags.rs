// SPDX-License-Identifier: Apache-2.0

//! `bag_statistics` beside a plain reading of the same file by the crate `mcap`, and beside rosbag-doctor and `rosbags`
//! of PyPI.

use std::{
    fs::{self, File},
    io::{BufReader, BufWriter, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{ensure, Context, Result};
use clap::ValueEnum;
use mcap::{
    read::RawMessageStream,
    records::{op, MessageHeader},
    sans_io::{LinearReadEvent, LinearReader},
    Compression, McapResult, WriteOptions,
};
use memmap2::Mmap;

use crate::{
    process::{build, itself},
    table::{quantile, Table},
};

/// How often each program reads each file. Programs in Python read it once.
const RUNS: usize = 3;
/// The first log time, in nanoseconds since the epoch.
const START: u64 = 1_790_000_000_000_000_000;

const DEFINITION: &str = "std_msgs/Header header\nuint8[] data
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
";

/// A topic of a file: its name, its rate in Hz, and the bytes of its messages.
type Topic = (&'static str, u64, usize);

/// A camera and a lidar: 32 MB per second.
const SENSORS: [Topic; 2] = [("/camera", 30, 921_600), ("/lidar", 10, 480_000)];
/// Ten topics of small messages: 10 000 messages per second.
const SMALL: [Topic; 10] = [
    ("/a", 1000, 60),
    ("/b", 1000, 60),
    ("/c", 1000, 60),
    ("/d", 1000, 60),
    ("/e", 1000, 60),
    ("/f", 1000, 60),
    ("/g", 1000, 60),
    ("/h", 1000, 60),
    ("/i", 1000, 60),
    ("/j", 1000, 60),
];

/// A file to be read.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    topics: &'static [Topic],
    seconds: u64,
    compression: Option<Compression>,
    has_index: bool,
}

/// A program that has ended.
struct Ended {
    seconds: f64,
    /// The most memory that it had at a time, in kB.
    peak: f64,
}

/// Writes the files, unless they are there, and reads each by both programs. Returns the table.
pub fn measure() -> Result<Table> {
    let program = build("topic_statistics_bag", "bag_statistics")?;
    let directory = std::env::current_exe()?.with_file_name("bench_bags");
    fs::create_dir_all(&directory)?;
    let mut table = Table::new(
        "bag | MB | messages | `mcap` by a buffer, s | by a map, s | bag_statistics, s | ratio | bag_statistics, MB/s | \
         peak, MB | `rosbags`, s | peak, MB | rosbag-doctor, s | peak, MB",
    );
    let packages = python_packages()?;
    let python = |arguments: &[&str]| {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", &packages).args(arguments);
        // A program that cannot read a file has no figures.
        run(&mut python)
            .map_or_else(|_| "- | -".to_owned(), |run| format!("{:.1} | {:.0}", run.seconds, run.peak / 1e3))
    };
    let sensors = Case { name: "", topics: &SENSORS, seconds: 31, compression: None, has_index: true };
    let small = Case { topics: &SMALL, ..sensors };
    let cases = [
        Case { name: "camera and lidar, with an index", ..sensors },
        Case { name: "the same, without an index", has_index: false, ..sensors },
        Case { name: "the same, zstd", compression: Some(Compression::Zstd), ..sensors },
        Case { name: "the same, lz4", compression: Some(Compression::Lz4), ..sensors },
        Case { name: "small messages, 100 s", seconds: 100, ..small },
        Case { name: "small messages, 1000 s", seconds: 1000, ..small },
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let Case { name, topics, seconds, .. } = case;
        let file = directory.join(format!("{number}.mcap"));
        let messages = topics.iter().map(|(_, rate, _)| rate * seconds).sum::<u64>();
        if !file.exists() {
            eprintln!("writing {name} ...");
            write(&file, case)?;
        }
        let megabytes = fs::metadata(&file)?.len() as f64 / 1e6;
        let path = file.to_str().context("The path of the target is no text")?;
        // By turns, so that another load of the machine is on all.
        let (mut buffer, mut map, mut ours) = (vec![], vec![], vec![]);
        for _ in 0..RUNS {
            buffer.push(run(&mut itself(&["read-bag", "buffer", path]))?);
            map.push(run(&mut itself(&["read-bag", "map", path]))?);
            ours.push(run(Command::new(&program).arg(path))?);
        }
        let (buffer, map, ours) = (median(&buffer), median(&map), median(&ours));
        let rosbags = python(&["benches/rosbags_reader.py", path]);
        let doctor = python(&["-m", "rosbag_doctor", path]);
        table.row(format!(
            "{name} | {megabytes:.0} | {messages} | {:.2} | {:.2} | {:.2} | {:.1} | {:.0} | {:.0} | {rosbags} | \
             {doctor}",
            buffer.seconds,
            map.seconds,
            ours.seconds,
            ours.seconds / buffer.seconds.min(map.seconds),
            megabytes / ours.seconds,
            ours.peak / 1e3,
        ));
    }
    Ok(table)
}

/// Installs rosbag-doctor and `rosbags`. Returns the folder that has them.
fn python_packages() -> Result<PathBuf> {
    let folder = Path::new("target/tools/bags");
    if !folder.is_dir() {
        let mut pip = Command::new("python3");
        pip.args(["-I", "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]);
        pip.args(["--require-hashes", "--no-deps", "--requirement", "xtask/requirements/bags.txt"]);
        ensure!(pip.arg("--target").arg(folder).status()?.success(), "rosbag-doctor cannot be installed");
    }
    Ok(folder.canonicalize()?)
}

/// Returns the medians of several runs.
fn median(runs: &[Ended]) -> Ended {
    let middle = |figure: fn(&Ended) -> f64| quantile(runs.iter().map(figure).collect(), 0.5);
    Ended { seconds: middle(|run| run.seconds), peak: middle(|run| run.peak) }
}

/// Runs a program to its end.
fn run(command: &mut Command) -> Result<Ended> {
    let started = Instant::now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: The process is a child of this one that nobody else waits for, and both places are valid.
    let ended = unsafe { libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr()) };
    let seconds = started.elapsed().as_secs_f64();
    ensure!(ended == child.id() as i32 && status == 0, "{command:?} failed");
    // SAFETY: It was zeroed, and wait4 has filled it.
    let peak = unsafe { usage.assume_init() }.ru_maxrss as f64;
    Ok(Ended { seconds, peak })
}

/// Writes a file with the messages of topics, in the order of their times.
fn write(path: &Path, case: Case) -> Result<()> {
    let Case { topics, seconds, compression, has_index, .. } = case;
    let options = WriteOptions::new().profile("ros2").compression(compression);
    let options = options.emit_summary_records(has_index).emit_message_indexes(has_index);
    let part = path.with_extension("part");
    let mut bag = options.create(BufWriter::new(File::create(&part)?))?;
    let schema = bag.add_schema("bench_msgs/msg/Data", "ros2msg", DEFINITION.as_bytes())?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut messages: Vec<(u64, u16, Vec<u8>)> = vec![];
    for (name, rate, size) in topics {
        let channel = bag.add_channel(schema, name, "cdr", &Default::default())?;
        // Half of an image compresses.
        let noise = std::iter::repeat_with(|| random.u8(..)).take(size / 2);
        let data = noise.chain(std::iter::repeat(0)).take(*size).collect();
        messages.push((1_000_000_000 / rate, channel, data));
    }
    let mut due: Vec<u64> = vec![0; topics.len()];
    loop {
        let (place, &time) = due.iter().enumerate().min_by_key(|(_, time)| **time).context("No topic")?;
        if time >= seconds * 1_000_000_000 {
            break;
        }
        let (period, channel_id, data) = &mut messages[place];
        due[place] += *period;
        let log_time = START + time;
        let stamp = log_time - 5_000_000;
        let header = MessageHeader {
            channel_id: *channel_id,
            sequence: 0,
            log_time,
            publish_time: log_time - 2_000_000,
        };
        data[..4].copy_from_slice(&[0, 1, 0, 0]);
        data[4..8].copy_from_slice(&((stamp / 1_000_000_000) as u32).to_le_bytes());
        data[8..12].copy_from_slice(&((stamp % 1_000_000_000) as u32).to_le_bytes());
        bag.write_to_known_channel(&header, data)?;
    }
    bag.finish()?;
    fs::rename(part, path)?;
    Ok(())
}

/// How the crate `mcap` reads a file.
#[derive(Clone, Copy, ValueEnum)]
pub enum Reader {
    /// `LinearReader`, which asks for some bytes at a time, with a buffer
    Buffer,
    /// `RawMessageStream`, over a memory map: as `MessageStream`, without its copies of payloads
    Map,
}

/// The process that is compared with: reads all messages of a file by `mcap`, without checksums.
pub fn read(reader: Reader, path: &Path) -> Result<()> {
    let file = File::open(path)?;
    // SAFETY: The file is of this benchmark, which has written it and does not change it.
    let map = unsafe { Mmap::map(&file)? };
    let messages = match reader {
        Reader::Buffer => read_with_buffer(BufReader::with_capacity(1 << 20, file))?,
        Reader::Map => {
            RawMessageStream::new(&map)?.map(|message| message.map(|_| 1_u64)).sum::<McapResult<_>>()?
        }
    };
    println!("{messages}");
    Ok(())
}

fn read_with_buffer(mut file: impl Read) -> Result<u64> {
    let (mut reader, mut messages) = (LinearReader::new(), 0);
    while let Some(event) = reader.next_event() {
        match event? {
            LinearReadEvent::ReadRequest(wanted) => {
                let read = file.read(reader.insert(wanted))?;
                reader.notify_read(read);
            }
            LinearReadEvent::Record { opcode, data } => {
                if opcode == op::MESSAGE {
                    mcap::parse_record(opcode, data)?;
                    messages += 1;
                }
            }
        }
    }
    Ok(messages)
}
