# SPDX-License-Identifier: Apache-2.0
"""Reads what a node says of its losses: each event on `/events/messages_lost`, as a line of JSON.

Obeys lines on standard input: `totals NODE` calls `NODE/get_topic_statistics`, and prints the answer as a line of JSON.
"""

import json
import sys
import threading
import time

import rclpy
from rclpy.executors import ExternalShutdownException
from topic_statistics_interfaces.msg import MessagesLostEvent
from topic_statistics_interfaces.srv import GetTopicStatistics

rclpy.init()
node = rclpy.create_node('losses_reader')
printing = threading.Lock()


def say(what):
    with printing:
        print(json.dumps(what), flush=True)


def on_event(event):
    lost = [[of.topic_name, of.messages_lost] for of in event.messages_lost_statistics]
    say({'event': lost, 'node': event.node_name, 'time': time.monotonic()})


def nanoseconds(stamp):
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def obey():
    for line in sys.stdin:
        client = node.create_client(GetTopicStatistics, f'{line.split()[1]}/get_topic_statistics')
        client.wait_for_service()
        answered = threading.Event()
        future = client.call_async(GetTopicStatistics.Request())
        future.add_done_callback(lambda _, answered=answered: answered.set())
        answered.wait()
        response = future.result()
        say({
            'node': response.node_name,
            'totals': [
                {
                    'topic': of.topic_name,
                    'source': of.measurement_source_name,
                    'received': of.messages_received,
                    'lost': None if of.messages_lost == of.UNKNOWN else of.messages_lost,
                    'out_of_order': None if of.messages_out_of_order == of.UNKNOWN else of.messages_out_of_order,
                    'rate': of.messages_rate if of.messages_rate == of.messages_rate else None,
                    'first': nanoseconds(of.first_message),
                    'last': nanoseconds(of.last_message),
                }
                for of in response.topic_statistics
            ],
        })
        node.destroy_client(client)
    rclpy.shutdown()


events = node.create_subscription(MessagesLostEvent, '/events/messages_lost', on_event, 100)
threading.Thread(target=obey, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
