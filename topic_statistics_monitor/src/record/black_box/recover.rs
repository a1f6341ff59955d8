// SPDX-License-Identifier: Apache-2.0

//! Completes the files of an earlier run that was killed. This is necessary because most libraries read only files with
//! an end.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write},
    path::Path,
};

use mcap::{
    parse_record,
    records::Record,
    sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions},
    write::Metadata,
    McapResult, WriteOptions, Writer, MAGIC,
};
use rustix::fs::{flock, FlockOperation};
use topic_statistics_observe::recorded::BLACK_BOX;

/// The largest record that is read, in bytes.
const MAX_RECORD: usize = 1 << 30;

/// Completes a file: keeps its whole chunks, and adds an end (with the index). Returns the number of messages. `None`
/// if the file has an end, or is being written.
pub fn complete(path: &Path, options: WriteOptions) -> McapResult<Option<u64>> {
    let mut file = File::open(path)?;
    let is_written = || flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    if is_written() || has_end(&mut file)? {
        return Ok(None);
    }
    let whole = path.with_extension("part");
    let _of_earlier_run = fs::remove_file(&whole); // removes a link itself, not its target
    let to = File::options().write(true).create_new(true).open(&whole)?;
    let mut writer = options.create(BufWriter::new(to))?;
    file.rewind()?;
    let copied = copy(&mut BufReader::new(file), &mut writer).and_then(|messages| {
        writer.finish()?;
        let file = writer.into_inner().into_inner().map_err(io::Error::from)?;
        file.sync_all()?;
        fs::rename(&whole, path)?;
        Ok(Some(messages))
    });
    if copied.is_err() {
        let _removed = fs::remove_file(&whole);
    }
    copied
}

fn has_end(file: &mut File) -> io::Result<bool> {
    let mut end = [0; MAGIC.len()];
    match file.seek(SeekFrom::End(-(MAGIC.len() as i64))) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(false), // the file is shorter than MAGIC
        sought => sought?,
    };
    file.read_exact(&mut end)?;
    Ok(end == MAGIC)
}

/// Copies the records up to the first incomplete record. Returns the number of copied messages.
fn copy(from: &mut impl Read, to: &mut Writer<impl Write + Seek>) -> McapResult<u64> {
    let options =
        LinearReaderOptions::default().with_prevalidate_chunk_crcs(true).with_record_length_limit(MAX_RECORD);
    let mut reader = LinearReader::new_with_options(options);
    let (mut schemas, mut channels) = (HashMap::new(), HashMap::new());
    let (mut black_box, mut messages) = (BTreeMap::new(), 0);
    while let Some(Ok(event)) = reader.next_event() {
        let (opcode, data) = match event {
            LinearReadEvent::ReadRequest(bytes) => {
                let read = from.read(reader.insert(bytes))?;
                reader.notify_read(read);
                continue;
            }
            LinearReadEvent::Record { opcode, data } => (opcode, data),
        };
        let Ok(record) = parse_record(opcode, data) else { break };
        match record {
            Record::Schema { header, data } => {
                schemas.insert(header.id, to.add_schema(&header.name, &header.encoding, &data)?);
            }
            Record::Channel(channel) => {
                let schema = schemas.get(&channel.schema_id).copied().unwrap_or(0);
                let (topic, encoding) = (&channel.topic, &channel.message_encoding);
                channels.insert(channel.id, to.add_channel(schema, topic, encoding, &channel.metadata)?);
            }
            Record::Message { mut header, data } => {
                let Some(channel) = channels.get(&header.channel_id) else { break };
                header.channel_id = *channel;
                to.write_to_known_channel(&header, &data)?;
                messages += 1;
            }
            Record::Metadata(metadata) => {
                if metadata.name == BLACK_BOX {
                    black_box.clone_from(&metadata.metadata);
                }
                to.write_metadata(&metadata)?;
            }
            _ => {}
        }
    }
    black_box.insert("ended".to_owned(), "killed".to_owned());
    to.write_metadata(&Metadata { name: BLACK_BOX.to_owned(), metadata: black_box })?;
    Ok(messages)
}
