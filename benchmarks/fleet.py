# SPDX-License-Identifier: Apache-2.0
"""What a fleet costs Prometheus, measured on this host: `python3 benchmarks/fleet.py EXPORTER --robots 1000`

Starts an exporter (the program), publishes to it the statistics of a robot, once per second, and starts a real Prometheus
that scrapes this exporter once for each robot of the fleet: as many targets with one address, and an `instance` label
each. So the bytes, the families and the histograms are the exporter's own.

Prints what Prometheus says of itself at the end of `--seconds`: series, memory, processor time; and, from a snapshot of
its database, bytes a sample on disk. Needs ROS 2 (`cargo xtask run --`) and Prometheus on the PATH.
"""

import argparse
import json
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from math import ceil, log2
from pathlib import Path

import rclpy
from builtin_interfaces.msg import Time
from rclpy.qos import QoSProfile
from statistics_msgs.msg import MetricsMessage, StatisticDataPoint
from topic_statistics_interfaces.msg import MetricsDistribution

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument('exporter', help='the program')
parser.add_argument('--robots', type=int, default=100)
parser.add_argument('--topics', type=int, default=50, help='of each robot')
parser.add_argument('--distributions', action='store_true', help='each metric has a distribution')
parser.add_argument('--interval', type=int, default=15, help='between two scrapes of a robot, in seconds')
parser.add_argument('--seconds', type=int, default=120, help='of the measurement, after the first scrapes')
arguments = parser.parse_args()

METRICS = ['message_age', 'message_period']
MESSAGES = 50  # of a topic and window
SCALE = 5  # of the distributions of a window of this spread


def time_of(seconds):
    return Time(sec=seconds, nanosec=0)


def samples(metric):
    spread = 0.5 if metric == 'message_age' else 0.1
    return [random.lognormvariate(0.0, spread) * (3.0 if metric == 'message_age' else 20.0) for _ in range(MESSAGES)]


def publish_windows():
    """Publishes a window of all topics each second."""
    stop = 1_000_000
    while not ended.wait(1.0):
        stop += 1
        for topic in range(arguments.topics):
            source = f'/node_{topic // 5}:/sensors/topic_{topic}'
            for metric in METRICS:
                ages = samples(metric)
                mean = sum(ages) / MESSAGES
                deviation = (sum((age - mean) ** 2 for age in ages) / MESSAGES) ** 0.5
                figures = zip([1, 3, 2, 5, 4], [mean, max(ages), min(ages), float(MESSAGES), deviation])
                metrics.publish(
                    MetricsMessage(
                        measurement_source_name=source,
                        metrics_source=metric,
                        unit='ms',
                        window_start=time_of(stop - 1),
                        window_stop=time_of(stop),
                        statistics=[StatisticDataPoint(data_type=kind, data=value) for kind, value in figures],
                    )
                )
                if arguments.distributions:
                    buckets = Counter(ceil(log2(age) * 2**SCALE) - 1 for age in ages)
                    first, last = min(buckets), max(buckets)
                    distributions.publish(
                        MetricsDistribution(
                            measurement_source_name=source,
                            metrics_source=metric,
                            unit='ms',
                            window_start=time_of(stop - 1),
                            window_stop=time_of(stop),
                            count=MESSAGES,
                            sum=sum(ages),
                            minimum=min(ages),
                            maximum=max(ages),
                            scale=SCALE,
                            positive_offset=first,
                            positive_counts=[buckets[index] for index in range(first, last + 1)],
                        )
                    )


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


def get(url, method='GET'):
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as response:
        return response.read()


def own(name):
    """The sum of Prometheus's own metrics of a name."""
    lines = get(f'http://127.0.0.1:{prometheus_port}/metrics').decode().splitlines()
    return sum(float(line.rsplit(' ', 1)[1]) for line in lines if line.split('{')[0].split(' ')[0] == name)


def wait_for(what, condition, limit=600):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f'{what}: not within {limit} s')
        time.sleep(1)


rclpy.init()
node = rclpy.create_node('robot')
qos = QoSProfile(depth=5000)
metrics = node.create_publisher(MetricsMessage, '/statistics', qos)
distributions = node.create_publisher(MetricsDistribution, '/statistics/distribution', qos)
ended = threading.Event()

exporter_port, prometheus_port = free_port(), free_port()
exporter = subprocess.Popen([arguments.exporter, '--listen', f'127.0.0.1:{exporter_port}'], stderr=subprocess.DEVNULL)
wait_for('the exporter', lambda: metrics.get_subscription_count() and distributions.get_subscription_count())
publishing = threading.Thread(target=publish_windows)
publishing.start()
directory = Path(tempfile.mkdtemp(prefix='fleet-'))
prometheus = None
try:
    targets = [
        {'targets': [f'127.0.0.1:{exporter_port}'], 'labels': {'instance': f'robot-{robot}'}}
        for robot in range(arguments.robots)
    ]
    (directory / 'robots.json').write_text(json.dumps(targets))
    (directory / 'prometheus.yml').write_text(
        f'global: {{scrape_interval: {arguments.interval}s, scrape_timeout: {arguments.interval}s}}\n'
        'scrape_configs:\n- job_name: topic_statistics\n  file_sd_configs: [{files: [robots.json]}]\n'
    )
    command = [
        'prometheus',
        f'--config.file={directory}/prometheus.yml',
        f'--storage.tsdb.path={directory}/data',
        f'--web.listen-address=127.0.0.1:{prometheus_port}',
        '--web.enable-admin-api',
        '--log.level=error',
    ]
    if arguments.distributions:
        command.append('--enable-feature=native-histograms')
    wait_for(
        'all topics', lambda: get(f'http://127.0.0.1:{exporter_port}/metrics').count(b'_windows_total{') >= arguments.topics
    )
    prometheus = subprocess.Popen(command)
    time.sleep(2)
    scraped = 'prometheus_target_interval_length_seconds_count'
    wait_for('two scrapes of all robots', lambda: own(scraped) >= 2 * arguments.robots)
    first = {name: own(name) for name in ['process_cpu_seconds_total', 'prometheus_tsdb_head_samples_appended_total']}
    begun = time.monotonic()
    time.sleep(arguments.seconds)
    took = time.monotonic() - begun
    used = {name: (own(name) - before) / took for name, before in first.items()}
    series, memory = own('prometheus_tsdb_head_series'), own('process_resident_memory_bytes')
    response = get(f'http://127.0.0.1:{exporter_port}/metrics')
    print(f'robots {arguments.robots}, topics {arguments.topics}, interval {arguments.interval} s')
    print(f'a scrape, as text: {len(response)} bytes')
    print(f'series: {series:.0f}, {series / arguments.robots:.1f} a robot')
    print(f'memory: {memory / 1e6:.0f} MB, {memory / series:.0f} bytes a series')
    print(f'samples: {used["prometheus_tsdb_head_samples_appended_total"]:.0f} a second')
    print(f'processor: {100 * used["process_cpu_seconds_total"]:.1f} % of a core')
    answer = json.loads(get(f'http://127.0.0.1:{prometheus_port}/api/v1/admin/tsdb/snapshot', 'POST'))
    blocks = (directory / 'data/snapshots' / answer['data']['name']).iterdir()
    for block in blocks:
        numbers = json.loads((block / 'meta.json').read_text())['stats']
        chunks = sum(file.stat().st_size for file in (block / 'chunks').iterdir())
        index = (block / 'index').stat().st_size
        print(
            f'on disk: {numbers["numSamples"]} samples of {numbers["numSeries"]} series, '
            f'{chunks / numbers["numSamples"]:.2f} bytes a sample, index {index / numbers["numSeries"]:.0f} bytes a series'
        )
finally:
    ended.set()
    publishing.join()
    for process in [exporter, prometheus]:
        if process:
            process.terminate()
            process.wait()
    shutil.rmtree(directory)
    rclpy.shutdown()
