# SPDX-License-Identifier: Apache-2.0
"""An OpenTelemetry collector that follows a script: python3 otlp_collector.py PORT [REPLY...]

Requests are decoded by OpenTelemetry's own package. A reply is `200`, another status, a status and the header
Retry-After (`429:1`), `hang`, which neither reads nor answers, or `close`, which closes the connection without an
answer. After the script, everything is accepted. For each request a line of JSON is printed, before it is answered.
With the environment variables CERTIFICATE and KEY, which name files, it serves HTTPS; with CLIENT_CERTIFICATE to
clients with that certificate only.
"""

import gzip
import json
import os
import signal
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

replies = sys.argv[2:]
lock = threading.Lock()


class Collector(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        # From the line to the end of the answer: SIGTERM waits for that.
        with lock:
            reply = replies.pop(0) if replies else '200'
            headers = {name.lower(): value for name, value in self.headers.items()}
            line = {'reply': reply, 'at': time.monotonic(), 'path': self.path, 'headers': headers}
            if reply in ('hang', 'close'):
                print(json.dumps(line), flush=True)
                self.close_connection = True
            else:
                self.answer(reply, line)
        if reply == 'hang':
            time.sleep(3600)

    def answer(self, reply, line):
        body = self.rfile.read(int(self.headers['Content-Length']))
        if self.headers['Content-Encoding'] == 'gzip':
            body = gzip.decompress(body)
        request = ExportMetricsServiceRequest.FromString(body)
        line['request'] = MessageToDict(request, preserving_proto_field_name=True)
        print(json.dumps(line), flush=True)
        status, _, retry_after = reply.partition(':')
        answer = ExportMetricsServiceResponse().SerializeToString() if status == '200' else b''
        self.send_response(int(status))
        if retry_after:
            self.send_header('Retry-After', retry_after)
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
server = ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Collector)
if 'CERTIFICATE' in os.environ:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.environ['CERTIFICATE'], os.environ['KEY'])
    if 'CLIENT_CERTIFICATE' in os.environ:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(os.environ['CLIENT_CERTIFICATE'])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(json.dumps({'port': server.server_port}), flush=True)
server.serve_forever()
