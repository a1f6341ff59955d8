# SPDX-License-Identifier: Apache-2.0
"""A process of the robot in Python: it publishes, and writes its own log, as node.rs does.

With --sizes it prints the serialized size of a message of each kind instead.
"""

import argparse
import json
import os
import sys
import threading
import time

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped, Twist
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image, Imu, JointState, LaserScan, NavSatFix, Range
from std_msgs.msg import String

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument('--name', default='node')
parser.add_argument('--incarnation', type=int, default=0)
parser.add_argument('--image', type=int, default=0, help='the bytes of an image')
parser.add_argument('--log', help='the log')
parser.add_argument('--sizes', action='store_true')
parser.add_argument('topics', nargs='*', help='TOPIC=KIND,RATE,DEPTH,LATCHED,SUBSCRIPTIONS,ID')
arguments = parser.parse_args()


def image():
    return Image(data=bytes(arguments.image))


def joints():
    # No empty list of doubles: serialize_message aligns after its length, which what is sent does not.
    half = [0.5] * 12
    return JointState(name=[f'joint_{joint:02}' for joint in range(12)], position=half, velocity=half, effort=half)


KINDS = {
    'Image': image, 'Map': image, 'Scan': lambda: LaserScan(ranges=[1.0] * 1080), 'Imu': Imu, 'Joints': joints,
    'Transform': TransformStamped, 'Odometry': PoseWithCovarianceStamped, 'Command': Twist, 'Description': String,
    'Range': Range, 'Fix': NavSatFix,
    'Diagnostics': lambda: DiagnosticArray(status=[DiagnosticStatus(name='robot: battery', message='full')]),
}  # yapf: disable


def fill(message, number, stamp):
    text = f'{arguments.incarnation:05}/{number:09}'
    if hasattr(message, 'header'):
        message.header.frame_id = text
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
    elif isinstance(message, String):
        message.data = text
    return message


if arguments.sizes:
    print(json.dumps({kind: len(serialize_message(fill(make(), 1, 1))) for kind, make in KINDS.items()}))
    sys.exit()

LATEST = 0.5
rclpy.init()
node = rclpy.create_node(arguments.name, namespace='/robot')
log = os.open(arguments.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
senders = []
for topic in arguments.topics:
    name, fields = topic.split('=')
    kind, *numbers = fields.split(',')
    rate, depth, is_latched, subscriptions, identifier = (float(number) for number in numbers)
    qos = QoSProfile(depth=int(depth))
    if is_latched:
        qos.durability = DurabilityPolicy.TRANSIENT_LOCAL
    message = KINDS[kind]()
    publisher = node.create_publisher(type(message), name, qos)
    os.write(log, f'P {int(identifier)} {name} -\n'.encode())
    waited = time.monotonic()
    while publisher.get_subscription_count() < subscriptions and time.monotonic() < waited + 15:
        time.sleep(0.02)
    senders.append([0.0, 1 / rate if rate else float('inf'), publisher, message, int(identifier), 0])

is_over = threading.Event()


def read_input():
    sys.stdin.readline()
    is_over.set()
    sys.stdin.read()


reading = threading.Thread(target=read_input, daemon=True)
reading.start()
began = time.monotonic()
while not is_over.is_set():
    elapsed = time.monotonic() - began
    for sender in senders:
        due, period, publisher, message, identifier, number = sender
        if elapsed < due:
            continue
        sender[5] = number = number + 1
        stamp = time.time_ns()
        fill(message, number, stamp)
        before = time.monotonic_ns()
        publisher.publish(message)
        os.write(log, f'S {identifier} {number} {stamp} {before} {time.monotonic_ns()}\n'.encode())
        sender[0] = max(due, elapsed - LATEST) + period
    due = min(sender[0] for sender in senders)
    time.sleep(min(max(due - (time.monotonic() - began), 0.0), 0.05))
reading.join()
node.destroy_node()
rclpy.shutdown()
