# SPDX-License-Identifier: Apache-2.0
"""Measures on this host what a fleet costs Prometheus: `python3 benches/fleet.py EXPORTER --robots 1000`

Starts the program EXPORTER, and publishes one robot's statistics to it, once per second. A real Prometheus receives
this exporter's bytes for each robot of the fleet:

- By default, Prometheus scrapes the exporter once for each robot: all targets have the same address, but different
  `instance` labels.
- With `--otlp`, the exporter pushes to this script. The script posts the last request to Prometheus once for each robot
  and interval, spread evenly, with the robot's name and with times that are `--backlog` seconds ago. Then it posts the
  backlog as fast as Prometheus accepts it, like robots that were without a network for that time.

Prints Prometheus's own figures at the end of `--seconds`: series, memory, processor time, and, from a snapshot of its
database, bytes per sample on disk. Needs ROS 2 (`cargo xtask run --`) and Prometheus on the PATH, for `--otlp` version
2.47 or later.
"""

import argparse
import gzip
import http.client
import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
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
parser.add_argument('--otlp', action='store_true', help='push instead of scrape')
parser.add_argument('--interval', type=int, help='of a robot, in seconds: 15 between scrapes, 10 between pushes')
parser.add_argument('--backlog', type=int, default=200, help='in seconds; with --otlp')
parser.add_argument('--seconds', type=int, default=120, help='of the measurement, after the first scrapes')
arguments = parser.parse_args()
interval = arguments.interval or (10 if arguments.otlp else 15)

METRICS = ['message_age', 'message_period']
MESSAGES = 50  # messages per topic and window
SCALE = 5  # the scale of a distribution with this spread
NAME = 'robot-0000'  # the exporter's name, as long as any robot's
CONNECTIONS = 16  # from this script to Prometheus


def time_of(seconds):
    return Time(sec=seconds, nanosec=0)


def samples(metric):
    spread = 0.5 if metric == 'message_age' else 0.1
    return [random.lognormvariate(0.0, spread) * (3.0 if metric == 'message_age' else 20.0) for _ in range(MESSAGES)]


def publish_windows():
    """Publishes a window of each topic every second."""
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


class Receiver(BaseHTTPRequestHandler):
    """Receives the exporter's pushes."""

    def do_POST(self):
        report = gzip.decompress(self.rfile.read(int(self.headers['Content-Length'])))
        # All data points have the report's time, so it is the most frequent fixed64 with the field number 3.
        times = Counter(re.findall(rb'\x19(.{8})', report, re.DOTALL))
        reports.append((report, times.most_common(1)[0][0]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def request_of(robot, report, due):
    """Returns the exporter's report as a robot's, with the time when it is due minus the backlog."""
    body, time_of_report = report
    nanoseconds = int((due - arguments.backlog) * 1e9)
    body = body.replace(time_of_report, nanoseconds.to_bytes(8, 'little'))
    return gzip.compress(body.replace(NAME.encode(), f'robot-{robot:04}'.encode()), 6)


class Pusher:
    """Pushes to Prometheus over one connection."""

    def __init__(self):
        self.connection = http.client.HTTPConnection('127.0.0.1', prometheus_port, timeout=60)

    def push(self, request):
        """Returns the status of the answer, and its time in seconds."""
        begun = time.monotonic()
        headers = {'Content-Type': 'application/x-protobuf', 'Content-Encoding': 'gzip'}
        self.connection.request('POST', '/api/v1/otlp/v1/metrics', request, headers)
        response = self.connection.getresponse()
        text = response.read()
        if response.status != 200:
            errors[text.decode(errors='replace')[:200]] += 1
        return response.status, time.monotonic() - begun

    def push_when_due(self, robots, first_due):
        """Pushes a report of each of the robots once per interval, until the end."""
        answers, lateness, rounds = [], 0.0, 0
        while True:
            for robot in robots:
                due = first_due + (rounds + robot / arguments.robots) * interval
                if paced.wait(max(0.0, due - time.time())):
                    return answers, lateness
                lateness = max(lateness, time.time() - due)
                answers.append(self.push(request_of(robot, reports[-1], due)))
            rounds += 1


def figures(answers):
    """The statuses of answers, and how long they took."""
    times = sorted(took for _, took in answers)
    p50, p99 = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
    statuses = dict(Counter(status for status, _ in answers))
    return f'statuses {statuses}, answers p50 {p50:.1f}, p99 {p99:.1f}, max {1000 * times[-1]:.0f} ms'


def push_backlog(first_due):
    """Pushes the backlog of all robots at once, and prints how fast Prometheus accepts it."""
    rounds = arguments.backlog // interval
    dues = [first_due + number * interval for number in range(rounds)]
    requests = [
        [
            request_of(robot, report, due + robot / arguments.robots * interval)
            for due, report in zip(dues, reports[-rounds:], strict=True)
        ]
        for robot in range(arguments.robots)
    ]
    pushers = [Pusher() for _ in range(CONNECTIONS)]

    def push_of(number):
        # Each connection pushes the reports of a robot one after the other, so the reports arrive in order.
        robots = range(number, arguments.robots, CONNECTIONS)
        return [pushers[number].push(requests[robot][of]) for of in range(rounds) for robot in robots]

    samples, own_time = own('prometheus_tsdb_head_samples_appended_total'), time.process_time()
    processor = own('process_cpu_seconds_total')
    begun = time.monotonic()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        answers = [answer for answers in pool.map(push_of, range(CONNECTIONS)) for answer in answers]
    took = time.monotonic() - begun
    samples = own('prometheus_tsdb_head_samples_appended_total') - samples
    processor, own_time = own('process_cpu_seconds_total') - processor, time.process_time() - own_time
    rate, usual = len(answers) / took, arguments.robots / interval
    print(f'backlog of {rounds} reports each: {rate:.0f} requests and {samples / took:.0f} samples a second')
    print(f'... {figures(answers)}')
    print(f'... processor of Prometheus {100 * processor / took:.0f} %, of this script {100 * own_time / took:.0f} %')
    if rate > usual:
        print(f'... so that of an hour takes {3600 * usual / (rate - usual):.0f} s, beside the reports of that time')


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


def get(url, method='GET'):
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as response:
        return response.read()


def own(name):
    """Returns the sum of Prometheus's own metrics with a name."""
    lines = get(f'http://127.0.0.1:{prometheus_port}/metrics').decode().splitlines()
    return sum(float(line.rsplit(' ', 1)[1]) for line in lines if line.split('{')[0].split(' ')[0] == name)


def receiver_of_prometheus():
    """Returns the option that enables Prometheus's OTLP receiver. Builds without a receiver, like Debian's, lack it."""
    options = subprocess.check_output(['prometheus', '--help'], text=True)
    if 'web.enable-otlp-receiver' in options:
        return '--web.enable-otlp-receiver'
    if 'otlp-write-receiver' in options:
        return '--enable-feature=otlp-write-receiver'
    raise SystemExit('this Prometheus takes no OTLP')


def wait_for(what, condition, limit=600):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f'{what}: not within {limit} s')
        time.sleep(1)


if arguments.otlp and arguments.backlog > arguments.seconds:
    parser.error('the reports of the backlog are those of the measurement: it is no longer')
if arguments.otlp and (arguments.topics > 200 or arguments.robots > 10000):
    parser.error('a report is one request up to 200 topics, and there are names for 10000 robots')
receiver_flag = receiver_of_prometheus() if arguments.otlp else ''
prometheus_version = subprocess.check_output(['prometheus', '--version'], text=True).splitlines()[0]
rclpy.init()
node = rclpy.create_node('robot')
qos = QoSProfile(depth=5000)
metrics = node.create_publisher(MetricsMessage, '/statistics', qos)
distributions = node.create_publisher(MetricsDistribution, '/statistics/distribution', qos)
ended, paced = threading.Event(), threading.Event()
reports, errors = [], Counter()

exporter_port, prometheus_port = free_port(), free_port()
command = [arguments.exporter, '--listen', f'127.0.0.1:{exporter_port}']
if arguments.otlp:
    receiver = HTTPServer(('127.0.0.1', 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    command += ['--otlp-endpoint', f'http://127.0.0.1:{receiver.server_port}', '--otlp-interval', str(interval)]
    command += ['--otlp-resource', f'service.instance.id={NAME},host.name={NAME}']
exporter = subprocess.Popen(command, stderr=subprocess.DEVNULL)
wait_for('the exporter', lambda: metrics.get_subscription_count() and distributions.get_subscription_count())
publishing = threading.Thread(target=publish_windows)
publishing.start()
directory = Path(tempfile.mkdtemp(prefix='fleet-'))
prometheus = None
try:
    targets = [
        {'targets': [f'127.0.0.1:{exporter_port}'], 'labels': {'instance': f'robot-{robot}'}}
        for robot in range(0 if arguments.otlp else arguments.robots)
    ]
    (directory / 'robots.json').write_text(json.dumps(targets))
    (directory / 'prometheus.yml').write_text(
        f'global: {{scrape_interval: {interval}s, scrape_timeout: {interval}s}}\n'
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
    if arguments.otlp:
        command.append(receiver_flag)
    wait_for(
        'all topics', lambda: get(f'http://127.0.0.1:{exporter_port}/metrics').count(b'_windows_total{') >= arguments.topics
    )
    prometheus = subprocess.Popen(command)
    time.sleep(2)
    if arguments.otlp:
        # Reports that arrived earlier may lack the figures of some windows, so they are dropped.
        reports.clear()
        wait_for('a report', lambda: reports)
        pool = ThreadPoolExecutor(CONNECTIONS)
        first_due = time.time() + 1.0
        pushes = [
            pool.submit(Pusher().push_when_due, range(number, arguments.robots, CONNECTIONS), first_due)
            for number in range(CONNECTIONS)
        ]
        time.sleep(2 * interval)
    else:
        scraped = 'prometheus_target_interval_length_seconds_count'
        wait_for('two scrapes of all robots', lambda: own(scraped) >= 2 * arguments.robots)
    first = {name: own(name) for name in ['process_cpu_seconds_total', 'prometheus_tsdb_head_samples_appended_total']}
    begun = time.monotonic()
    time.sleep(arguments.seconds)
    took = time.monotonic() - begun
    used = {name: (own(name) - before) / took for name, before in first.items()}
    series, memory = own('prometheus_tsdb_head_series'), own('process_resident_memory_bytes')
    response = get(f'http://127.0.0.1:{exporter_port}/metrics')
    print(f'{prometheus_version}; load {os.getloadavg()[1]:.1f}')
    print(f'robots {arguments.robots}, topics {arguments.topics}, interval {interval} s')
    print(f'a scrape, as text: {len(response)} bytes')
    print(f'series: {series:.0f}, {series / arguments.robots:.1f} a robot')
    print(f'memory: {memory / 1e6:.0f} MB, {memory / series:.0f} bytes a series')
    print(f'samples: {used["prometheus_tsdb_head_samples_appended_total"]:.0f} a second')
    print(f'processor: {100 * used["process_cpu_seconds_total"]:.1f} % of a core')
    if arguments.otlp:
        paced.set()
        pushed, lateness = zip(*(push.result() for push in pushes), strict=True)
        answers = [answer for answers in pushed for answer in answers]
        rounds = ceil((time.time() - first_due) / interval)
        print(f'a request: {len(request_of(0, reports[-1], time.time()))} bytes, before compression {len(reports[-1][0])}')
        print(f'pushes: {figures(answers)}, at most {1000 * max(lateness):.0f} ms late')
        push_backlog(first_due + rounds * interval)
        for error, count in errors.items():
            print(f'error: {count} times {error}')
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
    paced.set()
    publishing.join()
    for process in [exporter, prometheus]:
        if process:
            process.terminate()
            process.wait()
    shutil.rmtree(directory)
    rclpy.shutdown()
