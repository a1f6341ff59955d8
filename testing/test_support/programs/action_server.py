# SPDX-License-Identifier: Apache-2.0
"""An action server `act` of type `test_msgs/action/Fibonacci`. Each goal controls its own outcome.

An order below 0 is rejected. Otherwise the goal is accepted after 100 ms, has feedback 200 ms after that, and ends
ORDER ms after the feedback: if ORDER is odd it is aborted, else it succeeds. A request to cancel the goal is accepted
after 100 ms, because rclrs 0.8 discards a response that arrives before the call of the request has returned
(docs/upstream). Then the goal is canceled at once. Prints a line when the server has discovered a client, so that no
response or feedback is lost. Ends with its standard input.
"""

import sys
import threading
import time

import rclpy
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from test_msgs.action import Fibonacci

rclpy.init()
node = rclpy.create_node('act_server')


def decide(goal):
    time.sleep(0.1)
    return GoalResponse.REJECT if goal.order < 0 else GoalResponse.ACCEPT


def cancel(_):
    time.sleep(0.1)
    return CancelResponse.ACCEPT


def execute(handle):
    time.sleep(0.2)
    handle.publish_feedback(Fibonacci.Feedback())
    end = time.monotonic() + handle.request.order * 1e-3
    while time.monotonic() < end:
        if handle.is_cancel_requested:
            handle.canceled()
            return Fibonacci.Result()
        time.sleep(0.001)
    if handle.request.order % 2:
        handle.abort()
    else:
        handle.succeed()
    return Fibonacci.Result()


server = ActionServer(
    node,
    Fibonacci,
    'act',
    execute,
    goal_callback=decide,
    cancel_callback=cancel,
    callback_group=ReentrantCallbackGroup(),
)


def tell_of_client():
    while not (node.count_subscribers('act/_action/feedback') and node.count_clients('act/_action/get_result')):
        time.sleep(0.01)
    print('a client', flush=True)


def end():
    sys.stdin.read()
    rclpy.shutdown()


threading.Thread(target=tell_of_client, daemon=True).start()
threading.Thread(target=end, daemon=True).start()
try:
    rclpy.spin(node, MultiThreadedExecutor(num_threads=8))
except ExternalShutdownException:
    pass
