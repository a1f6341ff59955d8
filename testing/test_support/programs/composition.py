# SPDX-License-Identifier: Apache-2.0
"""A process with some nodes, like a component container. Each has a parameter, publishes `std_msgs/Int32` on `topic_N`
at 20 Hz, and subscribes to the topic of the previous node. The first node has an action server `act`, the last one its
client.

Reads commands from standard input, one per line, and answers each with a line of JSON: `goal ORDER` makes the client
send a goal, `clients N` waits until the server has discovered N clients. Without nodes, the process is a node
`operator` with a client of the action: `parameters N` reads and sets the parameters of N nodes, and answers with all
responses, `publishers` is the number of publishers on /statistics. The program ends with its input.

A goal has a feedback for each number up to its order, and all numbers as its result. An order below 0 is rejected. An
order above 100 goes on until it is canceled.
"""

import argparse
import json
import sys
import threading
import time

import rclpy
from rclpy._rclpy_pybind11 import RCLError
from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.parameter_client import AsyncParameterClient
from std_msgs.msg import Int32
from test_msgs.action import Fibonacci

parser = argparse.ArgumentParser()
parser.add_argument('--nodes', type=int, default=0)
arguments = parser.parse_args()

rclpy.init()
executor = MultiThreadedExecutor(4)
nodes = []
server = client = None
sending = threading.Lock()


class Client(ActionClient):
    """rclpy registers a goal after sending it. A response that another thread takes in between would be lost."""

    async def execute(self, taken_data):
        with sending:
            pass
        await super().execute(taken_data)


def execute(handle):
    order = handle.request.order
    is_endless = order > 100
    result = Fibonacci.Result()
    for number in range(1 if is_endless else order):
        result.sequence.append(number)
        handle.publish_feedback(Fibonacci.Feedback(sequence=result.sequence))
    while is_endless and not handle.is_cancel_requested:
        time.sleep(0.002)
    if is_endless:
        handle.canceled()
    else:
        handle.succeed()
    return result


def create(number):
    global server, client
    node = rclpy.create_node(f'node_{number}')
    nodes.append(node)
    node.declare_parameter('rate', 20)
    publisher = node.create_publisher(Int32, f'topic_{number}', 10)
    node.create_subscription(Int32, f'topic_{(number or arguments.nodes) - 1}', lambda _: None, 10)
    node.create_timer(0.05, lambda: publisher.publish(Int32()))
    group = ReentrantCallbackGroup()
    if number == 0:
        server = ActionServer(
            node, Fibonacci, 'act', execute, callback_group=group,
            goal_callback=lambda goal: GoalResponse.REJECT if goal.order < 0 else GoalResponse.ACCEPT,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )  # yapf: disable
    if number == arguments.nodes - 1:
        client = Client(node, Fibonacci, 'act', callback_group=group)
    executor.add_node(node)


def wait(future):
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    assert done.wait(50)
    return future.result()


def send_goal(by, order):
    """Returns whether the goal is accepted, and its status, result and feedback."""
    by.wait_for_server()
    feedback = []
    got_feedback = threading.Event()

    def accept(message):
        feedback.append(list(message.feedback.sequence))
        if len(feedback) == min(order, 1 if order > 100 else order):
            got_feedback.set()

    with sending:
        sent = by.send_goal_async(Fibonacci.Goal(order=order), accept)
    goal = wait(sent)
    if not goal.accepted:
        return 'rejected'
    assert order == 0 or got_feedback.wait(50)
    result = goal.get_result_async()
    canceling = len(wait(goal.cancel_goal_async()).goals_canceling) if order > 100 else None
    result = wait(result)
    # Two threads may deliver feedback in the wrong order, so the feedback is sorted.
    return canceling, result.status, list(result.result.sequence), sorted(feedback, key=len)


def use_parameters(operator, number):
    parameters = AsyncParameterClient(operator, f'node_{number}')
    parameters.wait_for_services()
    names = sorted(wait(parameters.list_parameters(['rate', 'use_sim_time'], 1)).result.names)
    get = lambda: parameter_value_to_python(wait(parameters.get_parameters(['rate'])).values[0])
    before = get()
    set_results = [
        (result.successful, result.reason) for value in (number, 'text')
        for result in wait(parameters.set_parameters([Parameter('rate', value=value)])).results
    ]
    types = [descriptor.type for descriptor in wait(parameters.describe_parameters(['rate'])).descriptors]
    return names, before, set_results, get(), types


def answer(command, *values):
    if command == 'parameters':
        return [use_parameters(operator, number) for number in range(int(values[0]))]
    if command == 'clients':
        while (min(nodes[0].count_subscribers('act/_action/feedback'), nodes[0].count_clients('act/_action/get_result'))
               < int(values[0])):
            time.sleep(0.01)
        return None
    if command == 'goal':
        return send_goal(client, int(values[0]))
    return operator.count_publishers('/statistics')


def read_commands():
    for line in sys.stdin:
        print(json.dumps(answer(*line.split())), flush=True)
    rclpy.shutdown()


for number in range(arguments.nodes):
    create(number)
if not nodes:
    operator = rclpy.create_node('operator')
    client = Client(operator, Fibonacci, 'act', callback_group=ReentrantCallbackGroup())
    executor.add_node(operator)
threading.Thread(target=read_commands, daemon=True).start()
try:
    executor.spin()
except (ExternalShutdownException, RCLError):
    # Another thread may shut down rclpy at the moment when this thread starts to wait.
    if rclpy.ok():
        raise
