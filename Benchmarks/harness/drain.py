"""The time to replay one user's outbox to a slow upstream, in each order, with and without batches."""

import http.client
import http.server
import json
import threading
import time
import uuid
from collections import Counter
from dataclasses import asdict, dataclass, replace

from .children import Failure
from .deep_lane import Phone
from .gateway import Gateway
from .names import organization

DATABASE = "drain"
EDITS = (100, 1_000)
DELAYS_MS = (50, 200, 1_000)
ROUTES = 10
# Runs of the order of the lane that take longer are computed from the time of the smaller outbox.
_LONGEST_SECONDS = 300
# The route that answers 503 in runs with a failing route.
_FAILING = "/route-0/"
_PUSH = 500
_COMPLETED = "sluice_mutation_completion_seconds_count"
_CONCURRENT = {"order": "dependencies", "max_in_flight_per_user": 16}
# Settings of the organization and of the upstream, by mode. Each mode has a separate organization.
MODES: dict[str, tuple[dict, dict]] = {
    "lane": ({"order": "lane"}, {}),
    "dependencies": (_CONCURRENT, {}),
    "batches": (_CONCURRENT, {"batch": {"path": "/$batch", "max_requests": 100}}),
}


@dataclass
class Drain:
    """The seconds from the first answer of the upstream to the last outcome; None if a failing route held the other
    mutations.

    A computed run was not made: one request follows another, so its time is proportional to that of a smaller outbox.
    """

    mode: str
    edits: int
    delay_ms: int
    fails: bool
    seconds: float | None
    requests: int
    computed: bool = False

    def as_json(self) -> dict:
        return asdict(self)

    @property
    def text(self) -> str:
        if self.seconds is None:
            return "held"
        requests = f"{self.requests:,} request" + ("s" if self.requests != 1 else "")
        return f"{self.seconds:,.1f} s" + (" (computed)" if self.computed else f", {requests}")

    def scaled(self, edits: int) -> "Drain":
        factor = edits / self.edits
        seconds, requests = self.seconds * factor, round(self.requests * factor)
        return replace(self, edits=edits, seconds=seconds, requests=requests, computed=True)


class Upstream:
    """An API that answers after a delay, alone or in batches."""

    def __init__(self) -> None:
        self.delay_ms, self.fails = 0, False
        # by organization: mutations that are left from earlier runs are sent again
        self.requests: Counter[str] = Counter()
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Upstream":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.released.set()
        self._server.shutdown()

    def answer(self, organization: str, path: str, body: bytes) -> tuple[int, dict]:
        self.released.wait()
        with self._lock:
            self.requests[organization] += 1
        time.sleep(self.delay_ms / 1_000)
        if path != "/$batch":
            return self._part(path)
        responses = []
        for part in json.loads(body)["requests"]:
            status, document = self._part(part["url"])
            responses.append({"id": part["id"], "status": status, "body": document})
        return 200, {"responses": responses}

    def _part(self, path: str) -> tuple[int, dict]:
        if self.fails and path.startswith(_FAILING):
            return 503, {}
        return 201, {"id": uuid.uuid4().hex}

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # the head and the body of an answer are two writes
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, document = upstream.answer(self.headers["X-Sluice-Organization"], self.path, body)
                text = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_) -> None:
                pass

        return Handler


class Drains:
    """All runs of one gateway."""

    def __init__(self, gateway: Gateway, upstream: Upstream, runs: list[tuple[str, int, int, bool]]) -> None:
        self._gateway, self._upstream = gateway, upstream
        # the mutations that a failing route leaves, and the circuit that they open, are in the way of no other run
        self._organizations = {run: organization(number) for number, run in enumerate(runs, 1)}

    def set_up(self) -> None:
        self._gateway.create_organizations(len(self._organizations))
        for (mode, *_), name in self._organizations.items():
            settings, upstream = MODES[mode]
            where = f"/organizations/{name}"
            self._gateway.administer([
                ("PUT", where, {"settings": settings}),
                ("PUT", f"{where}/upstream", {"base_url": self._upstream.url, "max_concurrency": 64, **upstream}),
            ])

    def run(self, mode: str, edits: int, delay_ms: int, fails: bool = False) -> Drain:
        """Pushes the outbox while the upstream answers nothing, and measures from its first answer on."""
        upstream, where = self._upstream, self._organizations[mode, edits, delay_ms, fails]
        upstream.released.clear()
        upstream.delay_ms, upstream.fails = delay_ms, fails
        phone = Phone(self._gateway, where)
        # the gateway closes a connection that is idle during a long run
        connection = http.client.HTTPConnection("127.0.0.1", self._gateway.port, timeout=60)
        for start in range(0, edits, _PUSH):
            entries = [
                phone.create(endpoint=f"/route-{index % ROUTES}/notes")
                for index in range(start, min(edits, start + _PUSH))
            ]
            phone.push(connection, entries)
        connection.close()
        expected = self._completed() + edits - (edits // ROUTES if fails else 0)
        started = time.monotonic()
        upstream.released.set()
        # twice the time that single requests in sequence would take; a lane that waits for a failing route does not end
        patience = 10 if fails and mode == "lane" else 60 + 2 * edits * delay_ms / 1_000
        while self._completed() < expected:
            self._gateway.check()
            if time.monotonic() - started > patience:
                if fails:
                    return Drain(mode, edits, delay_ms, fails, None, upstream.requests[where])
                raise Failure(f"drain {mode}: {expected - self._completed():,} mutations are not final")
            time.sleep(0.02)
        return Drain(mode, edits, delay_ms, fails, time.monotonic() - started, upstream.requests[where])

    def _completed(self) -> int:
        return int(self._gateway.metrics().get(_COMPLETED, 0))


def plan(quick: bool) -> list[tuple[str, int, int, bool]]:
    """The runs: mode, edits, delay, whether a route fails. Those with a failing route come last: they leave mutations.

    In the order of the lane a failing route holds any outbox, so there is one such run.
    """
    edits, delays = ((100,), (50,)) if quick else (EDITS, DELAYS_MS)
    cells = [(count, delay) for count in edits for delay in delays]
    usual = [(mode, *cell, False) for cell in cells for mode in MODES if not is_computed(mode, *cell)]
    failing = [(mode, *cell, True) for cell in cells for mode in MODES if mode != "lane" or cell == cells[0]]
    return usual + failing


def is_computed(mode: str, edits: int, delay_ms: int) -> bool:
    return mode == "lane" and edits * delay_ms / 1_000 > _LONGEST_SECONDS


def with_computed(runs: list[Drain]) -> list[Drain]:
    """The runs, and those that are computed from the run of the smallest outbox at the same delay."""
    found = list(runs)
    for run in runs:
        if run.edits == EDITS[0] and not run.fails:
            found += [run.scaled(edits) for edits in EDITS[1:] if is_computed(run.mode, edits, run.delay_ms)]
    return found


def table(runs: list[Drain]) -> str:
    """The table of docs/benchmarks.md."""
    lines = ["| edits | upstream | " + " | ".join(MODES) + " |", "|---|---|" + "---|" * len(MODES)]
    rows: dict[tuple, dict[str, Drain]] = {}
    for run in runs:
        rows.setdefault((run.fails, run.edits, run.delay_ms), {})[run.mode] = run
    for (fails, edits, delay), modes in sorted(rows.items()):
        cells = [modes[mode].text if mode in modes else "held" if fails and mode == "lane" else "" for mode in MODES]
        name = f"{delay:,} ms" + (f", one route of {ROUTES} answers 503" if fails else "")
        lines.append(f"| {edits:,} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
