# SPDX-License-Identifier: Apache-2.0
"""Prints what nodes publish as lines of JSON, with the monotonic time of the reception: /statistics and its
distributions, /events/messages_lost and /diagnostics. It ends at the end of standard input.
"""

import json
import math
import os
import signal
import sys
import threading
import time

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from statistics_msgs.msg import MetricsMessage
from topic_statistics_interfaces.msg import MessagesLostEvent, MetricsDistribution


def nanoseconds(time):
    return time.sec * 1_000_000_000 + time.nanosec


def known(value):
    return None if math.isnan(value) else value


def window(message):
    return {
        'source': message.measurement_source_name,
        'metric': message.metrics_source,
        'unit': message.unit,
        'window': [nanoseconds(message.window_start), nanoseconds(message.window_stop)],
    }


def statistics(message):
    # Average, minimum, maximum, standard deviation and count have the data types 1 to 5.
    figures = {point.data_type: known(point.data) for point in message.statistics}
    return {**window(message), 'figures': [figures.get(data_type) for data_type in range(1, 6)]}


def distribution(message):
    return {
        **window(message),
        'figures': [message.count, message.sum, message.minimum, message.maximum],
        'percentiles': [known(value) for value in (message.p50, message.p90, message.p99, message.p99_9)],
        'scale': message.scale,
        'samples': sum(message.positive_counts) + sum(message.negative_counts) + message.zero_count,
    }


def losses(message):
    lost = [[of.topic_name, of.messages_lost] for of in message.messages_lost_statistics]
    return {'node': message.node_name, 'lost': lost}


def diagnostics(message):
    return {
        'stamp': nanoseconds(message.header.stamp),
        'statuses': [
            {
                'level': status.level[0],
                'name': status.name,
                'message': status.message,
                'hardware_id': status.hardware_id,
                'values': {value.key: value.value for value in status.values},
            }
            for status in message.status
        ],
    }


# The tools get SIGINT. The end of the input is the end here, without rclpy's own, which may wait for ever.
signal.signal(signal.SIGINT, signal.SIG_IGN)
rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
node = rclpy.create_node('reader')
for kind, topic, convert in [
    (MetricsMessage, '/statistics', statistics),
    (MetricsDistribution, '/statistics/distribution', distribution),
    (MessagesLostEvent, '/events/messages_lost', losses),
    (DiagnosticArray, '/diagnostics', diagnostics),
]:
    def receive(message, topic=topic, convert=convert):
        at = time.monotonic_ns()
        sys.stdout.write(json.dumps({'topic': topic, 'at': at, **convert(message)}) + '\n')

    node.create_subscription(kind, topic, receive, QoSProfile(depth=5000))


def end():
    sys.stdin.read()
    sys.stdout.flush()
    os._exit(0)


threading.Thread(target=end, daemon=True).start()
rclpy.spin(node)
