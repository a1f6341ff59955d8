# SPDX-License-Identifier: Apache-2.0
"""Starts the talker and the listener. The listener publishes the statistics of its messages on /statistics.

ros2 launch rclrs_topic_statistics_examples demo.launch.py rate:=100.0
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue


def number(argument):
    """Returns a launch argument as a double, the type of the parameters. In YAML, `100` would be an integer."""
    return ParameterValue(LaunchConfiguration(argument), value_type=float)


def generate_launch_description():
    return LaunchDescription([
        DeclareLaunchArgument(
            'rate', default_value='10.0', description='Messages per second on each topic (Hz)'),
        DeclareLaunchArgument(
            'callback_duration', default_value='0.0',
            description='Duration of the callback of imu in the listener (s)'),
        DeclareLaunchArgument(
            'publish_period', default_value='1.0',
            description='Length of the windows of the statistics (s)'),
        Node(
            package='rclrs_topic_statistics_examples', executable='talker', output='screen',
            parameters=[{'rate': number('rate')}]),
        Node(
            package='rclrs_topic_statistics_examples', executable='listener', output='screen',
            parameters=[{
                'callback_duration': number('callback_duration'),
                'topic_statistics.publish_period': number('publish_period'),
            }]),
    ])
