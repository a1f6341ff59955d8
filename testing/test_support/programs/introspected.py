# SPDX-License-Identifier: Apache-2.0
"""A node with service introspection, of the service `serve` of type `test_msgs/srv/BasicTypes`.

`introspected.py server MS STATE` responds after MS milliseconds. `introspected.py client - STATE` reads commands
from standard input, one per line: `COUNT MS` calls COUNT times, takes each response at least MS later, and prints two
means in ms, measured by the client itself: from the sent request to the start of the response's take, and from before
the request to after the response. The round trip is between the two. STATE is METADATA, CONTENTS or OFF. Ends with its
standard input.
"""

import sys
import threading
import time

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.qos import QoSProfile
from rclpy.service_introspection import ServiceIntrospectionState
from rclpy.utilities import remove_ros_args
from test_msgs.srv import BasicTypes

role, milliseconds, state = remove_ros_args(sys.argv)[1:]
rclpy.init()
node = rclpy.create_node(role)


def introspect(what):
    what.configure_introspection(node.get_clock(), QoSProfile(depth=1000), getattr(ServiceIntrospectionState, state))


def serve(request, response):
    time.sleep(float(milliseconds) * 1e-3)
    response.string_value = request.string_value
    return response


def end():
    sys.stdin.read()
    rclpy.shutdown()


if role == 'server':
    introspect(node.create_service(BasicTypes, 'serve', serve))
    threading.Thread(target=end, daemon=True).start()
    try:
        rclpy.spin(node)
    except ExternalShutdownException:
        pass
else:
    client = node.create_client(BasicTypes, 'serve')
    introspect(client)
    for line in sys.stdin:
        client.wait_for_service()
        count, wait = line.split()
        within = around = 0.0
        for _ in range(int(count)):
            called = time.monotonic()
            response = client.call_async(BasicTypes.Request(string_value='long ' * 50))
            sent = time.monotonic()
            time.sleep(float(wait) * 1e-3)
            within += time.monotonic() - sent
            rclpy.spin_until_future_complete(node, response)
            around += time.monotonic() - called
        print(within / int(count) * 1e3, around / int(count) * 1e3, flush=True)
