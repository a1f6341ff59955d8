# SPDX-License-Identifier: Apache-2.0
"""A service `serve` of type `test_msgs/srv/BasicTypes`. It responds with the same `int64_value`, after that number of
milliseconds. Prints a line when the server has discovered a client, so that no response is lost. Ends with its standard
input.
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


def tell_of_client():
    while not node.count_clients('serve'):
        time.sleep(0.01)
    print('a client', flush=True)


def end():
    sys.stdin.read()
    rclpy.shutdown()


threading.Thread(target=tell_of_client, daemon=True).start()
threading.Thread(target=end, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
