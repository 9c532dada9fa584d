"""The distribution of the gateway's CPU, by perf."""

import subprocess
import time
from pathlib import Path

from . import children
from .children import Failure
from .gateway import Gateway
from .runs import Load, Runner

_LINES = 40


def profile(runner: Runner, gateway: Gateway, load: Load, folder: Path, name: str) -> str:
    """Records the gateway under a load; prints its busiest threads, functions, and callers. Leaves the recording
    in the folder."""
    data = folder / f"{name}.perf.data"
    client = runner.start_generator(gateway, load, runner.seconds + 1)
    time.sleep(runner.warm_up + 0.5)
    # A sampling clock rather than a counter of cycles, which virtual machines often lack.
    command = ["perf", "record", "-q", "-F", "499", "-e", "cpu-clock", "-g", "-p", str(gateway.pid), "-o", str(data)]
    try:
        children.run([*command, "--", "sleep", str(runner.seconds)])
    except (FileNotFoundError, Failure) as failure:
        return f"perf does not work here: {failure}"
    finally:
        client.communicate()
        children.stop(client)
    parts = [
        ("threads", ["--no-children", "-g", "none", "--sort", "comm"]),
        ("functions", ["--no-children", "-g", "none", "--sort", "dso,symbol"]),
        ("functions with what they call", ["--children", "-g", "none", "--sort", "symbol"]),
    ]
    return "\n\n".join(f"{name}, {title}:\n{_report(data, options)}" for title, options in parts)


def _report(data: Path, options: list[str]) -> str:
    command = ["perf", "report", "-i", str(data), "--stdio", "--no-inline", "--percent-limit", "0.4", *options]
    output = children.run(command)
    lines = [line.rstrip() for line in output.splitlines() if line.strip() and not line.startswith("#")][:_LINES]
    return "\n".join(line[:180] for line in _demangle(lines))


def _demangle(lines: list[str]) -> list[str]:
    try:
        done = subprocess.run(
            ["swift", "demangle", "--simplified"], input="\n".join(lines), capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return lines
    return done.stdout.splitlines()
