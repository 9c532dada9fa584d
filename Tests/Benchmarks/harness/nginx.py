"""An upstream that answers at once."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from . import children
from .children import Failure
from .gateway import free_ports

# One process, so that its CPU is easy to tell.
CONFIGURATION = """
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log {directory}/nginx-errors.log warn;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    client_body_temp_path {directory}/nginx-bodies;
    proxy_temp_path {directory}/nginx-proxy;
    fastcgi_temp_path {directory}/nginx-fastcgi;
    uwsgi_temp_path {directory}/nginx-uwsgi;
    scgi_temp_path {directory}/nginx-scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        default_type application/json;
        location / {{ return 201 '{{"id":"$request_id"}}'; }}
    }}
}}
"""


class Nginx:
    """Answers every request 201 with a new id. Started by `with`."""

    def __init__(self, directory: Path) -> None:
        self._program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if not self._program:
            raise Failure("nginx was not found; 'scripts/bootstrap --bench' installs it on Debian")
        self.port = free_ports(1)[0]
        self._directory = directory
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "Nginx":
        configuration = self._directory / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(directory=self._directory, port=self.port))
        log = self._directory / "nginx.log"
        with log.open("w") as output:
            self._process = children.start(
                [self._program, "-p", str(self._directory), "-c", str(configuration)], stdout=output, stderr=output
            )
        for _ in range(200):
            if self._process.poll() is not None:
                raise Failure(f"nginx ended:\n{children.tail(log)}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.02)
        raise Failure("nginx does not start")

    def __exit__(self, *_) -> None:
        if self._process:
            self._process.send_signal(signal.SIGCONT)
            children.stop(self._process)

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def hold(self, held: bool) -> None:
        """Takes requests and leaves them unanswered, or goes on answering."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP if held else signal.SIGCONT)
