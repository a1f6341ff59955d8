# SPDX-License-Identifier: Apache-2.0
"""Publishes messages on `/statistics` like a faulty or hostile node: names with control characters for the terminal,
values that overflow, very many sources.

Reads commands from standard input, one per line, and prints `done` after each: `names`; `markup`; `numbers`; `sources
COUNT` publishes one window of each of COUNT sources; `flood COUNT` publishes COUNT windows of one source; `window`
publishes one window of `/honest:/imu`; `distributions` publishes two windows of ages of this source: 1000 of 1 ms, then
90 of 1 ms and 90 of 100 ms; `lies` publishes impossible distributions of this source. The program ends when its input
ends.
"""

import sys

import rclpy
from builtin_interfaces.msg import Time
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from statistics_msgs.msg import MetricsMessage, StatisticDataPoint
from topic_statistics_interfaces.msg import MetricsDistribution

HOSTILE = 'x\x1b]0;PWNED\x07\x1b[2J\n/imu 1 100.0\x7f\x9b\u202e'
MARKUP = '"\'></style></title><script>alert(1)</script><img src=x onerror=alert(2)>&lt;'
FIGURES = [0.0, -1.0, 1e300, -1e300, float('inf'), float('-inf'), float('nan'), 1e-320, 1.8e19]

rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # no handlers: the node never spins
node = rclpy.create_node('foreign')
publisher = node.create_publisher(MetricsMessage, '/statistics', QoSProfile(depth=2000))
distributions = node.create_publisher(MetricsDistribution, '/statistics/distribution', QoSProfile(depth=2000))


def publish(source, metric='message_age', unit='ms', start=100, stop=101, average=1.5, count=50.0):
    publisher.publish(MetricsMessage(
        measurement_source_name=source,
        metrics_source=metric,
        unit=unit,
        window_start=Time(sec=start),
        window_stop=Time(sec=stop),
        statistics=[StatisticDataPoint(data_type=kind, data=data) for kind, data in (
            (1, average), (2, average), (3, average), (4, average), (5, count))],
    ))


def publish_ages(of_1_ms, of_100_ms, **lies):
    """At the scale 4, bucket i has samples up to 2^((i + 1) / 16): 1 is in bucket -1, 100 in bucket 106."""
    message = MetricsDistribution(
        measurement_source_name='/honest:/imu',
        metrics_source='message_age',
        unit='ms',
        count=of_1_ms + of_100_ms,
        sum=of_1_ms + 100.0 * of_100_ms,
        minimum=1.0,
        maximum=100.0 if of_100_ms else 1.0,
        scale=4,
        positive_offset=-1,
        positive_counts=[of_1_ms] + ([0] * 106 + [of_100_ms] if of_100_ms else []),
    )
    for name, value in lies.items():
        setattr(message, name, value)
    distributions.publish(message)


LIES = [
    {'scale': scale} for scale in (-(2**31), -1, 1, 3, 9, 2**31 - 1)
] + [
    {name: figure} for figure in FIGURES for name in ('minimum', 'maximum')
] + [
    {'zero_threshold': figure} for figure in FIGURES if figure
] + [
    {name: offset, f'{name[:8]}_counts': [90], 'count': 90}
    for offset in (-(2**31), 2**31 - 1, 10**6)
    for name in ('positive_offset', 'negative_offset')
] + [
    {'sum': float('inf')},
    {'unit': 's'},
    {'metrics_source': 'y' * 100_000},
    {'metrics_source': 'jitter\x1b[2J'},
    {'count': 0},
    {'count': 2**64 - 1},
    {'zero_count': 2**64 - 1, 'count': 179},
    {'positive_counts': [2**64 - 1, 181]},
    {'positive_counts': [2**64 - 1] * 160, 'count': 2**64 - 1},
    {'positive_counts': [1] * 161, 'count': 161},
    {'positive_counts': [1] * 100_000, 'count': 100_000},
    {'negative_counts': [1] * 100_000},
]

for line in sys.stdin:
    order, *count = line.split()
    if order == 'names':
        publish(HOSTILE, HOSTILE, HOSTILE)
        publish('y' * 100_000)
        publish('z' * 500)
    elif order == 'markup':
        publish(MARKUP, MARKUP, MARKUP)
    elif order == 'numbers':
        for average in FIGURES:
            for figure in FIGURES:
                for start, stop in ((-2**31, 2**31 - 1), (2**31 - 1, -2**31)):
                    for metric in ('message_age', 'message_period', 'publication_seq_gap', 'time_since_last_message_ms'):
                        publish('liar', metric, 'ms', start, stop, average, figure)
    elif order == 'sources':
        for number in range(int(count[0])):
            publish(f'/node_{number}:/imu')
    elif order == 'flood':
        for number in range(int(count[0])):
            publish('flood', start=number, stop=number + 1)
    elif order == 'window':
        publish('/honest:/imu')
    elif order == 'distributions':
        publish_ages(1000, 0)
        publish_ages(90, 90)
    elif order == 'lies':
        for lies in LIES:
            publish_ages(90, 90, **lies)
    print('done', flush=True)
