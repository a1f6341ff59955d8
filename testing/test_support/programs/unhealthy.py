# SPDX-License-Identifier: Apache-2.0
"""Publishes `sensor_msgs/Imu` on `imu` at 20 Hz, with faults on request.

Reads commands from standard input, one per line: `rate HZ`, `age SECONDS` of the stamps, and `burst COUNT` messages at
once. The program ends when its input ends.
"""

import sys
import threading

import rclpy
from rclpy.duration import Duration
from rclpy.executors import ExternalShutdownException
from sensor_msgs.msg import Imu

rclpy.init()
node = rclpy.create_node('unhealthy')
imus = node.create_publisher(Imu, 'imu', 1000)
age, burst = 0.0, 1


def publish():
    imu = Imu()
    imu.header.stamp = (node.get_clock().now() - Duration(seconds=age)).to_msg()
    for _ in range(burst):
        imus.publish(imu)


timer = node.create_timer(0.05, publish)


def read_commands():
    global age, burst
    for line in sys.stdin:
        command, value = line.split()
        if command == 'rate':
            timer.timer_period_ns = int(1e9 / float(value))
            timer.reset()
        elif command == 'age':
            age = float(value)
        elif command == 'burst':
            burst = int(value)
    rclpy.shutdown()


threading.Thread(target=read_commands, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
