# SPDX-License-Identifier: Apache-2.0
"""What a robot's owner would write first: an exporter of `/statistics` with rclpy and the official Prometheus client.
Gauges of the last window; no totals, distributions, bounds or checks. It counts the messages received, for the
benchmark. Its arguments are the port, and the folder with the client. Runs until it is ended."""

import contextlib
import sys

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.qos import QoSProfile
from statistics_msgs.msg import MetricsMessage

sys.path.append(sys.argv[2])
from prometheus_client import Counter, Gauge, start_http_server

NAMES = {1: 'mean', 2: 'min', 3: 'max', 4: 'stddev', 5: 'count'}
gauges = {
    kind: Gauge(f'statistics_{name}', f'{name} of the last window', ['node', 'topic', 'metric', 'unit'])
    for kind, name in NAMES.items()
}
received = Counter('statistics_messages_received', 'messages received')


def receive(message):
    received.inc()
    node, _, topic = message.measurement_source_name.partition(':')
    for point in message.statistics:
        gauges[point.data_type].labels(node, topic, message.metrics_source, message.unit).set(point.data)


rclpy.init()
node = rclpy.create_node('bench_exporter')
node.create_subscription(MetricsMessage, '/statistics', receive, QoSProfile(depth=10000))
start_http_server(int(sys.argv[1]), '127.0.0.1')
with contextlib.suppress(ExternalShutdownException):  # SIGTERM
    rclpy.spin(node)
