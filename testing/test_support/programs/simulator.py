# SPDX-License-Identifier: Apache-2.0
"""Publishes simulated time on `/clock` at 100 Hz, and `sensor_msgs/Imu` with simulated stamps on `imu` at 50 Hz.

Reads commands from standard input, one per line: `begin` starts the clock, `jump SECONDS` moves it. The publisher of
`imu` uses a clock that is `--lag` seconds of real time late, like a node that has not yet received the last `/clock`.
"""

import argparse
import collections
import sys
import threading
import time

import rclpy
from builtin_interfaces.msg import Time
from rclpy.executors import ExternalShutdownException
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu

parser = argparse.ArgumentParser()
parser.add_argument('--start', type=float, default=1000.0, help='simulated seconds')
parser.add_argument('--speed', type=float, default=1.0, help='simulated seconds per second')
parser.add_argument('--stamp-age', type=float, default=0.0, help='age of the stamps in simulated seconds')
parser.add_argument('--lag', type=float, default=0.0)
arguments = parser.parse_args()

rclpy.init()
node = rclpy.create_node('simulator')
clocks = node.create_publisher(Clock, '/clock', 10)
imus = node.create_publisher(Imu, 'imu', 1000)
lock = threading.Lock()
now = None
seen = collections.deque()
last = time.monotonic()


def message(seconds):
    nanoseconds = round(seconds * 1e9)
    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


def tick():
    global now, last
    with lock:
        real, step = time.monotonic(), time.monotonic() - last
        last = real
        if now is None:
            return
        now += arguments.speed * step
        seen.append((real, now))
        clocks.publish(Clock(clock=message(now)))


def publish():
    with lock:
        while len(seen) > 1 and seen[1][0] <= time.monotonic() - arguments.lag:
            seen.popleft()
        imu = Imu()
        # Until simulated time starts, the stamp is 5 s, as from another clock.
        imu.header.stamp = message((seen[0][1] if seen else 5.0) - arguments.stamp_age)
        imu.linear_acceleration.x = time.monotonic() * 1e3  # real time in ms
        imus.publish(imu)


node.create_timer(0.01, tick)
node.create_timer(0.02, publish)


def read_commands():
    global now
    for line in sys.stdin:
        verb, *by = line.split()
        with lock:
            now = arguments.start if verb == 'begin' else now + float(by[0])
    rclpy.shutdown()


threading.Thread(target=read_commands, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
