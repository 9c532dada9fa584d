"""The phone's library with a gateway: the cost of a write, the rate of draining a full outbox, pulls, and whether
observers ever wait for the network."""

import json
import os
import tempfile
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from . import children
from .cluster import Cluster
from .gateway import Gateway
from .names import organization
from .runs import Meter
from .slow_network import SlowNetwork
from .tokens import token

DATABASE = "phone"
ROUNDS = 20
ENTITIES = 100_000
DELAY = 0.5
"""Seconds of delay in each direction on the slow network."""
_COLLEAGUES, _FULL = organization(1), organization(2)
_USERS = [str(uuid.UUID(int=(10 << 64) + number)) for number in (1, 2)]


@dataclass
class Phone:
    """The measurements of one process of PhoneBenchmark, by name, with the unit in the name."""

    figure: str
    cpu_others: float
    """The share of the machine used by anything other than phone, gateway and PostgreSQL."""
    values: dict[str, float]

    def as_json(self) -> dict:
        return asdict(self)


class Phones:
    """A gateway with a team of two, and an organization full of others' entities."""

    def __init__(
        self, gateway: Gateway, cluster: Cluster, program: Path, *, rounds: int = ROUNDS, entities: int = ENTITIES
    ) -> None:
        self._gateway, self._cluster, self._program = gateway, cluster, program
        self._rounds, self._entities = rounds, entities

    def set_up(self) -> None:
        self._gateway.create_organizations(2)
        self._cluster.query(DATABASE, _notes(self._entities))
        self._cluster.vacuum(DATABASE)

    def writes(self) -> Phone:
        return self._run("writes", _COLLEAGUES, self._gateway.port)

    def edits(self) -> Phone:
        """Changes the notes that `writes` left at the gateway."""
        return self._run("edits", _COLLEAGUES, self._gateway.port)

    def main(self) -> Phone:
        """Pulls the notes that `writes` left at the gateway, over a slow network."""
        with SlowNetwork(self._gateway.port, DELAY) as network:
            return self._run("main", _COLLEAGUES, network.port)

    def first_pull(self) -> Phone:
        run = self._run("first-pull", _FULL, self._gateway.port)
        if run.values["first_pull_rows"] != self._entities:
            raise children.Failure(f"{run.values['first_pull_rows']:,.0f} of {self._entities:,} entities were pulled")
        return run

    def _run(self, figure: str, where: str, port: int) -> Phone:
        names = ("PHONE_TOKEN", "PHONE_OTHER_TOKEN")
        tokens = {name: token(self._gateway.secret, where, user) for name, user in zip(names, _USERS)}
        command = [str(self._program), figure, "--gateway", f"http://127.0.0.1:{port}", "--rounds", str(self._rounds)]
        meter = Meter(self._cluster, self._gateway, DATABASE)
        with tempfile.TemporaryDirectory(prefix="sluice-bench-phone-") as folder:
            output = children.run(command, env=os.environ | tokens | {"TMPDIR": folder})
        meter.stop()
        self._gateway.check()
        return Phone(figure, meter.others, json.loads(output))


def _notes(count: int) -> str:
    """Notes in the state after pushes (`Phone/Note.swift`), with ids as the gateway assigns them: UUIDs of version
    7, in the order of creation."""
    return f"""
        INSERT INTO entities (organization_id, entity_type, id, version, document, feed_position, owner_id, updated_by,
            updated_on, run_base, created_at, updated_at)
        SELECT '{_FULL}', 'note', (
            substr(lpad(to_hex(1795000000000 + n / 10), 12, '0'), 1, 8) || '-'
            || substr(lpad(to_hex(1795000000000 + n / 10), 12, '0'), 9) || '-7' || substr(md5(n::text), 1, 3) || '-8'
            || substr(md5(n::text), 4, 3) || '-' || substr(md5(n::text), 7, 12))::uuid, 1,
            ('{{"title":"Note ' || n || '","text":"Visited the customer, who asked for another offer until the end of '
            || 'the month.","amount":129.90,"date":"2026-11-18T11:06:40.000Z"}}')::json, n,
            '{uuid.UUID(int=8)}', '{uuid.UUID(int=8)}', '{uuid.UUID(int=9)}', 0, now(), now()
        FROM generate_series(1, {count}) n;
        UPDATE feeds SET last_position = {count} WHERE organization_id = '{_FULL}';
        """
