"""A database that has grown, compared with a database of the same organizations and users without pushes. Pushes and
pulls run in short turns on one server. The rows are copies of a real push's rows with other ids, from the oldest to
the newest, so that each organization's rows are scattered as in production."""

import http.client
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import median

from . import figures, versions
from .children import Failure
from .cluster import Cluster
from .figures import Figure
from .gateway import Gateway
from .keeping import begin, is_running, rows_done
from .names import ORGANIZATION_SQL, USER_SQL, organization, user_of
from .runs import Load, Runner
from .tokens import token

GROWN, FRESH = "grown", "fresh"
ORGANIZATIONS, USERS = 10_000, 10
ROWS = 2_000_000
"""Mutations, as many mappings, and as many entities."""
BATCH = 10
"""Mutations of a push that created them."""
FEWEST_ROWS = ORGANIZATIONS * BATCH
"""With fewer, some organizations would have no rows."""
PULLED, PAGE = 200, 500
"""Organizations with entities in both databases, and the most that a page contains of them."""
COMPARED = ["push-1", "push-50"]
"""The pushes that run on both."""
OLDEST, NEWEST = 60, 8
"""The days since they took effect: all are old enough for retention, which deletes more than half."""
CHUNK = 100_000
"""Rows that one statement creates."""
SETTINGS = {"SLUICE_RETENTION_INTERVAL_SECONDS": "604800"}

# A row `n` counts from the oldest; its push is number `b` of all, the `s`th of user `u` of organization `o`.
_ROWS = f"""
    SELECT n, o, u, s, s * {BATCH} + n % {BATCH} AS p, md5('m' || n)::uuid AS m, md5('c' || n)::uuid AS c,
        md5('s' || n) AS h, organization_id, user_id, at
    FROM (
        SELECT n, 1 + b % {ORGANIZATIONS} * 7919 % {ORGANIZATIONS} AS o, 1 + b / {ORGANIZATIONS} % {USERS} AS u,
            b / {ORGANIZATIONS * USERS} AS s, now() - interval '{OLDEST} days'
                + interval '{OLDEST - NEWEST} days' * (n::float8 / {{rows}}) AS at
        FROM (SELECT n, n / {BATCH} AS b FROM generate_series({{first}}::bigint, {{end}}::bigint - 1) n) x
    ) y
    CROSS JOIN LATERAL (SELECT {ORGANIZATION_SQL} AS organization_id, {USER_SQL} AS user_id) z"""
# Counts up with time, as the gateway's ids do.
_SERVER_ID = ("(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || left(h, 3) || '8' || "
              "right(h, 15))::uuid::text")
_LANE = {"organization_id": "x.organization_id", "user_id": "x.user_id"}
_AGED = {
    "mutations": {
        **_LANE, "device_id": "x.user_id", "id": "m", "idempotency_key": "md5('k' || n)::uuid",
        "fingerprint": "decode('01' || h || md5(h), 'hex')",
        "sequence_number": "1 + p", "position": "1 + p", "change_position": "1 + s", "local_id": "c",
        "server_id": _SERVER_ID, "created_at": "at", "accepted_at": "at", "changed_at": "at", "synced_at": "at",
    },
    "id_mappings": {
        **_LANE, "client_id": "c", "server_id": _SERVER_ID, "mutation_id": "m", "change_position": "1 + s",
        "created_at": "at", "resolved_at": "at",
    },
    "entities": {
        "organization_id": "x.organization_id", "id": _SERVER_ID, "owner_id": "x.user_id", "updated_by": "x.user_id",
        "updated_on": "x.user_id", "client_id": "c", "created_at": "at", "updated_at": "at",
        "feed_position": f"1 + (s * {USERS} + u - 1) * {BATCH} + n % {BATCH}",
    },
}


class Growth:
    """Both databases with their gateways, which are already running."""

    def __init__(self, grown: Gateway, fresh: Gateway, cluster: Cluster, runner: Runner, *, rows: int, log) -> None:
        """`runner` pushes for all organizations."""
        self.gateways = {GROWN: grown, FRESH: fresh}
        self._cluster, self._runner, self._rows, self._log = cluster, runner, rows, log
        self._columns: dict[str, list[str]] = {}
        self._page = min(PAGE, rows // FEWEST_ROWS * BATCH)
        """At most the number that each organization has from the beginning: later pushes differ."""
        self.pairs: list[versions.Pair] = []
        self.figures: list[Figure] = []
        self.facts: dict[str, object] = {"rows": rows}

    def as_json(self) -> dict:
        return self.facts | {"pairs": [[run.as_json() for run in pair] for pair in self.pairs]}

    # Growing

    def grow(self) -> None:
        """Fills both databases."""
        began = time.monotonic()
        self._log(f"{ORGANIZATIONS:,} organizations, {ORGANIZATIONS * USERS:,} users; in one of two databases "
                  f"{self._rows:,} mutations, mappings and entities")
        for database, gateway in self.gateways.items():
            self._make_users(database, gateway)
        for database, tables, condition in ((GROWN, list(_AGED), ""), (FRESH, ["entities"], f"WHERE o <= {PULLED}")):
            self._make_rows(database, tables, condition)
            self._cluster.query(database, "ANALYZE")
        self._cluster.query("postgres", "CHECKPOINT")
        self.facts["seconds_to_grow"] = time.monotonic() - began
        print(f"  created in {self.facts['seconds_to_grow']:,.0f} s", flush=True)

    def _make_users(self, database: str, gateway: Gateway) -> None:
        """Makes one push, and copies its rows: those of users, devices and lanes now, all others later."""
        gateway.create_organizations(1)
        load = Load(mutations=1, connections=1, users=1)
        self._runner.generate("the first push", gateway, load, 60, pushes=1, organizations=1)
        users = f"""FROM {{table}} t, (
            SELECT o, u, {ORGANIZATION_SQL} AS organization_id, {USER_SQL} AS user_id
            FROM generate_series(1, {ORGANIZATIONS}) o, generate_series(1, {USERS}) u) x
            WHERE (o, u) <> (1, 1)"""
        others = f"""FROM {{table}} t, (
            SELECT o, {ORGANIZATION_SQL} AS organization_id FROM generate_series(2, {ORGANIZATIONS}) o) x"""
        self._copy(database, "organizations", {"id": "x.organization_id", "name": "'Organization ' || o"}, others)
        for table in ("feeds", "entity_types"):
            self._copy(database, table, {"organization_id": "x.organization_id"}, others)
        for table, more in (("users", {}), ("devices", {"device_id": "x.user_id"}), ("lanes", {})):
            self._copy(database, table, _LANE | more, users)
        # The rows of the push are the models of all others. Counters are set to the values after all copied pushes.
        pushes = -(-self._rows // (ORGANIZATIONS * USERS * BATCH))
        self._cluster.query(database, f"""
            CREATE TABLE like_mutations AS SELECT * FROM mutations;
            CREATE TABLE like_id_mappings AS SELECT * FROM id_mappings;
            CREATE TABLE like_entities AS SELECT * FROM entities;
            DELETE FROM mutations; DELETE FROM id_mappings; DELETE FROM entities;
            UPDATE lanes SET next_position = {1 + pushes * BATCH}, head_position = {1 + pushes * BATCH},
                change_position = {1 + pushes};
            UPDATE devices SET accepted_sequence = {pushes * BATCH};
            UPDATE feeds SET last_position = {pushes * BATCH * USERS};
            """)
        # Prevents dead rows of organization 1 in the range of its look-ups.
        for table in ("lanes", "devices", "feeds", "mutations", "id_mappings", "entities"):
            self._cluster.query(database, f"VACUUM FULL {table}")

    def _make_rows(self, database: str, tables: list[str], condition: str) -> None:
        chunks = [(first, min(self._rows, first + CHUNK)) for first in range(0, self._rows, CHUNK)]

        def make(chunk: tuple[int, int]) -> None:
            first, end = chunk
            rows = _ROWS.format(first=first, end=end, rows=self._rows)
            for table in tables:
                self._copy(database, table, _AGED[table], f"FROM like_{table} t, ({rows} {condition}) x")

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(make, chunks))

    def _copy(self, database: str, table: str, values: dict[str, str], source: str) -> None:
        """Copies rows `t` of a table and replaces some of their columns."""
        if table not in self._columns:
            listed = self._cluster.query(
                database, f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 "
                          "AND NOT attisdropped ORDER BY attnum")
            self._columns[table] = listed.split()
        columns = self._columns[table]
        chosen = ", ".join(values.get(name, f"t.{name}") for name in columns)
        self._cluster.query(database, f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} "
                                      f"{source.format(table=table)}")

    # Measuring

    def compare(self, turns: int) -> None:
        """Pushes and pulls of both, directly after each other."""
        for name in COMPARED:
            self._log(f"{name}, {turns} times each")
            load = replace(figures.PUSHES[name], users=USERS)
            pairs = [versions.pair(load, self.gateways, self._runner, turn, name) for turn in range(turns)]
            self.pairs += pairs
            own = versions.figures_of(f"growth {name}", pairs, other="fresh")
            _hold(own[0])
            self.figures += own
        self._log(f"pages of {self._page}, {turns} times each")
        rates: list[tuple[float, float]] = []
        for turn in range(turns):
            order = list(self.gateways) if turn % 2 == 0 else list(reversed(self.gateways))
            found = {database: self._pull(self.gateways[database], turn) for database in order}
            rates.append((found[GROWN], found[FRESH]))
            print(f"  {found[GROWN]:>9,.0f} against {found[FRESH]:>9,.0f} pages/s", flush=True)
        ratios = [grown / fresh for grown, fresh in rates]
        own, other = (median(pair[side] for pair in rates) for side in (0, 1))
        figure = Figure("growth pull", f"{own:,.0f} pages/s", f"{other:,.0f} fresh", median(ratios),
                        (min(ratios), max(ratios)))
        _hold(figure)
        self.figures.append(figure)
        self.facts["pulls"] = rates

    def _pull(self, gateway: Gateway, seed: int) -> float:
        """Pulls first pages of organizations, which are chosen alike on both sides; returns the rate per second."""
        draw = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        tokens = [token(gateway.secret, organization(number), user_of(number, 1)) for number in range(1, PULLED + 1)]
        began, pages = time.monotonic(), 0
        while time.monotonic() - began < self._runner.seconds:
            connection.request("GET", f"/v1/changes?limit={self._page}",
                               headers={"Authorization": f"Bearer {draw.choice(tokens)}"})
            response = connection.getresponse()
            body = response.read()
            if response.status != 200 or b'"entity_type":' not in body:
                raise Failure(f"a pull was answered {response.status}: {body[:200]!r}")
            pages += 1
        rate = pages / (time.monotonic() - began)
        connection.close()
        return rate

    # Reading

    def sizes(self) -> None:
        """Prints the sizes of partitioned tables and their indexes, from a megabyte up, and their bytes per
        mutation."""
        self._log("sizes, and bytes for each created mutation")
        listed = self._cluster.query(GROWN, """
            SELECT p.relkind = 'I', p.relname, sum(pg_relation_size(c.oid))
            FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
            LEFT JOIN pg_index x ON x.indexrelid = p.oid LEFT JOIN pg_class t ON t.oid = x.indrelid
            GROUP BY p.relkind, p.relname ORDER BY coalesce(max(t.relname), p.relname), 1, 3 DESC""")
        sizes = {}
        for line in listed.splitlines():
            is_index, name, size = line.split("|")
            sizes[name] = int(size)
            if int(size) >= 1e6:
                print(f"  {'  ' if is_index == 't' else ''}{name:<40}{int(size) / 1e6:>10,.0f} MB"
                      f"{int(size) / self._rows:>8,.0f} B", flush=True)
        self.facts["sizes"] = sizes

    # Retention

    def work_off(self) -> None:
        """Runs retention on all old rows, to the end and without other load."""
        gateway = self.gateways[GROWN]
        self._log("retention of all created rows")
        before, began = rows_done(gateway), time.monotonic()
        begin(gateway)
        while is_running(gateway):
            time.sleep(0.5)
        seconds = time.monotonic() - began
        rows = {name: value - before.get(name, 0) for name, value in rows_done(gateway).items()}
        left = int(self._cluster.query(GROWN, "SELECT count(*) FROM mutations WHERE payload IS NOT NULL AND "
                                              "synced_at < now() - interval '7 days'"))
        if left:
            raise Failure(f"retention finished and left {left:,} old mutations")
        total = sum(rows.values())
        self.facts |= {"retention_seconds": seconds, "retention_rows": rows}
        self.figures.append(Figure("growth retention", f"{total:,.0f} rows in {seconds:,.0f} s",
                                   f"{total / seconds:,.0f} rows/s, no load"))


def _hold(figure: Figure) -> None:
    figure.bar, figure.met = f"≥ {figures.GROWTH_BAR}", figure.ratio >= figures.GROWTH_BAR
