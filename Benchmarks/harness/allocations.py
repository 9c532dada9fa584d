"""Heap allocations of a gateway, counted by a library that is loaded before all others. Counting takes time, so
these runs have a separate gateway."""

import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from .build import BENCHMARKS, ROOT
from .children import Failure
from .gateway import Gateway
from .runs import Load, Run, Runner

DATABASE = "allocations"
SOURCE = BENCHMARKS / "allocations.c"


@dataclass
class Allocations:
    """The counts of a run."""

    figure: str
    per_push: float
    run: Run

    @property
    def per_mutation(self) -> float:
        return self.per_push / self.run.mutations

    def as_json(self) -> dict:
        return asdict(self) | {"run": self.run.as_json()}


class Counter:
    """The library, and the file with its counts."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "allocations"
        self._file.write_bytes(bytes(8))
        library = ROOT / ".build-benchmarks" / "allocations.so"
        if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
            library.parent.mkdir(exist_ok=True)
            command = ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
            try:
                subprocess.run(command, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise Failure(f"{SOURCE.name} does not build: {error}") from error
        self.settings = {"LD_PRELOAD": str(library), "COUNT_ALLOCATIONS_IN": str(self._file)}
        """The environment of a counting process."""

    @property
    def count(self) -> int:
        return int.from_bytes(self._file.read_bytes()[:8], "little")


def measure(figure: str, load: Load, gateway: Gateway, runner: Runner, counter: Counter) -> Allocations:
    """Counts allocations in the second of two runs, because the first run fills caches. Idle moments allocate so little
    that they do not matter."""
    runner.push(figure, gateway, DATABASE, load)
    counted, pushed = counter.count, _pushes(gateway)
    run = runner.push(figure, gateway, DATABASE, load)
    made, pushes = counter.count - counted, _pushes(gateway) - pushed
    if not made or not pushes:
        raise Failure(f"{figure}: {made} allocations of {pushes:g} pushes were counted")
    return Allocations(figure, made / pushes, run)


def _pushes(gateway: Gateway) -> float:
    return gateway.metrics().get('sluice_pushes_total{result="accepted"}', 0.0)
