"""Partial sync: an organization of a million entities in channels, compared with organizations without channels that
have only the visible entities."""

import http.client
import json
import math
import os
import re
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median

from . import children
from .children import Failure
from .cluster import Cluster
from .deep_lane import Phone
from .device_ids import register
from .gateway import Gateway
from .names import ORGANIZATION_SQL, USER_SQL, organization, user_of
from .runs import Load, Run, Runner
from .tokens import token

DATABASE, PUSH_DATABASE = "channels", "channel_pushes"
ROWS = 1_000_000
"""Entities outside the ten channels of the user whose pages are measured."""
VISIBLE = 5_000
"""Entities in these ten channels."""
STEP = 10 * VISIBLE
"""The number of rows is a multiple of it, so that each number of entities below is exact."""
REGIONAL = 10
"""One of so many of the rows is in an area, and in one of ten regions of that area."""
HELD = 10
"""Channels of a user who pulls."""
OTHER_PROJECTS = 1_990
"""The channels of all other entities."""
PAGE, PAGES = 500, 500
"""Changes of a page, and pages that a round measures on each side."""
BATCH = 50
"""Mutations of a push."""
RATE, WINDOW_FACTOR = 400, 2
"""Pushes per second during grants, and the length of a run in units of --seconds."""
CHUNK = 50_000
"""Rows that one statement creates."""

_CHANNELS, _SMALL, _LARGE, _SAMPLE = 1, 2, 3, 4
"""The numbers of the organizations."""
_SELECTIVE, _BROAD, _GRANTEE, _PLAIN = 101, 102, 103, 104
"""The numbers of the users who pull; the load generator pushes for users 1 to 50."""
AREA = "area/a1"
TEMPLATES = ["project/{/project_id}", "region/{/region_id}", "area/{/area_id}"]
# The creator's own channel, which gives the right to create, and one that each entity has alone.
PUSHED = {"visibility": "channels", "channels": ["user/{owner}", "contact/{/contact_id}"]}
PUSHED_TYPE = "errand"
PUSHES = {
    "channels": Load(mutations=BATCH, connections=32, type=PUSHED_TYPE),
    "plain": Load(mutations=BATCH, connections=32),
}

# The columns in which rows of the same type that the gateway wrote for the same user differ.
_OWN = ["id", "client_id", "document", "feed_position", "channels", "created_at", "updated_at"]


@dataclass
class Pages:
    """One round of pages in turns: milliseconds for 500 changes, end to end. `own` is the user with channels."""

    own_ms: float
    own_p99_ms: float
    plain_ms: float
    plain_p99_ms: float
    changes: float
    """The mean number of changes of a page, of the user with channels."""
    pages: int
    bytes: float
    """The median page of the user with channels."""

    def as_json(self) -> dict:
        return asdict(self)


@dataclass
class FirstPulls:
    """One round of two first pulls in turns: seconds in all pages, and their number."""

    entities: int
    own_seconds: float
    own_pages: int
    plain_seconds: float
    plain_pages: int

    def as_json(self) -> dict:
        return asdict(self)


@dataclass
class Granting:
    """One round of pushes, in milliseconds, by the work at the same time: see `granting.py`."""

    p50_ms: dict[str, float]
    p99_ms: dict[str, float]
    work_output: dict[str, dict]
    """The output of the other process."""

    def as_json(self) -> dict:
        return asdict(self)


@dataclass
class Channels:
    """All rounds."""

    rows: int
    seconds_to_fill: float = 0.0
    pages: list[Pages] = field(default_factory=list)
    first_pulls: list[FirstPulls] = field(default_factory=list)
    grantings: list[Granting] = field(default_factory=list)
    pushes: list[tuple[Run, Run]] = field(default_factory=list)
    """With and without channels, directly after each other."""

    @property
    def area(self) -> int:
        """Entities in the granted channel."""
        return self.rows // REGIONAL

    def as_json(self) -> dict:
        return {
            "rows": self.rows, "seconds_to_fill": self.seconds_to_fill,
            "pages": [one.as_json() for one in self.pages],
            "first_pulls": [one.as_json() for one in self.first_pulls],
            "grantings": [one.as_json() for one in self.grantings],
            "pushes": [[run.as_json() for run in pair] for pair in self.pushes],
        }


class PartialSync:
    """The pulls of one gateway, and pushes at the same time."""

    def __init__(self, gateway: Gateway, cluster: Cluster, runner: Runner, *, rows: int, log) -> None:
        self._gateway, self._cluster, self._runner, self._log = gateway, cluster, runner, log
        self.result = Channels(rows)
        self._every = rows // VISIBLE + 1
        """One of so many entities is in a channel of the first user."""
        self._connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        self._columns = self._query(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'entities'::regclass AND attnum > 0 "
            "AND NOT attisdropped ORDER BY attnum").split()

    def _query(self, sql: str) -> str:
        return self._cluster.query(DATABASE, sql)

    # Filling

    def set_up(self) -> None:
        began = time.monotonic()
        rows = self.result.rows
        self._log(f"{rows + VISIBLE:,} entities in channels, and organizations with {VISIBLE:,} and "
                  f"{self.result.area:,} without")
        self._gateway.create_organizations(_SAMPLE)
        for number in (_CHANNELS, _SAMPLE):
            base = f"/organizations/{organization(number)}/entity-types"
            self._gateway.administer([
                ("PUT", f"{base}/visit", {"visibility": "channels", "channels": TEMPLATES}),
                ("PUT", f"{base}/{PUSHED_TYPE}", PUSHED),
            ])
        for number in (_SMALL, _LARGE):
            self._gateway.administer([("PUT", f"/organizations/{organization(number)}/entity-types/visit", {})])
        self._push_sample()
        self._fill()
        self._grant(_CHANNELS, _SELECTIVE, *(f"project/p{number}" for number in range(1, HELD + 1)))
        self._grant(_CHANNELS, _BROAD, *(f"region/r{number}" for number in range(1, HELD + 1)))
        self._cluster.vacuum(DATABASE)
        self._cluster.query("postgres", "CHECKPOINT")
        self.result.seconds_to_fill = time.monotonic() - began
        print(f"  created in {self.result.seconds_to_fill:,.0f} s", flush=True)
        # the gateway closes idle connections; this one opens again with the next request
        self._connection.close()
        # plans are made, and the rows are in the cache
        for feed in (*self._selective(), *self._broad()):
            feed.read()

    def _grant(self, number: int, user: int, *names: str) -> None:
        path = f"/organizations/{organization(number)}/users/{user_of(number, user)}/channels"
        self._gateway.administer(("PUT", path, {"channel": name, "role": "write"}) for name in names)

    def _push_sample(self) -> None:
        """Pushes entities of each kind. All rows of the fill are copies of them.

        Checks that the SQL of the fill gives the channels and the positions that the gateway wrote, and that the
        gateway's rows differ only in columns that the fill sets."""
        where = organization(_SAMPLE)
        phone = Phone(self._gateway, where)
        names = ["project/p1", "project/q7", "region/r2"]
        path = f"/organizations/{where}/users/{phone.user}/channels"
        self._gateway.administer(("PUT", path, {"channel": name, "role": "write"}) for name in names)
        kinds = [{"project_id": "p1"}, {"project_id": "q7"}, {"region_id": "r2", "area_id": "a1"}]
        empty = {"project_id": None, "region_id": None, "area_id": None, "done": False, "amount": 12.5, "notes": "x"}
        for kind, count in (("visit", 2 * BATCH), ("plain", BATCH)):
            entries = [
                phone.create(entity_type=kind, payload={"title": f"Visit {place}"} | empty | kinds[place % len(kinds)])
                for place in range(count)
            ]
            for start in range(0, count, BATCH):
                _, answer = phone.push(self._connection, entries[start:start + BATCH])
                if any(one["status"] != "succeeded" for one in answer["results"]):
                    raise Failure(f"channels: a push of the sample was answered {json.dumps(answer)[:1000]}")
        first = len(names)
        members = {name: f"document ->> '{name}'" for name in ("project_id", "region_id", "area_id")}
        found = self._query(f"""
            WITH e AS MATERIALIZED (SELECT * FROM entities WHERE organization_id = '{where}'),
                expected AS (
                    SELECT e.organization_id, unnest(e.channels) AS channel, e.feed_position AS changed_at,
                        {first} + {_end_of_push(f'(feed_position - {first})')} AS joined_at
                    FROM e WHERE entity_type = 'visit'),
                found AS (
                    SELECT organization_id, channel, changed_at, joined_at FROM entity_channels
                    WHERE organization_id = '{where}')
            SELECT (SELECT count(*) FROM e), (SELECT count(*) FROM found), (SELECT count(*) FROM ended_stays),
                (SELECT count(*) FROM e
                 WHERE entity_type = 'visit' AND channels IS DISTINCT FROM {_channels(**members)}),
                (SELECT count(*) FROM e WHERE entity_type <> 'visit' AND channels IS NOT NULL),
                (SELECT count(*) FROM (TABLE expected EXCEPT TABLE found) x),
                (SELECT count(*) FROM (TABLE found EXCEPT TABLE expected) x),
                (SELECT count(DISTINCT to_jsonb(e) - '{{entity_type,{",".join(_OWN)}}}'::text[]) FROM e)""")
        stays = sum(len(kinds[place % len(kinds)]) for place in range(2 * BATCH))
        if found != f"{3 * BATCH}|{stays}|0|0|0|0|0|1":
            raise Failure(f"channels: the gateway writes other rows than those of the fill: {found}")

    def _fill(self) -> None:
        self._query("CREATE TABLE like_visit AS SELECT * FROM entities "
                    f"WHERE organization_id = '{organization(_SAMPLE)}' AND entity_type = 'visit' LIMIT 1")
        total = self.result.rows + VISIBLE
        values = {
            "organization_id": "x.organization_id", "id": _server_id("n"), "client_id": "md5('c' || n)::uuid",
            "document": "x.document::json", "feed_position": "n", "channels": "x.channels", "owner_id": "x.user_id",
            "updated_by": "x.user_id", "updated_on": "x.user_id", "created_at": "now()", "updated_at": "now()",
        }

        def fill(first: int) -> None:
            rows = self._rows(first, min(total, first + CHUNK - 1))
            self._insert(values, f"like_visit t, ({rows}) x ORDER BY n")
            self._query(f"INSERT INTO entity_channels (organization_id, channel, changed_at, joined_at) SELECT "
                        f"organization_id, unnest(channels), n, {_end_of_push('n')} FROM ({rows}) x ORDER BY n")

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(fill, range(1, total + 1, CHUNK)))
        self._end_feed(_CHANNELS, total)
        # the same entities without channels, and without others in between
        place = "row_number() OVER (ORDER BY t.feed_position)"
        for number, wanted, count in (
            (_SMALL, f"t.feed_position % {self._every} = 0", VISIBLE),
            (_LARGE, "t.document ->> 'area_id' IS NOT NULL", self.result.area),
        ):
            self._insert(
                {"organization_id": f"'{organization(number)}'::uuid", "channels": "NULL", "feed_position": place},
                f"entities t WHERE t.organization_id = '{organization(_CHANNELS)}' AND {wanted} "
                "ORDER BY t.feed_position")
            self._end_feed(number, count)

    def _insert(self, values: dict[str, str], source: str) -> None:
        chosen = ", ".join(values.get(name, f"t.{name}") for name in self._columns)
        self._query(f"INSERT INTO entities ({', '.join(self._columns)}) SELECT {chosen} FROM {source}")

    def _end_feed(self, number: int, expected: int) -> None:
        where = organization(number)
        found = self._query(f"SELECT count(*), max(feed_position) FROM entities WHERE organization_id = '{where}'")
        if found != f"{expected}|{expected}":
            raise Failure(f"channels: {found} entities in organization {number}, not {expected}")
        self._query(f"UPDATE feeds SET last_position = {expected} WHERE organization_id = '{where}'; "
                    f"UPDATE entity_types SET is_in_use = true WHERE organization_id = '{where}' AND name = 'visit'")

    def _rows(self, first: int, last: int) -> str:
        """Entities in the order of the feed, in pushes of 50 of many users. The channel of each is random."""
        members = {name: f"k.{name}" for name in ("project_id", "region_id", "area_id")}
        document = "".join(f",\"{name}\":' || coalesce('\"' || {value} || '\"', 'null') || '"
                           for name, value in members.items())
        return f"""
            SELECT n, organization_id, user_id, {_channels(**members)} AS channels,
                '{{"title":"Visit ' || n || '"{document},"done":false,"amount":12.5,"notes":"'
                || repeat('lorem ipsum ', 24) || '"}}' AS document
            FROM (
                SELECT n, hashint8(n) & 2147483647 AS h, {_CHANNELS} AS o, 1 + n / {BATCH} % 50 AS u,
                    n % {self._every} = 0 AS is_visible, n % {REGIONAL} = 0 AS is_regional
                FROM generate_series({first}::bigint, {last}::bigint) n
            ) y
            CROSS JOIN LATERAL (SELECT {ORGANIZATION_SQL} AS organization_id, {USER_SQL} AS user_id) z
            CROSS JOIN LATERAL (
                SELECT CASE WHEN is_visible THEN 'p' || 1 + h % {HELD}
                        WHEN NOT is_regional THEN 'q' || 1 + h % {OTHER_PROJECTS} END AS project_id,
                    CASE WHEN is_regional AND NOT is_visible THEN 'r' || 1 + h % {HELD} END AS region_id,
                    CASE WHEN is_regional AND NOT is_visible THEN 'a1' END AS area_id
            ) k"""

    # Pulling

    def _feed(self, number: int, user: int, expected: int) -> "Feed":
        bearer = token(self._gateway.secret, organization(number), user_of(number, user))
        return Feed(self._connection, bearer, expected)

    def _selective(self) -> tuple["Feed", "Feed"]:
        return self._feed(_CHANNELS, _SELECTIVE, VISIBLE), self._feed(_SMALL, _PLAIN, VISIBLE)

    def _broad(self) -> tuple["Feed", "Feed"]:
        return self._feed(_CHANNELS, _BROAD, self.result.area), self._feed(_LARGE, _PLAIN, self.result.area)

    def pages(self) -> Pages:
        """Reads two feeds again and again, page by page in turns over one connection."""
        own, plain = sides = self._selective()
        for turn in range(PAGES):
            for side in sides if turn % 2 == 0 else reversed(sides):
                side.page()
        found = Pages(
            *(_rank(side.full, share) for side in sides for share in (0.5, 0.99)),
            changes=mean(own.counts), pages=len(own.full), bytes=median(own.sizes),
        )
        self.result.pages.append(found)
        return found

    def first_pull(self) -> FirstPulls:
        """Reads two feeds of 100,000 entities once, page by page in turns over one connection."""
        own, plain = sides = self._broad()
        turn = 0
        while any(side.pulls == 0 for side in sides):
            for side in sides if turn % 2 == 0 else reversed(sides):
                if side.pulls == 0:
                    side.page()
            turn += 1
        found = FirstPulls(self.result.area, sum(own.times), len(own.times), sum(plain.times), len(plain.times))
        self.result.first_pulls.append(found)
        return found

    # Granting

    def granting(self) -> Granting:
        """Pushes of other users at a fixed rate, alone and during each work of `granting.py`."""
        p50, p99, work_output = {}, {}, {}
        for work in ("alone", *WORKS):
            if work == "alone":
                results, complaint = self._push()
            else:
                (results, complaint), work_output[work] = self._push_during(work)
            if int(results["errors"]) + int(results["wrong"]) or complaint:
                raise Failure(f"channels: pushes failed during {work}: {results} {complaint}")
            p50[work], p99[work] = int(results["p50_us"]) / 1000, int(results["p99_us"]) / 1000
        found = Granting(p50, p99, work_output)
        self.result.grantings.append(found)
        return found

    def _push(self) -> tuple[dict[str, str], str]:
        load = Load(mutations=1, connections=64, type=PUSHED_TYPE)
        seconds = WINDOW_FACTOR * self._runner.seconds
        return self._runner.generate("channels", self._gateway, load, seconds, rate=RATE, organizations=1)

    def _push_during(self, work: str) -> tuple[tuple[dict[str, str], str], dict]:
        where, user = organization(_CHANNELS), user_of(_CHANNELS, _GRANTEE)
        if work == "pull":
            where, user = organization(_LARGE), user_of(_LARGE, _PLAIN)
        process = children.start(
            [sys.executable, str(Path(__file__).with_name("granting.py")), work, str(self._gateway.port),
             str(self._gateway.operations_port), where, user, AREA, str(self.result.area), str(PAGE)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {
                "SLUICE_GRANTING_TOKEN": token(self._gateway.secret, where, user),
                "SLUICE_GRANTING_OPERATOR_TOKEN": self._gateway.environment["SLUICE_OPERATOR_TOKEN"],
            })
        try:
            if process.stdout.readline().strip() != "begun":
                children.stop(process)
                raise Failure(f"{work} does not begin:\n{process.stderr.read()}")
            results = self._push()
        finally:
            children.stop(process)
        output, errors = process.stdout.read(), process.stderr.read()
        if not output.strip():
            raise Failure(f"{work} failed:\n{errors}")
        return results, json.loads(output)


WORKS = {
    "grant": "granted and revoked",
    "grant-and-pull": "granted and revoked, and pulled",
    "pull": "a feed without channels pulled",
}
"""The work during pushes."""


class Feed:
    """A user who pulls everything, again and again; each pull is checked."""

    _end = re.compile(rb'"next":"([^"]+)","up_to_date":(true|false)}$')

    def __init__(self, connection: http.client.HTTPConnection, bearer: str, expected: int) -> None:
        self._connection, self._expected = connection, expected
        self._headers = {"Authorization": f"Bearer {bearer}"}
        self._since = ""
        self._ids: set[str] = set()
        self.pulls = 0
        self.times: list[float] = []
        """Seconds of each page."""
        self.full: list[float] = []
        """Milliseconds for 500 changes, of each page except the last of a pull that is not full."""
        self.counts: list[int] = []
        """The changes of these pages."""
        self.sizes: list[int] = []

    def read(self) -> None:
        """Reads one pull to its end."""
        before = self.pulls
        while self.pulls == before:
            self.page()

    def page(self) -> None:
        """Reads a page, and measures it from the first byte sent to the last read."""
        started = time.perf_counter()
        self._connection.request("GET", f"/v1/changes?limit={PAGE}{self._since}", headers=self._headers)
        response = self._connection.getresponse()
        body = response.read()
        took = time.perf_counter() - started
        found = self._end.search(body)
        if response.status != 200 or not found:
            raise Failure(f"channels: a pull was answered {response.status}: {body[:300]!r}")
        changes = json.loads(body)["changes"]
        if any("document" not in one for one in changes):
            raise Failure(f"channels: a first pull has other changes than entities: {body[:300]!r}")
        self._ids.update(one["id"] for one in changes)
        self.times.append(took)
        is_last = found[2] == b"true"
        if not is_last or len(changes) == PAGE:
            self.full.append(took * 1000 * PAGE / max(1, len(changes)))
            self.counts.append(len(changes))
            self.sizes.append(len(body))
        self._since = f"&since={found[1].decode()}"
        if is_last:
            if len(self._ids) != self._expected:
                raise Failure(f"channels: a pull has {len(self._ids):,} entities of {self._expected:,}")
            self._ids.clear()
            self._since = ""
            self.pulls += 1


def push(gateway: Gateway, runner: Runner, *, turns: int, age: float, vacuum, show) -> list[tuple[Run, Run]]:
    """Pushes of fifty into a type with two channels for each entity, and into a type without, in turns."""
    gateway.create_organizations(runner.organizations)
    register(gateway, {PUSHED_TYPE: PUSHED}, runner.organizations)
    for name, load in PUSHES.items():
        if age >= 1:
            show(runner.push(f"{name} push", gateway, PUSH_DATABASE, load, seconds=age))
    vacuum()
    pairs = []
    for turn in range(turns):
        found = {}
        for name in PUSHES if turn % 2 == 0 else reversed(PUSHES):
            found[name] = show(runner.push(f"{name} push", gateway, PUSH_DATABASE, PUSHES[name]))
        pairs.append((found["channels"], found["plain"]))
    return pairs


def _rank(values: list[float], share: float) -> float:
    """The smallest value that is not exceeded by this share of the values."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def _end_of_push(position: str) -> str:
    """SQL for the last position of the push that wrote a position: the position at which its stays begin."""
    return f"({position} + {BATCH - 1}) / {BATCH} * {BATCH}"


def _channels(project_id: str, region_id: str, area_id: str) -> str:
    """SQL for the ids of an entity's channels, as the gateway evaluates `TEMPLATES`."""
    names = [f"'project/' || ({project_id})", f"'region/' || ({region_id})", f"'area/' || ({area_id})"]
    ids = ", ".join(f"left(encode(sha256(convert_to({name}, 'UTF8')), 'hex'), 32)::uuid" for name in names)
    return f"array_remove(ARRAY[{ids}], NULL)"


def _server_id(number: str) -> str:
    """SQL for a UUIDv7, as the built-in store generates them, in the order of the feed."""
    chance = f"md5('v' || {number})"
    return (f"(lpad(to_hex(1763000000000 + {number}::bigint * 20), 12, '0') || '7' || substr({chance}, 1, 3) || 'a' || "
            f"substr({chance}, 4, 15))::uuid::text")
