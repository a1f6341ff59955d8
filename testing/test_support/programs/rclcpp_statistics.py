# SPDX-License-Identifier: Apache-2.0
"""Publishes on `/statistics` like a C++ node with rclcpp's Topic Statistics: two metrics per window, with the node
name as the source. (The Python wheels contain no rclcpp.) Each window is 1 s long. Five windows are published per
second."""

import rclpy
from builtin_interfaces.msg import Time
from rclpy.executors import ExternalShutdownException
from statistics_msgs.msg import MetricsMessage, StatisticDataPoint

rclpy.init()
node = rclpy.create_node('cpp_listener')
publisher = node.create_publisher(MetricsMessage, '/statistics', 10)
stop = node.get_clock().now().nanoseconds // 10**9


def publish():
    global stop
    start, stop = stop, stop + 1
    for metric, average in (('message_age', 1.5), ('message_period', 20.0)):
        # The data points have rclcpp's order: average, maximum, minimum, sample count, standard deviation.
        figures = ((1, average), (3, average + 1), (2, average - 1), (5, 50.0), (4, 0.25))
        publisher.publish(MetricsMessage(
            measurement_source_name='cpp_listener',
            metrics_source=metric,
            unit='ms',
            window_start=Time(sec=start),
            window_stop=Time(sec=stop),
            statistics=[StatisticDataPoint(data_type=kind, data=value) for kind, value in figures],
        ))


node.create_timer(0.2, publish)
try:
    rclpy.spin(node)
except ExternalShutdownException:
    pass
