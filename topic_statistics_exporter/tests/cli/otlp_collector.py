# SPDX-License-Identifier: Apache-2.0
"""An OpenTelemetry collector over HTTPS that follows a script: CERTIFICATE=FILE KEY=FILE python3 otlp_collector.py [STATUS...]

Requests are decoded by OpenTelemetry's own package. After the script, everything is accepted. For each request a line of
JSON is printed, before it is answered.
"""

import gzip
import json
import os
import signal
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

statuses = sys.argv[1:]
lock = threading.Lock()


class Collector(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        # The handler of SIGTERM waits for this lock, so the process ends only after it has answered a printed request.
        with lock:
            status = int(statuses.pop(0)) if statuses else 200
            body = gzip.decompress(self.rfile.read(int(self.headers['Content-Length'])))
            request = MessageToDict(ExportMetricsServiceRequest.FromString(body), preserving_proto_field_name=True)
            headers = {name.lower(): value for name, value in self.headers.items()}
            print(json.dumps({'status': status, 'headers': headers, 'request': request}), flush=True)
            answer = ExportMetricsServiceResponse().SerializeToString() if status == 200 else b''
            self.send_response(status)
            self.send_header('Content-Type', 'application/x-protobuf')
            self.send_header('Content-Length', str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    def log_message(self, *_):
        pass


def end(*_):
    with lock:
        os._exit(0)


signal.signal(signal.SIGTERM, end)
server = ThreadingHTTPServer(('127.0.0.1', 0), Collector)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(os.environ['CERTIFICATE'], os.environ['KEY'])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(json.dumps({'port': server.server_port}), flush=True)
server.serve_forever()
