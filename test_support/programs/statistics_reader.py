# SPDX-License-Identifier: Apache-2.0
"""Subscribes to /statistics, reliably; prints `heard` for the first message, and obeys no line."""

import argparse

import rclpy
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from statistics_msgs.msg import MetricsMessage

parser = argparse.ArgumentParser()
parser.add_argument('--keep-all', action='store_true')
arguments = parser.parse_args()

rclpy.init()
node = rclpy.create_node('statistics_reader')
qos = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
if arguments.keep_all:
    qos.history = HistoryPolicy.KEEP_ALL
has_heard = False


def hear(_):
    global has_heard
    if not has_heard:
        print('heard', flush=True)
    has_heard = True


node.create_subscription(MetricsMessage, '/statistics', hear, qos)
rclpy.spin(node)
