# SPDX-License-Identifier: Apache-2.0
"""Subscribes to /statistics (reliable, keep all). Prints `received` at the first message, and takes no further one.

The callback blocks, so the middleware soon holds as many messages as it can, and accepts no more. The process runs on,
so that its discovery is not over, which would end a stopped process for the publisher after some seconds.
"""

import threading

import rclpy
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from statistics_msgs.msg import MetricsMessage

rclpy.init()
node = rclpy.create_node('statistics_reader')
qos = QoSProfile(history=HistoryPolicy.KEEP_ALL, reliability=ReliabilityPolicy.RELIABLE)


def receive(_):
    print('received', flush=True)
    threading.Event().wait()


node.create_subscription(MetricsMessage, '/statistics', receive, qos)
rclpy.spin(node)
