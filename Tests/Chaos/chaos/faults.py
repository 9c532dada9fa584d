"""Faults of the gateways and their database, derived from a seed."""

import json
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.cluster import Cluster
from harness.gateway import Gateway

KINDS = ("kill", "terminate", "pause", "restart_database", "drop_connections")
# After SIGTERM a gateway exits with status 0 within this time.
PATIENCE = 60.0


@dataclass(frozen=True)
class Fault:
    """The time, counted from the start, and the kind. The gateway is chosen when the fault begins."""

    after: float
    kind: str


def timeline(seed: int, seconds: float, lease: float) -> list[Fault]:
    """A cycle of all kinds, shuffled again in each round. In longer runs, the pauses are longer."""
    source = random.Random(f"{seed}/faults")
    gap = min(2.5, (seconds - lease) / 7)
    faults: list[Fault] = []
    after, kinds = 1.0, []
    while after < seconds - lease:
        if not kinds:
            kinds = source.sample(KINDS, len(KINDS))
            # A pause takes long, so it comes first in a short run.
            if not faults:
                kinds.sort(key=lambda kind: kind == "pause")
        faults.append(Fault(after, kinds.pop()))
        after += gap * source.uniform(0.5, 1.5)
    return faults


class Trouble:
    """Starts faults when they are scheduled, and otherwise keeps the gateways running. Call it often."""

    def __init__(self, cluster: Cluster, database: str, gateways: list[Gateway], lease: float, seed: int,
                 log: Path, before_start: Callable[[Gateway], None] = lambda _: None) -> None:
        self._cluster, self._database, self._gateways, self._lease = cluster, database, gateways, lease
        self._random = random.Random(f"{seed}/trouble")
        self._before_start = before_start
        self._log = log.open("w")
        self._due: list[tuple[float, int, str]] = []
        """The time, the gateway and the kind of a follow-up to a fault."""
        self._state = ["up"] * len(gateways)
        self._ending_since = [0.0] * len(gateways)
        self.counts = dict.fromkeys(KINDS, 0)

    def strike(self, kind: str) -> bool:
        """Starts a fault. Returns false if no gateway is available for it."""
        able = [index for index, state in enumerate(self._state) if state == "up"]
        if kind == "kill":
            able += [index for index, state in enumerate(self._state) if state == "paused"]
        if kind in ("kill", "terminate", "pause"):
            if not able:
                return False
            self._strike_gateway(kind, self._random.choice(able))
        elif kind == "restart_database":
            self._write(kind)
            self._cluster.restart()
        else:
            self._write(kind)
            self._drop_connections()
        self.counts[kind] += 1
        return True

    def attend(self) -> None:
        """Starts scheduled faults, and restarts gateways that have exited."""
        now = time.monotonic()
        due = [entry for entry in self._due if entry[0] <= now]
        self._due = [entry for entry in self._due if entry[0] > now]
        for _, index, what in due:
            if what == "start":
                self._start(index)
            elif self._state[index] == "paused":
                self._continue(index)
        for index, gateway in enumerate(self._gateways):
            self._look_after(index, gateway, now)

    def calm(self) -> None:
        """Ends all faults, so that everything runs."""
        while any(state != "up" for state in self._state):
            for index, state in enumerate(self._state):
                if state == "paused":
                    self._continue(index)
            self.attend()
            time.sleep(0.02)
        for gateway in self._gateways:
            gateway.wait_until_ready()
        self._write("calm")

    def close(self) -> None:
        self._log.close()

    # Gateways

    def _strike_gateway(self, kind: str, index: int) -> None:
        self._write(kind, index)
        now = time.monotonic()
        if kind == "pause":
            self._gateways[index].send(signal.SIGSTOP)
            self._state[index] = "paused"
            # Long enough for the other gateway to detect expired leases and claim the lanes.
            self._due.append((now + self._lease + self._random.uniform(1.5, 3), index, "continue"))
        elif kind == "kill":
            self._state[index] = "killed"
            self._gateways[index].send(signal.SIGKILL)
        else:
            self._state[index] = "ending"
            self._ending_since[index] = now
            self._gateways[index].send(signal.SIGTERM)

    def _continue(self, index: int) -> None:
        self._write("continue", index)
        self._state[index] = "up"
        self._gateways[index].send(signal.SIGCONT)

    def _look_after(self, index: int, gateway: Gateway, now: float) -> None:
        state, status = self._state[index], gateway.status
        if state == "waiting":
            return
        if status is None:
            if state == "ending" and now > self._ending_since[index] + PATIENCE:
                self._complain(f"gateway {index} has not ended {PATIENCE:g} s after SIGTERM")
                self._state[index] = "killed"
                gateway.send(signal.SIGKILL)
            return
        # A gateway that receives a signal during its start may not handle it yet.
        expected = {"ending": (0, -signal.SIGTERM), "killed": (-signal.SIGKILL,)}.get(state, ())
        if status not in expected:
            self._complain(f"gateway {index} ended with {status}:\n{gateway.log_tail}")
        self._state[index] = "waiting"
        self._due.append((now + self._random.uniform(0.2, 1.0), index, "start"))

    def _start(self, index: int) -> None:
        self._write("start", index)
        self._before_start(self._gateways[index])
        self._gateways[index].start()
        self._state[index] = "up"

    def _drop_connections(self) -> None:
        self._cluster.query(
            "postgres",
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            f" where datname = '{self._database}' and random() < {self._random.choice([0.3, 1.0])}",
        )

    # Signals

    def _complain(self, what: str) -> None:
        self._write("complaint", what=what)

    def _write(self, kind: str, gateway: int | None = None, **members: str) -> None:
        entry = {"is": kind, "at": time.monotonic(), "gateway": gateway} | members
        self._log.write(json.dumps(entry) + "\n")
        self._log.flush()
