"""The lower bound of a push's cost: PostgreSQL with exactly the rows that the gateway writes, and the server
library with the same bodies."""

import http.client
import json
from pathlib import Path
from statistics import median

from .build import BENCHMARKS
from .cluster import Cluster
from .deep_lane import Phone
from .figures import PUSHES, Figure
from .gateway import Gateway
from .names import organization
from .runs import Run, Runner
from .servers import Target, is_listening

DATABASE = "floor"
FLOORS = ("push-1", "push-50")
# Clients of pgbench, among which floor.sql divides the lanes.
_CLIENTS = 2
# The CPU of gateway and PostgreSQL, divided by the floor of both.
BAR = 1.3


class Endpoint(Target):
    """Reads the body of each request, and always answers with the same file."""

    name = "EmptyEndpoint"
    secret = "nobody looks"

    def __init__(self, binary: Path, answer: Path, log: Path) -> None:
        super().__init__(log)
        self._binary, self._answer = binary, answer

    def command(self) -> list[str]:
        return [str(self._binary), str(self.port), str(self._answer)]

    def is_ready(self) -> bool:
        return is_listening(self.port)


class Floor:
    """Both floors, made from a gateway's rows and answers."""

    def __init__(self, cluster: Cluster, runner: Runner, endpoint: Path) -> None:
        self._cluster, self._runner, self._endpoint = cluster, runner, endpoint

    def set_up(self, gateway: Gateway, *, age: float) -> None:
        """Fills the database of a separate gateway, stores this gateway's answers, and runs floor.sql."""
        gateway.create_organizations(self._runner.organizations)
        self._runner.push("age", gateway, DATABASE, PUSHES["push-50"], seconds=max(1, age))
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        phone = Phone(gateway, organization(1))
        for name in FLOORS:
            entries = [phone.create(entity_type="activity") for _ in range(PUSHES[name].mutations)]
            _, answer = phone.push(connection, entries)
            self._answer(name).write_text(json.dumps(answer, separators=(",", ":")))
        connection.close()
        self._cluster.run_file(DATABASE, BENCHMARKS / "floor.sql")
        self._cluster.vacuum(DATABASE)

    def _answer(self, name: str) -> Path:
        return self._cluster.directory / f"answer-{name}.json"

    def rows(self, name: str, like: Run) -> Run:
        """Runs Postgres alone, with as many pushes as in a run of the gateway, so that the tables of both have the same
        age, and with as many pushes per transaction."""
        size, group = PUSHES[name].mutations, round(like.groups.pushes) if like.groups else 1
        pushes = like.pushes_per_second * (self._runner.seconds + self._runner.warm_up)
        return self._runner.pgbench(
            f"floor rows {name}", DATABASE, size, {"pushes": group, "mutations": size}, pushes=group,
            clients=_CLIENTS, calls=max(1, round(pushes / group / _CLIENTS)), script=BENCHMARKS / "floor.pgb",
        )

    def http(self, name: str) -> Run:
        """Runs an empty endpoint in place of the gateway."""
        log = self._cluster.directory / "endpoint.log"
        with Endpoint(self._endpoint, self._answer(name), log) as endpoint:
            return self._runner.push(f"floor http {name}", endpoint, "postgres", PUSHES[name])


def compare(rounds: list[dict[str, Run]]) -> list[Figure]:
    """The cost of pushes, divided by their floors in the same round."""
    figures = []
    for name in FLOORS:
        keys = (name, f"floor rows {name}", f"floor http {name}")
        sets = [[one[key] for key in keys] for one in rounds if all(key in one for key in keys)]
        if not sets:
            continue
        own = [push.cpu_gateway + push.cpu_postgres for push, _, _ in sets]
        floors = [rows.cpu_postgres + http.cpu_gateway for _, rows, http in sets]
        ratios = [cost / least for cost, least in zip(own, floors)]
        rows, server = (median(values) for values in zip(*((r.cpu_postgres, h.cpu_gateway) for _, r, h in sets)))
        figures.append(Figure(
            f"floor {name}", f"{median(own):,.0f} µs/push, gateway and Postgres",
            f"{median(floors):,.0f} µs: rows {rows:,.0f}, HTTP {server:,.0f}", median(ratios),
            (min(ratios), max(ratios)), f"≤ {BAR}", median(ratios) <= BAR,
        ))
    return figures
