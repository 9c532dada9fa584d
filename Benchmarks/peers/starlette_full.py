"""A push that writes the rows which the gateway writes, as a good Python team would: set-based SQL through asyncpg,
three statements in one transaction per request. It processes creates without dependencies. DSN names the database."""

import contextlib
import hashlib
import os
import uuid
from datetime import datetime

import asyncpg
import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

# Locks the lane, and reads what is known: the positions, the device's watermark, and the keys of repeats.
BEGIN = """
with lane as (
    insert into lanes as l (organization_id, user_id) values ($1, $2)
    on conflict (organization_id, user_id) do update set change_position = l.change_position + 1
    returning next_position, change_position)
select next_position, change_position,
    (select accepted_sequence from devices where organization_id = $1 and user_id = $2 and device_id = $3) as watermark
from lane
"""
KNOWN = """
select idempotency_key, fingerprint, status, server_id, version from mutations
where organization_id = $1 and user_id = $2 and idempotency_key = any($3::uuid[])
"""
# The feed's row is locked last, by the first statement that needs its position.
WRITE = """
with pushed as (
    select *, row_number() over () as place from unnest(
        $4::uuid[], $5::bigint[], $6::uuid[], $7::bytea[], $8::text[], $9::uuid[], $10::text[], $11::text[],
        $12::text[], $13::smallint[], $14::timestamptz[]
    ) as p (id, number, key, fingerprint, type, local, server, endpoint, payload, priority, created_at)),
lane as (
    update lanes set next_position = next_position + $17 where organization_id = $1 and user_id = $2),
device as (
    insert into devices (organization_id, user_id, device_id, accepted_sequence) values ($1, $2, $3, $18)
    on conflict (organization_id, user_id, device_id)
        do update set accepted_sequence = excluded.accepted_sequence, last_seen_at = now()),
mutation as (
    insert into mutations (organization_id, user_id, id, device_id, sequence_number, position, change_position,
        idempotency_key, fingerprint, operation, entity_type, local_id, server_id, endpoint, payload, priority, status,
        version, response_status, created_at, synced_at)
    select $1, $2, id, $3, number, $15 + place - 1, $16, key, fingerprint, 'create', type, local, server, endpoint,
        payload::json, priority, 'succeeded', 1, 201, created_at, now() from pushed),
mapping as (
    insert into id_mappings (organization_id, user_id, client_id, entity_type, server_id, status, mutation_id,
        change_position)
    select $1, $2, local, type, server, 'resolved', id, $16 from pushed),
feed as (
    insert into feeds as f values ($1, $17)
    on conflict (organization_id) do update set last_position = f.last_position + $17
    returning last_position - $17 as first)
insert into entities (organization_id, entity_type, id, version, document, feed_position, owner_id, client_id,
    updated_by, updated_on)
select $1, type, server, 1, payload::json, feed.first + place, $2, local, $2, $3 from pushed, feed
"""


@contextlib.asynccontextmanager
async def lifespan(app: Starlette):
    app.state.pool = await asyncpg.create_pool(os.environ["DSN"], min_size=4, max_size=8)
    yield
    await app.state.pool.close()


def fingerprint(one: dict) -> bytes:
    content = [one["operation"], one["entity_type"], one.get("endpoint"), one["payload"], one.get("headers")]
    return b"\1" + hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest()


def result(
    one: dict, status: str, server_id: str | None, version: int | None, *, replayed: bool = False,
    code: str | None = None,
) -> dict:
    return {
        "id": one["id"], "idempotency_key": one["idempotency_key"], "sequence_number": one["sequence_number"],
        "status": status, "local_id": one["local_id"], "server_id": server_id, "version": version, "replayed": replayed,
        "error": None if code is None else {"code": code},
    }


async def push(request: Request) -> Response:
    # The user is in place of the gateway's signed token: Bearer organization/user, without verification.
    organization, user = map(uuid.UUID, request.headers["authorization"].removeprefix("Bearer ").split("/"))
    body = orjson.loads(await request.body())
    device, entries = uuid.UUID(body["device_id"]), body["mutations"]
    prints = [fingerprint(one) for one in entries]
    results = []
    async with request.app.state.pool.acquire() as connection, connection.transaction():
        position, change, watermark = await connection.fetchrow(BEGIN, organization, user, device)
        watermark = watermark or 0
        rows = await connection.fetch(KNOWN, organization, user, [one["idempotency_key"] for one in entries])
        known = {str(row["idempotency_key"]): row for row in rows}
        new = []
        for one, mark in zip(entries, prints):
            if row := known.get(one["idempotency_key"]):
                if row["fingerprint"] == mark:
                    results.append(result(one, row["status"], row["server_id"], row["version"], replayed=True))
                else:
                    results.append(result(one, "rejected", None, None, code="idempotency_key_reused"))
            elif one["sequence_number"] <= watermark:
                results.append(result(one, "rejected", None, None, code="sequence_number_used"))
            else:
                watermark = one["sequence_number"]
                server = str(uuid.uuid4())
                new.append((one, mark, server))
                results.append(result(one, "succeeded", server, 1))
        if new:
            ones = [one for one, _, _ in new]
            await connection.execute(
                WRITE, organization, user, device,
                [one["id"] for one in ones], [one["sequence_number"] for one in ones],
                [one["idempotency_key"] for one in ones], [mark for _, mark, _ in new],
                [one["entity_type"] for one in ones], [one["local_id"] for one in ones],
                [server for _, _, server in new], [one.get("endpoint") for one in ones],
                [orjson.dumps(one["payload"]).decode() for one in ones], [one["priority"] for one in ones],
                [datetime.fromisoformat(one["created_at"]) for one in ones],
                position, change, len(new), watermark,
            )
    return Response(orjson.dumps({"results": results}), media_type="application/json")


app = Starlette(routes=[Route("/push", push, methods=["POST"])], lifespan=lifespan)
