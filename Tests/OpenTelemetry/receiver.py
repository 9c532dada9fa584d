#!/usr/bin/env python3
"""A receiver of traces (OTLP over HTTP, in JSON), which decodes each request with the classes of opentelemetry-proto.

Usage: receiver.py PORT FILE   serve POST /v1/traces; append each span to FILE, a line of JSON each
       receiver.py --decode    read one request from standard input; print its spans in the same form

A request that the classes cannot decode is an error: 400, or status 1.
"""

import base64
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

IDS = {"traceId", "spanId", "parentSpanId"}


def with_base64_ids(value):
    """The request as Protobuf's JSON: OTLP has hexadecimal ids, and Protobuf's JSON has base64."""
    if isinstance(value, list):
        return [with_base64_ids(element) for element in value]
    if isinstance(value, dict):
        return {
            key: base64.b64encode(bytes.fromhex(member)).decode() if key in IDS else with_base64_ids(member)
            for key, member in value.items()
        }
    return value


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def spans(body):
    """The spans of a request. Unknown members and values of a wrong type raise an error."""
    request = json_format.ParseDict(with_base64_ids(json.loads(body)), ExportTraceServiceRequest())
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                assert len(span.trace_id) == 16 and len(span.span_id) == 8 and len(span.parent_span_id) in (0, 8)
                assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
                yield {
                    "trace": span.trace_id.hex(), "span": span.span_id.hex(), "parent": span.parent_span_id.hex(),
                    "name": span.name, "kind": span.kind, "flags": span.flags, "status": span.status.code,
                    "start": str(span.start_time_unix_nano), "end": str(span.end_time_unix_nano),
                    "attributes": attributes(span.attributes),
                    "links": [link.span_id.hex() for link in span.links],
                    "resource": attributes(resource.resource.attributes), "scope": scope.scope.name,
                }


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    file = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
            lines = [json.dumps(span) + "\n" for span in spans(body)]
        except Exception as error:
            return self.answer(400, json.dumps({"message": repr(error)}))
        with open(self.file, "a", encoding="utf-8") as output:
            output.write("".join(lines))
        self.answer(200, "{}")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


if sys.argv[1:] == ["--decode"]:
    for span in spans(sys.stdin.read()):
        print(json.dumps(span))
else:
    Receiver.file = sys.argv[2]
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
