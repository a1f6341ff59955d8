# SPDX-License-Identifier: Apache-2.0
"""Sends goals of type `test_msgs/action/Fibonacci`.

Reads commands from standard input, one per line: `ACTION ORDER COUNT` sends COUNT goals at once, and `ACTION ORDER
COUNT MS` cancels each of them MS milliseconds after its acceptance. Prints the status of each goal in one line, once
all have ended: 4 succeeded, 5 canceled, 6 aborted, `rejected`.
"""

import sys
import time

import rclpy
from rclpy.action import ActionClient
from test_msgs.action import Fibonacci

rclpy.init()
node = rclpy.create_node('act_client')
clients = {}


def wait(future):
    rclpy.spin_until_future_complete(node, future)
    return future.result()


for line in sys.stdin:
    action, order, count, *cancel_after = line.split()
    if action not in clients:
        clients[action] = ActionClient(node, Fibonacci, action)
        clients[action].wait_for_server()
    requested = [clients[action].send_goal_async(Fibonacci.Goal(order=int(order))) for _ in range(int(count))]
    goals = [wait(future) for future in requested]
    results = [goal.get_result_async() if goal.accepted else None for goal in goals]
    if cancel_after:
        time.sleep(int(cancel_after[0]) * 1e-3)
        for cancel in [goal.cancel_goal_async() for goal in goals if goal.accepted]:
            wait(cancel)
    print(*('rejected' if result is None else wait(result).status for result in results), flush=True)
