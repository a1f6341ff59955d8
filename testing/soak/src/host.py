# SPDX-License-Identifier: Apache-2.0
"""A process of `cargo xtask soak --scenario preload`: a node in Python that counts its messages and calls.

Its arguments select whether it publishes `sensor_msgs/Imu` at 50 Hz, subscribes, serves or calls. Reads commands from
standard input, one per line, and answers each with a line of JSON:
- `run`, `pause`: starts or stops publishing and calling;
- `create`, `drop`: creates a node with an endpoint of each kind, or destroys it;
- `fork`: forks a child that executes another program, and one that exits; answers with their exit statuses;
- `report`: answers with the counts.

With --reader, the process instead sums up the windows on /statistics. The program ends when its input ends.
"""

import argparse
import collections
import ctypes
import json
import os
import sys
import threading

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Imu
from statistics_msgs.msg import MetricsMessage
from test_msgs.srv import BasicTypes

parser = argparse.ArgumentParser()
parser.add_argument('name')
parser.add_argument('--publish', help='a topic')
parser.add_argument('--subscribe', nargs='*', default=[], help='topics')
parser.add_argument('--serve', help='a service')
parser.add_argument('--call', help='a service')
parser.add_argument('--reader', action='store_true')
arguments = parser.parse_args()


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in 'abcdefghij']


libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo
# This function exists if libcount_malloc is preloaded.
allocations = getattr(libc, 'allocations_of_statistics', None)
if allocations:
    allocations.restype = ctypes.c_ulonglong

rclpy.init()
node = rclpy.create_node(arguments.name)
executor = SingleThreadedExecutor()
executor.add_node(node)
QOS = QoSProfile(depth=1000)
count = collections.Counter()
received = collections.Counter()
sums = collections.Counter()
created = None
runs = False


def receive(message):
    received[message.header.frame_id] += 1


def respond(request, response):
    count['requests'] += 1
    response.int64_value = request.int64_value
    return response


def accept(future):
    future.result()
    count['responses'] += 1


def publish():
    if not runs:
        return
    message = Imu()
    message.header.stamp = node.get_clock().now().to_msg()
    message.header.frame_id = arguments.name
    if arguments.publish:
        count['published'] += 1
        publisher.publish(message)
    if arguments.call and count['published'] % 5 == 0:
        count['calls'] += 1
        client.call_async(BasicTypes.Request(int64_value=count['calls'])).add_done_callback(accept)


def sum_up(metric):
    # 5 is the sample count of a window, and 1 is the average. For the last three metrics, the average is the count.
    data_type = {'message_age': 5, 'publish_duration_ms': 5, 'requests': 1, 'calls': 1, 'responses': 1}
    if data_type := data_type.get(metric.metrics_source):
        value = next(point.data for point in metric.statistics if point.data_type == data_type)
        sums[f'{metric.measurement_source_name} {metric.metrics_source}'] += int(value)


def create():
    global created
    created = rclpy.create_node(f'{arguments.name}_created')
    executor.add_node(created)
    created.create_subscription(Imu, f'{arguments.name}_created', lambda _: None, QOS)
    to = created.create_publisher(Imu, f'{arguments.name}_created', QOS)
    created.create_timer(0.05, lambda: to.publish(Imu()))
    created.create_service(BasicTypes, f'{arguments.name}_created', respond)
    created.create_client(BasicTypes, f'{arguments.name}_created')


def drop():
    executor.remove_node(created)
    created.destroy_node()


def fork():
    statuses = []
    for number in range(2):
        child = os.fork()
        if child == 0 and number == 0:
            os.execvp('true', ['true'])
        if child == 0:
            os._exit(0)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return statuses


def answer(command):
    global runs
    result = None
    if command in ('run', 'pause'):
        runs = command == 'run'
    elif command == 'fork':
        result = fork()
    elif command == 'report':
        heap = libc.mallinfo2()
        result = {
            'count': count, 'received': received, 'sums': sums, 'heap': heap.h + heap.e,
            'allocations': allocations() if allocations else 0,
            'subscriptions': publisher.get_subscription_count() if arguments.publish else 0,
        }  # yapf: disable
    else:
        {'create': create, 'drop': drop}[command]()
    print(json.dumps(result), flush=True)


def read_commands():
    for line in sys.stdin:
        executor.create_task(answer, line.strip())
    rclpy.shutdown()


if arguments.reader:
    node.create_subscription(MetricsMessage, '/statistics', sum_up, QOS)
for topic in arguments.subscribe:
    node.create_subscription(Imu, topic, receive, QOS)
if arguments.publish:
    publisher = node.create_publisher(Imu, arguments.publish, QOS)
if arguments.serve:
    node.create_service(BasicTypes, arguments.serve, respond)
if arguments.call:
    client = node.create_client(BasicTypes, arguments.call)
    client.wait_for_service()
node.create_timer(0.02, publish)
threading.Thread(target=read_commands, daemon=True).start()
try:
    executor.spin()
except ExternalShutdownException:
    pass
