# SPDX-License-Identifier: Apache-2.0
"""A node of a chain: receives `sensor_msgs/Imu` on a topic, and publishes it with the same header on the next topic.

Reads commands from standard input, one per line, and answers each with a line: `publish N` publishes that many messages
at 50 Hz on the last topic. The other commands ask for figures: `count` is the number of published messages, and
`received` the number of received messages. `age` is the mean time in ms from the header stamp of a message to its
publication, since the last `age`. `last` is the stamp of the last published message, and `seen` the stamp of the last
received message. The program ends when its input ends.
"""

import argparse
import sys
import threading
import time

import rclpy
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Imu

parser = argparse.ArgumentParser()
parser.add_argument('name')
parser.add_argument('topics', nargs='+', help='the inputs, and last the output')
parser.add_argument('--delay', type=float, default=0.0, help='seconds that the callback takes')
parser.add_argument('--timed', help='a topic on which a timer publishes the last message, at 50 Hz')
parser.add_argument('--stored', help='a topic whose callback publishes nothing')
parser.add_argument('--threads', type=int, default=1)
parser.add_argument('--best-effort', action='store_true')
parser.add_argument('--drop', type=int, help='the callback publishes nothing for each message of this number')
arguments = parser.parse_args()

rclpy.init()
node = rclpy.create_node(arguments.name)
group = ReentrantCallbackGroup() if arguments.threads > 1 else None
*inputs, output = arguments.topics
qos = QoSProfile(depth=100)
if arguments.best_effort:
    qos.reliability = ReliabilityPolicy.BEST_EFFORT
publisher = node.create_publisher(Imu, output, qos)
ages = []
count = received = 0
last = seen = Imu()


def publish(message):
    global count, last
    time.sleep(arguments.delay)
    now = time.time_ns()
    publisher.publish(message)
    count += 1
    last = message
    ages.append((now - message.header.stamp.sec * 10**9 - message.header.stamp.nanosec) / 1e6)


def receive(message):
    global received, seen
    received += 1
    seen = message
    if not arguments.drop or received % arguments.drop:
        publish(message)


for topic in inputs:
    node.create_subscription(Imu, topic, receive, qos, callback_group=group)
if arguments.stored:
    node.create_subscription(Imu, arguments.stored, lambda message: None, 100, callback_group=group)
if arguments.timed:
    timed = node.create_publisher(Imu, arguments.timed, 100)
    node.create_timer(0.02, lambda: timed.publish(last), callback_group=group)


def read_commands():
    for line in sys.stdin:
        command, *values = line.split()
        if command == 'publish':
            for _ in range(int(values[0])):
                message = Imu()
                message.header.stamp = node.get_clock().now().to_msg()
                publish(message)
                time.sleep(0.02)
            print('published', flush=True)
        elif command == 'age':
            print(sum(ages) / max(len(ages), 1), flush=True)
            ages.clear()
        elif command in ('last', 'seen'):
            stamp = (last if command == 'last' else seen).header.stamp
            print(stamp.sec * 10**9 + stamp.nanosec, flush=True)
        elif command == 'received':
            print(received, flush=True)
        else:
            print(count, flush=True)
    rclpy.try_shutdown()


threading.Thread(target=read_commands, daemon=True).start()
executor = MultiThreadedExecutor(arguments.threads) if arguments.threads > 1 else SingleThreadedExecutor()
executor.add_node(node)
try:
    executor.spin()
except (KeyboardInterrupt, ExternalShutdownException):
    pass
