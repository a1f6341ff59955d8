# SPDX-License-Identifier: Apache-2.0
from ros2bag.verb import VerbExtension

from ros2topicstats.api import Arguments, Program

PROGRAM = Program(
    "bag_statistics",
    "topic_statistics_bag",
    "`cargo install --locked --git https://github.com/rclrs-topic-statistics/rclrs_topic_statistics topic_statistics_bag`",
)


class StatsVerb(VerbExtension):
    """Show rate, bytes, period, age and losses of the topics in a bag."""

    def add_arguments(self, parser, cli_name):
        self.arguments = Arguments(parser, PROGRAM, lambda parser: None)
        files = parser.add_argument("files", nargs="*", metavar="FILE", help="Files or directories of one recording")
        try:
            from argcomplete.completers import FilesCompleter
        except ImportError:
            return
        files.completer = FilesCompleter(["mcap", "db3", "zstd"])

    def main(self, *, args):
        return PROGRAM.run(self.arguments.parse(args))
