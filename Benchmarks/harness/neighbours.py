"""Noisy neighbours: one organization causes its worst load, and the pushes of another organization are timed.

A separate process (`noisy.py`) causes the load, so that it takes resources only from the gateway, the database
and the machine, not from the measuring process."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import children, cpu
from .children import Failure
from .cluster import Cluster
from .gateway import Gateway
from .names import organization, user_of
from .nginx import Nginx
from .servers import free_ports
from .tokens import token

DATABASE = "neighbours"
NOISY, QUIET = 1, 2
SCENARIOS = {
    "processor": "a busy process for each core, without any request",
    "refusals": "endpoints that answer 301 and 401",
    "deep-lane": "a lane of 10,000 that nothing moves, and pushes of 50 behind it",
    "waits": "pushes of 1 MB that wait",
    "unread": "200 connections that read no page",
    "bodies": "pushes of 4 MB over seven connections",
    "ingest": "batches of 500 events over four connections",
    "unblock": "1,000 mutations that wait for 500 each, released at once",
    "hanging-upstream": "1,000 users whose upstream does not respond",
    "outage": "66 organizations whose upstreams do not respond",
    "hanging-receivers": "20 webhooks whose receivers do not respond",
    "polls": "20 sources whose API does not respond",
    "previews": "previews of 500 updates of a document of 700 KB",
    "replays": "pushes of 200 updates of such a document, repeated and not read",
    "pulls": "device pulls over eight connections",
    "exports": "exports of a user's data over four connections",
    "operations": "20 operations that settle 1,000 mutations a second",
    "listeners": "event streams of ten users, 100 each",
}
OTHERS = range(3, 69)
"""More noisy organizations."""


@dataclass
class Neighbour:
    """Pushes of the quiet organization, in milliseconds, without (`alone`) and with the noisy organization."""

    scenario: str
    kind: str
    """`stored`: into the built-in store; `forwarded`: answered after the upstream."""
    alone_p50: float
    alone_p99: float
    loaded_p50: float
    loaded_p99: float
    pushes: int
    errors: int
    peak_mb: float
    extra: dict = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.loaded_p99 / self.alone_p99

    def as_json(self) -> dict:
        return asdict(self) | {"ratio": self.ratio}


class Neighbours:
    """All scenarios on one gateway."""

    def __init__(self, gateway: Gateway, cluster: Cluster, nginx: Nginx, *, seconds: float) -> None:
        self._gateway, self._cluster, self._nginx, self._seconds = gateway, cluster, nginx, seconds
        self._sequence = int(time.time() * 1_000_000)
        self._port = free_ports(1)[0]

    def set_up(self) -> None:
        self._gateway.create_organizations(OTHERS[-1])
        types = {"note": False, "visit": True}
        upstreams = {NOISY: f"http://127.0.0.1:{self._port}", QUIET: self._nginx.url}
        for number, url in upstreams.items():
            base = f"/organizations/{organization(number)}"
            self._gateway.administer([("PUT", f"{base}/upstream", {"base_url": url, "timeout_seconds": 5})])
            self._gateway.administer(
                ("PUT", f"{base}/entity-types/{name}", {"upstream": is_forwarded})
                for name, is_forwarded in types.items()
            )

    def run(self, scenario: str) -> list[Neighbour]:
        """Measures the quiet organization alone, and then during the worst load of the noisy organization."""
        for pid in (os.getpid(), self._nginx.pid):
            children.prefer(pid)
        self._measure(2)
        alone = self._measure(self._seconds)
        cpu.reset_peak(self._gateway.pid)
        command = [
            sys.executable, str(Path(__file__).with_name("noisy.py")), scenario, str(self._gateway.port),
            str(self._port), self._gateway.secret, organization(NOISY),
        ]
        made = self._gateway.administer(
            [("POST", f"/organizations/{organization(NOISY)}/service-tokens", {"source": "noisy"})]
        )
        noisy = children.start(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={
                **os.environ, "SLUICE_NOISY_SERVICE_TOKEN": made["token"],
                "SLUICE_NOISY_OPERATOR_TOKEN": self._gateway.environment["SLUICE_OPERATOR_TOKEN"],
                "SLUICE_NOISY_OPERATIONS_PORT": str(self._gateway.operations_port),
            },
        )
        try:
            if noisy.stdout.readline().strip() != "begun":
                children.stop(noisy)
                raise Failure(f"{scenario} does not begin:\n{noisy.stderr.read()}")
            loaded = self._measure(self._seconds)
            self._gateway.check()
        finally:
            children.stop(noisy, patience=2)
        peak = cpu.memory(self._gateway.pid)["peak"]
        output = noisy.stdout.read().strip()
        self._cluster.query(DATABASE, "analyze")
        return [
            Neighbour(
                scenario, kind, _rank(alone[kind][0], 0.5), _rank(alone[kind][0], 0.99),
                _rank(loaded[kind][0], 0.5), _rank(loaded[kind][0], 0.99), len(loaded[kind][0]),
                alone[kind][1] + loaded[kind][1], peak, {"output": output},
            )
            for kind in alone
        ]

    def _measure(self, seconds: float) -> dict[str, tuple[list[float], int]]:
        """Makes pushes of one mutation in sequence, by two users at the same time, one for each kind."""
        found: dict[str, tuple[list[float], int]] = {}
        threads = [
            threading.Thread(target=lambda kind=kind, user=user: found.update({kind: self._push(kind, user, seconds)}))
            for user, kind in enumerate(("stored", "forwarded"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def _push(self, kind: str, user: int, seconds: float) -> tuple[list[float], int]:
        connection = http.client.HTTPConnection("127.0.0.1", self._gateway.port, timeout=60)
        name = user_of(QUIET, user)
        headers = {
            "Authorization": f"Bearer {token(self._gateway.secret, organization(QUIET), name)}",
            "Content-Type": "application/json", "Prefer": "wait=30",
        }
        latencies, errors = [], 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            body = self._body(kind, name)
            started = time.perf_counter()
            try:
                connection.request("POST", "/v1/mutations", body, headers)
                response = connection.getresponse()
                answer = response.read()
                errors += response.status != 200 or b'"status":"succeeded"' not in answer
            except OSError:
                connection.close()
                errors += 1
            latencies.append((time.perf_counter() - started) * 1000)
            # the same rate of pushes for both, or the fast side would weigh more
            time.sleep(0.005)
        connection.close()
        return sorted(latencies), errors

    def _body(self, kind: str, user: str) -> bytes:
        self._sequence += 1
        mutation = {
            "id": str(uuid.uuid4()), "idempotency_key": str(uuid.uuid4()), "sequence_number": self._sequence,
            "operation": "create", "entity_type": "note", "local_id": str(uuid.uuid4()),
            "payload": {"title": "hello world"}, "created_at": "2026-01-15T08:00:00.000Z",
        }
        if kind == "forwarded":
            mutation |= {"entity_type": "visit", "endpoint": "/api/v1/visits"}
        return json.dumps({"device_id": user, "mutations": [mutation]}).encode()


def _rank(latencies: list[float], share: float) -> float:
    if not latencies:
        raise Failure("nothing was measured")
    return latencies[min(len(latencies) - 1, int(share * len(latencies)))]
