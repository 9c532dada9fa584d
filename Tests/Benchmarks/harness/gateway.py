"""A gateway under test."""

import http.client
import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import children, cpu
from .children import Failure


@dataclass(frozen=True)
class Secrets:
    """What gateways on one database must agree on."""

    jwt: str = field(default_factory=lambda: secrets.token_hex(32))
    operator: str = field(default_factory=lambda: secrets.token_hex(32))


class Gateway:
    """`sluice serve` on free ports, started by `with` on a database that it migrates first."""

    def __init__(
        self, binary: Path, uri: str, log: Path, *, shared: Secrets | None = None,
        settings: dict[str, str] | None = None, partitions: int | None = None,
    ) -> None:
        """`settings` are more environment variables; `partitions` are those of the tables that it makes."""
        self._partitions = partitions
        self.port, self.operations_port = free_ports(2)
        self.binary = binary
        """What the next start runs."""
        self._log = log
        self._secrets = shared or Secrets()
        self._process: subprocess.Popen | None = None
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        self._environment = inherited | {
            "SLUICE_DATABASE_URL": uri,
            "SLUICE_PUBLIC_ADDRESS": f"127.0.0.1:{self.port}",
            "SLUICE_OPERATIONS_ADDRESS": f"127.0.0.1:{self.operations_port}",
            "SLUICE_JWT_SECRET": self._secrets.jwt,
            "SLUICE_OPERATOR_TOKEN": self._secrets.operator,
            "SLUICE_LOG_LEVEL": "warning",
        } | (settings or {})

    def __enter__(self) -> "Gateway":
        self.migrate()
        self.start()
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind, *_) -> None:
        # When a run was cut short its client goes first, or the gateway would wait for it.
        if kind:
            children.stop_all()
        else:
            self.stop()

    def migrate(self, binary: Path | None = None) -> str:
        """Brings the schema forward; what the program says."""
        partitions = ["--partitions", str(self._partitions)] if self._partitions else []
        return children.run([str(binary or self.binary), "migrate", *partitions], env=self._environment)

    def start(self) -> None:
        """Starts the process, on the ports that it had before."""
        with self._log.open("a") as log:
            self._process = children.start(
                [str(self.binary), "serve"], env=self._environment, stdout=log, stderr=log
            )

    def stop(self) -> None:
        if self._process:
            children.stop(self._process)

    def send(self, signal: int) -> None:
        """Sends the process a signal."""
        assert self._process
        self._process.send_signal(signal)

    @property
    def status(self) -> int | None:
        """How the process ended, as `subprocess` tells it; None while it runs."""
        return self._process.poll() if self._process else None

    @property
    def secret(self) -> str:
        return self._secrets.jwt

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def cpu(self) -> float:
        """The seconds that the process has used."""
        return cpu.of_process(self.pid)

    def options(self, mutations: int) -> list[str]:
        """The load generator speaks to gateways by itself."""
        return []

    def check(self) -> None:
        """Fails when the gateway has ended."""
        assert self._process
        if self._process.poll() is not None:
            raise Failure(f"sluice ended ({self._process.returncode}):\n{children.tail(self._log)}")

    @property
    def log_tail(self) -> str:
        return children.tail(self._log)

    def create_organizations(self, count: int) -> None:
        """Organizations 1 to `count`, which take any user and any entity type."""
        settings = {"provisioning": "on_first_push", "entity_types": "open"}
        self.administer(
            ("PUT", f"/organizations/{organization(number)}", {"name": f"Organization {number}", "settings": settings})
            for number in range(1, count + 1)
        )

    def administer(self, calls: Iterable[tuple[str, str, dict | None]]) -> None:
        """Makes calls to `/admin`: method, path below it, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.operations_port, timeout=120)
        headers = {"Authorization": f"Bearer {self._secrets.operator}", "Content-Type": "application/json"}
        for method, path, body in calls:
            connection.request(method, f"/admin{path}", None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
            if not 200 <= response.status < 300:
                raise Failure(f"{method} /admin{path} was answered {response.status}: {text}")
        connection.close()

    def metrics(self) -> dict[str, float]:
        """What a scrape shows, by name and labels as they stand in the line."""
        connection = http.client.HTTPConnection("127.0.0.1", self.operations_port, timeout=120)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            self.check()
            connection = http.client.HTTPConnection("127.0.0.1", self.operations_port, timeout=30)
            try:
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            finally:
                connection.close()
            time.sleep(0.05)
        raise Failure(f"sluice does not get ready:\n{self.log_tail}")


def organization(number: int) -> str:
    """The id of an organization, as LoadGenerator and ceiling.pgb number them."""
    return f"00000000-0000-4000-8000-{number:012d}"


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; all different, as all are held until the last is found."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
