# SPDX-License-Identifier: Apache-2.0
"""Prints what nodes publish on /statistics and /diagnostics as lines of JSON. It ends at the end of standard input."""

import json
import math
import os
import signal
import sys
import threading

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from statistics_msgs.msg import MetricsMessage


def nanoseconds(time):
    return time.sec * 1_000_000_000 + time.nanosec


def statistics(message):
    # Average, minimum, maximum, standard deviation and count have the data types 1 to 5.
    figures = {point.data_type: point.data for point in message.statistics if not math.isnan(point.data)}
    yield {
        'topic': message.measurement_source_name,
        'window_start': nanoseconds(message.window_start),
        'window_stop': nanoseconds(message.window_stop),
        'metrics': {message.metrics_source: [figures.get(data_type) for data_type in range(1, 6)]},
    }


def diagnostics(message):
    for status in message.status:
        values = {value.key: value.value for value in status.values}
        yield {'level': status.level[0], 'name': status.name, 'message': status.message, 'values': values}


# The tools receive SIGINT. At the end of the input this program exits without rclpy's shutdown, which may hang.
signal.signal(signal.SIGINT, signal.SIG_IGN)
rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
node = rclpy.create_node('reader')
for kind, topic, convert in [
    (MetricsMessage, '/statistics', statistics),
    (DiagnosticArray, '/diagnostics', diagnostics),
]:
    def receive(message, convert=convert):
        for line in convert(message):
            sys.stdout.write(json.dumps(line) + '\n')

    node.create_subscription(kind, topic, receive, QoSProfile(depth=5000))


def end():
    sys.stdin.read()
    sys.stdout.flush()
    os._exit(0)


threading.Thread(target=end, daemon=True).start()
rclpy.spin(node)
