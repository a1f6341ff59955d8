# SPDX-License-Identifier: Apache-2.0
"""Draws the panels of the dashboards, without Grafana, from the data of a real Prometheus: docs/pictures/.

It starts the nodes of the examples, the exporter, and the `prometheus` that it finds, and asks Prometheus for each
query:

  cargo xtask run -- cargo build -p topic_statistics_exporter -p rclrs_topic_statistics_examples -p topic_statistics_preload
  pip install --require-hashes --target target/pictures -r xtask/requirements/pictures.txt
  PYTHONPATH=target/pictures cargo xtask run -- python3 grafana/pictures.py target/ros/kilted/debug --minutes 6

The listener measures everything, and has expectations. A service and its client in Python are measured by preloading. A
panel without data shows its own text, as in Grafana.
"""

import argparse
import atexit
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.parse
import urllib.request
from pathlib import Path

import matplotlib
from PIL import Image

matplotlib.use('Agg')
from matplotlib import pyplot
from matplotlib.collections import PolyCollection
from matplotlib.ticker import FuncFormatter

ROOT = Path(__file__).resolve().parent.parent
PROMETHEUS = 'http://127.0.0.1:19090'
COLUMNS = 24
LARGEST = 200_000
METRICS = (
    'message_age, message_period, header_to_source_ms, source_to_receive_ms, receive_to_callback_ms, callback_duration_ms, '
    'publication_seq_gap, time_since_last_message_ms, clock_offset_ms, message_size'
)
# A service that takes its time, and a client.
PLANNER = '''
import random, threading, time
import rclpy
from rcl_interfaces.srv import GetParameters

rclpy.init()
server, client_node = rclpy.create_node('planner'), rclpy.create_node('navigator')

def plan(request, response):
    time.sleep(random.uniform(0.005, 0.03))
    return response

service = server.create_service(GetParameters, 'plan', plan)
client = client_node.create_client(GetParameters, 'plan')
timer = client_node.create_timer(0.1, lambda: client.call_async(GetParameters.Request()))
threading.Thread(target=rclpy.spin, args=(server, rclpy.executors.SingleThreadedExecutor()), daemon=True).start()
rclpy.spin(client_node)
'''
EXPECTATIONS = [
    'topic_statistics.error_unless:=["/imu: rate>=90 silent<5s"]',
    'topic_statistics.warn_unless:=["/imu: age.p99<20ms"]',
]
# The nodes of each robot. A robot has a ROS domain of its own.
ROBOTS = {
    'robot-7': [
        ['talker', 'rate:=100.0', 'stamp_age:=0.002'],
        [
            'listener',
            'callback_duration:=0.002',
            f'metrics:=[{METRICS}]',
            'topic_statistics.distributions:=true',
            *EXPECTATIONS,
        ],
        ['bridge', 'slow_call:=0.02'],
    ],
    # Too slow for its expectations.
    'robot-8': [['talker', 'rate:=50.0'], ['listener', *EXPECTATIONS]],
}
EXPORTERS = {robot: f'127.0.0.1:{19877 + number}' for number, robot in enumerate(ROBOTS)}
TARGETS = ', '.join(
    f"{{targets: ['{address}'], labels: {{instance: {robot}}}}}" for robot, address in EXPORTERS.items()
)
CONFIGURATION = f"""
global: {{scrape_interval: 2s, evaluation_interval: 2s}}
rule_files: [{ROOT}/grafana/rules.yml, {ROOT}/grafana/alerts.yml]
scrape_configs:
  - {{job_name: topic_statistics, static_configs: [{TARGETS}]}}
"""
LEVELS = {0: ('OK', '#56a64b'), 1: ('warning', '#f2cc0c'), 2: ('error', '#e02f44'), 3: ('stale', '#8e8e8e')}


def start(command, **variables):
    environment = {**os.environ, **variables}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    atexit.register(process.terminate)
    return process


def ask(path, **parameters):
    url = f'{PROMETHEUS}/api/v1/{path}?{urllib.parse.urlencode(parameters)}'
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)['data']['result']


def scaled(value, unit):
    """Returns a value as Grafana writes it."""
    if unit == 's':
        for factor, name in ((1, 's'), (1e3, 'ms'), (1e6, 'µs')):
            if abs(value) * factor >= 1:
                return f'{value * factor:.3g} {name}'
        return '0 s' if value == 0 else f'{value * 1e9:.3g} ns'
    if unit == 'percentunit':
        return f'{value * 100:.3g} %'
    names = {'hertz': ' Hz', 'cps': ' /s', 'reqps': ' req/s', 'percent': ' %', 'Bps': ' B/s'}
    if unit == 'Bps' and abs(value) >= 1000:
        return f'{value / 1000:.3g} kB/s'
    return f'{value:.4g}{names.get(unit, "")}'


def legend(target, labels):
    text = target.get('legendFormat') or ''
    for name in ('instance', 'node', 'topic', 'name', 'host', 'hardware_id', 'reason', 'kind', 'level', 'bound'):
        text = text.replace(f'{{{{{name}}}}}', labels.get(name, ''))
    return ' '.join(text.split())


class Panel:
    def __init__(self, panel, now, minutes):
        self.panel = panel
        self.now = now
        self.minutes = minutes
        defaults = panel['fieldConfig']['defaults']
        self.unit = defaults.get('unit', 'short')
        self.without_data = defaults.get('noValue', 'No data')

    def results(self, path, **parameters):
        for target in self.panel['targets']:
            query = target['expr'].replace('$__rate_interval', '20s')
            query = query.replace('=~"$instance"', '=~".*"').replace('$instance', 'robot-7')
            for name in ('$job', '$node', '$topic'):
                query = query.replace(name, '.*')
            for result in ask(path, query=query, **parameters):
                yield target, result

    def over_time(self):
        return list(self.results('query_range', start=self.now - 60 * self.minutes, end=self.now, step=2))

    def before(self, at):
        """Returns the minutes from a time to the end, as a negative number."""
        return (at - self.now) / 60

    def draw(self, axes):
        kind = self.panel['type']
        axes.set_title(self.panel['title'], fontsize=8, loc='left', fontweight='bold')
        has_data = getattr(self, f'draw_{kind.replace("-", "_")}')(axes)
        if not has_data:
            axes.set_axis_off()
            width = 9 * self.panel['gridPos']['w'] // 2
            text = '\n'.join(textwrap.wrap(self.without_data, width))
            axes.text(0.5, 0.5, text, ha='center', va='center', fontsize=7, color='#777777', transform=axes.transAxes)
        return has_data

    def draw_stat(self, axes):
        axes.set_axis_off()
        values = [float(result['value'][1]) for _, result in self.results('query', time=self.now)]
        for value in values[:1]:
            axes.text(0.5, 0.45, scaled(value, self.unit), ha='center', va='center', fontsize=16, color='#56a64b')
        return bool(values)

    def draw_timeseries(self, axes):
        lines = 0
        for target, result in self.over_time():
            points = [(at, float(value)) for at, value in result.get('values', [])]
            points = [(at, value) for at, value in points if math.isfinite(value)]
            if points:
                times, values = zip(*points)
                label = legend(target, result['metric']) if lines < 6 else None
                axes.plot([self.before(at) for at in times], values, linewidth=0.9, label=label)
                lines += 1
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: scaled(value, self.unit)))
        self.style(axes)
        if lines:
            low, high = axes.dataLim.y0, axes.dataLim.y1
            top = 1.1 * high if high > 0 else 1
            # A line at 0 is seen above the axis.
            axes.set_ylim(min(-0.02 * top, 1.1 * low), top)
            below = {'loc': 'upper left', 'bbox_to_anchor': (0, -0.17), 'borderaxespad': 0}
            columns = 3 if max(map(len, axes.get_legend_handles_labels()[1])) < 30 else 2
            axes.legend(fontsize=6, ncol=columns, frameon=False, labelspacing=0.2, **below)
        return lines > 0

    def draw_state_timeline(self, axes):
        results = self.over_time()
        for row, (target, result) in enumerate(results):
            values = result.get('values', [])
            colors = [LEVELS.get(int(float(value)), LEVELS[3])[1] for _, value in values]
            axes.broken_barh([(self.before(at), 2.2 / 60) for at, _ in values], (row - 0.35, 0.7), facecolors=colors)
            axes.text(0.01 - self.minutes, row, legend(target, result['metric']), fontsize=6, va='center')
        axes.set_yticks([])
        self.style(axes)
        return bool(results)

    def draw_heatmap(self, axes):
        corners, counts = [], []
        for _, result in self.over_time():
            for at, histogram in result.get('histograms', []):
                left, right = self.before(at), self.before(at + 2)
                for _, low, high, count in histogram.get('buckets', []):
                    low, high = float(low), float(high)
                    if low > 0:
                        corners.append([(left, low), (left, high), (right, high), (right, low)])
                        counts.append(float(count))
        if corners:
            shades = [0.15 + 0.85 * math.sqrt(count / max(counts)) for count in counts]
            axes.add_collection(PolyCollection(corners, facecolors=pyplot.cm.YlOrRd(shades)))
            axes.set_yscale('log')
            lows, highs = zip(*((cell[0][1], cell[1][1]) for cell in corners))
            axes.set_ylim(min(lows), max(highs))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: scaled(value, self.unit)))
        self.style(axes)
        return bool(corners)

    def draw_table(self, axes):
        axes.set_axis_off()
        rows = []
        for _, result in self.results('query', time=self.now):
            labels = result['metric']
            names = [labels[name] for name in ('instance', 'node', 'topic', 'name', 'host') if labels.get(name)]
            value = float(result['value'][1])
            if self.panel['title'].endswith('not OK'):
                value = LEVELS.get(int(value), (value,))[0]
            else:
                value = scaled(value, self.unit)
            rows.append(['  '.join(names), value])
        if rows:
            table = axes.table(rows[:6], colWidths=[0.8, 0.2], loc='upper left', cellLoc='left', edges='horizontal')
            table.auto_set_font_size(False)
            table.set_fontsize(6)
        return bool(rows)

    def style(self, axes):
        axes.tick_params(labelsize=6, length=2)
        axes.grid(color='#e8e8e8', linewidth=0.5)
        axes.set_xlim(-self.minutes, 0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:g} min'))
        for side in ('top', 'right'):
            axes.spines[side].set_visible(False)


def draw(panels, file, now, minutes):
    top = min(panel['gridPos']['y'] for panel in panels)
    height = max(panel['gridPos']['y'] + panel['gridPos']['h'] for panel in panels) - top
    figure = pyplot.figure(figsize=(11, 0.29 * height), dpi=90)
    grid = figure.add_gridspec(height, COLUMNS, left=0.06, right=0.985, top=1 - 0.4 / height, bottom=1.5 / height)
    empty = []
    for panel in panels:
        at = panel['gridPos']
        # Room for the title and the legend.
        rows = slice(at['y'] - top + 1, at['y'] - top + at['h'] - (1 if at['h'] < 6 else 2))
        columns = slice(at['x'] + (1 if at['x'] and at['w'] > 6 else 0), at['x'] + at['w'])
        if not Panel(panel, now, minutes).draw(figure.add_subplot(grid[rows, columns])):
            empty.append(panel['title'])
    rendered = io.BytesIO()
    figure.savefig(rendered, format='png')
    pyplot.close(figure)
    Image.open(rendered).convert('RGB').quantize(48).save(file, optimize=True)
    size = file.stat().st_size
    print(f'{file.name}: {len(panels)} panels, {size} bytes; without data: {", ".join(empty) or "none"}')
    if size > LARGEST:
        raise SystemExit(f'{file} is larger than {LARGEST} bytes')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('programs', type=Path, help='the folder of the built programs')
    parser.add_argument('--minutes', type=float, default=6)
    arguments = parser.parse_args()
    data = tempfile.TemporaryDirectory()
    configuration = Path(data.name) / 'prometheus.yml'
    configuration.write_text(CONFIGURATION)
    processes = []
    for number, (robot, nodes) in enumerate(ROBOTS.items()):
        domain = str(int(os.environ.get('ROS_DOMAIN_ID', '0')) + number)
        exporter = [arguments.programs / 'exporter', '--listen', EXPORTERS[robot]]
        processes.append(start(exporter, ROS_DOMAIN_ID=domain))
        for name, *parameters in nodes:
            # The car's own sensors.
            given = ['-r', 'imu:=car/imu'] if name == 'bridge' else []
            given += [word for parameter in parameters for word in ('-p', parameter)]
            processes.append(start([arguments.programs / name, '--ros-args', *given], ROS_DOMAIN_ID=domain))
    prometheus = [
        'prometheus',
        f'--config.file={configuration}',
        f'--storage.tsdb.path={data.name}/data',
        f'--web.listen-address={PROMETHEUS.removeprefix("http://")}',
        '--enable-feature=native-histograms',
        '--log.level=error',
    ]
    processes.append(start(prometheus))
    python = [arguments.programs / 'topic_statistics', 'run', '--', sys.executable, '-c', PLANNER]
    processes.append(start(python))
    end = time.monotonic() + 60 * arguments.minutes
    while time.monotonic() < end:
        time.sleep(1)
        ended = [process.args[0] for process in processes if process.poll() is not None]
        if ended:
            raise SystemExit(f'{ended} has ended')
    now = time.time()
    folder = ROOT / 'docs/pictures'
    folder.mkdir(exist_ok=True)
    for name, parts in (('fleet', 1), ('robot', 2)):
        panels = json.loads((ROOT / f'grafana/{name}.json').read_text())['panels']
        panels.sort(key=lambda panel: (panel['gridPos']['y'], panel['gridPos']['x']))
        size = math.ceil(len(panels) / parts / 2) * 2
        for part in range(parts):
            suffix = f'-{part + 1}' if parts > 1 else ''
            draw(panels[part * size : (part + 1) * size], folder / f'{name}{suffix}.png', now, arguments.minutes)


main()
