"""Child processes that serve until they are stopped."""

import http.client
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from . import children, cpu
from .children import Failure


class Server:
    """A child that serves, and logs its errors. `with` starts the child, and continues once it is ready."""

    name: str
    """Its name in failures."""
    stop_with = signal.SIGTERM
    patience = 60.0
    """The longest time until it is ready, in seconds."""
    environment: dict[str, str] | None = None
    """None for the environment of this process."""
    folder: Path | None = None
    """Its working directory; None for this process' own."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    # The properties of each kind

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self) -> bool:
        raise NotImplementedError

    def prepare(self) -> None:
        """The preparation of the first start."""

    # The common operations

    def start(self) -> None:
        """Starts the process, which may take a while to get ready. After a stop, starts it again on the same port."""
        with self.log.open("a") as log:
            self._process = children.start(
                self.command(), stop_with=self.stop_with, stdout=log, stderr=log, env=self.environment, cwd=self.folder
            )

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + self.patience
        while True:
            self.check()
            if self.is_ready():
                return
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} does not get ready:\n{self.log_tail}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process:
            children.stop(self._process)

    def send(self, number: int) -> None:
        """Sends the process a signal."""
        assert self._process
        self._process.send_signal(number)

    def check(self) -> None:
        """Fails if the process has ended."""
        if self.status is not None:
            raise Failure(f"{self.name} ended ({self.status}):\n{self.log_tail}")

    @property
    def status(self) -> int | None:
        """The exit status of the process, as `subprocess` returns it; None while it runs."""
        return self._process.poll() if self._process else None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    @property
    def log_tail(self) -> str:
        """The end of the process's log."""
        return children.tail(self.log)

    def cpu(self) -> float:
        """The CPU seconds that the process has used."""
        return cpu.of_process(self.pid)


class Target(Server):
    """A server that receives pushes: a gateway, or an alternative to it."""

    secret = ""
    """Signs the tokens of the load."""

    def __init__(self, log: Path, port: int | None = None) -> None:
        super().__init__(log)
        self.port = port or free_ports(1)[0]

    def options(self, mutations: int) -> list[str]:
        """The load generator's options, for pushes with this number of mutations; empty for a gateway, whose
        protocol it uses by default."""
        return []

    def metrics(self) -> dict[str, float]:
        """The target's counters, if it has any, by name and labels."""
        return {}


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def status_of(port: int, path: str) -> int | None:
    """The response to a GET; None if no server answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def free_ports(count: int) -> list[int]:
    """Ports without a listener; all different, because all are held until the last is found."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
