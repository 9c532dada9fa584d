"""Types with device ids: pushes to them, and pulls of a feed in a device's own ids, compared with pulls of the
plain feed."""

import http.client
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median

from .children import Failure
from .cluster import Cluster
from .gateway import Gateway
from .names import organization
from .runs import Load
from .tokens import token

# The targets of pushes: entity types by name, with their registration. `contact_id` of a push without relations is not
# declared, so it is a UUID as in any other push.
PUSHED_TYPES = {
    "device_contact": {"id_space": "device"},
    "device_activity": {"id_space": "device"},
    "device_errand": {"id_space": "device", "relations": {"contact_id": "device_contact"}},
}
# Fewer devices than in other runs, because they have to create contacts first.
_USERS = 5
PUSH = Load(mutations=50, connections=32, type="device_activity", ids="device")
RELATED_PUSH = Load(
    mutations=50, connections=32, type="device_errand", ids="device", contacts="device_contact", users=_USERS
)
MAPPED_RELATED_PUSH = Load(mutations=50, connections=32, contacts="contact", users=_USERS)

DATABASE = "device_ids"
FOLDERS, PROJECTS, TASKS = 2_000, 500, 50_000
PAGE = 500
# Devices that have pulled everything before. A round uses a device that the gateway has not served since its start.
DEVICES = 20
PULLED_TYPES = {
    "folder": {"id_space": "device"},
    "project": {"id_space": "device"},
    "task": {"id_space": "device", "relations": {"folderId": "folder", "projectId": "project", "parentIds": "task"}},
}
_WHERE = organization(1)
_USER = str(uuid.UUID(int=7))


@dataclass
class Pulls:
    """One round: the median page of tasks, in milliseconds, end to end."""

    tasks: int
    plain_ms: float
    known_ms: float
    first_ms: float
    plain_bytes: float
    """Of a page of the plain feed."""
    device_bytes: float
    pages: int = 0
    all_ms: dict[str, list[float]] = field(default_factory=dict)
    """Each page, by side."""

    def as_json(self) -> dict:
        return asdict(self)


def register(gateway: Gateway, types: dict[str, dict], organizations: int) -> None:
    """Registers the types in organizations 1 to `count`."""
    gateway.administer(
        ("PUT", f"/organizations/{organization(number)}/entity-types/{name}", settings)
        for number in range(1, organizations + 1) for name, settings in types.items()
    )


class DevicePulls:
    """A feed of folders and projects, then tasks with three relations each, and devices that have read all of it."""

    def __init__(self, gateway: Gateway, cluster: Cluster, *, tasks: int = TASKS) -> None:
        self._gateway, self._cluster, self._tasks = gateway, cluster, tasks
        self._round = 0

    def set_up(self) -> None:
        self._gateway.create_organizations(1)
        register(self._gateway, PULLED_TYPES, 1)
        self._cluster.query(DATABASE, _feed(self._tasks))
        self._cluster.query(DATABASE, _known(self._tasks))
        self._cluster.vacuum(DATABASE)

    def round(self) -> Pulls:
        """Reads the whole feed three ways, page by page in turns."""
        self._round += 1
        if self._round > DEVICES:
            raise Failure(f"only {DEVICES} devices have the feed")
        bearer = token(self._gateway.secret, _WHERE, _USER)
        full = {"folder": FOLDERS + 1, "project": PROJECTS + 1, "task": self._tasks + 1}
        sides = {
            "plain": _Plain(self._gateway.port, bearer),
            "known": _Device(self._gateway.port, bearer, _device(self._round), full),
            "first": _Device(self._gateway.port, bearer, str(uuid.uuid4()), dict.fromkeys(full, 1)),
        }
        names = list(sides)
        before = (FOLDERS + PROJECTS) // PAGE
        pages = before + self._tasks // PAGE
        for page in range(pages):
            # the order of the ways rotates, too
            turn = page % len(names)
            for name in names[turn:] + names[:turn]:
                sides[name].page(is_last=page + 1 == pages)
        for side in sides.values():
            side.close()
        counted = {name: side.times[before:] for name, side in sides.items()}
        medians = {name: median(times) * 1000 for name, times in counted.items()}
        return Pulls(
            tasks=self._tasks, plain_ms=medians["plain"], known_ms=medians["known"], first_ms=medians["first"],
            plain_bytes=median(sides["plain"].sizes[before:]), device_bytes=median(sides["known"].sizes[before:]),
            pages=pages - before,
            all_ms={name: [round(one * 1000, 3) for one in times] for name, times in counted.items()},
        )


class _Side:
    """A client that reads the feed over one connection."""

    def __init__(self, port: int, bearer: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {bearer}"}
        self._seen = 0
        self.times: list[float] = []
        self.sizes: list[int] = []

    def close(self) -> None:
        self._connection.close()

    def _call(self, method: str, path: str, body: bytes | None = None) -> dict:
        """Makes a call and measures it, from the first byte sent to the last read."""
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        started = time.perf_counter()
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        text = response.read()
        self.times.append(time.perf_counter() - started)
        self.sizes.append(len(text))
        if response.status not in (200, 201):
            raise Failure(f"{method} {path} was answered {response.status}: {text[:300]!r}")
        return json.loads(text)

    def _check(self, answer: dict, is_last: bool, check: Callable[[dict, int], bool]) -> None:
        """Checks that a page is full, in order, and has the expected content for each entity."""
        changes = answer["changes"]
        wrong = [one for place, one in enumerate(changes, self._seen) if not check(one, place)]
        self._seen += len(changes)
        if len(changes) != PAGE or answer["up_to_date"] and not is_last or wrong:
            shown = json.dumps(wrong[0] if wrong else {"changes": len(changes), "up_to_date": answer["up_to_date"]})
            raise Failure(f"page {self._seen // PAGE} has {len(wrong)} unexpected entries: {shown[:1000]}")


class _Plain(_Side):
    """Reads the plain feed."""

    def __init__(self, port: int, bearer: str) -> None:
        super().__init__(port, bearer)
        self._since = ""

    def page(self, *, is_last: bool) -> None:
        answer = self._call("GET", f"/v1/changes?limit={PAGE}{self._since}")
        self._since = f"&since={answer['next']}"
        self._check(answer, is_last, self._is_there)

    @staticmethod
    def _is_there(change: dict, place: int) -> bool:
        return _expected(place) == (change["entity_type"], _number(change["document"]))


class _Device(_Side):
    """Pulls for a device."""

    def __init__(self, port: int, bearer: str, device: str, next_ids: dict[str, int]) -> None:
        super().__init__(port, bearer)
        self._path = f"/v1/devices/{device}"
        self._next: str | None = None
        self._next_ids = next_ids
        self._call("PUT", self._path, b"{}")
        self.times.clear()
        self.sizes.clear()

    def page(self, *, is_last: bool) -> None:
        request = {"since": self._next, "limit": PAGE, "wait": 0, "next_local_ids": self._next_ids}
        answer = self._call("POST", f"{self._path}/pull", json.dumps(request).encode())
        self._next, self._next_ids = answer["next"], answer["next_local_ids"]
        self._check(answer, is_last, self._is_translated)

    def _is_translated(self, change: dict, place: int) -> bool:
        """Entities are numbered in the order of the feed, by known devices and by a new one."""
        kind, number = _expected(place)
        document = change["document"]
        if (change["entity_type"], change["local_id"], _number(document)) != (kind, number, number):
            return False
        relations = [document.get(name) for name in PULLED_TYPES["task"]["relations"]]
        return relations == (_relations(number) if kind == "task" else [None] * 3)


def _device(number: int) -> str:
    return f"00000000-0000-4000-a000-{number:012d}"


def _expected(place: int) -> tuple[str, int]:
    """The entity at a position of the feed, counted from 0: folders, projects, tasks."""
    if place < FOLDERS:
        return "folder", place + 1
    if place < FOLDERS + PROJECTS:
        return "project", place - FOLDERS + 1
    return "task", place - FOLDERS - PROJECTS + 1


def _number(document: dict) -> int:
    return int(document["title"].split()[1])


def _relations(task: int) -> list:
    """Numbers of a task's folder, project and parents, as in `_feed`; parents are of all ages."""
    parents = [] if task == 1 else [1 + task * 1_299_709 % 2_000_003 % (task - 1)]
    return [1 + task * 7919 % FOLDERS, 1 + task * 104_729 % PROJECTS, parents]


def _id(kind: int, number: str) -> str:
    """SQL for the server id of an entity: a UUIDv7, as the built-in store generates them, in the order of the
    feed."""
    # 48 bits of time, the version, and repeatable random bits
    chance = f"md5('{kind}-' || {number})"
    return (f"(lpad(to_hex(1763000000000 + {kind * 100_000_000} + {number}::bigint * 20), 12, '0') || '7' || "
            f"substr({chance}, 1, 3) || 'a' || substr({chance}, 4, 15))::uuid::text")


def _feed(tasks: int) -> str:
    """A feed in the state after pushes: documents of some 500 bytes, with server ids as relations."""
    things = f"""
        SELECT n AS place, 'folder' AS kind, {_id(1, 'n')} AS id,
            '{{"title":"Folder ' || n || '","notes":"' || repeat('x', 300) || '"}}' AS document
        FROM generate_series(1, {FOLDERS}) n
        UNION ALL
        SELECT {FOLDERS} + n, 'project', {_id(2, 'n')},
            '{{"title":"Project ' || n || '","notes":"' || repeat('x', 300) || '"}}'
        FROM generate_series(1, {PROJECTS}) n
        UNION ALL
        SELECT {FOLDERS + PROJECTS} + n, 'task', {_id(3, 'n')},
            '{{"title":"Task ' || n || '","folderId":"' || {_id(1, f'(1 + n * 7919 % {FOLDERS})')}
            || '","projectId":"' || {_id(2, f'(1 + n * 104729 % {PROJECTS})')}
            || '","parentIds":[' || coalesce('"' || parent || '"', '') || '],"done":false,"amount":12.5,"notes":"'
            || repeat('lorem ipsum ', 24) || '"}}'
        FROM generate_series(1, {tasks}::bigint) n
        LEFT JOIN LATERAL (
            SELECT {_id(3, '(1 + n * 1299709 % 2000003 % greatest(n - 1, 1))')} AS parent WHERE n > 1
        ) p ON true
        """
    return f"""
        INSERT INTO entities (organization_id, entity_type, id, version, document, feed_position, owner_id, updated_by,
            updated_on, run_base, created_at, updated_at)
        SELECT '{_WHERE}', kind, id, 1, document::json, place, '{uuid.UUID(int=8)}', '{uuid.UUID(int=8)}',
            '{uuid.UUID(int=9)}', 0, now(), now()
        FROM ({things}) x ORDER BY place;
        UPDATE feeds SET last_position = {FOLDERS + PROJECTS + tasks} WHERE organization_id = '{_WHERE}';
        UPDATE entity_types SET is_in_use = true WHERE organization_id = '{_WHERE}';
        """


def _known(tasks: int) -> str:
    """Ids in the state after pulls: each device has all entities, and has numbered each type from 1."""
    return f"""
        INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id)
        SELECT '{_WHERE}', '{_USER}', ('{_device(0)[:-12]}' || lpad(d::text, 12, '0'))::uuid, entity_type,
            row_number() OVER (PARTITION BY d, entity_type ORDER BY feed_position), id
        FROM generate_series(1, {DEVICES}) d CROSS JOIN (
            SELECT entity_type, id, feed_position FROM entities WHERE organization_id = '{_WHERE}') e
        ORDER BY d, feed_position;
        """
