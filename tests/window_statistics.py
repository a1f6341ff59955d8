# SPDX-License-Identifier: Apache-2.0
"""Computes windows of topic statistics from recorded messages. Uses numpy, and no code of this project.

Reads JSON from standard input:

    {"messages": [[now_ns, stamp_ns], ...], "windows": [[start_ns, stop_ns], ...]}

Messages are in the order of reception. Each has the system time at the start of the callback, and the header stamp (0:
no stamp). Prints JSON with one object per window. Values are in milliseconds:

    {"age": [average, maximum, minimum, sample count, standard deviation], "period": [... the same ...]}

The rules:

- A message belongs to the window with start <= now < stop.
- A message without a stamp has no age.
- The first message of a window has no period. A message with an earlier time than the one before it has no period
  either: the clock was stepped back.
- The standard deviation is that of the population. It is null for a single sample.
- Without samples, all values except the count are null.
"""

import itertools
import json
import sys

import numpy

NANOSECONDS_PER_MILLISECOND = 1e6


def figures(samples):
    """Returns the five values of samples. The samples are integers in nanoseconds."""
    if not samples:
        return [None, None, None, 0, None]
    # In nanoseconds: a float64 represents integers up to 2**53 ns (104 days) exactly, but not fractions of a
    # millisecond.
    array = numpy.array(samples, dtype=numpy.float64)
    average, maximum, minimum, deviation = (
        float(figure) / NANOSECONDS_PER_MILLISECOND
        for figure in (array.mean(), array.max(), array.min(), array.std(ddof=0))
    )
    return [average, maximum, minimum, len(samples), deviation if len(samples) > 1 else None]


def window(messages, start, stop):
    """Returns the values of one window."""
    received = [(now, stamp) for now, stamp in messages if start <= now < stop]
    ages = [now - stamp for now, stamp in received if stamp != 0]
    periods = [now - last for (last, _), (now, _) in itertools.pairwise(received) if now >= last]
    return {"age": figures(ages), "period": figures(periods)}


def main():
    recorded = json.load(sys.stdin)
    messages, windows = recorded["messages"], recorded["windows"]
    for time in (time for pair in messages + windows for time in pair):
        if type(time) is not int:
            sys.exit(f"Times must be integers in nanoseconds: {time!r}")
    json.dump([window(messages, start, stop) for start, stop in windows], sys.stdout)


if __name__ == "__main__":
    main()
