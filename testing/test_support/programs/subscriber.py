# SPDX-License-Identifier: Apache-2.0
"""Subscribes to `sensor_msgs/Imu` on `imu`, or to `std_msgs/String` on `chatter`. Answers each line of its standard
input with the number of messages received, or, if the line is the name of a topic, with the number of subscriptions to
this topic that the program has discovered.

The program ends when its input ends.
"""

import argparse
import sys
import threading

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Imu
from std_msgs.msg import String

parser = argparse.ArgumentParser()
parser.add_argument('--chatter', action='store_true', help='subscribe to `chatter`, with best effort')
parser.add_argument('--nodes', type=int, default=1, help='number of nodes, each with a subscription')
parser.add_argument('--destroy-first', action='store_true', help='destroy the first node when the first line is read')
arguments, ros_arguments = parser.parse_known_args()

rclpy.init(args=ros_arguments)
executor = rclpy.executors.SingleThreadedExecutor()
count = 0


def receive(message):
    global count
    count += 1


def create(name):
    node = rclpy.create_node(name)
    if arguments.chatter:
        best_effort = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
        node.create_subscription(String, 'chatter', receive, best_effort)
    else:
        node.create_subscription(Imu, 'imu', receive, QoSProfile(depth=1000))
    executor.add_node(node)
    return node


nodes = [create('subscriber' if number == 0 else f'subscriber_{number}') for number in range(arguments.nodes)]


def destroy_first():
    executor.remove_node(nodes[0])
    nodes.pop(0).destroy_node()


def read_commands():
    for line in sys.stdin:
        if arguments.destroy_first and len(nodes) == arguments.nodes:
            executor.create_task(destroy_first)
        topic = line.strip()
        print(nodes[0].count_subscribers(topic) if topic.startswith('/') else count, flush=True)
    rclpy.shutdown()


threading.Thread(target=read_commands, daemon=True).start()
try:
    executor.spin()
except ExternalShutdownException:
    pass
