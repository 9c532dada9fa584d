"""A push as a good Python team would write it, with set-based SQL through asyncpg and one transaction per request.
It makes about a third of the gateway's writes, because it has no lanes, devices, feed or dependencies. DSN names the
database."""

import contextlib
import hashlib
import os
import uuid

import asyncpg
import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

POSITION = """
insert into streams as s values ($1, $2, $3)
on conflict (organization_id, user_id) do update set position = s.position + $3
returning position - $3
"""
KEYS = """
insert into idempotency (organization_id, user_id, key, fingerprint, server_id)
select $1, $2, k, f, s from unnest($3::uuid[], $4::bytea[], $5::uuid[]) u (k, f, s)
on conflict do nothing
returning key
"""
MAPPINGS = """
insert into id_mappings (organization_id, user_id, entity_type, client_id, server_id)
select $1, $2, t, l, s from unnest($3::text[], $4::uuid[], $5::uuid[]) u (t, l, s)
"""
ENTITIES = """
insert into entities
select $1, t, s, d::jsonb, $6 + n from unnest($2::text[], $3::uuid[], $4::text[], $5::int[]) u (t, s, d, n)
"""


@contextlib.asynccontextmanager
async def lifespan(app: Starlette):
    app.state.pool = await asyncpg.create_pool(os.environ["DSN"], min_size=4, max_size=8)
    yield
    await app.state.pool.close()


async def push(request: Request) -> Response:
    # The user is in place of the gateway's signed token, as `Bearer organization/user`, without verification.
    organization, user = map(uuid.UUID, request.headers["authorization"].removeprefix("Bearer ").split("/"))
    mutations = orjson.loads(await request.body())["mutations"]
    keys = [one["idempotency_key"] for one in mutations]
    local_ids = [one["local_id"] for one in mutations]
    types = [one["entity_type"] for one in mutations]
    documents = [orjson.dumps(one["payload"]).decode() for one in mutations]
    prints = [hashlib.sha256(one.encode()).digest() for one in documents]
    server_ids = [str(uuid.uuid4()) for _ in mutations]
    places = list(range(len(mutations)))
    async with request.app.state.pool.acquire() as connection, connection.transaction():
        first = await connection.fetchval(POSITION, organization, user, len(mutations))
        rows = await connection.fetch(KEYS, organization, user, keys, prints, server_ids)
        new = types, local_ids, server_ids, documents, places
        if len(rows) < len(keys):
            # the other mutations were pushed before
            kept = {str(row["key"]) for row in rows}
            new = [[value for key, value in zip(keys, column) if key in kept] for column in new]
        types, local_ids, made, documents, places = new
        if rows:
            await connection.execute(MAPPINGS, organization, user, types, local_ids, made)
            await connection.execute(ENTITIES, organization, types, made, documents, places, first)
    results = [
        {"idempotency_key": key, "status": "succeeded", "server_id": server_id}
        for key, server_id in zip(keys, server_ids)
    ]
    return Response(orjson.dumps({"results": results}), media_type="application/json")


app = Starlette(routes=[Route("/push", push, methods=["POST"])], lifespan=lifespan)
