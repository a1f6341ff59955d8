# SPDX-License-Identifier: Apache-2.0
"""Publishes `std_msgs/Int32` at 20 Hz on topics that can be added and removed.

Reads commands from standard input, one per line, and prints `done` after each: `add NAME...`, `remove NAME...`. The
program ends when its input ends.
"""

import queue
import sys
import threading

import rclpy
from rclpy.executors import ExternalShutdownException
from std_msgs.msg import Int32

rclpy.init()
node = rclpy.create_node('topics')
publishers = {}
# rclpy's executor fails if another thread destroys a publisher, so a callback follows the commands.
commands = queue.SimpleQueue()


def follow(command):
    order, *names = command.split()
    for name in names:
        if order == 'add':
            publishers[name] = node.create_publisher(Int32, name, 10)
        else:
            node.destroy_publisher(publishers.pop(name))
    print('done', flush=True)


def publish():
    while not commands.empty():
        follow(commands.get())
    for publisher in publishers.values():
        publisher.publish(Int32())


def read_commands():
    for line in sys.stdin:
        commands.put(line)
    rclpy.shutdown()


timer = node.create_timer(0.05, publish)
threading.Thread(target=read_commands, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
