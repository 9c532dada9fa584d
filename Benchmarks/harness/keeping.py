"""Retention: millions of old mutations are deleted while pushes continue."""

import time
from dataclasses import asdict, dataclass, field
from statistics import median

from . import cpu
from .cluster import Cluster
from .children import Failure
from .gateway import Gateway
from .names import ORGANIZATION_SQL, USER_SQL, organization
from .runs import ORGANIZATIONS, USERS, Load, Run, Runner

DATABASE = "keeping"
ROWS = 1_000_000
# More than a single connection and less than the maximum load, so that retention has to find pauses.
LOAD = Load(mutations=10, connections=8)
SETTINGS = {"SLUICE_RETENTION_INTERVAL_SECONDS": "604800"}
CHUNK = 250_000
_LAST_SUCCESS = "sluice_retention_last_success_timestamp_seconds"


@dataclass
class Keeping:
    """The measured values."""

    rows: int
    without: list[Run] = field(default_factory=list)
    during: list[Run] = field(default_factory=list)
    seconds: float = 0.0
    rows_per_second: float = 0.0
    """Over the whole run of retention, most of it during pushes."""
    alone_per_second: float = 0.0
    """Without other load, at the end."""
    heap_mb: tuple[float, float] = (0.0, 0.0)
    """The table of mutations before and after."""

    @property
    def ratio(self) -> float:
        return median(run.p99_ms for run in self.during) / median(run.p99_ms for run in self.without)

    def as_json(self) -> dict:
        return asdict(self)


def keep(gateway: Gateway, cluster: Cluster, runner: Runner, *, rows: int, rounds: int, log, show) -> Keeping:
    """Measures the latency of pushes without retention and while it runs, and the duration of retention."""
    gateway.create_organizations(ORGANIZATIONS)
    result = Keeping(rows)
    runner.push("first", gateway, DATABASE, LOAD, seconds=runner.seconds)
    log(f"making {rows:,} old mutations of the pushing users")
    for start in range(0, rows, CHUNK):
        cluster.query(DATABASE, _old(start, min(rows, start + CHUNK)))
    cluster.vacuum(DATABASE)
    result.heap_mb = (_heap(cluster), 0.0)
    log("pushes without retention, and while it runs")
    for _ in range(rounds):
        result.without.append(show(runner.push("without", gateway, DATABASE, LOAD)))
    began = time.monotonic()
    begin(gateway)
    while is_running(gateway) and len(result.during) < 30:
        result.during.append(show(runner.push("during", gateway, DATABASE, LOAD)))
        if len(result.during) >= 3 * rounds and rows <= ROWS:
            break
    before, at = sum(rows_done(gateway).values()), time.monotonic()
    while is_running(gateway):
        time.sleep(0.5)
    ended = time.monotonic()
    result.seconds = ended - began
    done = sum(rows_done(gateway).values())
    result.rows_per_second = done / result.seconds
    if ended - at > 2:
        result.alone_per_second = (done - before) / (ended - at)
    for _ in range(rounds):
        result.without.append(show(runner.push("without", gateway, DATABASE, LOAD)))
    result.heap_mb = (result.heap_mb[0], _heap(cluster))
    left = int(cluster.query(DATABASE, "SELECT count(*) FROM mutations WHERE synced_at < now() - interval '30 days' "
                                       "OR (synced_at < now() - interval '7 days' AND payload IS NOT NULL)"))
    if left:
        raise Failure(f"{left:,} old rows are left")
    return result


def begin(gateway: Gateway) -> None:
    """Makes a run of retention due, and waits until it runs, or has run."""
    before = gateway.metrics().get(_LAST_SUCCESS)
    gateway.administer([("POST", "/retention", None)])
    deadline = time.monotonic() + 30
    while not is_running(gateway) and gateway.metrics().get(_LAST_SUCCESS) == before:
        if time.monotonic() > deadline:
            raise Failure(f"retention does not begin:\n{gateway.log_tail}")
        time.sleep(0.1)


def is_running(gateway: Gateway) -> bool:
    return gateway.metrics().get("sluice_retention_running", 0) == 1


def rows_done(gateway: Gateway) -> dict[str, float]:
    """The rows that retention has deleted since the gateway started, by kind."""
    return {name: value for name, value in gateway.metrics().items() if name.startswith("sluice_retention_rows_total")}


def _heap(cluster: Cluster) -> float:
    return float(cluster.query(DATABASE, "SELECT sum(pg_total_relation_size(inhrelid)) / 1e6 FROM pg_inherits "
                                         "WHERE inhparent = 'mutations'::regclass"))


def _old(first: int, end: int) -> str:
    """Mutations in the state after pushes: half of them old enough to be deleted, half to lose their payload."""
    return f"""
        INSERT INTO mutations (organization_id, user_id, id, device_id, sequence_number, position, change_position,
            idempotency_key, fingerprint, operation, entity_type, local_id, server_id, payload, priority, max_attempts,
            conflict_resolution, status, version, response_status, created_at, accepted_at, changed_at, synced_at)
        SELECT {ORGANIZATION_SQL}, {USER_SQL}, gen_random_uuid(),
            '{organization(0)}', 1 + n, -1 - n, 0, gen_random_uuid(),
            decode('01' || repeat(md5(n::text), 3), 'hex'), 'create', 'task', gen_random_uuid(),
            gen_random_uuid()::text, ('{{"title":"Visit ' || n || '","notes":"' || repeat('x', 400) || '"}}')::json,
            0, 10, 'manual', 'succeeded', 1, 201, at, at, at, at
        FROM (
            SELECT n, 1 + n % {ORGANIZATIONS} AS o, (n / {ORGANIZATIONS}) % {USERS} AS u,
                now() - CASE WHEN n % 2 = 0 THEN interval '40 days' ELSE interval '10 days' END
                    + n * interval '10 milliseconds' AS at
            FROM generate_series({first}::bigint, {end - 1}::bigint) n
        ) x
        """
