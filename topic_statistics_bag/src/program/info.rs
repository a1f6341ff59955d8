// SPDX-License-Identifier: Apache-2.0

//! `--info`: describes the files of a bag, similar to `ros2 bag info --verbose`.

use std::io::{self, BufWriter, Write};

use indicatif::BinaryBytes;
use jiff::{tz::TimeZone, Timestamp};
use topic_statistics_bag::{Bag, BagFile, Format, ReadOptions, RecordingInfo};
use topic_statistics_observe::{
    format,
    recorded::{RecordedTotals, Scope},
};

use super::{
    error::{print_error, Failure, FAILED},
    qos,
};

/// Writes the description. Returns the exit status.
pub fn write(bag: &Bag, unpack_all: bool) -> Result<u8, Failure> {
    let read = bag.read(&ReadOptions::new().unpack_all(unpack_all), &mut ())?;
    let mut output = BufWriter::new(io::stdout());
    let files = bag.files();
    let size = files.iter().map(|file| file.size).sum();
    let storage = |file: &BagFile| if file.format == Format::Mcap { "mcap" } else { "sqlite3" };
    let mut formats: Vec<&str> = files.iter().map(storage).collect();
    formats.dedup();
    for (number, file) in files.iter().enumerate() {
        let title = if number == 0 { "Files:" } else { "" };
        writeln!(output, "{title:18} {}", format::name(&file.path.display().to_string()))?;
    }
    let mut facts = vec![("Bag size:", BinaryBytes(size).to_string()), ("Storage id:", formats.join(", "))];
    if let Some((start, stop)) = read.times {
        let seconds = (stop.as_nanoseconds() - start.as_nanoseconds()) as f64 / 1e9;
        facts.push(("Duration:", format!("{seconds:.3} s")));
        facts.push(("Start:", time(start.as_nanoseconds())));
        facts.push(("End:", time(stop.as_nanoseconds())));
    }
    facts.push(("Messages:", read.messages.to_string()));
    if !read.recording.compressions.is_empty() {
        let name = |name: &String| if name.is_empty() { "none".to_owned() } else { format::name(name) };
        let names: Vec<_> = read.recording.compressions.iter().map(name).collect();
        facts.push(("Compression:", names.join(", ")));
    }
    for (title, fact) in facts {
        writeln!(output, "{title:18} {fact}")?;
    }
    let mut topics: Vec<_> = read.topics.iter().collect();
    topics.sort_by(|one, other| one.name().cmp(other.name()));
    for (number, topic) in topics.into_iter().enumerate() {
        let title = if number == 0 { "Topic information:" } else { "" };
        let message_type = topic.message_type().map_or_else(|| "-".to_owned(), format::name);
        writeln!(
            output,
            "{title:18} Topic: {} | Type: {message_type} | Count: {} | Publishers: {}",
            format::name(topic.name()),
            topic.messages(),
            format::count_if_known(topic.totals().publishers),
        )?;
        if let Some(recorded) = read.recording.topics.get(topic.name()) {
            let schema = if recorded.encoding.is_empty() { "-" } else { &recorded.encoding };
            writeln!(output, "{:18}   Schema: {}", "", format::name(schema))?;
            for qos in qos::texts(&recorded.offered_qos) {
                writeln!(output, "{:18}   QoS: {}", "", format::name(&qos))?;
            }
        }
    }
    write_totals(&mut output, &read.recording)?;
    output.flush()?;
    read.notes.iter().for_each(|note| print_error(&note.to_string()));
    Ok(if read.is_complete() { 0 } else { FAILED })
}

/// Writes the totals that the recorder has stored: for each file of a split recording, and for the whole recording.
fn write_totals(output: &mut impl Write, recording: &RecordingInfo) -> io::Result<()> {
    if recording.totals.len() > 1 {
        for file in &recording.totals {
            writeln!(output, "Recorded in {}:", format::name(&file.path.display().to_string()))?;
            for totals in file.totals.values().filter(|totals| totals.scope == Scope::File) {
                write_topic_totals(output, totals)?;
            }
        }
    }
    let whole = recording.whole();
    if !whole.is_empty() {
        writeln!(output, "Recorded:")?;
    }
    whole.into_iter().try_for_each(|totals| write_topic_totals(output, totals))
}

fn write_topic_totals(output: &mut impl Write, totals: &RecordedTotals) -> io::Result<()> {
    writeln!(
        output,
        "{:18} Topic: {} | Messages: {} | Lost in transport: {} | Lost in recorder: {} | Bytes: {} | Rate: {} Hz",
        "",
        format::name(&totals.topic),
        totals.messages_recorded,
        format::count_if_known(totals.messages_lost_in_transport),
        totals.messages_lost_in_recorder,
        totals.bytes_written,
        match totals.messages_rate {
            rate if rate.is_nan() => "-".to_owned(),
            rate => format!("{rate:.3}"),
        },
    )
}

/// Returns a time as text, in the time zone of this host and in seconds of Unix time.
fn time(nanoseconds: i64) -> String {
    let time =
        Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default().to_zoned(TimeZone::system());
    let (seconds, rest) = (nanoseconds.div_euclid(1_000_000_000), nanoseconds.rem_euclid(1_000_000_000));
    format!("{} ({seconds}.{rest:09})", time.strftime("%Y-%m-%d %H:%M:%S%.9f UTC%:z"))
}
