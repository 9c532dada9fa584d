"""What others would have taken instead of a gateway, on the same PostgreSQL server and under the same load."""

import base64
import http.client
import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from . import children, cpu
from .build import BENCHMARKS, ROOT
from .children import Failure
from .cluster import Cluster
from .figures import PUSHES, Figure
from .gateway import free_ports, organization
from .runs import USERS, Load, Run, Runner

FILES = BENCHMARKS / "peers"
ENVIRONMENT = ROOT / ".build-peers"
PEERS = ("starlette", "kinto")
# What the gateway is asked beside the usual pushes.
CROWDED = {"push-1 at 512": Load(mutations=1, connections=512)}
LOADS = {"push-1": PUSHES["push-1"], **CROWDED, "push-50": PUSHES["push-50"]}
# At least so many times the rate of a team's own endpoint.
BARS = {"push-1": 5.0, "push-1 at 512": 5.0, "push-50": 1.2}
_EMPTY = "00000000-0000-4000-8000-000000000000"


class Peer:
    """A server of Python processes on a free port, with a database of its own. Started by `with`."""

    name: str
    secret = ""

    def __init__(self, cluster: Cluster) -> None:
        self.port = free_ports(1)[0]
        self._cluster = cluster
        self._directory = cluster.directory
        self._log = self._directory / f"{self.name}.log"
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "Peer":
        self._cluster.create_database(self.name)
        self._prepare()
        environment = os.environ | {"DSN": self._cluster.uri(self.name)}
        with self._log.open("a") as log:
            self._process = children.start(self._command(), stdout=log, stderr=log, env=environment, cwd=FILES)
        for _ in range(600):
            self.check()
            if self._answers():
                self._warm_up()
                return self
            time.sleep(0.05)
        raise Failure(f"{self.name} does not start:\n{self.log_tail}")

    def __exit__(self, *_) -> None:
        if self._process:
            children.stop(self._process)

    def cpu(self) -> float:
        assert self._process
        return cpu.of_server(self._process.pid)

    def check(self) -> None:
        assert self._process
        if self._process.poll() is not None:
            raise Failure(f"{self.name} ended:\n{self.log_tail}")

    @property
    def log_tail(self) -> str:
        return children.tail(self._log)

    def options(self, mutations: int) -> list[str]:
        raise NotImplementedError

    def run(self, name: str, runner: Runner, *, seconds: float | None = None) -> Run:
        """One of the loads."""
        return runner.push(f"{self.name} {name}", self, self.name, LOADS[name], seconds=seconds)

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _prepare(self) -> None:
        """What has to be done before the start."""

    def _warm_up(self) -> None:
        """What has to be done after it."""

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
            return True
        except OSError:
            return False
        finally:
            connection.close()

    def _write_users(self, lines: Iterable[str]) -> Path:
        file = self._directory / f"{self.name}-users"
        file.write_text("".join(f"{line}\n" for line in lines))
        return file


class Starlette(Peer):
    """A push in Python: two processes, set-based SQL."""

    name = "starlette"

    def _prepare(self) -> None:
        self._cluster.run_file(self.name, FILES / "starlette_push.sql")
        names = (
            (organization(number), f"00000000-0000-4000-9000-{number * 1000 + user:012d}")
            for user in range(1, USERS + 1) for number in range(1, 201)
        )
        self._users = self._write_users(f"{where} {user} {where}/{user}" for where, user in names)

    def _command(self) -> list[str]:
        return [
            f"{ENVIRONMENT}/bin/uvicorn", "starlette_push:app", "--workers", "2", "--loop", "uvloop",
            "--http", "httptools", "--port", str(self.port), "--log-level", "warning", "--no-access-log",
            "--backlog", "4096",
        ]

    def options(self, mutations: int) -> list[str]:
        return ["--path", "/push", "--tokens-file", str(self._users)]


class Kinto(Peer):
    """A generic store with batches: two processes of eight threads, a bucket for each user."""

    name = "kinto"
    _USERS = 64
    _PATH = "/v1/buckets/default/collections/activities/records"

    def _prepare(self) -> None:
        url = f"postgresql://postgres@/{self.name}?host={self._directory}"
        self._configuration = self._directory / "kinto.ini"
        self._configuration.write_text((FILES / "kinto.ini").read_text().replace("{url}", url))
        children.run([f"{ENVIRONMENT}/bin/kinto", "migrate", "--ini", str(self._configuration)])
        self._tokens = [base64.b64encode(f"user{number}:secret".encode()).decode() for number in range(self._USERS)]
        self._users = self._write_users(f"- {_EMPTY} {token}" for token in self._tokens)
        entry = (
            f'{{"id":"{_EMPTY}","title":"hello world","contact_id":"{_EMPTY}","amount":12.5,'
            f'"notes":"{"lorem ipsum " * 7}","tags":["a","b"],"done":false}}'
        )
        defaults = f'"defaults":{{"method":"POST","path":"{self._PATH}"}}'
        bodies = {
            "single": ('{"data":', entry, "}"),
            "batch": (f'{{{defaults},"requests":[', f'{{"body":{{"data":{entry}}}}}', "]}"),
        }
        for name, lines in bodies.items():
            (self._directory / f"kinto-{name}").write_text("\n".join(lines) + "\n")

    def _command(self) -> list[str]:
        return [
            f"{ENVIRONMENT}/bin/gunicorn", "--paste", str(self._configuration), "--workers", "2", "--threads", "8",
            "--keep-alive", "60", "--backlog", "4096", "--bind", f"127.0.0.1:{self.port}", "--log-level", "warning",
        ]

    def run(self, name: str, runner: Runner, *, seconds: float | None = None) -> Run:
        if LOADS[name].mutations == 1:
            return super().run(name, runner, seconds=seconds)
        # Seconds pass before the first of so many batches is answered, so these are timed from the first to the last.
        return runner.push(f"{self.name} {name}", self, self.name, LOADS[name], seconds=300, pushes=64)

    def options(self, mutations: int) -> list[str]:
        common = ["--scheme", "Basic", "--tokens-file", str(self._users)]
        if mutations == 1:
            form = ["--path", self._PATH, "--status", "201", "--success", '"last_modified":', "--body"]
            return [*common, *form, str(self._directory / "kinto-single")]
        form = ["--path", "/v1/batch", "--success", '"status":201', "--body", str(self._directory / "kinto-batch")]
        return [*common, *form]

    def _warm_up(self) -> None:
        """A user's first request makes the bucket."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        for token in self._tokens:
            connection.request("PUT", self._PATH.removesuffix("/records"), headers={"Authorization": f"Basic {token}"})
            response = connection.getresponse()
            text = response.read().decode()
            if response.status not in (200, 201):
                raise Failure(f"kinto answered {response.status}: {text}\n{self.log_tail}")
        connection.close()


def compare(rounds: list[dict[str, Run]]) -> list[Figure]:
    """The gateway's rate, against a peer's in the same round."""
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
            if peer == "starlette":
                figure.bar, figure.met = f"≥ {BARS[name]:g}", figure.ratio >= BARS[name]
            figures.append(figure)
    return figures
