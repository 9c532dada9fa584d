"""One run: a load for some seconds, and its cost."""

import os
import re
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import children, cpu
from .build import BENCHMARKS
from .children import Failure
from .cluster import Cluster
from .servers import Target

ORGANIZATIONS = 200
USERS = 50


@dataclass
class Groups:
    """The mean content of one transaction of the gateway."""

    statements: float
    round_trips: float
    pushes: float


@dataclass
class Run:
    """The measured values. CPU is in microseconds per push, over the whole run with its warm-up."""

    figure: str
    mutations: int
    pushes_per_second: float
    mutations_per_second: float
    p50_ms: float
    p99_ms: float | None
    cpu_postgres: float
    """All processes of the server."""
    cpu_client: float
    """The load generator or pgbench."""
    cpu_others: float
    """The share of the machine used by anything else; above a few percent, the machine was not quiet."""
    wal_per_mutation: float
    """Bytes of write-ahead log."""
    checkpoint: bool
    """Whether a checkpoint ended while it ran."""
    cpu_gateway: float | None = None
    cpu_backends: float | None = None
    """The gateway's own database connections alone."""
    groups: Groups | None = None
    client_share: float | None = None
    """The share of a core that the load generator used while measuring; near 1, it was the limit."""
    errors: int = 0
    extra: dict = field(default_factory=dict)

    def as_json(self) -> dict:
        return {name: value for name, value in asdict(self).items() if value not in (None, {})}


class Meter:
    """The activity of the machine between two moments."""

    def __init__(
        self, cluster: Cluster, target: Target | None, database: str, upstream: int | None = None
    ) -> None:
        """`upstream` is the process that answers forwarded requests."""
        self._cluster, self._target, self._database, self._upstream = cluster, target, database, upstream
        self._wal, self._checkpoint = cluster.wal_position(), cluster.last_checkpoint()
        self._counted = target.metrics() if target else {}
        self._before = self._read()

    def _read(self) -> dict[str, float]:
        own = os.times()
        return {
            "time": time.monotonic(),
            "machine": cpu.of_machine(),
            "postgres": cpu.of_server(self._cluster.pid),
            "backends": cpu.of_backends(self._cluster.pid, self._database),
            "gateway": self._target.cpu() if self._target else 0.0,
            "upstream": cpu.of_process(self._upstream) if self._upstream else 0.0,
            # This process and its children, including the client of the run after its end.
            "client": own.children_user + own.children_system,
            "own": own.user + own.system,
        }

    def stop(self) -> None:
        after = self._read()
        spent = {name: after[name] - self._before[name] for name in after}
        self.postgres, self.backends = spent["postgres"], spent["backends"]
        self.gateway, self.client, self.upstream = spent["gateway"], spent["client"], spent["upstream"]
        known = self.postgres + self.gateway + self.client + self.upstream + spent["own"]
        cores = os.cpu_count() or 1
        self.others = max(0.0, spent["machine"] - known) / (spent["time"] * cores)
        self.groups = self._groups(self._target.metrics()) if self._target else None
        self.wal = self._cluster.wal_position() - self._wal
        self.checkpoint = self._cluster.last_checkpoint() != self._checkpoint

    def _groups(self, metrics: dict[str, float]) -> Groups | None:
        """The groups of a run; None for a target that does not count groups, or has not committed any."""
        def grown(name: str) -> float:
            name = f"sluice_commit_group_{name}"
            return metrics.get(name, 0.0) - self._counted.get(name, 0.0)

        count = grown("round_trips_count")
        if not count:
            return None
        return Groups(*(grown(f"{name}_sum") / count for name in ("statements", "round_trips", "pushes")))


@dataclass
class Load:
    """The load of the load generator."""

    mutations: int
    connections: int
    mode: str = "new"
    pool: int = 4000
    type: str = "activity"
    ids: str = "mapped"
    contacts: str | None = None
    """The type that each device creates first and that its creates then reference."""
    users: int = USERS
    """In each organization."""


class Runner:
    """Makes runs against one server."""

    def __init__(self, cluster: Cluster, generator: Path, *, seconds: float, warm_up: float,
                 organizations: int = ORGANIZATIONS) -> None:
        """`organizations` is the number of organizations that push, unless a load specifies another number."""
        self._cluster, self.generator = cluster, generator
        self.organizations = organizations
        self.seconds, self.warm_up = seconds, warm_up

    def ceiling(self, database: str, mutations: int, *, seconds: float | None = None) -> Run:
        """Measures Postgres alone with the writes of a push, called by pgbench."""
        return self.pgbench(f"ceiling-{mutations}", database, mutations, {"n": mutations}, clients=8,
                            script=BENCHMARKS / "ceiling.pgb", seconds=seconds)

    def pgbench(self, figure: str, database: str, mutations: int, variables: dict[str, int], *, script: Path,
                clients: int, pushes: int = 1, seconds: float | None = None, calls: int | None = None) -> Run:
        """Runs a script that makes the writes of `pushes` pushes, with `mutations` mutations each. It runs for some
        seconds, or a number of times by each client."""
        measured = max(1, round(self.seconds if seconds is None else seconds))
        length = ["-t", str(calls)] if calls else ["-P", "1", "-T", str(measured + round(self.warm_up))]
        command = self._cluster.client(
            "pgbench", database, "-n", "-M", "prepared", "-f", str(script), "-c", str(clients), "-j", "1",
            *length, *(word for name, value in variables.items() for word in ("-D", f"{name}={value}")),
        )
        environment = os.environ | {"PGOPTIONS": "-c plan_cache_mode=force_generic_plan"}
        meter = Meter(self._cluster, None, database)
        client = children.start(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        output, _ = client.communicate()
        meter.stop()
        if client.returncode != 0:
            raise Failure(f"pgbench failed:\n{output}")
        children.stop(client)
        return self._read_pgbench(figure, output, mutations, pushes, meter)

    def _read_pgbench(self, figure: str, output: str, mutations: int, pushes: int, meter: Meter) -> Run:
        # One line a second; those of the warm-up are skipped.
        lines = re.findall(r"progress: ([\d.]+) s, ([\d.]+) tps, lat ([\d.]+) ms", output)
        counted = [(float(tps), float(lat)) for at, tps, lat in lines if float(at) > self.warm_up + 0.5]
        if not lines and (whole := re.search(r"latency average = ([\d.]+) ms.*^tps = ([\d.]+)", output, re.S | re.M)):
            counted = [(float(whole[2]), float(whole[1]))]
        total = pushes * int(re.search(r"transactions actually processed: (\d+)", output)[1])
        if not counted or not total:
            raise Failure(f"the output of pgbench cannot be parsed:\n{output}")
        rate = pushes * sum(tps for tps, _ in counted) / len(counted)
        return Run(
            figure=figure, mutations=mutations, pushes_per_second=rate,
            mutations_per_second=rate * mutations, p50_ms=sum(lat for _, lat in counted) / len(counted), p99_ms=None,
            cpu_postgres=meter.postgres * 1e6 / total, cpu_client=meter.client * 1e6 / total,
            cpu_others=meter.others, wal_per_mutation=meter.wal / (total * mutations), checkpoint=meter.checkpoint,
        )

    def generator_command(
        self, target: Target, load: Load, seconds: float, *, pushes: int | None = None,
        organizations: int | None = None, users: int | None = None, rate: float | None = None,
    ) -> list[str]:
        """With `pushes` the generator makes this number of pushes, in at most `seconds`, and measures all of them. With
        `rate` it sends this number of pushes per second, whether or not earlier pushes were answered."""
        return [
            str(self.generator), "--port", str(target.port), "--connections", str(load.connections),
            "--mutations", str(load.mutations), "--mode", load.mode, "--pool", str(load.pool),
            "--seconds", str(seconds), "--warm-up", str(0 if pushes else self.warm_up),
            "--organizations", str(organizations or self.organizations), "--users", str(users or load.users),
            "--type", load.type, "--ids", load.ids, *(["--contacts", load.contacts] if load.contacts else []),
            *(["--pushes", str(pushes)] if pushes else []), *(["--rate", f"{rate:.3f}"] if rate else []), *target.options(load.mutations),
        ]

    def start_generator(self, target: Target, load: Load, seconds: float, **how) -> subprocess.Popen:
        environment = os.environ | {"LOAD_GENERATOR_JWT_SECRET": target.secret}
        return children.start(
            self.generator_command(target, load, seconds, **how), env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )

    def push(self, figure: str, target: Target, database: str, load: Load, *, watch=None,
             seconds: float | None = None, pushes: int | None = None) -> Run:
        """Measures the target under load, and calls `watch` ten times a second. With `pushes` the target receives this
        number of pushes, in at most `seconds`."""
        target.check()
        meter = Meter(self._cluster, target, database)
        results, complaint = self.generate(
            figure, target, load, self.seconds if seconds is None else seconds, watch=watch, pushes=pushes
        )
        meter.stop()
        return self._read_generator(figure, results, complaint, load, meter)

    def generate(
        self, figure: str, target: Target, load: Load, seconds: float, *, watch=None, **how
    ) -> tuple[dict[str, str], str]:
        """Runs the load generator to its end; returns its counts and its complaints. Failures name `figure`."""
        client = self.start_generator(target, load, seconds, **how)
        output, complaint = _finish(client, watch)
        children.stop(client)
        target.check()
        if client.returncode != 0:
            raise Failure(f"{figure}: the load generator failed:\n{complaint}{output}\n{target.log_tail}")
        return dict(pair.split("=", 1) for pair in output.split()), complaint

    def _read_generator(self, figure: str, results: dict[str, str], complaint: str, load: Load, meter: Meter) -> Run:
        pushes = max(1, int(results["total_pushes"]))
        errors = int(results["errors"]) + int(results["wrong"])
        return Run(
            figure=figure, mutations=load.mutations, pushes_per_second=float(results["pushes_per_second"]),
            mutations_per_second=float(results["mutations_per_second"]), p50_ms=int(results["p50_us"]) / 1000,
            p99_ms=int(results["p99_us"]) / 1000, cpu_gateway=meter.gateway * 1e6 / pushes,
            cpu_postgres=meter.postgres * 1e6 / pushes, cpu_backends=meter.backends * 1e6 / pushes,
            cpu_client=float(results["own_cpu_us_per_push"]), client_share=float(results["own_cpu_share"]),
            cpu_others=meter.others, wal_per_mutation=meter.wal / (pushes * load.mutations),
            checkpoint=meter.checkpoint, errors=errors, groups=meter.groups,
            extra=({"complaint": complaint.strip()} if complaint else {})
            | {name: int(value) for name, value in results.items() if name.startswith("status_")}
            | {"max_ms": int(results["max_us"]) / 1000},
        )


def _finish(client: subprocess.Popen, watch) -> tuple[str, str]:
    """Waits for the load generator, which prints too little to fill a pipe."""
    while True:
        try:
            return client.communicate(timeout=0.1)
        except subprocess.TimeoutExpired:
            if watch:
                watch()
