# SPDX-License-Identifier: Apache-2.0
"""Publishes `sensor_msgs/Imu` of known ages on simulated time, and knows the exact quantiles of the ages.

Publishes `/clock`, which stands still, and messages with stamps on `warm`. Reads commands from standard input, one per
line: `spread` and `block` publish 1000 messages on `imu`, 20 with an age of 85 ms and the others with 5 ms:
every fiftieth one, or 20 in a row. It prints a line of JSON: count and exact quantiles of all ages on `imu` since the
start. The program ends when its input ends.
"""

import json
import sys
import threading
import time

import rclpy
from builtin_interfaces.msg import Time
from rclpy.executors import ExternalShutdownException
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu

NOW = 1_000_000_000_000_000
QUANTILES = [('p50', 500), ('p90', 900), ('p99', 990), ('p99_9', 999)]

rclpy.init()
node = rclpy.create_node('sender')
clocks = node.create_publisher(Clock, '/clock', 10)
imus = node.create_publisher(Imu, 'imu', 1000)
warm = node.create_publisher(Imu, 'warm', 10)
sent = []


def time_message(nanoseconds):
    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


def imu(age):
    message = Imu()
    message.header.stamp = time_message(NOW - age)
    return message


def tick():
    clocks.publish(Clock(clock=time_message(NOW)))
    warm.publish(imu(1_000_000))


def quantiles():
    ordered = sorted(sent)
    exact = {name: ordered[-(-len(ordered) * per_mille // 1000) - 1] for name, per_mille in QUANTILES}
    return {'count': len(ordered), **exact}


def send(is_late):
    for number in range(1000):
        # All different, by up to 2 %.
        age = (85_000_000 if is_late(number) else 5_000_000) * (1000 + number % 20) // 1000
        imus.publish(imu(age))
        sent.append(age / 1e6)
        if number % 10 == 9:
            time.sleep(0.02)
    print(json.dumps(quantiles()), flush=True)


def read_commands():
    for line in sys.stdin:
        if line.strip() == 'spread':
            send(lambda number: number % 50 == 0)
        else:
            send(lambda number: 900 <= number < 920)
    rclpy.shutdown()


node.create_timer(0.05, tick)
threading.Thread(target=read_commands, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
