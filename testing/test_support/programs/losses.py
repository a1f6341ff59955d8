# SPDX-License-Identifier: Apache-2.0
"""Prints the losses that a node reports: each event on `/events/messages_lost`, as a line of JSON; with `--matched`
also the number of publishers of this topic, when the number changes.

Reads commands from standard input, one per line: `totals NODE` calls the service `NODE/get_topic_statistics`, and
prints the response as a line of JSON.
"""

import json
import math
import sys
import threading
import time

import rclpy
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.executors import ExternalShutdownException
from topic_statistics_interfaces.msg import MessagesLostEvent
from topic_statistics_interfaces.srv import GetTopicStatistics

rclpy.init()
node = rclpy.create_node('losses_reader')
printing = threading.Lock()


def print_json(what):
    with printing:
        print(json.dumps(what), flush=True)


def on_event(event):
    lost = [[of.topic_name, of.messages_lost] for of in event.messages_lost_statistics]
    print_json({'event': lost, 'node': event.node_name, 'time': time.monotonic()})


def on_matched(change):
    # On Jazzy, a report without a change may follow.
    if change.current_count_change:
        print_json({'matched': change.current_count})


def nanoseconds(stamp):
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def read_commands():
    for line in sys.stdin:
        client = node.create_client(GetTopicStatistics, f'{line.split()[1]}/get_topic_statistics')
        client.wait_for_service()
        answered = threading.Event()
        future = client.call_async(GetTopicStatistics.Request())
        future.add_done_callback(lambda _, answered=answered: answered.set())
        answered.wait()
        response = future.result()
        print_json({
            'node': response.node_name,
            'totals': [
                {
                    'topic': of.topic_name,
                    'source': of.measurement_source_name,
                    'received': of.messages_received,
                    'lost': None if of.messages_lost == of.UNKNOWN else of.messages_lost,
                    'out_of_order': None if of.messages_out_of_order == of.UNKNOWN else of.messages_out_of_order,
                    'bytes': None if of.bytes_received == of.UNKNOWN else of.bytes_received,
                    'rate': None if math.isnan(of.messages_rate) else of.messages_rate,
                    'first': nanoseconds(of.first_message),
                    'last': nanoseconds(of.last_message),
                    'metrics': {
                        metric.metrics_source: [
                            metric.unit,
                            metric.count,
                            *(
                                None if math.isnan(value) else value
                                for value in (metric.p50, metric.p99, metric.maximum)
                            ),
                        ]
                        for metric in of.metrics
                    },
                }
                for of in response.topic_statistics
            ],
        })
    rclpy.shutdown()


callbacks = SubscriptionEventCallbacks()
if '--matched' in sys.argv:
    callbacks.matched = on_matched
events = node.create_subscription(MessagesLostEvent, '/events/messages_lost', on_event, 100, event_callbacks=callbacks)
threading.Thread(target=read_commands, daemon=True).start()
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
