# SPDX-License-Identifier: Apache-2.0
"""Subscribes to /statistics with reliable QoS. Prints `received` at the first message. Reads no input."""

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
has_received = False


def receive(_):
    global has_received
    if not has_received:
        print('received', flush=True)
    has_received = True


node.create_subscription(MetricsMessage, '/statistics', receive, qos)
rclpy.spin(node)
