# SPDX-License-Identifier: Apache-2.0
"""Reads recordings with libraries of other projects, and prints the results as JSON."""

import json
import sys
from pathlib import Path

from mcap.reader import make_reader
from mcap.records import Chunk
from mcap.stream_reader import StreamReader
from mcap_ros2.decoder import DecoderFactory
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_KILTED)


def message(schema, channel, record, decoded):
    keys = channel.metadata
    described = {
        'topic': channel.topic,
        'encoding': schema.encoding,
        'sequence': record.sequence,
        'log_time': record.log_time,
        'publish_time': record.publish_time,
        'sequence_is': keys.get('topic_statistics:sequence'),
        'gid': keys.get('topic_statistics:publisher_gid'),
        'node': keys.get('topic_statistics:publisher_node'),
        'qos': keys.get('offered_qos_profiles'),
        'type_hash': keys.get('topic_type_hash'),
    }
    if hasattr(decoded, 'header'):
        stamp = decoded.header.stamp
        described['stamp'] = stamp.sec * 1_000_000_000 + stamp.nanosec
    else:
        described['data'] = decoded.data
    return described


def read_by_mcap(path):
    with open(path, 'rb') as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()], validate_crcs=True)
        messages = [message(*read) for read in reader.iter_decoded_messages()]
        header, statistics = reader.get_header(), reader.get_summary().statistics
        metadata = [record.metadata for record in reader.iter_metadata() if record.name == 'rosbag2']
    with open(path, 'rb') as file:
        records = StreamReader(file, emit_chunks=True, validate_crcs=True).records
        compressions = sorted({record.compression for record in records if isinstance(record, Chunk)})
    assert len(metadata) == 1
    return messages, {
        'profile': header.profile,
        'statistics': statistics.message_count,
        'compressions': compressions,
        'metadata': metadata[0]['serialized_metadata'],
    }


def read_by_rosbags(path, metadata):
    """Reads a file as a rosbag2 directory. The metadata.yaml has the metadata from the file."""
    directory = path.with_suffix('')
    directory.mkdir()
    (directory / path.name).symlink_to(path)
    (directory / 'metadata.yaml').write_text(f'{{"rosbag2_bagfile_information": {metadata}}}')
    with Reader(directory) as reader:
        topics = {of.topic: of.msgtype for of in reader.connections}
        assert all(of.ext.offered_qos_profiles for of in reader.connections)
        count = 0
        for connection, _, data in reader.messages():
            STORE.deserialize_cdr(data, connection.msgtype)
            count += 1
        assert count == reader.message_count
    return {'topics': topics, 'count': count}


def read(path):
    messages, described = read_by_mcap(path)
    rosbags = read_by_rosbags(path, described.pop('metadata'))
    return {'messages': messages, 'rosbags': rosbags, **described}


json.dump({path: read(Path(path)) for path in sys.argv[1:]}, sys.stdout)
