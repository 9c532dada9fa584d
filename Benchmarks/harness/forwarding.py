"""Forwarding runs: mutations are replayed to an upstream that answers immediately."""

import http.client
import json
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import children
from .children import Failure
from .cluster import Cluster
from .gateway import Gateway
from .names import organization, user_of
from .nginx import Nginx
from .runs import ORGANIZATIONS, USERS, Load, Meter, Runner
from .tokens import token

DATABASE = "forward"
# An organization for which the load generator does not push.
QUIET = ORGANIZATIONS + 1
NOISY = 1
BATCH = Load(mutations=50, connections=32, mode="forwarded")
COMPLETED = "sluice_mutation_completion_seconds_count"
# The longest time for a backlog to become final.
PATIENCE = 300.0


@dataclass
class Forward:
    """A rate and its cost: microseconds of CPU per mutation."""

    figure: str
    per_second: float
    cpu_upstream: float = 0
    cpu_client: float = 0
    cpu_gateway: float = 0
    cpu_postgres: float = 0
    cpu_others: float = 0
    errors: int = 0
    extra: dict = field(default_factory=dict)

    def as_json(self) -> dict:
        return asdict(self)


@dataclass
class Quiet:
    """The time until pushes of one mutation were forwarded, in milliseconds."""

    figure: str
    p50_ms: float
    p99_ms: float
    pushes: int

    def as_json(self) -> dict:
        return asdict(self)


class Forwarding:
    """All runs of one gateway with one upstream."""

    def __init__(self, cluster: Cluster, gateway: Gateway, nginx: Nginx, runner: Runner, baseline: Path | None, *,
                 pushes: int, samples: int = 0, database: str = DATABASE) -> None:
        self._cluster, self._gateway, self._nginx, self._runner = cluster, gateway, nginx, runner
        self._baseline, self._pushes, self._samples = baseline, pushes, samples
        self._database, self._sequence = database, 0

    def set_up(self) -> None:
        self._gateway.create_organizations(QUIET)
        self._gateway.administer(
            ("PUT", f"/organizations/{organization(number)}/upstream",
             {"base_url": self._nginx.url, "timeout_seconds": 90})
            for number in range(1, QUIET + 1)
        )

    # Rates

    def client(self) -> Forward:
        """Measures the HTTP client library alone."""
        meter = Meter(self._cluster, None, self._database, self._nginx.pid)
        command = [str(self._baseline), "--url", f"{self._nginx.url}/api/v1/activities",
                   "--seconds", str(self._runner.seconds)]
        results = dict(pair.split("=", 1) for pair in children.run(command).split())
        meter.stop()
        count = max(1, int(results["requests"]))
        # The upstream also answered requests that were sent before the measurement began.
        share = self._runner.seconds / (self._runner.seconds + 1)
        return Forward(
            "client", float(results["requests_per_second"]), cpu_upstream=meter.upstream * share * 1e6 / count,
            cpu_client=float(results["own_cpu_us_per_request"]), cpu_others=meter.others, errors=int(results["failed"]),
        )

    def drain(self) -> Forward:
        """Measures how fast a backlog becomes final that was pushed while the upstream answered nothing."""
        expected = self._completed() + self._pushes * BATCH.mutations
        self._nginx.hold(True)
        errors = self._push(self._pushes, ORGANIZATIONS, USERS)
        meter = Meter(self._cluster, self._gateway, self._database, self._nginx.pid)
        started = time.monotonic()
        self._nginx.hold(False)
        self._wait_for(expected)
        return self._forward("forward", time.monotonic() - started, meter, errors)

    def live(self) -> Forward:
        """Measures pushes and their forwarding at the same time, until all mutations are final."""
        expected = self._completed() + self._pushes * BATCH.mutations
        meter = Meter(self._cluster, self._gateway, self._database, self._nginx.pid)
        started = time.monotonic()
        errors = self._push(self._pushes, ORGANIZATIONS, USERS)
        pushed = time.monotonic() - started
        self._wait_for(expected)
        run = self._forward("forward live", time.monotonic() - started, meter, errors)
        run.extra["pushed_seconds"] = pushed
        return run

    def _forward(self, figure: str, seconds: float, meter: Meter, errors: int) -> Forward:
        meter.stop()
        count = self._pushes * BATCH.mutations
        each = 1e6 / count
        return Forward(
            figure, count / seconds, cpu_upstream=meter.upstream * each, cpu_client=meter.client * each,
            cpu_gateway=meter.gateway * each, cpu_postgres=meter.postgres * each, cpu_others=meter.others,
            errors=errors,
        )

    def _push(self, pushes: int, organizations: int, users: int) -> int:
        """Makes this many pushes of fifty mutations; returns the number of failures."""
        results, _ = self._runner.generate(
            "forward", self._gateway, BATCH, PATIENCE, pushes=pushes, organizations=organizations, users=users
        )
        return int(results["errors"]) + int(results["wrong"])

    def _completed(self) -> int:
        return int(self._gateway.metrics().get(COMPLETED, 0))

    def _wait_for(self, expected: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self._completed() < expected:
            self._gateway.check()
            if time.monotonic() > deadline:
                raise Failure(f"{expected - self._completed():,} mutations are not final after {PATIENCE:g} s")
            time.sleep(0.1)

    # A quiet organization and busy others

    def idle(self) -> Quiet:
        return self._quiet("idle")

    def with_backlog(self) -> Quiet:
        """Measures a quiet organization while another one has very many mutations to forward."""
        expected = self._completed() + self._pushes * BATCH.mutations
        self._nginx.hold(True)
        self._push(self._pushes, NOISY, USERS)
        self._nginx.hold(False)
        run = self._quiet("backlog", lambda: self._completed() < expected)
        self._wait_for(expected)
        return run

    def with_dead_upstream(self) -> Quiet:
        """Measures a quiet organization while another one's upstream is unavailable. Runs last, because the upstream
        stays unavailable."""
        dead = {"base_url": "http://127.0.0.1:1"}
        self._gateway.administer([("PUT", f"/organizations/{organization(NOISY)}/upstream", dead)])
        self._push(max(1, self._pushes // 10), NOISY, USERS)
        return self._quiet("dead")

    def _quiet(self, figure: str, goes_on=lambda: True) -> Quiet:
        """Makes pushes of one mutation in sequence, each of which is answered when its mutation is forwarded."""
        connection = http.client.HTTPConnection("127.0.0.1", self._gateway.port, timeout=30)
        latencies: list[float] = []
        for index in range(self._samples):
            if index % 20 == 19 and not goes_on():
                break
            body, headers = self._quiet_push()
            started = time.perf_counter()
            connection.request("POST", "/v1/mutations", body, headers)
            response = connection.getresponse()
            answer = response.read()
            latencies.append((time.perf_counter() - started) * 1000)
            if response.status != 200 or b'"status":"succeeded"' not in answer:
                raise Failure(f"quiet {figure}: a push was answered {response.status}: {answer.decode()[:1000]}")
        connection.close()
        # The first pushes opened connections and prepared statements.
        latencies = sorted(latencies[5:])
        if not latencies:
            raise Failure(f"quiet {figure}: the others were done before anything could be measured")
        rank = lambda share: latencies[min(len(latencies) - 1, int(share * len(latencies)))]  # noqa: E731
        return Quiet(figure, rank(0.5), rank(0.99), len(latencies))

    def _quiet_push(self) -> tuple[bytes, dict[str, str]]:
        self._sequence += 1
        device = user_of(QUIET, 1)
        mutation = {
            "id": str(uuid.uuid4()), "idempotency_key": str(uuid.uuid4()), "sequence_number": self._sequence,
            "operation": "create", "entity_type": "activity", "local_id": str(uuid.uuid4()),
            "endpoint": "/api/v1/activities", "payload": {"title": "hello world"},
            "created_at": "2026-01-15T08:00:00.000Z",
        }
        headers = {
            "Authorization": f"Bearer {token(self._gateway.secret, organization(QUIET), device)}",
            "Content-Type": "application/json", "Prefer": "wait=10",
        }
        return json.dumps({"device_id": device, "mutations": [mutation]}).encode(), headers
