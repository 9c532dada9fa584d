"""A gateway under test."""

import http.client
import json
import os
import secrets
import socket
import subprocess
import time
from pathlib import Path

from . import children
from .children import Failure


class Gateway:
    """`sluice serve` on free ports, started by `with` on a database that it migrates first."""

    def __init__(self, binary: Path, uri: str, log: Path) -> None:
        self.port, self.operations_port = _free_ports(2)
        self.secret = secrets.token_hex(32)
        self._binary = binary
        self._log = log
        self._operator_token = secrets.token_hex(32)
        self._process: subprocess.Popen | None = None
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        self._environment = inherited | {
            "SLUICE_DATABASE_URL": uri,
            "SLUICE_PUBLIC_ADDRESS": f"127.0.0.1:{self.port}",
            "SLUICE_OPERATIONS_ADDRESS": f"127.0.0.1:{self.operations_port}",
            "SLUICE_JWT_SECRET": self.secret,
            "SLUICE_OPERATOR_TOKEN": self._operator_token,
            "SLUICE_LOG_LEVEL": "warning",
        }

    def __enter__(self) -> "Gateway":
        children.run([str(self._binary), "migrate"], env=self._environment)
        with self._log.open("w") as log:
            self._process = children.start(
                [str(self._binary), "serve"], env=self._environment, stdout=log, stderr=log
            )
        try:
            self._wait_until_ready()
        except BaseException:
            children.stop(self._process)
            raise
        return self

    def __exit__(self, kind, *_) -> None:
        # When a run was cut short its client goes first, or the gateway would wait for it.
        if kind:
            children.stop_all()
        elif self._process:
            children.stop(self._process)

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

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
        connection = http.client.HTTPConnection("127.0.0.1", self.operations_port, timeout=30)
        headers = {"Authorization": f"Bearer {self._operator_token}", "Content-Type": "application/json"}
        settings = {"provisioning": "on_first_push", "entity_types": "open"}
        for number in range(1, count + 1):
            path = f"/admin/organizations/00000000-0000-4000-8000-{number:012d}"
            body = json.dumps({"name": f"Organization {number}", "settings": settings})
            connection.request("PUT", path, body, headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
            if response.status not in (200, 201):
                raise Failure(f"PUT {path} was answered {response.status}: {text}")
        connection.close()

    def _wait_until_ready(self) -> None:
        for _ in range(600):
            self.check()
            connection = http.client.HTTPConnection("127.0.0.1", self.operations_port, timeout=5)
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


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; all different, as all are held until the last is found."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
