# SPDX-License-Identifier: Apache-2.0
"""Starts the unchanged talker and listener of demo_nodes_py with preloaded topic statistics on /statistics.

ros2 launch rclrs_topic_statistics_examples any_node.launch.py library:=/opt/topic_statistics/libtopic_statistics_preload.so
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node


def generate_launch_description():
    # Measures only these two nodes. `topic_statistics run -- ros2 launch ...` measures all nodes of a launch file.
    preloaded = {
        'LD_PRELOAD': LaunchConfiguration('library'),
        'TOPIC_STATISTICS_METRICS': LaunchConfiguration('metrics'),
    }
    return LaunchDescription([
        DeclareLaunchArgument('library', description='The path of libtopic_statistics_preload.so'),
        DeclareLaunchArgument(
            'metrics', default_value='message_age,message_period', description='What is measured of subscriptions'),
        Node(package='demo_nodes_py', executable='talker', additional_env=preloaded),
        Node(package='demo_nodes_py', executable='listener', output='screen', additional_env=preloaded),
    ])
