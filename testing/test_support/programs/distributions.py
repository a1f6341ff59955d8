# SPDX-License-Identifier: Apache-2.0
"""Publishes messages of known ages on simulated time, and compares the distributions of the reader with its own record.

Publishes `/clock`, which stands still, and `sensor_msgs/Imu` without a stamp on `imu`, and prints `connected` at the
first distribution on `/statistics/distribution`. At a line on standard input it publishes messages with stamps. Their
ages are log-normally distributed; every tenth is negative and every hundredth is 0. For each distribution of
`message_age` it prints a line of JSON: the message, and the same from its own samples. At the end, it prints the same
of all samples: the merged message, and its own.
"""

import json
import math
import random
import sys
import threading
import time
from collections import Counter

import rclpy
from builtin_interfaces.msg import Time
from rclpy.executors import ExternalShutdownException
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu
from topic_statistics_interfaces.msg import MetricsDistribution

NOW = 1_000_000_000_000_000
MESSAGES = 4000
QUANTILES = [('p50', 500), ('p90', 900), ('p99', 990), ('p99_9', 999)]

rclpy.init()
node = rclpy.create_node('talker')
clocks = node.create_publisher(Clock, '/clock', 10)
imus = node.create_publisher(Imu, 'imu', 5000)
lock = threading.Lock()
read = []
is_connected = threading.Event()


def message(nanoseconds):
    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


def ages():
    """Returns ages in nanoseconds."""
    source = random.Random(7)
    for number in range(MESSAGES):
        age = round(source.lognormvariate(3.0, 1.5) * 1e6)
        yield 0 if number % 100 == 0 else -age if number % 10 == 0 else age


def buckets(samples, scale):
    """Returns the counts of the buckets (base^i, base^(i+1)]."""
    counts = Counter(math.ceil(math.log2(abs(sample)) * 2**scale) - 1 for sample in samples)
    return {str(bucket): count for bucket, count in sorted(counts.items())}


def own(samples, scale):
    """Returns what is known of samples: with exact quantiles."""
    result = {
        'count': len(samples),
        'sum': math.fsum(samples),
        'minimum': min(samples),
        'maximum': max(samples),
        'zero_count': samples.count(0.0),
        'positive': buckets([sample for sample in samples if sample > 0], scale),
        'negative': buckets([sample for sample in samples if sample < 0], scale),
    }
    ordered = sorted(samples)
    for name, per_mille in QUANTILES:
        has_enough = len(ordered) * (1000 - per_mille) >= 1000
        result[name] = ordered[-(-len(ordered) * per_mille // 1000) - 1] if has_enough else None
    return result


def published(of):
    """Returns the same as it was published."""
    read_buckets = lambda offset, counts: {str(offset + i): int(count) for i, count in enumerate(counts) if count > 0}
    result = {name: getattr(of, name) for name in ('count', 'sum', 'minimum', 'maximum', 'zero_count', 'scale', 'unit')}
    result['zero_threshold'] = of.zero_threshold
    result['positive'] = read_buckets(of.positive_offset, of.positive_counts)
    result['negative'] = read_buckets(of.negative_offset, of.negative_counts)
    for name, _ in QUANTILES:
        value = getattr(of, name)
        result[name] = None if math.isnan(value) else value
    return result


def merged(windows):
    """Returns the merged counts of windows, by the rule of MetricsDistribution.msg."""
    scale = min(window['scale'] for window in windows)
    result = {'scale': scale, 'positive': Counter(), 'negative': Counter()}
    for window in windows:
        for sign in ('positive', 'negative'):
            for bucket, count in window[sign].items():
                result[sign][int(bucket) >> (window['scale'] - scale)] += count
    for sign in ('positive', 'negative'):
        result[sign] = {str(bucket): count for bucket, count in sorted(result[sign].items())}
    for name in ('count', 'sum', 'zero_count'):
        result[name] = sum(window[name] for window in windows)
    return result


def receive(of):
    is_connected.set()
    if of.metrics_source == 'message_age':
        with lock:
            read.append(published(of))


def wait_for(condition):
    while not condition():
        time.sleep(0.01)


def talk():
    # Without a stamp they have no age.
    while not is_connected.is_set():
        imus.publish(Imu())
        time.sleep(0.01)
    print('connected', flush=True)
    sys.stdin.readline()
    record = list(ages())
    for number, age in enumerate(record):
        imu = Imu()
        imu.header.stamp = message(NOW - age)
        imus.publish(imu)
        if number % 10 == 9:
            time.sleep(0.01)
    samples = [age / 1e6 for age in record]
    wait_for(lambda: sum(window['count'] for window in list(read)) >= len(samples))
    # Reliable messages keep their order: each window has the next samples.
    rest = iter(samples)
    for window in read:
        of_window = [next(rest) for _ in range(window['count'])]
        print(json.dumps([window, own(of_window, window['scale'])]), flush=True)
    total = merged(read)
    print(json.dumps([total, own(samples, total['scale'])]), flush=True)
    print('end', flush=True)


node.create_subscription(MetricsDistribution, '/statistics/distribution', receive, 1000)
node.create_timer(0.05, lambda: clocks.publish(Clock(clock=message(NOW))))
threading.Thread(target=talk, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
