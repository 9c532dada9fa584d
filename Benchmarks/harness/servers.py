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
    """A child that serves, and writes to a log what goes wrong. Started by `with`, which goes on once it is ready."""

    name: str
    """What failures call it."""
    stop_with = signal.SIGTERM
    patience = 60.0
    """The seconds that it may take to get ready."""
    environment: dict[str, str] | None = None
    """None for this process' own."""
    folder: Path | None = None
    """Where it runs; None for this process' own."""

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

    # What each kind says of itself

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self) -> bool:
        raise NotImplementedError

    def prepare(self) -> None:
        """What has to be done before the first start."""

    # What is done with all of them

    def start(self) -> None:
        """Starts the process, which may take a while to get ready; also anew, on the same port."""
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
        """Fails when it has ended."""
        if self.status is not None:
            raise Failure(f"{self.name} ended ({self.status}):\n{self.log_tail}")

    @property
    def status(self) -> int | None:
        """How the process ended, as `subprocess` tells it; None while it runs."""
        return self._process.poll() if self._process else None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    @property
    def log_tail(self) -> str:
        """The end of its log."""
        return children.tail(self.log)

    def cpu(self) -> float:
        """The seconds that it has used."""
        return cpu.of_process(self.pid)


class Target(Server):
    """A server that pushes are sent to: a gateway, or something that it is compared with."""

    secret = ""
    """Signs the tokens of the load."""

    def __init__(self, log: Path, port: int | None = None) -> None:
        super().__init__(log)
        self.port = port or free_ports(1)[0]

    def options(self, mutations: int) -> list[str]:
        """The load generator's, for pushes with so many mutations; none for a gateway, which it speaks to by itself."""
        return []

    def metrics(self) -> dict[str, float]:
        """What it counts, if anything, by name and labels."""
        return {}


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def status_of(port: int, path: str) -> int | None:
    """What a GET is answered; None where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


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
