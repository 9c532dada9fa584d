"""Release binaries, as `make build` makes them."""

import subprocess
import sys
from pathlib import Path

from .children import Failure

ROOT = Path(__file__).resolve().parents[3]


def build(product: str) -> Path:
    """Builds a product of the package; where it is."""
    command = ["swift", "build", "-c", "release", "--static-swift-stdlib", "--package-path", str(ROOT)]
    if subprocess.run([*command, "--product", product], stdout=sys.stderr, check=False).returncode != 0:
        raise Failure(f"{product} does not build")
    folder = subprocess.run([*command, "--show-bin-path"], capture_output=True, text=True, check=True).stdout.strip()
    return Path(folder) / product
