# SPDX-License-Identifier: Apache-2.0
"""Writes bags by libraries of others, reads them by these libraries, and prints the figures of what was read as JSON.

The figures are computed in the plainest way: lists of samples in windows of a second.
"""

import json
import os
import random
import statistics
import sys
from pathlib import Path

import mcap.writer
import numpy
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, IndexType
from mcap_ros2.decoder import DecoderFactory
from rosbags.interfaces import Nodetype
from rosbags.rosbag2 import CompressionFormat, CompressionMode, Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

S = 1_000_000_000
START = 1_790_000_000 * S + 123_456_789
STORE = get_typestore(Stores.ROS2_KILTED)
# The header of this type is not the first field, and the fields before the header have no fixed size.
LATE = "other_msgs/msg/Late"
LATE_DEFINITION = """
uint8 first
string text
float64[] values
geometry_msgs/Point32[] points
string[2] names
int16[3] numbers
std_msgs/Header header
float64 last
"""
STORE.register(get_types_from_msg(LATE_DEFINITION, LATE))
# Adds the types of a sourced ROS that rosbags does not have, except types with a wstring, which rosbags cannot write.
for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(":"):
    for path in Path(prefix, "share").glob("*/msg/*.msg"):
        name, text = f"{path.parent.parent.name}/msg/{path.stem}", path.read_text()
        if name not in STORE.fielddefs and "wstring" not in text:
            STORE.register(get_types_from_msg(text, name))


def any_value(kind, detail, chance):
    """Returns a random value of a field."""
    if kind == Nodetype.NAME:
        return any_message(detail, chance)
    if kind == Nodetype.BASE:
        name = detail[0]
        if name in ("string", "wstring"):
            return "".join(chance.choices("abcdefghij", k=chance.randrange(12)))
        if name == "bool":
            return chance.random() < 0.5
        if name.startswith("float"):
            return chance.randrange(-1000, 1000) / 4
        return chance.randrange(100)
    element, count = detail
    count = count if kind == Nodetype.ARRAY else chance.randrange(5)
    values = [any_value(*element, chance) for _ in range(count)]
    if element[0] == Nodetype.BASE and element[1][0] not in ("string", "wstring"):
        names = {"bool": "bool", "byte": "uint8", "char": "uint8", "octet": "uint8"}
        return numpy.array(values, dtype=names.get(element[1][0], element[1][0]))
    return values


def any_message(name, chance):
    """Returns a random message of a type."""
    fields = STORE.fielddefs[name][1]
    return STORE.types[name](**{field: any_value(*of, chance) for field, of in fields})


def stamp_of(message, name):
    """Returns the header stamp in nanoseconds; None if there is none."""
    header = message if name == "std_msgs/msg/Header" else getattr(message, "header", None)
    stamp = getattr(header, "stamp", None)
    if stamp is None:
        return None
    return stamp.sec * S + stamp.nanosec or None


def set_stamp(message, name, time):
    header = message if name == "std_msgs/msg/Header" else getattr(message, "header", None)
    if getattr(header, "stamp", None) is not None:
        header.stamp.sec, header.stamp.nanosec = divmod(time, S)


def flow(seed, count=400):
    """Returns messages as (topic, type, message, log time, publish time), nearly in the order of log times."""
    chance = random.Random(seed)
    topics = [
        ("/imu", "sensor_msgs/msg/Imu", 0.02),
        ("/late", LATE, 0.1),
        ("/scan", "sensor_msgs/msg/LaserScan", 0.09),
        ("/text", "std_msgs/msg/String", 0.3),
        ("/head", "std_msgs/msg/Header", 0.25),
        ("/camera", "sensor_msgs/msg/Image", 0.4),
    ]
    messages = []
    for topic, name, period in topics:
        time = START + chance.randrange(S)
        for _ in range(count):
            message = any_message(name, chance)
            if topic == "/camera":
                message.data = numpy.full(20_000 + chance.randrange(9), 7, dtype="uint8")
            # Sometimes, there are 3 s of silence.
            time += int(period * S * chance.uniform(0.1, 1.9)) + (S * 3 if chance.random() < 0.01 else 0)
            if time > START + 8 * S:
                break
            log = time + chance.randrange(5_000_000)
            # Sometimes, the stamp is 0, as from a driver that does not set the stamp.
            set_stamp(message, name, 0 if chance.random() < 0.05 else time - chance.randrange(20_000_000))
            messages.append((topic, name, message, log, log - chance.randrange(1, 3_000_000)))
    messages.sort(key=lambda message: message[3] + chance.randrange(50_000_000))
    return messages


def figures(messages):
    """Returns the windows of each topic. A message is (topic, type, size, log, publish, stamp)."""
    messages = sorted(messages, key=lambda message: message[3])
    end = messages[-1][3]
    topics = {}
    for topic, name, size, log, publish, stamp in messages:
        of = topics.setdefault(topic, {"type": name, "messages": []})
        of["messages"].append((size, log, publish, stamp))
    for of in topics.values():
        of["windows"] = windows(of["messages"], end)
        of["received"] = len(of.pop("messages"))
    return topics


def windows(messages, end):
    start, found, last = messages[0][1], [], None
    while True:
        stop = min((start // S + 1) * S, end)
        is_last = stop == end
        samples = {"message_age": [], "message_period": [], "source_to_receive_ms": [], "header_to_source_ms": []}
        sizes = []
        for size, log, publish, stamp in messages:
            if not (start <= log < stop or (is_last and log == end)):
                continue
            sizes.append(size)
            if stamp:
                samples["message_age"].append((log - stamp) / 1e6)
            if last is not None:
                samples["message_period"].append((log - last) / 1e6)
            if publish != log:
                samples["source_to_receive_ms"].append((log - publish) / 1e6)
                if stamp:
                    samples["header_to_source_ms"].append((publish - stamp) / 1e6)
            last = log
        metrics = {name: summary(values) for name, values in samples.items()}
        metrics["message_size"] = summary(sizes)
        metrics["time_since_last_message_ms"] = summary([(stop - last) / 1e6])
        found.append({"start": start, "stop": stop, "count": len(sizes), "metrics": metrics})
        if is_last:
            return found
        start = stop


def summary(values):
    """Returns mean, minimum, maximum, standard deviation (None for what there is none of) and count."""
    if not values:
        return [None, None, None, None, 0]
    deviation = statistics.pstdev(values) if len(values) > 1 else None
    return [statistics.fmean(values), min(values), max(values), deviation, len(values)]


def write_mcap(path, messages, options):
    """Writes by MCAP's own library."""
    with open(path, "wb") as file:
        writer = mcap.writer.Writer(file, **options)
        writer.start(profile="ros2", library="")
        channels = {}
        for number, (topic, name, message, log, publish) in enumerate(messages):
            if topic not in channels:
                text = STORE.generate_msgdef(name, ros_version=2)[0].encode()
                schema = writer.register_schema(name, "ros2msg", text)
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            data = bytes(STORE.serialize_cdr(message, name))
            writer.add_message(channels[topic], log, data, publish, number)
        writer.finish()


def read_mcap(path):
    """Reads by MCAP's own libraries: the records and their decoder of ROS 2."""
    factory, schemas, channels, messages = DecoderFactory(), {}, {}, []
    with open(path, "rb") as file:
        for record in StreamReader(file).records:
            kind = type(record).__name__
            if kind == "Schema":
                schemas[record.id] = record
            elif kind == "Channel":
                channels[record.id] = record
            elif kind == "Message":
                channel = channels[record.channel_id]
                schema = schemas[channel.schema_id]
                message = factory.decoder_for(channel.message_encoding, schema)(record.data)
                stamp = stamp_of(message, schema.name)
                size = len(record.data)
                messages.append(
                    (channel.topic, schema.name, size, record.log_time, record.publish_time, stamp)
                )
    return messages


def write_rosbags(path, messages, version, plugin, mode=None):
    writer = Writer(path, version=version, storage_plugin=plugin)
    if mode:
        writer.set_compression(mode, CompressionFormat.ZSTD)
    with writer:
        connections = {}
        for topic, name, message, log, _ in messages:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, name, typestore=STORE)
            writer.write(connections[topic], log, STORE.serialize_cdr(message, name))


def read_rosbags(path):
    messages = []
    with Reader(path) as reader:
        for connection, log, data in reader.messages():
            name = connection.msgtype
            message = STORE.deserialize_cdr(data, name)
            messages.append((connection.topic, name, len(data), log, log, stamp_of(message, name)))
    return messages


def every_type():
    """Returns three messages of each type."""
    chance, messages = random.Random(7), []
    names = [name for name in sorted(STORE.fielddefs) if "/msg/" in name]
    for number in range(3):
        for place, name in enumerate(names):
            message = any_message(name, chance)
            log = START + number * S // 2 + place * 1_000_003
            set_stamp(message, name, log - 5_000_000 - place)
            messages.append((f"/of/{name}", name, message, log, log))
    return messages


def main(directory):
    directory = Path(directory)
    result = {}
    none, index = CompressionType.NONE, {"index_types": IndexType.NONE, "use_statistics": False}
    configurations = {
        "plain": {"compression": none},
        "lz4": {"compression": CompressionType.LZ4},
        "zstd": {"compression": CompressionType.ZSTD},
        "small_chunks": {"compression": CompressionType.ZSTD, "chunk_size": 5_000},
        "small_plain_chunks": {"compression": none, "chunk_size": 5_000},
        "no_checksums": {"compression": CompressionType.LZ4, "enable_crcs": False},
        "data_checksums": {"compression": CompressionType.LZ4, "enable_data_crcs": True},
        "no_chunks": {"use_chunking": False},
        "no_index": {"compression": CompressionType.ZSTD, **index},
        "no_index_plain": {"compression": none, **index},
        "no_summary": {
            "compression": CompressionType.LZ4,
            "repeat_channels": False,
            "repeat_schemas": False,
            "use_summary_offsets": False,
            **index,
        },
    }
    for seed, (name, options) in enumerate(configurations.items()):
        path = directory / f"{name}.mcap"
        write_mcap(path, flow(seed), options)
        result[path.name] = figures(read_mcap(path))
    types = directory / "types.mcap"
    write_mcap(types, every_type(), {})
    result[types.name] = figures(read_mcap(types))
    for version in (8, 9):
        for plugin in (StoragePlugin.SQLITE3, StoragePlugin.MCAP):
            for seed, messages in enumerate([flow(version + 50), every_type()]):
                path = directory / f"rosbags_{version}_{plugin.name}_{seed}"
                write_rosbags(path, messages, version, plugin)
                result[path.name] = figures(read_rosbags(path))
    for plugin in (StoragePlugin.SQLITE3, StoragePlugin.MCAP):
        for mode in (CompressionMode.MESSAGE, CompressionMode.FILE):
            path = directory / f"by_{mode.name.lower()}_{plugin.name}"
            write_rosbags(path, flow(60), 9, plugin, mode)
            result[path.name] = figures(read_rosbags(path))
    json.dump(result, sys.stdout, allow_nan=False)


main(sys.argv[1])
