# SPDX-License-Identifier: Apache-2.0
"""Puts the programs that `../build.sh` has built into the wheel, and tags the wheel for the programs' platform."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + os.environ["WHEEL_PLATFORM"]
        prefix = Path(os.environ["WHEEL_PREFIX"])
        for file in filter(Path.is_file, prefix.rglob("*")):
            place = file.relative_to(prefix)
            # pip installs scripts to bin/ of the Python environment, and data to its prefix.
            kind = "shared_scripts" if place.parts[0] == "bin" else "shared_data"
            build_data[kind][str(file)] = place.name if kind == "shared_scripts" else str(place)
