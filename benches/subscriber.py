# SPDX-License-Identifier: Apache-2.0
"""Subscribes to topics with Imu, by default to those of the monitor's load. The callbacks only count messages: this is
the smallest cost of rclpy. Runs until it is ended."""

import sys

import rclpy
from rclpy.executors import ExternalShutdownException
from sensor_msgs.msg import Image, Imu

rclpy.init()
node = rclpy.create_node('bench_subscriber')
count = 0


def receive(_):
    global count
    count += 1


topics = [(Imu, f'load/imu_{index}', 1000) for index in range(20)]
topics += [(Imu, 'load/fast', 1000), (Image, 'load/image', 100)]
topics = [(Imu, name, 10) for name in sys.argv[1:]] or topics
subscriptions = [node.create_subscription(kind, topic, receive, depth) for kind, topic, depth in topics]
node.create_timer(1.0, lambda: print(count, flush=True))
try:
    rclpy.spin(node)
except (KeyboardInterrupt, ExternalShutdownException):
    pass
