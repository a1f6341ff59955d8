# SPDX-License-Identifier: Apache-2.0
"""Computes windows of topic statistics from recorded messages, with numpy and none of this project's code.

Reads JSON from standard input:

    {"messages": [[now_ns, stamp_ns], ...], "windows": [[start_ns, stop_ns], ...]}

Messages are in order of arrival: the system clock at the start of the callback, and the header stamp (0: none). Prints
JSON, for each window in turn, with figures in milliseconds:

    {"age": [average, maximum, minimum, sample count, standard deviation], "period": [... the same ...]}

The rules are the design's: a message belongs to the window with start <= now < stop; a message without a stamp has no
age; the first message of a window has no period, nor has one that seems to come before the last (a clock stepped
backwards); the standard deviation is the population's, and null for a single sample; without a sample all figures but
the count are null.
"""

import itertools
import json
import sys

import numpy

NANOSECONDS_PER_MILLISECOND = 1e6


def figures(samples):
    """The five data points of samples in nanoseconds, which are Python's integers."""
    if not samples:
        return [None, None, None, 0, None]
    # As nanoseconds: a float64 holds an integer of up to 2**53 ns (104 days) exactly, fractions of a millisecond not.
    array = numpy.array(samples, dtype=numpy.float64)
    average, maximum, minimum, deviation = (
        float(figure) / NANOSECONDS_PER_MILLISECOND
        for figure in (array.mean(), array.max(), array.min(), array.std(ddof=0))
    )
    return [average, maximum, minimum, len(samples), deviation if len(samples) > 1 else None]


def window(messages, start, stop):
    """What the messages of one window come to."""
    received = [(now, stamp) for now, stamp in messages if start <= now < stop]
    ages = [now - stamp for now, stamp in received if stamp != 0]
    periods = [now - last for (last, _), (now, _) in itertools.pairwise(received) if now >= last]
    return {"age": figures(ages), "period": figures(periods)}


def main():
    recorded = json.load(sys.stdin)
    messages, windows = recorded["messages"], recorded["windows"]
    for time in (time for pair in messages + windows for time in pair):
        if type(time) is not int:
            sys.exit(f"Times have to be integers of nanoseconds: {time!r}")
    json.dump([window(messages, start, stop) for start, stop in windows], sys.stdout)


if __name__ == "__main__":
    main()
