"""One organization's worst, until it is ended: `noisy.py SCENARIO PORT UPSTREAM-PORT SECRET ORGANIZATION`.

Says `begun` once it has, and at its end what it was answered. Is its own upstream."""

import collections
import http.client
import http.server
import json
import os
import signal
import socket
import sys
import threading
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.names import user_of  # noqa: E402
from harness.tokens import token  # noqa: E402

ANSWERS: collections.Counter = collections.Counter()
RELEASED = threading.Event()


class Upstream(http.server.BaseHTTPRequestHandler):
    """What the organization calls its API."""

    protocol_version = "HTTP/1.1"
    answers = "normally"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.answers == "late":
            RELEASED.wait()
        status, headers = 201, {}
        if self.answers == "wrongly":
            status, headers = (301, {"Location": self.path + "/"}) if "visits" in self.path else (401, {})
        body = json.dumps({"id": str(uuid.uuid4())}).encode()
        try:
            self.send_response(status)
            for name, value in (headers | {"Content-Type": "application/json", "Content-Length": len(body)}).items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass

    do_PATCH = do_PUT = do_DELETE = do_POST

    def log_message(self, *_) -> None:
        pass


class Tenant:
    """The organization's users, a device each."""

    def __init__(self, port: int, secret: str, organization: str) -> None:
        self.port, self._secret, self.organization = port, secret, organization
        self._tokens: dict[int, str] = {}
        self._sequence = int(time.time() * 1_000_000)
        self._lock = threading.Lock()

    def device(self, user: int) -> str:
        return user_of(1, user)

    def headers(self, user: int, **more: str) -> dict[str, str]:
        if user not in self._tokens:
            self._tokens[user] = token(self._secret, self.organization, self.device(user))
        return {"Authorization": f"Bearer {self._tokens[user]}", "Content-Type": "application/json"} | more

    def mutations(self, count: int, **members: object) -> list[dict]:
        with self._lock:
            first = self._sequence + 1
            self._sequence += count
        return [
            {
                "id": str(uuid.uuid4()), "idempotency_key": str(uuid.uuid4()), "sequence_number": first + place,
                "operation": "create", "entity_type": "visit", "local_id": str(uuid.uuid4()),
                "endpoint": "/api/v1/visits", "payload": {"title": "hello world"},
                "created_at": "2026-01-15T08:00:00.000Z",
            } | members
            for place in range(count)
        ]

    def body(self, user: int, mutations: list[dict], size: int = 0) -> bytes:
        body = json.dumps({"device_id": self.device(user), "mutations": mutations}).encode()
        return body + b" " * (size - len(body))

    def push(self, user: int, body: bytes, connection: http.client.HTTPConnection | None = None, **more: str) -> int:
        own = connection or self.connect()
        try:
            own.request("POST", "/v1/mutations", body, self.headers(user, **more))
            response = own.getresponse()
            response.read()
            ANSWERS[response.status] += 1
            return response.status
        except OSError as error:
            ANSWERS[type(error).__name__] += 1
            own.close()
            return 0
        finally:
            if own is not connection:
                own.close()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)


def forever(count: int, work) -> None:
    """Runs `work(number)` again and again, of so many at the same time."""

    def repeat(number: int) -> None:
        while True:
            work(number)

    for number in range(count):
        threading.Thread(target=repeat, args=(number,), daemon=True).start()


def refusals(tenant: Tenant) -> None:
    Upstream.answers = "wrongly"

    def push(number: int) -> None:
        for user in range(number, 48, 8):
            path = "/api/v1/visits" if user % 2 else "/api/v1/orders"
            tenant.push(user, tenant.body(user, tenant.mutations(5, endpoint=path)))
        time.sleep(0.1)

    forever(8, push)
    time.sleep(1)


def deep_lane(tenant: Tenant) -> None:
    Upstream.answers = "late"
    [create] = tenant.mutations(1)
    tenant.push(0, tenant.body(0, [create]))
    change = {"operation": "update", "local_id": create["local_id"]}
    for _ in range(20):
        tenant.push(0, tenant.body(0, tenant.mutations(500, **change)))
    forever(4, lambda _: tenant.push(0, tenant.body(0, tenant.mutations(50, **change))))


def waits(tenant: Tenant) -> None:
    Upstream.answers = "late"

    def push(number: int) -> None:
        status = tenant.push(number, tenant.body(number, tenant.mutations(1), 1_000_000), Prefer="wait=60")
        if status != 200:
            time.sleep(0.2)

    forever(100, push)
    time.sleep(3)


def unread(tenant: Tenant) -> None:
    text = "x" * 200_000
    for user in range(100):
        payload = {"title": text}
        tenant.push(user, tenant.body(user, tenant.mutations(1, entity_type="note", payload=payload, endpoint=None)))

    def ask(number: int) -> None:
        try:
            with socket.socket() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                one.connect(("127.0.0.1", tenant.port))
                one.sendall(
                    b"GET /v1/changes?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: "
                    + tenant.headers(number % 50)["Authorization"].encode() + b"\r\n\r\n"
                )
                time.sleep(3)
                ANSWERS["unread"] += 1
        except OSError:
            ANSWERS["broken"] += 1
            time.sleep(0.1)

    forever(200, ask)
    time.sleep(1)


def bodies(tenant: Tenant) -> None:
    text = "x" * 8_000

    def push(number: int) -> None:
        connection = tenant.connect()
        while True:
            mutations = tenant.mutations(500, entity_type="note", payload={"title": text}, endpoint=None)
            if tenant.push(number, tenant.body(number, mutations), connection) != 200:
                time.sleep(0.5)

    forever(7, push)
    time.sleep(1)


def ingest(tenant: Tenant) -> None:
    """Edits from elsewhere of two thousand notes, as fast as they are taken."""
    service_token = os.environ["SLUICE_NOISY_SERVICE_TOKEN"]
    headers = {"Authorization": f"Bearer {service_token}", "Content-Type": "application/json"}

    def bring(number: int) -> None:
        connection = tenant.connect()
        version = int(time.time() * 1_000_000)
        while True:
            version += 1
            events = [
                {
                    "event_id": str(uuid.uuid4()), "entity_type": "note", "id": number * 500 + place,
                    "version": version, "operation": "upsert", "document": {"title": "hello", "version": version},
                    "owner": tenant.device(0),
                }
                for place in range(500)
            ]
            try:
                connection.request("POST", "/v1/ingest", json.dumps({"events": events}), headers)
                response = connection.getresponse()
                response.read()
                ANSWERS[response.status] += 1
            except OSError as error:
                ANSWERS[type(error).__name__] += 1
                connection.close()
                time.sleep(0.2)

    forever(4, bring)
    time.sleep(1)


def unblock(tenant: Tenant) -> None:
    Upstream.answers = "late"

    def prepare(user: int) -> None:
        first = tenant.mutations(500)
        tenant.push(user, tenant.body(user, first))
        needed = [mutation["id"] for mutation in first]
        for _ in range(10):
            tenant.push(user, tenant.body(user, tenant.mutations(100, dependency_ids=needed)))

    for user in range(2):
        prepare(user)
    RELEASED.set()


def yield_the_cores() -> None:
    """Its clients and its upstream are elsewhere: what they work is to take no core from the gateway and the database.

    Where the kernel shares the cores between sessions, nice(1) says nothing beyond one's own (sched(7))."""
    os.nice(19)
    try:
        Path("/proc/self/autogroup").write_text("19")
    except OSError:
        pass


def main(scenario: str, port: str, upstream: str, secret: str, organization: str) -> None:
    yield_the_cores()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(upstream)), Upstream)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    scenarios = {
        "refusals": refusals, "deep-lane": deep_lane, "waits": waits, "unread": unread, "bodies": bodies,
        "ingest": ingest, "unblock": unblock,
    }

    def end(*_) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, end)
    scenarios[scenario](Tenant(int(port), secret, organization))
    print("begun", flush=True)
    try:
        while True:
            time.sleep(1)
    finally:
        print(dict(ANSWERS), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
