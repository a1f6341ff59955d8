# SPDX-License-Identifier: Apache-2.0
"""Prints the size of each message that arrives, as the middleware delivers it: `INTERFACE BYTES`, in order per
interface.

    sizes.py INTERFACE...    such as std_msgs/msg/String: subscribes to `sent/INTERFACE`

`ros2 topic bw` counts the same sizes. The program ends when its input ends.
"""

import importlib
import os
import sys
import threading

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

# Transient local: messages that were published before discovery are also delivered.
QOS = QoSProfile(
    history=HistoryPolicy.KEEP_ALL,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)


def interface(name):
    package, namespace, type_name = name.split('/')
    return getattr(importlib.import_module(f'{package}.{namespace}'), type_name)


def end_with_standard_input():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_standard_input, daemon=True).start()
rclpy.init()
node = rclpy.create_node('sizes')
for name in sys.argv[1:]:

    def on_message(serialized, name=name):
        print(name, len(serialized), flush=True)

    node.create_subscription(interface(name), f'sent/{name}', on_message, QOS, raw=True)
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
