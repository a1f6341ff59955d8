# SPDX-License-Identifier: Apache-2.0
"""Publishes messages on `/statistics` as a wrong or hostile node could: names with control characters for the terminal,
values that overflow, very many sources.

Reads commands from standard input, one per line, and prints `done` after each: `names`; `numbers`; `sources COUNT`
publishes one window of each of COUNT sources; `flood COUNT` publishes COUNT windows of one source. The program ends
when its input ends.
"""

import sys

import rclpy
from builtin_interfaces.msg import Time
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from statistics_msgs.msg import MetricsMessage, StatisticDataPoint

HOSTILE = 'x\x1b]0;PWNED\x07\x1b[2J\n/imu 1 100.0\x7f\x9b\u202e'
FIGURES = [0.0, -1.0, 1e300, -1e300, float('inf'), float('-inf'), float('nan'), 1e-320, 1.8e19]

rclpy.init(signal_handler_options=SignalHandlerOptions.NO)  # the node does not spin
node = rclpy.create_node('foreign')
publisher = node.create_publisher(MetricsMessage, '/statistics', QoSProfile(depth=2000))


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


for line in sys.stdin:
    order, *count = line.split()
    if order == 'names':
        publish(HOSTILE, HOSTILE, HOSTILE)
        publish('y' * 100_000)
        publish('z' * 500)
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
    print('done', flush=True)
