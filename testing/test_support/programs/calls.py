# SPDX-License-Identifier: Apache-2.0
"""Calls a service of type `test_msgs/srv/BasicTypes`, by default `serve`. Ends with its standard input.

Reads commands from standard input, one per line, and prints a line after each:
- `call VALUE LATE` sends a request with that `int64_value`. Once the response has arrived, it is taken LATE
  milliseconds later. Prints the response's value.
- `send VALUE` sends a request only.
"""

import sys
import time

import rclpy
from rclpy.impl.implementation_singleton import rclpy_implementation
from test_msgs.srv import BasicTypes

rclpy.init()
node = rclpy.create_node('caller')
client = node.create_client(BasicTypes, sys.argv[1] if len(sys.argv) > 1 else 'serve')


def wait_for_response():
    with node.context.handle, client.handle:
        wait_set = rclpy_implementation.WaitSet(0, 0, 0, 1, 0, 0, node.context.handle)
        wait_set.clear_entities()
        wait_set.add_client(client.handle)
        wait_set.wait(60_000_000_000)


for line in sys.stdin:
    command, value, *late = line.split()
    client.wait_for_service()
    future = client.call_async(BasicTypes.Request(int64_value=int(value)))
    if command == 'call':
        wait_for_response()
        time.sleep(int(late[0]) * 1e-3)
        rclpy.spin_until_future_complete(node, future)
        value = future.result().int64_value
    print(value, flush=True)
