# SPDX-License-Identifier: Apache-2.0
"""Reads all messages of a bag by rosbags, without decoding them: `cargo xtask bench --bag` compares with it.

Prints the longest period of each topic, the least that a look for gaps needs.
"""

import sys
from pathlib import Path

from rosbags.rosbag2 import Reader

last, longest = {}, {}
with Reader(Path(sys.argv[1])) as reader:
    for connection, time, _ in reader.messages():
        topic = connection.topic
        longest[topic] = max(longest.get(topic, 0), time - last.get(topic, time))
        last[topic] = time
for topic, period in longest.items():
    print(f"{topic}: {period / 1e6:.3f} ms")
