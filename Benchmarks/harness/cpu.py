"""The resource use of processes, from /proc."""

import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    # The second field, the name, is in parentheses and may contain anything, so the result begins with field 3.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def of_process(pid: int, *, with_ended_children: bool = False) -> float:
    """CPU seconds, user and system; on request with those of children that have ended."""
    fields = _stat(pid)
    return sum(int(field) for field in fields[11 : 15 if with_ended_children else 13]) / _TICK


def children(parent: int) -> list[int]:
    """Child processes that run, or have ended without being waited for, in the order of their numbers."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(_stat(int(name))[1]) == parent:
                found.append(int(name))
        except (OSError, IndexError):
            continue
    return sorted(found)


def of_server(postmaster: int) -> float:
    """CPU seconds of a Postgres: its main process, all children, and those that have ended."""
    # A child that ends during the loop would be counted neither as running nor as ended, or as both.
    while True:
        before = children(postmaster)
        try:
            total = of_process(postmaster, with_ended_children=True) + sum(map(of_process, before))
        except OSError:
            continue
        if children(postmaster) == before:
            return total


def of_backends(postmaster: int, database: str) -> float:
    """CPU seconds of the client connections to one database."""
    total = 0.0
    for pid in children(postmaster):
        try:
            title = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
            if title.startswith("postgres: ") and f" {database} [local]" in title:
                total += of_process(pid)
        except OSError:
            continue
    return total


def of_machine() -> float:
    """CPU seconds of all processes on this machine, and those that a hypervisor took."""
    user, nice, system, _, _, irq, softirq, steal = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, (user, nice, system, irq, softirq, steal))) / _TICK


def memory(pid: int) -> dict[str, float]:
    """Resident megabytes (10^6 bytes): now, and the highest since `reset_peak`."""
    kilobytes = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "VmHWM"):
            kilobytes[name] = int(value.split()[0])
    return {"resident": kilobytes["VmRSS"] * 1024 / 1e6, "peak": kilobytes["VmHWM"] * 1024 / 1e6}


def reset_peak(pid: int) -> None:
    """Resets the highest resident size."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
