"""Pushes at a fixed rate, from half to three times of what the gateway can accept."""

from dataclasses import asdict, dataclass

from .cluster import Cluster
from .gateway import Gateway
from .runs import Load, Runner

DATABASE = "overload"
FACTORS = (0.5, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0)
# More connections than pushes can wait in the gateway, so that it has to refuse the others.
CONNECTIONS = 6_000
# At a new rate, the queues need some seconds to fill.
WARM_UP = 3
CAPACITY = Load(mutations=1, connections=64)
"""The load that measures the capacity: each connection pushes again once it has its answer."""


@dataclass
class Overload:
    """Pushes per second and shares of all pushes that were due; latencies of accepted pushes only."""

    factor: float
    offered: float
    goodput: float
    p50_ms: float
    p99_ms: float
    refused: float
    """The share of 503."""
    failed: float
    """The share of other errors, such as broken connections."""
    missed: float
    """The share that was not sent, because all connections waited for answers."""
    client_share: float
    """The share of a core that the load generator used; near 1, it was the limit."""

    def as_json(self) -> dict:
        return asdict(self)


class Overloads:
    """All runs of one gateway."""

    def __init__(self, gateway: Gateway, cluster: Cluster, runner: Runner) -> None:
        self._gateway, self._cluster, self._runner = gateway, cluster, runner
        self.capacity = 0.0
        """Pushes per second of a closed loop."""

    def set_up(self, age: float) -> None:
        self._gateway.create_organizations(self._runner.organizations)
        if age >= 1:
            self._runner.generate("overload", self._gateway, Load(mutations=50, connections=32), age)
            self._cluster.vacuum(DATABASE)
        results, _ = self._runner.generate("overload", self._gateway, CAPACITY, self._runner.seconds)
        self.capacity = float(results["pushes_per_second"])

    def run(self, factor: float) -> Overload:
        rate = factor * self.capacity
        load = Load(mutations=1, connections=CONNECTIONS)
        results, _ = self._runner.generate("overload", self._gateway, load, self._runner.seconds, rate=rate)
        seconds, missed = float(results["seconds"]), int(results["missed"])
        refused, errors = int(results.get("status_503", 0)), int(results["errors"]) + int(results["wrong"])
        due = max(1, int(results["pushes"]) + int(results.get("broken", 0)) + missed)
        return Overload(
            factor=factor, offered=due / seconds, goodput=float(results["goodput"]), p50_ms=int(results["p50_us"]) / 1_000,
            p99_ms=int(results["p99_us"]) / 1_000, refused=refused / due, failed=(errors - refused) / due,
            missed=missed / due, client_share=float(results["own_cpu_share"]),
        )


def table(capacity: float, runs: list[Overload]) -> str:
    """The table of docs/sizing.md."""
    lines = [f"capacity: {capacity:,.0f} pushes of one mutation per second", "",
             "| offered load | offered, pushes/s | goodput, pushes/s | p50 | p99 | share of 503 | not sent |",
             "|---|---|---|---|---|---|---|"]
    for run in runs:
        lines.append(f"| {run.factor:g} × | {run.offered:,.0f} | {run.goodput:,.0f} | {run.p50_ms:,.1f} ms "
                     f"| {run.p99_ms:,.1f} ms | {run.refused:.0%} | {run.missed:.0%} |")
    return "\n".join(lines)
