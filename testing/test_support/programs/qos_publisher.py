# SPDX-License-Identifier: Apache-2.0
"""Publishes with several QoS: 10 Hz of `sensor_msgs/Imu` on `best_effort`, and one `std_msgs/String` on `latched`.

Reads commands from standard input, one per line, and prints `done` after each:

- `late` adds a publisher of `std_msgs/Int32` on `late` (10 Hz, reliable).
- `weak` adds a best-effort publisher on `late`.
- `end` ends the publisher that was added last.
- `pause` stops publishing on `best_effort` and `late`.
- `unknown` adds a publisher of `test_msgs/BasicTypes` on `unknown`.
- `count` prints the number of messages published on `best_effort` so far, instead of `done`.

The program ends when its input ends.
"""

import sys
import threading

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Imu
from std_msgs.msg import Int32, String
from test_msgs.msg import BasicTypes

rclpy.init()
node = rclpy.create_node('qos_publisher')
weak = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
imus = node.create_publisher(Imu, 'best_effort', weak)
texts = node.create_publisher(String, 'latched', latched)
texts.publish(String(data='said once'))
late = []
ended = []
is_paused = False
count = 0


def publish():
    global count
    if is_paused:
        return
    count += 1
    imu = Imu()
    imu.header.stamp = node.get_clock().now().to_msg()
    imus.publish(imu)
    for publisher in list(late):
        publisher.publish(Int32())
    while ended:  # on this thread, which also publishes
        node.destroy_publisher(ended.pop())


timer = node.create_timer(0.1, publish)


def read_commands():
    global is_paused
    for line in sys.stdin:
        order = line.strip()
        if order == 'late':
            late.append(node.create_publisher(Int32, 'late', 10))
        elif order == 'weak':
            late.append(node.create_publisher(Int32, 'late', weak))
        elif order == 'end':
            ended.append(late.pop())
        elif order == 'unknown':
            node.unknown = node.create_publisher(BasicTypes, 'unknown', 10)
        elif order == 'pause':
            is_paused = True
        print(count if order == 'count' else 'done', flush=True)
    rclpy.shutdown()


threading.Thread(target=read_commands, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
