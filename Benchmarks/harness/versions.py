"""Two gateways compared, such as before and after a change. Pushes and forwarding run in short turns, so that other
load on the machine affects both."""

from collections.abc import Callable
from pathlib import Path
from statistics import median

from . import figures
from .cluster import Cluster
from .figures import Figure
from .forwarding import Forward, Forwarding
from .gateway import Gateway
from .nginx import Nginx
from .runs import Load, Run, Runner

Pair = tuple[Run, Run]
"""The gateway's run and the other one's, directly after each other."""


def compare(
    binary: Path, other: Path, names: list[str], cluster: Cluster, runner: Runner, *, turns: int, age: float,
    partitions: int | None, settings: dict[str, str], log: Callable[[str], None],
) -> tuple[list[Figure], list[Pair]]:
    """Runs each of the pushes `names` this many times on both sides, each with a separate database."""
    sides = [("own", binary), ("other", other)]
    for database, _ in sides:
        cluster.create_database(database)
    own, against = (
        Gateway(file, cluster.uri(database), cluster.directory / f"{database}.log", settings=settings,
                partitions=partitions if database == "own" else None)
        for database, file in sides
    )
    results: list[Figure] = []
    runs: list[Pair] = []
    with own, against:
        gateways = {"own": own, "other": against}
        for database, gateway in gateways.items():
            gateway.create_organizations(runner.organizations)
            if age >= 1:
                runner.push("age", gateway, database, figures.PUSHES["push-50"], seconds=age)
        cluster.vacuum(*gateways)
        for name in names:
            log(f"{name}, {turns} times each")
            pairs = [pair(figures.LOADS[name], gateways, runner, turn, name) for turn in range(turns)]
            results += figures_of(name, pairs)
            runs += pairs
            cluster.vacuum(*gateways)
    return results, runs


def compare_forwarding(
    binary: Path, other: Path, cluster: Cluster, runner: Runner, *, turns: int, pushes: int, partitions: int | None,
    settings: dict[str, str], log: Callable[[str], None],
) -> tuple[list[Figure], list[Forward]]:
    """Drains backlogs on both sides in turns, each with a separate database; the upstream is the same."""
    databases = {"forward_own": binary, "forward_other": other}
    for database in databases:
        cluster.create_database(database)
    own, against = (
        Gateway(file, cluster.uri(database), cluster.directory / f"{database}.log", settings=settings,
                partitions=partitions if file is binary else None)
        for database, file in databases.items()
    )
    runs: dict[str, list[Forward]] = {database: [] for database in databases}
    with Nginx(cluster.directory) as nginx, own, against:
        sides = {
            database: Forwarding(cluster, gateway, nginx, runner, None, pushes=pushes, database=database)
            for database, gateway in zip(databases, (own, against))
        }
        for side in sides.values():
            side.set_up()
        log(f"forward, {turns} times each")
        for turn in range(turns):
            for database in sides if turn % 2 == 0 else reversed(sides):
                runs[database].append(sides[database].drain())
            first, second = (runs[database][-1] for database in databases)
            print(f"  {first.per_second:>9,.0f} against {second.per_second:>9,.0f} a second | CPU µs each: gateway "
                  f"{first.cpu_gateway:,.0f} against {second.cpu_gateway:,.0f}, Postgres {first.cpu_postgres:,.0f} "
                  f"against {second.cpu_postgres:,.0f} | others {first.cpu_others:.0%}, {second.cpu_others:.0%}",
                  flush=True)
            cluster.vacuum(*databases)
    rows = [
        ("forward", "a second", lambda run: run.per_second, True),
        ("gateway forward", "µs of CPU each", lambda run: run.cpu_gateway, False),
        ("postgres forward", "µs of CPU each", lambda run: run.cpu_postgres, False),
    ]
    figures = []
    for name, unit, value, more_is_better in rows:
        values = [(value(a), value(b)) for a, b in zip(*runs.values())]
        ratios = [a / b if more_is_better else b / a for a, b in values]
        mine, theirs = (median(pair[side] for pair in values) for side in (0, 1))
        figures.append(Figure(name, f"{mine:,.0f} {unit}", f"{theirs:,.0f} other", median(ratios),
                              (min(ratios), max(ratios))))
    return figures, [run for side in runs.values() for run in side]


def pair(load: Load, gateways: dict[str, Gateway], runner: Runner, turn: int, name: str) -> Pair:
    """A run of each of two gateways, by their databases. The gateways take turns in being the first."""
    order = list(gateways) if turn % 2 == 0 else list(reversed(gateways))
    runs = {database: runner.push(name, gateways[database], database, load) for database in order}
    own, other = (runs[database] for database in gateways)
    print(f"  {own.pushes_per_second:>9,.0f} against {other.pushes_per_second:>9,.0f} pushes/s | CPU µs/push: gateway "
          f"{own.cpu_gateway:,.0f} against {other.cpu_gateway:,.0f}, Postgres {own.cpu_postgres:,.0f} against "
          f"{other.cpu_postgres:,.0f} | others {own.cpu_others:.0%}, {other.cpu_others:.0%}"
          f"{_errors(own)}{_errors(other)}", flush=True)
    return own, other


def _errors(run: Run) -> str:
    return f" | {run.errors} ERRORS: {run.extra.get('complaint', '')[:200]}" if run.errors else ""


def figures_of(name: str, pairs: list[Pair], other: str = "other") -> list[Figure]:
    """A value above 1 is better: a higher rate, less CPU, less WAL."""
    rows = [
        ("", "pushes/s", lambda run: run.pushes_per_second, True),
        ("gateway ", "µs of CPU/push", lambda run: run.cpu_gateway, False),
        ("postgres ", "µs of CPU/push", lambda run: run.cpu_postgres, False),
        ("wal ", "B/mutation", lambda run: run.wal_per_mutation, False),
        ("p99 ", "ms", lambda run: run.p99_ms, False),
    ]
    results = []
    for prefix, unit, value, more_is_better in rows:
        values = [(value(own), value(other)) for own, other in pairs]
        ratios = [a / b if more_is_better else b / a for a, b in values]
        own, against = (median(pair[side] for pair in values) for side in (0, 1))
        results.append(Figure(f"{prefix}{name}", f"{own:,.0f} {unit}", f"{against:,.0f} {other}", median(ratios),
                              (min(ratios), max(ratios))))
    return results
