// SPDX-License-Identifier: Apache-2.0

//! `--info`: what the files are, as `ros2 bag info` describes them.

use std::io::{self, BufWriter, Write};

use indicatif::BinaryBytes;
use jiff::{tz::TimeZone, Timestamp};
use topic_statistics_bag::{Bag, Format, ReadOptions};
use topic_statistics_views::format;

use super::{
    error::{print_error, Failure, FAILED},
    outcome::is_complete,
};

/// Writes the description. Returns the exit status.
pub fn write(bag: &Bag) -> Result<u8, Failure> {
    let read = bag.read(&ReadOptions::new(), &mut ())?;
    let mut output = BufWriter::new(io::stdout());
    let files = bag.files();
    let size = files.iter().map(|file| file.size).sum();
    let mut formats: Vec<&str> = files.iter().map(|file| storage(file.format)).collect();
    formats.dedup();
    for (number, file) in files.iter().enumerate() {
        let title = if number == 0 { "Files:" } else { "" };
        writeln!(output, "{title:18} {}", format::name(&file.path.display().to_string()))?;
    }
    writeln!(output, "{:18} {}", "Bag size:", BinaryBytes(size))?;
    writeln!(output, "{:18} {}", "Storage id:", formats.join(", "))?;
    if let Some((start, stop)) = read.times {
        let seconds = (stop.as_nanoseconds() - start.as_nanoseconds()) as f64 / 1e9;
        writeln!(output, "{:18} {seconds:.3} s", "Duration:")?;
        writeln!(output, "{:18} {}", "Start:", time(start.as_nanoseconds()))?;
        writeln!(output, "{:18} {}", "End:", time(stop.as_nanoseconds()))?;
    }
    writeln!(output, "{:18} {}", "Messages:", read.messages)?;
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
    }
    output.flush()?;
    read.notes.iter().for_each(|note| print_error(&note.to_string()));
    Ok(if is_complete(&read) { 0 } else { FAILED })
}

fn storage(format: Format) -> &'static str {
    match format {
        Format::Mcap => "mcap",
        _ => "sqlite3",
    }
}

/// Returns a time in the zone of this host, and in seconds since the epoch.
fn time(nanoseconds: i64) -> String {
    let time =
        Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default().to_zoned(TimeZone::system());
    let (seconds, rest) = (nanoseconds.div_euclid(1_000_000_000), nanoseconds.rem_euclid(1_000_000_000));
    format!("{} ({seconds}.{rest:09})", time.strftime("%Y-%m-%d %H:%M:%S%.9f UTC%:z"))
}
