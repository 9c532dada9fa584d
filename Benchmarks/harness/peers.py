"""Alternatives to a gateway, on the same PostgreSQL server and under the same load."""

import base64
import http.client
import os
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from . import children, cpu
from .build import BENCHMARKS, ROOT
from .children import Failure
from .cluster import Cluster
from .figures import PUSHES, Figure
from .names import organization, user_of
from .runs import USERS, Load, Run, Runner
from .servers import Target, status_of

FILES = BENCHMARKS / "peers"
ENVIRONMENT = ROOT / ".build-peers"
PEERS = ("starlette", "starlette_full", "kinto")
# The gateway's loads in addition to the usual pushes.
CROWDED = {"push-1 at 512": Load(mutations=1, connections=512)}
LOADS = {"push-1": PUSHES["push-1"], **CROWDED, "push-50": PUSHES["push-50"]}
# The gateway's rate is at least this factor of the rate of a team's own endpoint.
BARS = {
    "starlette": {"push-1": 5.0, "push-1 at 512": 5.0, "push-50": 1.2},
    "starlette_full": {"push-1": 3.0, "push-50": 1.5},
}
# A placeholder for each id, which the load generator replaces with a new one.
_EMPTY = "00000000-0000-4000-8000-000000000000"


class Peer(Target):
    """A server of Python processes, with a separate database."""

    folder = FILES

    def __init__(self, cluster: Cluster, organizations: int) -> None:
        """`organizations` is the number of organizations that push."""
        super().__init__(cluster.directory / f"{self.name}.log")
        self.environment = os.environ | {"DSN": cluster.uri(self.name)}
        self._cluster, self._organizations = cluster, organizations

    def prepare(self) -> None:
        self._cluster.create_database(self.name)

    def is_ready(self) -> bool:
        return status_of(self.port, "/") is not None

    def cpu(self) -> float:
        return cpu.of_server(self.pid)

    def run(self, name: str, runner: Runner, *, seconds: float | None = None) -> Run:
        """Runs one of the loads."""
        return runner.push(f"{self.name} {name}", self, self.name, LOADS[name], seconds=seconds)

    def _file(self, name: str, lines: Iterable[str]) -> Path:
        """Writes a file of these lines."""
        file = self._cluster.directory / f"{self.name}-{name}"
        file.write_text("".join(f"{line}\n" for line in lines))
        return file


class Starlette(Peer):
    """A push endpoint in Python: two processes, with set-based SQL."""

    name, module = "starlette", "starlette_push"

    def prepare(self) -> None:
        super().prepare()
        self._cluster.run_file(self.name, FILES / f"{self.module}.sql")
        names = (
            (organization(number), user_of(number, user))
            for user in range(1, USERS + 1) for number in range(1, self._organizations + 1)
        )
        self._tokens_file = self._file("tokens", (f"{where} {user} {where}/{user}" for where, user in names))

    def command(self) -> list[str]:
        return [
            f"{ENVIRONMENT}/bin/uvicorn", f"{self.module}:app", "--workers", "2", "--loop", "uvloop",
            "--http", "httptools", "--port", str(self.port), "--log-level", "warning", "--no-access-log",
            "--backlog", "4096",
        ]

    def options(self, mutations: int) -> list[str]:
        return ["--path", "/push", "--tokens-file", str(self._tokens_file)]


class StarletteFull(Starlette):
    """The same, with all rows that the gateway writes."""

    name, module = "starlette_full", "starlette_full"


class Kinto(Peer):
    """A generic store with batches: two processes of eight threads, a bucket for each user."""

    name = "kinto"
    _USERS = 64
    _PATH = "/v1/buckets/default/collections/activities/records"

    def prepare(self) -> None:
        super().prepare()
        url = f"postgresql://postgres@/{self.name}?host={self._cluster.directory}"
        self._configuration = self._file("configuration.ini", [(FILES / "kinto.ini").read_text().replace("{url}", url)])
        children.run([f"{ENVIRONMENT}/bin/kinto", "migrate", "--ini", str(self._configuration)])
        self._tokens = [base64.b64encode(f"user{number}:secret".encode()).decode() for number in range(self._USERS)]
        self._tokens_file = self._file("tokens", (f"- {_EMPTY} {token}" for token in self._tokens))
        entry = (
            f'{{"id":"{_EMPTY}","title":"hello world","contact_id":"{_EMPTY}","amount":12.5,'
            f'"notes":"{"lorem ipsum " * 7}","tags":["a","b"],"done":false}}'
        )
        defaults = f'"defaults":{{"method":"POST","path":"{self._PATH}"}}'
        self._single = self._file("single", ['{"data":', entry, "}"])
        self._batch = self._file("batch", [f'{{{defaults},"requests":[', f'{{"body":{{"data":{entry}}}}}', "]}"])

    def command(self) -> list[str]:
        return [
            f"{ENVIRONMENT}/bin/gunicorn", "--paste", str(self._configuration), "--workers", "2", "--threads", "8",
            "--keep-alive", "60", "--backlog", "4096", "--bind", f"127.0.0.1:{self.port}", "--log-level", "warning",
        ]

    def run(self, name: str, runner: Runner, *, seconds: float | None = None) -> Run:
        if LOADS[name].mutations == 1:
            return super().run(name, runner, seconds=seconds)
        # Seconds pass before the first of these batches is answered, so they are timed from the first to the last.
        return runner.push(f"{self.name} {name}", self, self.name, LOADS[name], seconds=300, pushes=64)

    def options(self, mutations: int) -> list[str]:
        common = ["--scheme", "Basic", "--tokens-file", str(self._tokens_file)]
        if mutations == 1:
            form = ["--path", self._PATH, "--status", "201", "--success", '"last_modified":']
            return [*common, *form, "--body", str(self._single)]
        return [*common, "--path", "/v1/batch", "--success", '"status":201', "--body", str(self._batch)]

    def wait_until_ready(self) -> None:
        super().wait_until_ready()
        self._make_buckets()

    def _make_buckets(self) -> None:
        """Sends each user's first request, which creates the user's bucket and takes long."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        for token in self._tokens:
            connection.request("PUT", self._PATH.removesuffix("/records"), headers={"Authorization": f"Basic {token}"})
            response = connection.getresponse()
            text = response.read().decode()
            if response.status not in (200, 201):
                raise Failure(f"kinto answered {response.status}: {text}\n{self.log_tail}")
        connection.close()


def compare(rounds: list[dict[str, Run]]) -> list[Figure]:
    """The gateway's rate, divided by a peer's in the same round."""
    figures = []
    for peer in PEERS:
        for name in LOADS:
            pairs = [(one[name], one[f"{peer} {name}"]) for one in rounds if name in one and f"{peer} {name}" in one]
            if not pairs:
                continue
            own, other = (median(pair[side].mutations_per_second for pair in pairs) for side in (0, 1))
            ratios = [mine.mutations_per_second / theirs.mutations_per_second for mine, theirs in pairs]
            figure = Figure(f"peer {peer} {name}", f"{own:,.0f} mutations/s", f"{other:,.0f} {peer}", median(ratios),
                            (min(ratios), max(ratios)))
            if bar := BARS.get(peer, {}).get(name):
                figure.bar, figure.met = f"≥ {bar:g}", figure.ratio >= bar
            figures.append(figure)
    return figures
