# SPDX-License-Identifier: Apache-2.0
import argparse

from ros2cli.node.strategy import add_arguments as add_strategy_node_arguments
from ros2topic.api import TopicNameCompleter
from ros2topic.verb import VerbExtension

from ros2topicstats.api import Arguments, Program

PROGRAM = Program(
    "topic_monitor",
    "topic_statistics_monitor",
    "build the package in a colcon workspace (`colcon build --packages-up-to topic_statistics_monitor`), and source it",
)


class StatsVerb(VerbExtension):
    """Show rate, bytes, period, age and losses of topics."""

    def add_arguments(self, parser, cli_name):
        self.arguments = Arguments(parser, PROGRAM, add_options)
        topics = parser.add_argument("topics", nargs="*", metavar="TOPIC", help="Topics by name or by pattern")
        topics.completer = TopicNameCompleter(include_hidden_topics_key="include_hidden_topics")

    def main(self, *, args):
        arguments = self.arguments.parse(args)
        if args.include_hidden_topics and "--all" not in arguments:
            arguments.insert(0, "--all")
        if args.use_sim_time:
            arguments[:0] = ["--ros-args", "-p", "use_sim_time:=true", "--"]
        return PROGRAM.run(arguments)


def add_options(parser):
    add_strategy_node_arguments(parser)
    parser.add_argument(
        "--include-hidden-topics",
        action="store_true",
        default=argparse.SUPPRESS,  # so `ros2 topic --include-hidden-topics stats` keeps its value
        help="Consider hidden topics as well",
    )
