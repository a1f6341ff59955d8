# SPDX-License-Identifier: Apache-2.0
"""Starts the talker, the listener, and topic_monitor, which judges their topics by expectations.yaml.

The states are published on /diagnostics, and each change is printed.

ros2 launch rclrs_topic_statistics_examples health.launch.py
ros2 launch rclrs_topic_statistics_examples health.launch.py rate:=40.0  # too slow: WARN, then ERROR below 25 Hz
"""

import os

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue


def generate_launch_description():
    expectations = os.path.join(
        get_package_share_directory('rclrs_topic_statistics_examples'), 'launch', 'expectations.yaml')
    return LaunchDescription([
        DeclareLaunchArgument('rate', default_value='50.0', description='Messages per second on each topic (Hz)'),
        DeclareLaunchArgument(
            'expect', default_value=expectations, description='What is expected of the topics (a file)'),
        Node(
            package='rclrs_topic_statistics_examples', executable='talker', output='screen',
            parameters=[{'rate': ParameterValue(LaunchConfiguration('rate'), value_type=float)}]),
        Node(package='rclrs_topic_statistics_examples', executable='listener', output='screen'),
        Node(
            package='topic_statistics_monitor', executable='topic_monitor', output='screen',
            arguments=['--expect', LaunchConfiguration('expect'), '--diagnostics']),
    ])
