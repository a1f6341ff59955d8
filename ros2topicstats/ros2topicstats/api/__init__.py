# SPDX-License-Identifier: Apache-2.0
"""Runs a program in place of a verb of `ros2`."""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys

from ament_index_python.packages import PackageNotFoundError, get_package_prefix

REPOSITORY = "https://github.com/rclrs-topic-statistics/rclrs_topic_statistics"
# An option in the help: `-V, --version`, `--period <SECONDS>`, `--topics <TOPIC>...`, `--from-statistics[=<TOPIC>]`.
OPTION = re.compile(r"^ +(?:-\w, )?(--[\w-]+)(\[=)?((?: ?<[^>]+>)*)(\.\.\.)?", re.MULTILINE)


class Program:
    """A program of a ROS package. The program may also be installed without ROS."""

    def __init__(self, name, package, how_to_install):
        self.name = name
        self.package = package
        self.how_to_install = how_to_install

    def path(self):
        """Return the path of the program in the ROS package, or else on PATH."""
        directories = [os.environ.get("PATH", os.defpath)]
        try:
            directories.insert(0, os.path.join(get_package_prefix(self.package), "lib", self.package))
        except (OSError, PackageNotFoundError):  # AMENT_PREFIX_PATH is not set, or does not have the package
            pass
        for path in directories:
            if found := shutil.which(self.name, path=path):
                return found
        raise RuntimeError(
            f"{self.name} is not installed: there is no package {self.package} in AMENT_PREFIX_PATH, and no {self.name} "
            f"in PATH. To install it: {self.how_to_install}. See {REPOSITORY}"
        )

    def run(self, arguments):
        """Replace this process by the program, so that the program gets all signals. Return 3 without a program."""
        try:
            path = self.path()
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 3
        sys.stdout.flush()
        sys.stderr.flush()
        if os.name == "nt":  # on Windows, the shell would not wait after execv
            return subprocess.call([path, *arguments])
        for name in ("SIGPIPE", "SIGXFSZ"):  # else the program would ignore them, like Python
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.execv(path, [path, *arguments])

    def add_options(self, parser):
        """Add the program's options to a parser, so that argcomplete completes the options' names."""
        try:
            command = [self.path(), "-h"]
            answer = subprocess.run(command, capture_output=True, check=False, encoding="utf-8", timeout=5)
        except (OSError, RuntimeError, subprocess.SubprocessError):
            return
        for name, optional, values, several in OPTION.findall(answer.stdout):
            count = values.count("<")
            if optional or not count:  # an optional value follows its option after `=`, in the same word
                settings = {"action": "store_true"}
            else:
                settings = {"nargs": "+" if several else count}
            with contextlib.suppress(argparse.ArgumentError):  # the verb itself has an option with this name
                parser.add_argument(name, **settings)


class Arguments:
    """The arguments of a verb. The verb uses its own options, and passes on all other arguments unchanged."""

    def __init__(self, parser, program, add_arguments):
        """Make a parser of ros2cli accept all arguments. `add_arguments` adds the verb's options to a parser."""
        self.parser = parser
        self.program = program
        self.options = argparse.ArgumentParser(prog=parser.prog, add_help=False, allow_abbrev=False)
        add_arguments(parser)
        add_arguments(self.options)
        if "_ARGCOMPLETE" in os.environ:
            program.add_options(parser)
            return
        parse = parser.parse_known_args

        def take_all(args=None, namespace=None):  # argparse itself would refuse unknown options
            namespace, _ = parse([], namespace)
            namespace.arguments = list(args)
            return namespace, []

        parser.parse_known_args = take_all

    def parse(self, args):
        """Set the verb's options in `args`. Return the other arguments, and all from `--` or `--ros-args` on."""
        arguments = args.arguments
        end = next((i for i, argument in enumerate(arguments) if argument in ("--", "--ros-args")), len(arguments))
        _, rest = self.options.parse_known_args(arguments[:end], args)
        for asked in rest:
            if asked in ("-h", "--help"):
                self._print_help(asked)
        return [*rest, *arguments[end:]]

    def _print_help(self, asked):
        """Print the help of the verb, and then the help of the program. `-h` asks the program for its short help."""
        self.parser.print_help()
        try:
            path = self.program.path()
        except RuntimeError as error:
            print(f"\n{error}")
            sys.exit()
        print(f"\nAll other arguments are passed on to {path}:\n")
        sys.exit(self.program.run([asked]))
