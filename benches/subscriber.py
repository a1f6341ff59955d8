# SPDX-License-Identifier: Apache-2.0
"""Subscribes to a topic with Imu. The callback only counts messages: this is the smallest cost of rclpy. Runs until it is
ended by a signal."""

import sys

import rclpy
from rclpy.executors import ExternalShutdownException
from sensor_msgs.msg import Imu

rclpy.init()
node = rclpy.create_node('bench_subscriber')
count = 0


def receive(_):
    global count
    count += 1


subscription = node.create_subscription(Imu, sys.argv[1], receive, 10)
node.create_timer(1.0, lambda: print(count, flush=True))
try:
    rclpy.spin(node)
except (KeyboardInterrupt, ExternalShutdownException):
    pass
