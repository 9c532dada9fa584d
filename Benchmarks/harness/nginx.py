"""An upstream that answers immediately."""

import os
import shutil
import signal
from pathlib import Path

from .children import Failure
from .servers import Server, free_ports, is_listening

# One process, so that its CPU is easy to measure.
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


class Nginx(Server):
    """Answers every request 201 with a new id."""

    name = "nginx"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "nginx.log")
        self._program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if not self._program:
            raise Failure("nginx was not found; 'scripts/bootstrap --bench' installs it on Debian")
        self.port = free_ports(1)[0]
        self._directory = directory

    def prepare(self) -> None:
        self._configuration.write_text(CONFIGURATION.format(directory=self._directory, port=self.port))

    def command(self) -> list[str]:
        return [self._program, "-p", str(self._directory), "-c", str(self._configuration)]

    def is_ready(self) -> bool:
        return is_listening(self.port)

    def stop(self) -> None:
        if self._process:
            # a suspended process would not receive the signal
            self.hold(False)
        super().stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def hold(self, held: bool) -> None:
        """Suspends the process, which leaves requests unanswered, or resumes it."""
        self.send(signal.SIGSTOP if held else signal.SIGCONT)

    @property
    def _configuration(self) -> Path:
        return self._directory / "nginx.conf"
