"""The other end of tests/it/round_trip.rs: reports what it receives, and sends the same values back.

    echo.py INTERFACE...    such as std_msgs/msg/String, test_msgs/srv/Empty, test_msgs/action/Fibonacci

Message: subscribes to `sent/INTERFACE`, publishes each received message on `echoed/INTERFACE`.
Service: serves `to_python/INTERFACE`, then calls `to_rust/INTERFACE` with the received request.
Action: serves `to_python/INTERFACE`, then sends the received goal to `to_rust/INTERFACE`.

A response, a result and a feedback have the values of the request or goal wherever they have a field of the same
name and type. Everything that arrives is printed as a line of JSON: {"interface", "what", "fields"}. Each type of
messages begins with its new message.

Ends when its standard input ends, so that it never outlives the test.
"""

import importlib
import json
import os
import sys
import threading
import time

import rclpy
from rclpy.action import ActionClient, ActionServer
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

# With this QoS, messages that are published before the discovery of a subscription are not lost.
QOS = QoSProfile(
    history=HistoryPolicy.KEEP_ALL,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)


def interface(name):
    package, namespace, type_name = name.split('/')
    return getattr(importlib.import_module(f'{package}.{namespace}'), type_name)


def plain(value):
    """Return a value as in JSON: bytes are numbers, arrays of every kind are lists."""
    if hasattr(value, 'get_fields_and_field_types'):
        return {field: plain(getattr(value, field)) for field in value.get_fields_and_field_types()}
    if isinstance(value, bytes):
        numbers = list(value)
        return numbers[0] if len(numbers) == 1 else numbers
    if hasattr(value, 'tolist'):  # array.array, numpy.ndarray
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    return value


def report(name, what, fields, **more):
    print(json.dumps({'interface': name, 'what': what, 'fields': fields, **more}), flush=True)


def copy_common_fields(source, target):
    types = source.get_fields_and_field_types()
    for field, field_type in target.get_fields_and_field_types().items():
        if types.get(field) == field_type:
            setattr(target, field, getattr(source, field))
    return target


def echo_messages(node, name):
    message_type = interface(name)
    publisher = node.create_publisher(message_type, f'echoed/{name}', QOS)

    def on_message(message):
        report(name, 'message', plain(message))
        publisher.publish(message)

    node.create_subscription(message_type, f'sent/{name}', on_message, QOS)
    report(name, 'new', plain(message_type()))


def echo_requests(node, name):
    service_type = interface(name)
    client = node.create_client(service_type, f'to_rust/{name}')

    def on_response(future):
        report(name, 'response', plain(future.result()))

    def on_request(request, response):
        report(name, 'request', plain(request))
        client.wait_for_service()
        client.call_async(request).add_done_callback(on_response)
        return copy_common_fields(request, response)

    node.create_service(service_type, f'to_python/{name}', on_request)


def echo_goals(node, name):
    action_type = interface(name)
    client = ActionClient(node, action_type, f'to_rust/{name}')

    def on_feedback(message):
        report(name, 'feedback', plain(message.feedback))

    def on_result(future):
        report(name, 'result', plain(future.result().result), status=future.result().status)

    def on_accepted(future):
        future.result().get_result_async().add_done_callback(on_result)

    def execute(goal_handle):
        goal = goal_handle.request
        report(name, 'goal', plain(goal))
        # Feedback reaches only discovered subscriptions. The client is discovered, but its subscription may not be.
        while node.count_subscribers(f'to_python/{name}/_action/feedback') == 0:
            time.sleep(0.01)
        goal_handle.publish_feedback(copy_common_fields(goal, action_type.Feedback()))
        goal_handle.succeed()
        client.wait_for_server()
        client.send_goal_async(goal, feedback_callback=on_feedback).add_done_callback(on_accepted)
        return copy_common_fields(goal, action_type.Result())

    # The node keeps these two objects alive.
    ActionServer(node, action_type, f'to_python/{name}', execute)


def wait_for_topics(node, name):
    while not (node.count_publishers(f'sent/{name}') and node.count_subscribers(f'echoed/{name}')):
        time.sleep(0.01)


def end_with_standard_input():
    sys.stdin.read()
    os._exit(0)


def main():
    threading.Thread(target=end_with_standard_input, daemon=True).start()
    rclpy.init()
    node = Node('echo')
    kinds = {'msg': echo_messages, 'srv': echo_requests, 'action': echo_goals}
    # Fast DDS has once left an endpoint unmatched that was created while another one was being discovered. So this node
    # creates its publishers and subscriptions after it has discovered all those in Rust.
    for name in (name for name in sys.argv[1:] if '/msg/' in name):
        wait_for_topics(node, name)
    for name in sys.argv[1:]:
        kinds[name.split('/')[1]](node, name)
    rclpy.spin(node)


if __name__ == '__main__':
    main()
