# SPDX-License-Identifier: Apache-2.0
from setuptools import find_packages, setup

NAME = "ros2topicstats"

setup(
    name=NAME,
    version="0.1.0",
    description="The verbs `ros2 topic stats` and `ros2 bag stats`: statistics of live and of recorded topics",
    license="Apache-2.0",
    url="https://github.com/rclrs-topic-statistics/rclrs_topic_statistics",
    maintainer="The rclrs_topic_statistics developers",
    maintainer_email="rclrs-topic-statistics@users.noreply.github.com",
    packages=find_packages(exclude=["test"]),
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/" + NAME]),
        ("share/" + NAME, ["package.xml"]),
    ],
    install_requires=["ros2cli"],
    extras_require={"test": ["pytest"]},
    zip_safe=True,
    entry_points={
        "ros2bag.verb": ["stats = ros2topicstats.verb.bag:StatsVerb"],
        "ros2topic.verb": ["stats = ros2topicstats.verb.topic:StatsVerb"],
    },
)
