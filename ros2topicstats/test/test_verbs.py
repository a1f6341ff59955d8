# SPDX-License-Identifier: Apache-2.0
"""Tests with programs that print their arguments. Run with `python3 -m unittest discover test` or `colcon test`."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
# A script with a verb, like a command of ros2cli. The verb runs the program `program` of the package `programs`.
VERB = """
import argparse, sys
from ros2topicstats.api import Arguments, Program
program = Program("program", "programs", "say please")
root = argparse.ArgumentParser(prog="ros2")
verb = root.add_subparsers().add_parser("stats")
verb.set_defaults(verb="stats")
arguments = Arguments(verb, program, lambda parser: parser.add_argument("-s", "--sim", action="store_true"))
verb.add_argument("names", nargs="*", metavar="TOPIC")
args = root.parse_args(["stats", *sys.argv[1:]])
arguments = arguments.parse(args)
sys.exit(program.run([args.verb, str(args.sim), *arguments]))
"""
ROS2 = "import sys; from ros2cli.cli import main; sys.exit(main())"
PROGRAM = """#!/bin/sh
[ "$1" != -h ] || cat <<END
  -h, --help     Print help
  -V, --version  Print version
      --sim      The verb has it, too
      --period <SECONDS>    The length of a window
      --chains <FIRST> <LAST>  Two values
      --topics <TOPIC>...      Several values
      --from-statistics[=<TOPIC>]  A value in the same word
END
printf '[%s]' "$(basename "$0")" "$@"
exit "${STATUS:-0}"
"""


class Verbs(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.environment = {
            **os.environ,
            "AMENT_PREFIX_PATH": str(self.directory / "prefix"),
            "PATH": f"{self.directory / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join([str(PACKAGE), str(self.directory), os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        (self.directory / "prefix").mkdir()

    def install(self, path, program=PROGRAM):
        path = self.directory / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(program)
        path.chmod(0o755)

    def run_script(self, script, *arguments):
        command = [sys.executable, "-c", script, *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, encoding="utf-8", check=False)

    def verb(self, *arguments):
        return self.run_script(VERB, *arguments)

    def test_all_arguments_are_passed_on(self):
        self.install("bin/program")
        for arguments in (
            [],
            ["--once", "/imu"],
            ["/imu", "--period", "2", "--offset", "-5", "-V"],
            ["--require", "rate>=90 lost=0", "--si"],
            ["imu", "--ros-args", "-s", "-r", "a:=b", "--", "-h"],
            ["--", "-s", "--help"],
        ):
            passed = "".join(f"[{argument}]" for argument in arguments)
            self.assertEqual(self.verb(*arguments).stdout, f"[program][stats][False]{passed}")

    def test_the_verb_takes_its_own_options(self):
        self.install("bin/program")
        self.assertEqual(
            self.verb("--once", "-s", "imu", "--", "x").stdout, "[program][stats][True][--once][imu][--][x]"
        )

    def test_the_exit_status_is_the_programs(self):
        self.install("bin/program")
        self.environment["STATUS"] = "7"
        self.assertEqual(self.verb().returncode, 7)

    def test_the_signals_are_the_programs(self):
        self.install("bin/program", "#!/bin/sh\nkill -PIPE $$\n")
        self.assertEqual(self.verb().returncode, -signal.SIGPIPE)

    def test_the_package_comes_before_the_path(self):
        self.install("bin/program", "#!/bin/sh\necho from PATH\n")
        self.install("prefix/lib/programs/program")
        self.assertEqual(self.verb().stdout, "from PATH\n")
        index = self.directory / "prefix/share/ament_index/resource_index/packages"
        index.mkdir(parents=True)
        (index / "programs").touch()
        self.assertEqual(self.verb().stdout, "[program][stats][False]")

    def test_a_missing_program_says_how_to_get_it(self):
        result = self.verb("imu")
        self.assertEqual(result.returncode, 3)
        self.assertIn("program is not installed", result.stderr)
        self.assertIn("To install it: say please.", result.stderr)
        del self.environment["AMENT_PREFIX_PATH"]
        result = self.verb("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--sim", result.stdout)
        self.assertIn("say please", result.stdout)

    def test_help_is_the_verbs_and_the_programs(self):
        self.install("bin/program")
        for asked in ("-h", "--help"):
            result = self.verb("imu", asked)
            self.assertEqual(result.returncode, 0)
            self.assertTrue(result.stdout.startswith("usage: ros2 stats"), result.stdout)
            self.assertTrue(result.stdout.endswith(f"[program][{asked}]"), result.stdout)

    def test_the_programs_options_are_completed(self):
        self.install("bin/program")
        self.environment["_ARGCOMPLETE"] = "1"
        script = VERB.split("args = ")[0] + "print(verb.parse_args(sys.argv[1:]))"
        arguments = ["--sim", "--from-statistics", "--period", "2", "a", "--chains", "b", "c", "--topics", "d", "e"]
        result = self.run_script(script, *arguments)
        for expected in (
            "names=['a']",
            "sim=True",
            "from_statistics=True",
            "period=['2']",
            "chains=['b', 'c']",
            "topics=['d', 'e']",
        ):
            self.assertIn(expected, result.stdout, result.stderr)

    @unittest.skipUnless(importlib.util.find_spec("ros2bag") and importlib.util.find_spec("ros2topic"), "no ros2cli")
    def test_ros2_has_the_verbs(self):
        setup = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", self.directory]
        subprocess.run(setup, cwd=PACKAGE, check=True)
        self.install("bin/topic_monitor")
        self.assertIn("stats  Show rate", self.run_script(ROS2, "topic", "--help").stdout)
        for arguments, passed in (
            ("topic stats", "[topic_monitor]"),
            ("topic stats --once imu --spin-time 2 --no-daemon", "[topic_monitor][--once][imu]"),
            ("topic stats imu -s", "[topic_monitor][--ros-args][-p][use_sim_time:=true][--][imu]"),
            ("topic stats --include-hidden-topics", "[topic_monitor][--all]"),
            ("topic --include-hidden-topics stats imu", "[topic_monitor][--all][imu]"),
            ("topic stats --all --include-hidden-topics", "[topic_monitor][--all]"),
        ):
            result = self.run_script(ROS2, *arguments.split())
            self.assertEqual(result.stdout, passed, result.stderr)
        self.install("bin/bag_statistics")
        result = self.run_script(ROS2, "bag", "stats", "--json", "run.mcap")
        self.assertEqual(result.stdout, "[bag_statistics][--json][run.mcap]", result.stderr)


if __name__ == "__main__":
    unittest.main()
