"""One organization's worst load, until it is stopped: `noisy.py SCENARIO PORT UPSTREAM-PORT SECRET ORGANIZATION`.

Prints `begun` once the load has begun, and at the end the answers that were received. The process is also the
organization's upstream."""

import collections
import contextlib
import http.client
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.names import organization as organization_of, user_of  # noqa: E402
from harness.tokens import token  # noqa: E402

ANSWERS: collections.Counter = collections.Counter()
# Members of mutations that the built-in store accepts.
NOTE = {"entity_type": "note", "endpoint": None}
RELEASED = threading.Event()


class Upstream(http.server.BaseHTTPRequestHandler):
    """The organization's API."""

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

    do_GET = do_PATCH = do_PUT = do_DELETE = do_POST

    def log_message(self, *_) -> None:
        pass


class Tenant:
    """The organization's users, with one device each."""

    def __init__(self, port: int, secret: str, organization: str, number: int = 1) -> None:
        self.port, self._secret, self.organization, self.number = port, secret, organization, number
        self._tokens: dict[int, str] = {}
        self._sequence = int(time.time() * 1_000_000)
        self._lock = threading.Lock()

    def device(self, user: int) -> str:
        return user_of(self.number, user)

    def other(self, number: int) -> "Tenant":
        """Another noisy organization."""
        return Tenant(self.port, self._secret, organization_of(number), number)

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
        headers = self.headers(user, **more)
        if connection:
            return request(connection, "POST", "/v1/mutations", body, headers)
        return request_once(self.port, "POST", "/v1/mutations", body, headers)

    def push_notes(self, user: int, count: int, **members: object) -> list[dict]:
        """Pushes mutations of notes, which the built-in store stores, and returns them."""
        notes = self.mutations(count, **NOTE, **members)
        self.push(user, self.body(user, notes))
        return notes

    def push_failures(self, user: int, server_ids: list[str]) -> None:
        """Pushes an update for each id of a note that does not exist. Each fails."""
        updates = self.mutations(len(server_ids), **NOTE, operation="update")
        for update, server_id in zip(updates, server_ids):
            del update["local_id"]
            update["server_id"] = server_id
        self.push(user, self.body(user, updates))

    def administer(self, method: str, path: str, body: dict | None = None) -> dict:
        """Sends a request about the organization to `/admin`, and returns the response's body."""
        return administer(method, f"/organizations/{self.organization}{path}", body)

    def connect(self) -> http.client.HTTPConnection:
        return connect(self.port)

    def leave_unread(self, message: bytes) -> None:
        """Sends a request over a connection with a small receive buffer, and closes it after 3 s without reading."""
        try:
            with socket.socket() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                one.connect(("127.0.0.1", self.port))
                one.sendall(message)
                time.sleep(3)
                ANSWERS["unread"] += 1
        except OSError:
            ANSWERS["broken"] += 1
            time.sleep(0.1)


def connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=60)


def request(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | str | None, headers: dict[str, str]
) -> int:
    """Counts and returns the response's status. After an error, counts it, closes the connection and returns 0."""
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        response.read()
        ANSWERS[response.status] += 1
        return response.status
    except OSError as error:
        ANSWERS[type(error).__name__] += 1
        connection.close()
        return 0


def request_once(port: int, method: str, path: str, body: bytes | str | None, headers: dict[str, str]) -> int:
    """Sends a request over a separate connection."""
    with contextlib.closing(connect(port)) as connection:
        return request(connection, method, path, body, headers)


def forever(count: int, work, begin: float = 0) -> None:
    """Runs `work(number)` repeatedly in `count` threads. Returns after `begin` seconds, the time that they need."""

    def repeat(number: int) -> None:
        while True:
            work(number)

    for number in range(count):
        threading.Thread(target=repeat, args=(number,), daemon=True).start()
    time.sleep(begin)


def refusals(tenant: Tenant) -> None:
    Upstream.answers = "wrongly"

    def push(number: int) -> None:
        for user in range(number, 48, 8):
            path = "/api/v1/visits" if user % 2 else "/api/v1/orders"
            tenant.push(user, tenant.body(user, tenant.mutations(5, endpoint=path)))
        time.sleep(0.1)

    forever(8, push, begin=1)


def deep_lane(tenant: Tenant) -> None:
    Upstream.answers = "late"
    [create] = tenant.mutations(1)
    tenant.push(0, tenant.body(0, [create]))
    change = {"operation": "update", "local_id": create["local_id"]}
    for _ in range(20):
        tenant.push(0, tenant.body(0, tenant.mutations(500, **change)))
    forever(4, lambda _: tenant.push(0, tenant.body(0, tenant.mutations(50, **change))))


def processor(_: Tenant) -> None:
    """Busy processes with the priority of a server, each in a separate session (sched(7))."""
    loop = """if True:
        import contextlib, os
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        parent = os.getppid()
        while os.getppid() == parent:
            pass
    """
    for _ in range(os.cpu_count() or 1):
        subprocess.Popen([sys.executable, "-c", loop], start_new_session=True)


def waits(tenant: Tenant) -> None:
    Upstream.answers = "late"

    def push(number: int) -> None:
        status = tenant.push(number, tenant.body(number, tenant.mutations(1), 1_000_000), Prefer="wait=60")
        if status != 200:
            time.sleep(0.2)

    forever(100, push, begin=3)


def unread(tenant: Tenant) -> None:
    text = "x" * 200_000
    for user in range(100):
        tenant.push_notes(user, 1, payload={"title": text})

    def ask(number: int) -> None:
        authorization = tenant.headers(number % 50)["Authorization"]
        tenant.leave_unread(
            f"GET /v1/changes?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n".encode()
        )

    forever(200, ask, begin=1)


def bodies(tenant: Tenant) -> None:
    text = "x" * 8_000

    def push(number: int) -> None:
        connection = tenant.connect()
        while True:
            mutations = tenant.mutations(500, **NOTE, payload={"title": text})
            if tenant.push(number, tenant.body(number, mutations), connection) != 200:
                time.sleep(0.5)

    forever(7, push, begin=1)


def ingest(tenant: Tenant) -> None:
    """Ingested edits of two thousand notes, as fast as they are accepted."""
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
            if not request(connection, "POST", "/v1/ingest", json.dumps({"events": events}), headers):
                time.sleep(0.2)

    forever(4, bring, begin=1)


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


def operations_port() -> int:
    return int(os.environ["SLUICE_NOISY_OPERATIONS_PORT"])


def operator() -> dict[str, str]:
    return {"Authorization": f"Bearer {os.environ['SLUICE_NOISY_OPERATOR_TOKEN']}"}


def administer(method: str, path: str, body: dict | None = None) -> dict:
    """Sends a request to `/admin`, and returns the response's body, empty if the request failed."""
    connection = connect(operations_port())
    headers = operator() | {"Content-Type": "application/json"}
    connection.request(method, f"/admin{path}", None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    ANSWERS[f"admin {response.status}"] += 1
    return json.loads(text) if 200 <= response.status < 300 and text else {}


def large_document(tenant: Tenant, user: int = 0) -> dict:
    """Pushes a note of 700 KB as a create and two patches, and returns the members of updates that name it."""
    text = "x" * 235_000
    [create] = tenant.push_notes(user, 1, payload={"a": text})
    names = {"operation": "update", "local_id": create["local_id"]}
    for member in "bc":
        tenant.push_notes(user, 1, payload={member: text}, **names)
    return NOTE | names


def updates_of_large_document(tenant: Tenant, count: int, names: dict) -> bytes:
    return tenant.body(0, tenant.mutations(
        count, payload={"title": "hello"}, base_version=1, conflict_resolution="server_wins", **names))


def hanging_upstream(tenant: Tenant) -> None:
    Upstream.answers = "late"
    tenant.administer("PUT", "/upstream", {"max_concurrency": 1_000})

    def push(number: int) -> None:
        for user in range(number, 1_000, 8):
            tenant.push(user, tenant.body(user, tenant.mutations(2)))

    forever(8, push, begin=5)


def outage(tenant: Tenant) -> None:
    """The upstream is shared with 66 other organizations, with 16 requests each, and answers late."""
    Upstream.answers = "late"
    url = tenant.administer("GET", "/upstream")["base_url"]
    others = [tenant.other(number) for number in range(3, 69)]
    for other in others:
        other.administer("PUT", "/upstream", {"base_url": url, "timeout_seconds": 5})
        other.administer("PUT", "/entity-types/visit", {"upstream": True})

    def push(number: int) -> None:
        for other in others[number::4]:
            for user in range(20):
                other.push(user, other.body(user, other.mutations(1)))

    forever(4, push, begin=5)


def hanging_receivers(tenant: Tenant) -> None:
    """Mutations fail, and twenty webhooks receive messages about the failures."""
    url = tenant.administer("GET", "/upstream")["base_url"]
    for number in range(20):
        tenant.administer("POST", "/webhooks", {"url": f"{url}/hooks/{number}", "events": ["mutation.failed"]})
    Upstream.answers = "late"

    def push(number: int) -> None:
        tenant.push_failures(number, [str(uuid.uuid4())] * 20)
        time.sleep(0.05)

    forever(4, push, begin=3)


def polls(tenant: Tenant) -> None:
    Upstream.answers = "late"
    rule = {"entity_type": "note", "operation": "upsert", "id": "/id", "version": "/version", "document": ""}
    for number in range(20):
        settings = {"path": f"/changes/{number}", "interval_seconds": 5, "mapping": {"rules": [rule]}}
        tenant.administer("PUT", f"/sources/poll{number}", {"kind": "poller", "settings": settings})
    time.sleep(3)


def previews(tenant: Tenant) -> None:
    names = large_document(tenant)

    def preview(number: int) -> None:
        body = updates_of_large_document(tenant, 500, names)
        request_once(tenant.port, "POST", "/v1/mutations/preview", body, tenant.headers(0))

    forever(4, preview, begin=1)


def replays(tenant: Tenant) -> None:
    body = updates_of_large_document(tenant, 200, large_document(tenant))
    tenant.push(0, body)

    def repeat(number: int) -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in tenant.headers(0).items())
        tenant.leave_unread(
            f"POST /v1/mutations HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        )

    forever(12, repeat, begin=1)


def pulls(tenant: Tenant) -> None:
    text = "x" * 2_000
    for user in range(8):
        tenant.push_notes(user, 500, payload={"title": text})

    def pull(number: int) -> None:
        path = f"/v1/devices/{tenant.device(number)}/pull"
        request_once(tenant.port, "POST", path, json.dumps({"limit": 1_000}), tenant.headers(number))

    forever(8, pull, begin=1)


def exports(tenant: Tenant) -> None:
    for _ in range(20):
        tenant.push_notes(0, 500, payload={"title": "x" * 1_000})
    path = f"/admin/organizations/{tenant.organization}/users/{tenant.device(0)}/export"
    forever(4, lambda _: request_once(operations_port(), "GET", path, None, operator()), begin=1)


def operations(tenant: Tenant) -> None:
    """Updates of missing entities fail, are retried by operations, and fail again."""
    for user in range(40):
        tenant.push_failures(user, [str(uuid.uuid4()) for _ in range(250)])

    def operate(number: int) -> None:
        retry = {"kind": "retry", "filter": {"entity_type": "note"}, "per_second": 1_000, "reason": "noise"}
        tenant.administer("POST", "/operations", retry)
        time.sleep(0.5)

    forever(2, operate, begin=1)


def listeners(tenant: Tenant) -> None:
    def listen(number: int) -> None:
        connection = tenant.connect()
        try:
            connection.request("GET", "/v1/events", headers=tenant.headers(number % 10))
            response = connection.getresponse()
            ANSWERS[response.status] += 1
            while response.readline():
                pass
        except OSError as error:
            ANSWERS[type(error).__name__] += 1
        connection.close()
        time.sleep(0.2)

    def push(number: int) -> None:
        tenant.push_notes(number, 5)
        time.sleep(0.02)

    forever(1_000, listen)
    forever(2, push, begin=3)


def yield_the_cores() -> None:
    """In production the clients and the upstream run elsewhere, so their work must not take a core from the gateway
    and the database.

    If the kernel divides the cores between sessions, nice(1) has an effect only within one session (sched(7))."""
    os.setpriority(os.PRIO_PROCESS, 0, 19)
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
        "processor": processor, "refusals": refusals, "deep-lane": deep_lane, "waits": waits, "unread": unread,
        "bodies": bodies, "ingest": ingest, "unblock": unblock, "hanging-upstream": hanging_upstream, "outage": outage,
        "hanging-receivers": hanging_receivers, "polls": polls, "previews": previews, "replays": replays,
        "pulls": pulls, "exports": exports, "operations": operations, "listeners": listeners,
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
