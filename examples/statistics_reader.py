# SPDX-License-Identifier: Apache-2.0
"""Prints the messages on /statistics: one line for each metric of each window.

With --json, each line is a JSON object. Times are in nanoseconds since the epoch. The values have the order of the
message. NaN is null.
"""

import argparse
import json
import math
import os
import sys

import rclpy
from rclpy.executors import ExternalShutdownException
from statistics_msgs.msg import MetricsMessage, StatisticDataType

NAMES = {
    StatisticDataType.STATISTICS_DATA_TYPE_AVERAGE: 'average',
    StatisticDataType.STATISTICS_DATA_TYPE_MINIMUM: 'min',
    StatisticDataType.STATISTICS_DATA_TYPE_MAXIMUM: 'max',
    StatisticDataType.STATISTICS_DATA_TYPE_STDDEV: 'std dev',
    StatisticDataType.STATISTICS_DATA_TYPE_SAMPLE_COUNT: 'count',
}


def nanoseconds(time):
    return time.sec * 1_000_000_000 + time.nanosec


def as_json(message):
    return json.dumps({
        'source': message.measurement_source_name,
        'metric': message.metrics_source,
        'unit': message.unit,
        'window_start': nanoseconds(message.window_start),
        'window_stop': nanoseconds(message.window_stop),
        'statistics': [
            [point.data_type, None if math.isnan(point.data) else point.data]
            for point in message.statistics
        ],
    }, allow_nan=False)


def as_text(message):
    points = '  '.join(
        f'{NAMES.get(point.data_type, point.data_type)} {point.data:g}' for point in message.statistics)
    return f'{message.measurement_source_name}  {message.metrics_source} ({message.unit})  {points}'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--json', action='store_true', help='print JSON objects')
    parser.add_argument('--depth', type=int, default=100, help='QoS depth of the subscription')
    arguments = parser.parse_args()
    show = as_json if arguments.json else as_text

    # Some middlewares, such as Zenoh, log to standard output. From here on, such logs go to standard error.
    output = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    rclpy.init()
    node = rclpy.create_node('statistics_reader')
    node.create_subscription(
        MetricsMessage,
        '/statistics',
        lambda message: print(show(message), file=output, flush=True),
        arguments.depth)
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except BrokenPipeError:  # the program that reads the output has ended
        sys.stderr.close()


if __name__ == '__main__':
    main()
