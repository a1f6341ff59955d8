# SPDX-License-Identifier: Apache-2.0
"""Publishes numbered messages: `sensor_msgs/Imu` on `imu`, with stamps, and `std_msgs/Int32` on `number`.

The number is in `linear_acceleration.x` and in `data`. Reads commands from standard input, one per line: `stop` stops
publishing. The program ends when its input ends.
"""

import argparse
import sys
import threading
import time

import rclpy
from rclpy.duration import Duration
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Imu
from std_msgs.msg import Int32

parser = argparse.ArgumentParser()
parser.add_argument('--rate', type=float, default=50.0, help='Hz')
parser.add_argument('--stamp-age', type=float, default=0.0, help='age of the stamps in seconds')
parser.add_argument('--wait', type=float, default=0.0, help='seconds from the stamp to the publishing')
parser.add_argument('--depth', type=int, default=1000)
parser.add_argument('--count', type=int, help='stop after this number of messages')
parser.add_argument('--subscribers', type=int, default=0, help='start when imu has this number of subscriptions')
parser.add_argument('--number-subscribers', type=int, default=0, help='and number has this number of them')
parser.add_argument('--best-effort', action='store_true')
arguments = parser.parse_args()

rclpy.init()
node = rclpy.create_node('publisher')
qos = QoSProfile(depth=arguments.depth)
if arguments.best_effort:
    qos.reliability = ReliabilityPolicy.BEST_EFFORT
imus = node.create_publisher(Imu, 'imu', qos)
numbers = node.create_publisher(Int32, 'number', qos)
count = 0


def publish():
    global count
    is_complete = (
        imus.get_subscription_count() >= arguments.subscribers
        and numbers.get_subscription_count() >= arguments.number_subscribers
    )
    if count == 0 and not is_complete:
        return
    count += 1
    if arguments.count and count > arguments.count:
        timer.cancel()
        return
    imu = Imu()
    imu.header.stamp = (node.get_clock().now() - Duration(seconds=arguments.stamp_age)).to_msg()
    imu.header.frame_id = 'imu_link'
    imu.linear_acceleration.x = float(count)
    time.sleep(arguments.wait)
    imus.publish(imu)
    numbers.publish(Int32(data=count))


timer = node.create_timer(1.0 / arguments.rate, publish)


def read_commands():
    for line in sys.stdin:
        if line.strip() == 'stop':
            timer.cancel()
    rclpy.shutdown()


threading.Thread(target=read_commands, daemon=True).start()
try:
    rclpy.spin(node)
except Exception:
    if rclpy.ok():  # else the error is that rclpy was shut down
        raise
