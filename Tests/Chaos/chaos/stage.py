"""Gateways on one database, an upstream and phones: the common setup of all runs."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from harness import children
from harness.children import Failure
from harness.cluster import Cluster
from harness.gateway import Gateway, Secrets
from harness.names import organization

from . import evidence
from .colleague import STOCK
from .mutations import BUILT_IN, make_lanes, organization_count

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = [str(ROOT / "Benchmarks"), str(ROOT / "Tests" / "Chaos")]
DATABASE = "chaos"
# As short as possible without mistaking a slow commit for a lost worker.
LEASE = 5.0
TIMEOUT = 1
SETTINGS = {
    "SLUICE_LEASE_SECONDS": f"{LEASE:g}", "SLUICE_RETRY_BASE_SECONDS": "0.05", "SLUICE_RETRY_CAP_SECONDS": "1",
}
# For receivers on this machine.
LOCAL_WEBHOOKS = {"SLUICE_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8"}
# Mutations that may wait at the gateways, for each lane, before the phones pause.
BACKLOG = 4
# The time after the faults within which all mutations must reach a final status.
DRAIN = 300.0
# Organizations with colleagues and a receiver, and the receiver's subscriptions.
COLLEAGUES = 10
TOLD = ["mutation.failed", "mutation.conflict", "lane.halted", "entity.changed"]


class Stage:
    """Two gateways that are not started yet, and the actions of a run on them."""

    def __init__(self, sluice: Path, lanes: int, seed: int, logs: Path, cluster: Cluster) -> None:
        self.lanes, self.seed, self.logs, self.cluster = lanes, seed, logs, cluster
        self.shared = Secrets()
        self.order, self.batches = "lane", False
        self.gateways = [
            Gateway(sluice, cluster.uri(DATABASE), logs / f"gateway-{number}.log", shared=self.shared,
                    settings=SETTINGS)
            for number in range(2)
        ]

    def set_up(self, gateway: Gateway, port: int) -> None:
        count = organization_count(self.lanes)
        gateway.create_organizations(count)
        upstream = {"base_url": f"http://127.0.0.1:{port}", "timeout_seconds": TIMEOUT}
        if self.batches:
            upstream["batch"] = {"path": "/$batch", "max_requests": 20}
        for number in range(1, count + 1):
            path = f"/organizations/{organization(number)}"
            gateway.administer([
                *([("PUT", path, {"settings": {"order": self.order}})] if self.order != "lane" else []),
                ("PUT", f"{path}/upstream", upstream),
                *(("PUT", f"{path}/entity-types/{name}", {"upstream": False, "visibility": "organization"})
                  for name in (BUILT_IN, STOCK)),
            ])

    def start_upstream(self) -> tuple[subprocess.Popen, int]:
        process = self.start_python(
            "upstream", ["--log", str(self.logs / "upstream.jsonl"), "--timeout", str(TIMEOUT)],
            stdout=subprocess.PIPE, text=True,
        )
        return process, int(process.stdout.readline())

    def start_load(self) -> subprocess.Popen:
        return self.start_python(
            "load", ["--log", str(self.logs / "load.jsonl"), "--lanes", str(self.lanes), "--ports", self.ports],
            stdin=subprocess.PIPE, text=True,
        )

    def start_colleague(self, gateway: Gateway) -> subprocess.Popen:
        """The colleagues who edit elsewhere in some organizations, and the receivers of their webhooks."""
        process = self.start_python(
            "colleague", ["--log", str(self.logs / "colleague.jsonl"), "--ports", self.ports],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        port, sources, secrets = int(process.stdout.readline()), {}, {}
        for number in range(1, min(COLLEAGUES, organization_count(self.lanes)) + 1):
            name, path = organization(number), f"/organizations/{organization(number)}"
            made = gateway.administer([("POST", f"{path}/service-tokens", {"source": "colleague"})])
            sources[name] = made["token"]
            webhook = {"url": f"http://127.0.0.1:{port}/{name}", "events": TOLD}
            secrets[name] = gateway.administer([("POST", f"{path}/webhooks", webhook)])["secret"]
        self.tell(process, json.dumps({"sources": sources, "secrets": secrets}))
        return process

    @property
    def ports(self) -> str:
        return ",".join(str(gateway.port) for gateway in self.gateways)

    def start_python(self, module: str, arguments: list[str], **how) -> subprocess.Popen:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(FOLDERS), "PYTHONDONTWRITEBYTECODE": "1",
            "CHAOS_JWT_SECRET": self.shared.jwt,
        }
        with (self.logs / f"{module}.log").open("w") as errors:
            return children.start(
                [sys.executable, "-m", f"chaos.{module}", "--seed", str(self.seed), *arguments],
                env=environment, stderr=errors, **how,
            )

    def backlog(self) -> int:
        """Mutations that are neither final, failed nor blocked."""
        return int(self.cluster.query(DATABASE, "select coalesce(sum(queued_count), 0) from lanes"))

    def drain(self, load: subprocess.Popen) -> bool:
        """Waits until the phones and the gateways have completed their work."""
        self.tell(load, "finish")
        deadline = time.monotonic() + DRAIN
        while time.monotonic() < deadline:
            for gateway in self.gateways:
                gateway.check()
            if load.poll() is not None and self.backlog() == 0:
                if load.returncode != 0:
                    raise Failure(f"the load failed:\n{children.tail(self.logs / 'load.log', 40)}")
                # A worker releases its lane shortly after the last outcome.
                time.sleep(0.5)
                return True
            time.sleep(0.1)
        return False

    def finish(self, colleague: subprocess.Popen, *, waits: bool) -> bool:
        """Waits until the colleagues have sent their events. If it `waits`, also until receivers have all messages."""
        self.tell(colleague, "finish")
        log, deadline = self.logs / "colleague.jsonl", time.monotonic() + DRAIN
        while time.monotonic() < deadline:
            self.check(colleague, "colleague")
            if '"is": "finished"' in log.read_text() and (not waits or self.untold() == 0):
                return True
            time.sleep(0.5)
        return False

    def untold(self) -> int:
        """Messages that wait, and endpoints that have not received all entities."""
        return int(self.cluster.query(DATABASE, """
            select (select count(*) from webhook_deliveries where status = 'waiting')
                + (select count(*) from webhook_endpoints e join feeds f using (organization_id)
                    where e.feed_position < f.last_position or e.feed_epoch <> f.epoch)"""))

    def gather(self, upstream: subprocess.Popen) -> evidence.Evidence:
        lanes = make_lanes(self.seed, self.lanes)
        found = evidence.Evidence({lane.number: (lane.organization, lane.user) for lane in lanes})
        evidence.read_rows(self.cluster, DATABASE, found)
        asyncio.run(evidence.ask(self.gateways[1].port, self.shared.jwt, lanes, found))
        children.stop(upstream)
        evidence.read_load(self.logs / "load.jsonl", found)
        evidence.read_upstream(self.logs / "upstream.jsonl", found)
        for log in self.logs.glob("gateway-*.log"):
            evidence.read_gateway(log, found)
        evidence.read_trouble(self.logs / "trouble.jsonl", found)
        evidence.read_colleague(self.logs / "colleague.jsonl", found)
        return found

    def check(self, process: subprocess.Popen, name: str = "load") -> None:
        if process.poll() is not None:
            raise Failure(f"the {name} ended ({process.returncode}):\n{children.tail(self.logs / f'{name}.log', 40)}")

    @staticmethod
    def tell(load: subprocess.Popen, command: str) -> None:
        load.stdin.write(command + "\n")
        load.stdin.flush()
