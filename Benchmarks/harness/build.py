"""Release binaries: the gateway as `make build` builds it, and the programs in `Benchmarks/`."""

import shutil
import subprocess
import sys
from pathlib import Path

from .children import Failure

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "Benchmarks"
# Programs that use Foundation's networking, which needs libcurl with headers for linking.
_DYNAMIC = {"PhoneBenchmark"}


def build(product: str) -> Path:
    """Builds the gateway, or a product of the benchmarks' package; returns its path."""
    package, scratch = (ROOT, ROOT / ".build") if product == "sluice" else (BENCHMARKS, ROOT / ".build-benchmarks")
    command = ["swift", "build", "-c", "release"]
    if product not in _DYNAMIC:
        command.append("--static-swift-stdlib")
    if package == ROOT:
        command += ["--traits", "Gateway"]
    else:
        take_versions()
    command += ["--package-path", package, "--scratch-path", scratch, "--product", product]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        raise Failure(f"{product} does not build")
    return scratch / "release" / product


def take_versions() -> None:
    """Copies the gateway's dependency versions to the benchmarks, whenever they have changed."""
    ours, theirs = ROOT / "Package.resolved", BENCHMARKS / "Package.resolved"
    if ours.exists() and not (theirs.exists() and theirs.stat().st_mtime >= ours.stat().st_mtime):
        shutil.copyfile(ours, theirs)
