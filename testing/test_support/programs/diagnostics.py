# SPDX-License-Identifier: Apache-2.0
"""Prints each `diagnostic_msgs/DiagnosticArray` on `/diagnostics` as a line of JSON."""

import json
import sys
import threading

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import ExternalShutdownException

rclpy.init()
node = rclpy.create_node('diagnostics_reader')


def on_diagnostics(array):
    print(
        json.dumps({
            'stamp': array.header.stamp.sec * 1_000_000_000 + array.header.stamp.nanosec,
            'status': [
                {
                    'level': status.level[0],
                    'name': status.name,
                    'message': status.message,
                    'hardware_id': status.hardware_id,
                    'values': {value.key: value.value for value in status.values},
                }
                for status in array.status
            ],
        }),
        flush=True,
    )


def wait_for_end():
    sys.stdin.read()
    rclpy.shutdown()


diagnostics = node.create_subscription(DiagnosticArray, '/diagnostics', on_diagnostics, 100)
threading.Thread(target=wait_for_end, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
