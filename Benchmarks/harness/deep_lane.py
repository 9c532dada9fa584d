"""Pushes into lanes with thousands of open mutations, compared with pushes into empty lanes."""

import http.client
import itertools
import json
import time
import uuid
from dataclasses import asdict, dataclass
from statistics import median

from .children import Failure
from .cluster import Cluster
from .gateway import Gateway
from .names import organization
from .tokens import token

DATABASE = "deep_lane"
OPEN = 10_000
BATCH = 50
# The mutations of a push into the storing lane that wait for another one.
BLOCKED = 15
SAMPLES = 40
_FILL = 500
_AWAY, _HALTED = organization(1), organization(2)
_ENDPOINT = "/api/v1/notes"
# A type of the built-in store, whose mutations are final immediately.
_KEPT_HERE = "memo"


@dataclass
class Deep:
    """One round: the median push of fifty, in milliseconds, into a deep lane and into an empty one, in turns."""

    figure: str
    open: int
    deep_ms: float
    empty_ms: float
    pushes: int

    def as_json(self) -> dict:
        return asdict(self)


class Phone:
    """One user with one device, which numbers its mutations."""

    _serial = itertools.count(1)

    def __init__(self, gateway: Gateway, where: str) -> None:
        self.user = str(uuid.UUID(int=(9 << 64) + next(self._serial)))
        self._gateway = gateway
        self._headers = {
            "Authorization": f"Bearer {token(gateway.secret, where, self.user)}", "Content-Type": "application/json",
        }
        self._sequence = 0

    def entry(self, operation: str, **members) -> dict:
        self._sequence += 1
        return {
            "id": str(uuid.uuid4()), "idempotency_key": str(uuid.uuid4()), "sequence_number": self._sequence,
            "operation": operation, "entity_type": "note", "endpoint": _ENDPOINT, "payload": {"title": "hello world"},
            "created_at": "2026-01-15T08:00:00.000Z", **members,
        }

    def create(self, **members) -> dict:
        return self.entry("create", local_id=str(uuid.uuid4()), **members)

    def push(self, connection: http.client.HTTPConnection, entries: list[dict]) -> tuple[float, dict]:
        """Milliseconds until the answer, and the answer; every entry has to be accepted."""
        body = json.dumps({"device_id": self.user, "mutations": entries}).encode()
        started = time.perf_counter()
        connection.request("POST", "/v1/mutations", body, self._headers)
        response = connection.getresponse()
        text = response.read()
        took = (time.perf_counter() - started) * 1000
        answer = json.loads(text)
        if response.status not in (200, 202) or any(one["status"] == "rejected" for one in answer["results"]):
            raise Failure(f"deep-lane: a push was answered {response.status}: {text.decode()[:1000]}")
        return took, answer


class DeepLanes:
    """Lanes of one gateway: one with an unavailable upstream, one halted by a conflict, and one that only stores
    mutations."""

    def __init__(self, gateway: Gateway, cluster: Cluster, *, count: int, samples: int) -> None:
        self._gateway, self._cluster, self._count, self._samples = gateway, cluster, count, samples
        self._connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)

    def set_up(self) -> None:
        """Fills the lanes. No table is analyzed, so plans are made as in a new database that fills."""
        self._gateway.create_organizations(2)
        dead = {"base_url": "http://127.0.0.1:1"}
        self._gateway.administer(
            ("PUT", f"/organizations/{where}/upstream", dead) for where in (_AWAY, _HALTED)
        )
        self._gateway.administer(
            ("PUT", f"/organizations/{where}/entity-types/{_KEPT_HERE}", {"upstream": False})
            for where in (_AWAY, _HALTED)
        )
        first = Phone(self._gateway, _HALTED)
        first.push(self._connection, [first.create()])
        # from now on the type is forwarded, and nothing is sent: no worker interferes with the conflict made here
        self._gateway.administer([("DELETE", f"/organizations/{_HALTED}/upstream", None)])
        self._away, self._contact = Phone(self._gateway, _AWAY), str(uuid.uuid4())
        self._fill(self._away, lambda index: self._edit_or_create(index))
        self._halted = Phone(self._gateway, _HALTED)
        self._fill(self._halted, lambda _: self._edits(self._halted, 1)[0])
        self._cluster.query(DATABASE, f"""
            WITH first AS (
                UPDATE mutations SET status = 'conflict', error = '{{"code":"conflict"}}', response_status = 409
                WHERE user_id = '{self._halted.user}' AND sequence_number = 1 RETURNING id)
            UPDATE lanes SET halted_by = first.id, queued_count = queued_count - 1, ready_at = NULL
            FROM first WHERE user_id = '{self._halted.user}'
        """)
        self._keeping = Phone(self._gateway, _AWAY)
        self._kept = str(uuid.uuid4())
        self._fill(self._keeping, lambda index: self._keeping.entry(
            "create", local_id=self._kept if index == self._count // 2 else str(uuid.uuid4())))

    def round(self) -> list[Deep]:
        sides = {
            "away": (_AWAY, self._away, lambda phone: self._edits(phone, BATCH, self._contact), self._edits),
            "conflict": (_HALTED, self._halted, self._edits, self._edits),
            "kept": (_AWAY, self._keeping, lambda phone: self._mixed(phone, self._kept), self._mixed),
        }
        return [self._compare(name, *side) for name, side in sides.items()]

    def _compare(self, name: str, where: str, deep: Phone, deep_entries, empty_entries) -> Deep:
        times: dict[str, list[float]] = {"deep": [], "empty": []}
        for _ in range(self._samples + 3):
            took, answer = deep.push(self._connection, deep_entries(deep))
            times["deep"].append(took)
            if name != "kept" and any(one["status"] != "blocked" for one in answer["results"]):
                raise Failure(f"deep-lane {name}: something is not blocked")
            # each push gets its own empty lane, because it fills the lane; user, device and lane exist before
            phone = Phone(self._gateway, where)
            phone.push(self._connection, [{**phone.create(), "entity_type": _KEPT_HERE}])
            times["empty"].append(phone.push(self._connection, empty_entries(phone))[0])
        # the first pushes opened connections and prepared statements
        medians = {side: median(values[3:]) for side, values in times.items()}
        return Deep(name, self._count, medians["deep"], medians["empty"], self._samples)

    def _fill(self, phone: Phone, entry) -> None:
        for start in range(0, self._count, _FILL):
            entries = [entry(index) for index in range(start, min(self._count, start + _FILL))]
            phone.push(self._connection, entries)

    def _edit_or_create(self, index: int) -> dict:
        if index == 0:
            return self._away.entry("create", local_id=self._contact)
        return self._edits(self._away, 1, self._contact)[0]

    @staticmethod
    def _edits(phone: Phone, count: int = BATCH, contact: str | None = None) -> list[dict]:
        """Edits of one entity: one that waits for its create, or one that the upstream has."""
        name = {"local_id": contact} if contact else {"server_id": "note-1"}
        return [phone.entry("update", **name) for _ in range(count)]

    @staticmethod
    def _mixed(phone: Phone, contact: str | None = None) -> list[dict]:
        """Creates, and some edits that wait for a stored one; in an empty lane for one of the push."""
        creates = [phone.create() for _ in range(BATCH - BLOCKED)]
        contact = contact or creates[0]["local_id"]
        return creates + [phone.entry("update", local_id=contact) for _ in range(BLOCKED)]
