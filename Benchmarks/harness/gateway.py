"""A gateway under test."""

import http.client
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from . import children
from .children import Failure
from .names import organization
from .servers import Target, free_ports, status_of


@dataclass(frozen=True)
class Secrets:
    """The settings that gateways on one database share."""

    jwt: str = field(default_factory=lambda: secrets.token_hex(32))
    operator: str = field(default_factory=lambda: secrets.token_hex(32))


class Gateway(Target):
    """`sluice serve` on free ports, on a database that it migrates first."""

    name = "sluice"
    patience = 300.0

    def __init__(
        self, binary: Path, uri: str, log: Path, *, shared: Secrets | None = None,
        settings: dict[str, str] | None = None, partitions: int | None = None,
    ) -> None:
        """`settings` are additional environment variables; `partitions` is the number of partitions of new tables."""
        port, self.operations_port = free_ports(2)
        super().__init__(log, port)
        self._partitions = partitions
        self.binary = binary
        """The binary of the next start."""
        self._secrets = shared or Secrets()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        self.environment = inherited | {
            "SLUICE_DATABASE_URL": uri,
            "SLUICE_PUBLIC_ADDRESS": f"127.0.0.1:{self.port}",
            "SLUICE_OPERATIONS_ADDRESS": f"127.0.0.1:{self.operations_port}",
            "SLUICE_JWT_SECRET": self._secrets.jwt,
            "SLUICE_OPERATOR_TOKEN": self._secrets.operator,
            "SLUICE_LOG_LEVEL": "warning",
        } | (settings or {})

    def __exit__(self, kind, *_) -> None:
        # If a run was interrupted, its client stops first, or the gateway would wait for it.
        if kind:
            children.stop_all()
        else:
            self.stop()

    def prepare(self) -> None:
        self.migrate()

    def migrate(self, binary: Path | None = None) -> str:
        """Upgrades the schema; returns the program's output."""
        partitions = ["--partitions", str(self._partitions)] if self._partitions else []
        return children.run([str(binary or self.binary), "migrate", *partitions], env=self.environment)

    def command(self) -> list[str]:
        return [str(self.binary), "serve"]

    @property
    def secret(self) -> str:
        return self._secrets.jwt

    def create_organizations(self, count: int) -> None:
        """Organizations 1 to `count`, which accept any user and any entity type."""
        settings = {"provisioning": "on_first_push", "entity_types": "open"}
        self.administer(
            ("PUT", f"/organizations/{organization(number)}", {"name": f"Organization {number}", "settings": settings})
            for number in range(1, count + 1)
        )

    def administer(self, calls: Iterable[tuple[str, str, dict | None]]) -> dict | None:
        """Makes calls to `/admin`: a method, a path below it, and a body. Returns the last response's JSON."""
        text = ""
        connection = http.client.HTTPConnection("127.0.0.1", self.operations_port, timeout=120)
        headers = {"Authorization": f"Bearer {self._secrets.operator}", "Content-Type": "application/json"}
        for method, path, body in calls:
            connection.request(method, f"/admin{path}", None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
            if not 200 <= response.status < 300:
                raise Failure(f"{method} /admin{path} was answered {response.status}: {text}")
        connection.close()
        return json.loads(text) if text else None

    def metrics(self) -> dict[str, float]:
        """The values of a scrape, by the name and the labels as written in the line."""
        connection = http.client.HTTPConnection("127.0.0.1", self.operations_port, timeout=120)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def is_ready(self) -> bool:
        return status_of(self.operations_port, "/readyz") == 200
