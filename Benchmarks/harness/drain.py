"""The time to replay one user's outbox to a slow upstream, in each order, with and without batches."""

import http.client
import http.server
import json
import threading
import time
import uuid
from dataclasses import asdict, dataclass

from .children import Failure
from .deep_lane import Phone
from .gateway import Gateway
from .names import organization

DATABASE = "drain"
EDITS = (100, 1_000)
DELAYS_MS = (50, 200, 1_000)
ROUTES = 10
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
    mutations."""

    mode: str
    edits: int
    delay_ms: int
    fails: bool
    seconds: float | None
    requests: int

    def as_json(self) -> dict:
        return asdict(self)


class Upstream:
    """An API that answers after a delay, alone or in batches."""

    def __init__(self) -> None:
        self.delay_ms, self.fails, self.requests = 0, False, 0
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

    def answer(self, path: str, body: bytes) -> tuple[int, dict]:
        self.released.wait()
        with self._lock:
            self.requests += 1
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
                status, document = upstream.answer(self.path, self.rfile.read(int(self.headers["Content-Length"])))
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

    def __init__(self, gateway: Gateway, upstream: Upstream) -> None:
        self._gateway, self._upstream = gateway, upstream
        self._connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)

    def set_up(self) -> None:
        self._gateway.create_organizations(2 * len(MODES))
        for number, (settings, upstream) in enumerate(list(MODES.values()) * 2, 1):
            where = f"/organizations/{organization(number)}"
            self._gateway.administer([
                ("PUT", where, {"settings": settings}),
                ("PUT", f"{where}/upstream", {"base_url": self._upstream.url, "max_concurrency": 64, **upstream}),
            ])

    def run(self, mode: str, edits: int, delay_ms: int, fails: bool = False) -> Drain:
        """Pushes the outbox while the upstream answers nothing, and measures from its first answer on."""
        upstream = self._upstream
        upstream.released.clear()
        upstream.delay_ms, upstream.fails, upstream.requests = delay_ms, fails, 0
        # runs with a failing route have other organizations, so that their pending mutations do not delay later runs
        phone = Phone(self._gateway, organization(1 + list(MODES).index(mode) + (len(MODES) if fails else 0)))
        for start in range(0, edits, _PUSH):
            entries = [
                phone.create(endpoint=f"/route-{index % ROUTES}/notes") for index in range(start, min(edits, start + _PUSH))
            ]
            phone.push(self._connection, entries)
        expected = self._completed() + edits - (edits // ROUTES if fails else 0)
        started = time.monotonic()
        upstream.released.set()
        # twice the time that single requests in sequence would take; a lane that waits for a failing route does not end
        patience = 10 if fails and mode == "lane" else 60 + 2 * edits * delay_ms / 1_000
        while self._completed() < expected:
            self._gateway.check()
            if time.monotonic() - started > patience:
                if fails:
                    return Drain(mode, edits, delay_ms, fails, None, upstream.requests)
                raise Failure(f"drain {mode}: {expected - self._completed():,} mutations are not final")
            time.sleep(0.02)
        return Drain(mode, edits, delay_ms, fails, time.monotonic() - started, upstream.requests)

    def _completed(self) -> int:
        return int(self._gateway.metrics().get(_COMPLETED, 0))


def plan(quick: bool) -> list[tuple[str, int, int, bool]]:
    """The runs: mode, edits, delay, whether a route fails. The failing route comes last, because it stays pending."""
    edits, delays = ((100,), (50,)) if quick else (EDITS, DELAYS_MS)
    usual = [(mode, count, delay, False) for count in edits for delay in delays for mode in MODES]
    return usual + [(mode, edits[0], delays[0], True) for mode in MODES]


def table(runs: list[Drain]) -> str:
    """The table of docs/benchmarks.md."""
    lines = ["| edits | upstream | " + " | ".join(MODES) + " |", "|---|---|" + "---|" * len(MODES)]
    rows: dict[tuple, dict[str, Drain]] = {}
    for run in runs:
        rows.setdefault((run.edits, run.delay_ms, run.fails), {})[run.mode] = run
    for (edits, delay, fails), modes in rows.items():
        cells = []
        for mode in MODES:
            run = modes.get(mode)
            cells.append("" if run is None else "held" if run.seconds is None
                         else f"{run.seconds:.1f} s, {run.requests:,} requests")
        name = f"{delay:,} ms" + (", one route of ten answers 503" if fails else "")
        lines.append(f"| {edits:,} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
