# SPDX-License-Identifier: Apache-2.0
"""Validates files of engines that the tests do not run: python3 schemas.py COMPOSE_FILE COLLECTOR_FILE DASHBOARD...

The compose file by the schema of the Compose specification, the collector's pipelines by what its file defines, and
dashboards by Grafana's own models: what these do not know is printed.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

# The keys that Grafana writes, but that Grafana's models do not have.
UNKNOWN = {'definition', 'allValue'}


def lost(before, after, path):
    """Yields the places of what the models do not keep as it is."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in UNKNOWN:
                yield from lost(value, after.get(key), f'{path}/{key}')
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after)):
            yield from lost(*pair, f'{path}/{index}')
    elif before != after:
        yield f'{path}: {before!r}'


compose, collector, *dashboards = sys.argv[1:]
# Only the schema file of the package is read. Importing the package would need other packages.
schema = json.loads((Path(find_spec('compose').origin).parent / 'config/compose_spec.json').read_text())
with open(compose) as file:
    errors = jsonschema.Draft7Validator(schema).iter_errors(yaml.safe_load(file))
    found = [f'{compose}: {error.json_path}: {error.message}' for error in errors]
with open(collector) as file:
    config = yaml.safe_load(file)
service = config['service']
for section in [*service['pipelines'].values(), {'extensions': service.get('extensions', [])}]:
    for kind, names in section.items():
        found += [f'{collector}: no {name} in {kind}' for name in names if name not in config[kind]]
for name in dashboards:
    with open(name) as file:
        dashboard = json.load(file)
    encoded = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
    found += lost(dashboard, encoded, name)
print('\n'.join(found))
