# SPDX-License-Identifier: Apache-2.0
"""Calls services of type `test_msgs/srv/BasicTypes`.

Reads commands from standard input, one per line: `SERVICE COUNT` sends COUNT requests at once, with the numbers from 0
on as `int64_value`. Prints the number of the responses that have the same value, once all are received.
"""

import sys

import rclpy
from rclpy.qos import QoSProfile
from test_msgs.srv import BasicTypes

rclpy.init()
node = rclpy.create_node('client')
clients = {}

for line in sys.stdin:
    service, count = line.split()
    if service not in clients:
        clients[service] = node.create_client(BasicTypes, service, qos_profile=QoSProfile(depth=2000))
        clients[service].wait_for_service()
    futures = [clients[service].call_async(BasicTypes.Request(int64_value=number)) for number in range(int(count))]
    for future in futures:
        rclpy.spin_until_future_complete(node, future)
    same = sum(future.result().int64_value == number for number, future in enumerate(futures))
    print(same, flush=True)
