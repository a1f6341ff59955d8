# SPDX-License-Identifier: Apache-2.0
"""An OpenTelemetry collector for gRPC that follows a script: python3 grpc_collector.py PORT [REPLY...]

It is gRPC's own server. A reply is `200`, the name of a gRPC status, a status and the wait of its RetryInfo in seconds
(`RESOURCE_EXHAUSTED:1`), or `hang`, which does not answer. After the script, everything is accepted. For each request a
line of JSON is printed, as by otlp_collector.py. With the environment variables CERTIFICATE and KEY, which name files,
it serves TLS; with CLIENT_CERTIFICATE to clients with that certificate only.
"""

import json
import os
import signal
import sys
import threading
import time
from concurrent import futures

os.environ.setdefault('GRPC_VERBOSITY', 'NONE')

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.json_format import MessageToDict
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)

replies = sys.argv[2:]
lock = threading.Lock()


class Collector(MetricsServiceServicer):
    def Export(self, request, context):
        with lock:
            reply = replies.pop(0) if replies else '200'
            headers = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
            line = {'reply': reply, 'at': time.monotonic(), 'headers': headers}
            line['request'] = MessageToDict(request, preserving_proto_field_name=True)
            print(json.dumps(line), flush=True)
        if reply == '200':
            return ExportMetricsServiceResponse()
        if reply == 'hang':
            time.sleep(3600)
        name, _, wait = reply.partition(':')
        code = grpc.StatusCode[name]
        if wait:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromSeconds(int(wait))
            detail = Any()
            detail.Pack(retry)
            status = status_pb2.Status(code=code.value[0], message='later', details=[detail])
            context.set_trailing_metadata([('grpc-status-details-bin', status.SerializeToString())])
        context.abort(code, 'of the script')


is_ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: is_ending.set())
server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
add_MetricsServiceServicer_to_server(Collector(), server)
address = f'127.0.0.1:{sys.argv[1]}'


def content(variable):
    with open(os.environ[variable], 'rb') as file:
        return file.read()


if 'CERTIFICATE' in os.environ:
    client = content('CLIENT_CERTIFICATE') if 'CLIENT_CERTIFICATE' in os.environ else None
    credentials = grpc.ssl_server_credentials([(content('KEY'), content('CERTIFICATE'))], client, client is not None)
    port = server.add_secure_port(address, credentials)
else:
    port = server.add_insecure_port(address)
server.start()
print(json.dumps({'port': port}), flush=True)
is_ending.wait()
# Requests that were printed are answered, but for those that hang.
server.stop(2).wait()
os._exit(0)
