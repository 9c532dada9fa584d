"""A private PostgreSQL server that is removed with its directory."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from . import children
from .children import Failure
from .servers import Server

# The server is the same for the gateway and for the programs with which it is compared. Commits are flushed, as in
# production.
# Vacuum runs only between rounds, so that it affects no run by chance.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "max_connections": "200",
    "autovacuum": "off",
    "log_min_messages": "warning",
}


class Cluster(Server):
    """Databases are reached by a Unix socket in `directory`, which is removed when the server stops."""

    name = "postgres"
    # Stops immediately, without a last checkpoint of data that is not needed.
    stop_with = signal.SIGQUIT
    patience = 300.0

    def __init__(self, **settings: str) -> None:
        """`settings` precede those above."""
        self.binaries = _find_binaries()
        self._settings = SETTINGS | settings
        self.directory = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
        self._as_user = _hand_over(self.directory)
        self.folder = self.directory
        super().__init__(self.directory / "postgres.log")

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_) -> None:
        super().__exit__()
        self.remove()

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self) -> None:
        """Restarts the server as after a crash: clients are disconnected, and the server recovers."""
        self.stop()
        self.start()
        self.wait_until_ready()

    @property
    def version(self) -> str:
        return self.query("postgres", "show server_version")

    def uri(self, database: str) -> str:
        return f"postgresql:///{database}?host={self.directory}&user=postgres"

    def create_database(self, name: str) -> None:
        self.query("postgres", f'create database "{name}"')

    def query(self, database: str, sql: str) -> str:
        """Runs SQL; returns its output, unaligned."""
        return self._psql(database, "--command", sql)

    def run_file(self, database: str, file: Path) -> None:
        self._psql(database, "--file", str(file))

    def vacuum(self, *databases: str) -> None:
        for database in databases:
            self.query(database, "vacuum (analyze)")

    def wal_position(self) -> int:
        """The bytes of write-ahead log so far."""
        return int(self.query("postgres", "select pg_current_wal_insert_lsn() - '0/0'"))

    def last_checkpoint(self) -> str:
        """The position of the last checkpoint, which changes whenever a checkpoint has ended."""
        return self.query("postgres", "select checkpoint_lsn from pg_control_checkpoint()")

    def client(self, program: str, database: str, *arguments: str) -> list[str]:
        """A client program of this server's version."""
        return [f"{self.binaries}/{program}", "-h", str(self.directory), "-U", "postgres", *arguments, database]

    def _psql(self, database: str, *arguments: str) -> str:
        command = self.client("psql", database, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *arguments)
        return children.run(command).strip()

    def prepare(self) -> None:
        children.run([
            *self._as_user, f"{self.binaries}/initdb", f"--pgdata={self.directory}/data", "--username=postgres",
            "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions",
        ], cwd=self.directory)

    def command(self) -> list[str]:
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        return [
            *self._as_user, f"{self.binaries}/postgres", "-D", f"{self.directory}/data", "-k", str(self.directory),
            *settings,
        ]

    def is_ready(self) -> bool:
        command = [f"{self.binaries}/pg_isready", "-q", "-h", str(self.directory)]
        return subprocess.run(command, check=False).returncode == 0


def _find_binaries() -> Path:
    """Debian's folders first (the newest version), then PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("[0-9]*/bin"), key=lambda path: -int(path.parent.name))
    if found := shutil.which("pg_ctl"):
        folders.append(Path(found).resolve().parent)
    for folder in folders:
        if all((folder / name).exists() for name in ("initdb", "postgres", "psql", "pgbench")):
            return folder
    raise Failure("no PostgreSQL server with pgbench was found; 'scripts/bootstrap --bench' installs it on Debian")


def _hand_over(directory: Path) -> list[str]:
    """PostgreSQL refuses to run as root, so root gives the directory to another user; returns the command prefix."""
    # A change of user clears the parent-death signal, so setpriv sets it again.
    if os.geteuid() != 0:
        return []
    names = [os.environ.get("SLUICE_POSTGRES_OS_USER"), "postgres", "nobody"]
    for name in filter(None, names):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(directory, user.pw_uid, user.pw_gid)
        return [
            "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig", "QUIT",
        ]
    raise Failure("root can't run postgres, and there is no user postgres or nobody")
