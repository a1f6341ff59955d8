# SPDX-License-Identifier: Apache-2.0
"""Publishes `imu` until /statistics has windows with samples of each `source metric` in the arguments, and /diagnostics
has the condition of the test's node, which fails."""

import sys
import time

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import Imu
from statistics_msgs.msg import MetricsMessage

rclpy.init()
node, missing = rclpy.create_node("tester"), {"age.p50", *sys.argv[1:]}
imu = node.create_publisher(Imu, "imu", 10)
def publish():
    message = Imu()
    message.header.stamp = node.get_clock().now().to_msg()
    imu.publish(message)
def read(message):
    if any(point.data_type == 5 and point.data > 0 for point in message.statistics):
        missing.discard(f"{message.measurement_source_name} {message.metrics_source}")
def judged(message):
    for status in message.status:
        if status.level == b"\x01" and "age.p50" in status.message:
            missing.discard("age.p50")
node.create_timer(0.05, publish)
node.create_subscription(DiagnosticArray, "/diagnostics", judged, 10)
node.create_subscription(MetricsMessage, "/statistics", read, 10)
end = time.monotonic() + 60
while missing and time.monotonic() < end:
    rclpy.spin_once(node, timeout_sec=0.1)
sys.exit(f"no {missing}" if missing else 0)
