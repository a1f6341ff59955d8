# SPDX-License-Identifier: Apache-2.0
"""A service `serve` of type `test_msgs/srv/BasicTypes`. It responds with the same `int64_value`, after that number of
milliseconds. Ends with its standard input.
"""

import sys
import threading
import time

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.qos import QoSProfile
from test_msgs.srv import BasicTypes

rclpy.init()
node = rclpy.create_node('server')


def serve(request, response):
    time.sleep(request.int64_value * 1e-3)
    response.int64_value = request.int64_value
    return response


node.create_service(BasicTypes, 'serve', serve, qos_profile=QoSProfile(depth=2000))


def end():
    sys.stdin.read()
    rclpy.shutdown()


threading.Thread(target=end, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
