"""Child processes, all of which end with this process."""

import contextlib
import ctypes
import os
import signal
import subprocess
from pathlib import Path


class Failure(Exception):
    """The reason why the benchmark cannot continue, for its user."""


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_children: list[tuple[subprocess.Popen, int]] = []


def start(command: list[str], *, stop_with: int = signal.SIGTERM, **options) -> subprocess.Popen:
    """Starts a command in a separate session, so that Ctrl-C reaches only this process, which then stops its children
    in order. If this process is killed, the kernel sends its children the signal."""

    def die_with_parent() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(stop_with))

    options.setdefault("stdin", subprocess.DEVNULL)
    child = subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_parent, **options)
    _children.append((child, stop_with))
    return child


def run(command: list[str], **options) -> str:
    """Runs a command to its end; returns its standard output."""
    child = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    output, errors = child.communicate()
    if child.returncode != 0:
        raise Failure(f"{Path(command[0]).name} failed ({child.returncode}): {errors.strip() or output.strip()}")
    return output


def stop(child: subprocess.Popen, *, patience: float = 20) -> None:
    """Stops a child: with its signal, and with SIGKILL if that takes too long."""
    if child.poll() is None:
        child.send_signal(next(how for other, how in _children if other is child))
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    _children[:] = [pair for pair in _children if pair[0] is not child]


def stop_all() -> None:
    """Stops all children, the youngest first."""
    for child, _ in reversed(list(_children)):
        stop(child)


def prefer(pid: int) -> None:
    """Gives a process of a machine that does not exist here (a phone, an upstream) the highest priority.

    Without it, the process waits for a core that the other machine would have, and the wait counts as a latency of
    the gateway. Needs the rights of root, and has no effect without them. If the kernel divides the cores between
    sessions, nice(1) has an effect only within one session (sched(7))."""
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), -20)
        Path(f"/proc/{pid}/autogroup").write_text("-20")


def tail(log: Path, lines: int = 15) -> str:
    """The end of a log, for a failure's message."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
