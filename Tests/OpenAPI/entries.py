"""Pushes an entry with every member at, and just beyond, each bound that the document's schema names.

schemathesis rarely reaches the members of a push's entries, because most generated requests are invalid before that.
"""

import argparse
import os
import sys
import uuid

import requests

from contract import Contract, load
from pushes import complaints

ANYTHING = [None, True, 0, 1, 1.0, 1.5, -1, "", "x", "1", [], ["x"], [1], {}, {"x": "y"}, {"x": 1}]
WORDS = [
    str(uuid.UUID(int=7)), str(uuid.UUID(int=7)).replace("-", ""), "{" + str(uuid.UUID(int=7)) + "}", "A", "é", "a b",
    "create", "Create", "POST", "post", "manual", "2026-11-20T07:00:00Z", "2026-11-20t07:00:00.123456+01:00",
    "2026-11-20", "2026-11-20T07:00:00", "2026-13-20T07:00:00Z", "20261120T070000Z", "/x", "//x", "/x/../y",
    "/x/%2e%2E", "/x/%2F", "/x/%2F..", "/x/%5c..", "/x/..;/y", "/..;", "/x/%252e%252e", "/%2fx", "/x/%c3%28", "/x/%C3%A6",
    "/x/%ed%a0%80", "/x?y=%", "/x%", "/x#y", "/x y", "/x\\y", "http://x/", "/{local_id}", "/x\n", "x\x7f",
]
HEADERS = [
    "x", "X-Y", "x y", "", "é", "Host", "IDEMPOTENCY-KEY", "cookie", "traceparent", "x-sluice-user", "hosts", "Accept",
    "prefer", "if-match", "X_Sluice_User", "x-http-method-override", "X_Forwarded_For", "forwarded", "X.Original.URL",
]


def around(schema):
    """Values at the bounds that a schema names, and beyond them."""
    for bound in ("minimum", "maximum"):
        if bound in schema:
            yield from (schema[bound] - 1, schema[bound], schema[bound] + 1)
    for value in schema.get("enum", []):
        yield value
        if isinstance(value, str):
            yield from (value.swapcase(), value + "x")
    if "maxLength" in schema:
        yield from ("/" + "a" * (schema["maxLength"] + more) for more in (-2, -1, 0))
    if "maxItems" in schema:
        yield from ([str(uuid.UUID(int=i)) for i in range(schema["maxItems"] + more)] for more in (0, 1))
    if "maxProperties" in schema:
        yield from ({f"x{i}": "y" for i in range(schema["maxProperties"] + more)} for more in (0, 1))
        yield from ({name: "y"} for name in HEADERS)
        longest = schema["additionalProperties"]["maxLength"]
        yield from ({"accept": value} for value in ["", "\t", "\n", "\0", "é", "y" * longest, "y" * (longest + 1)])


def entries(contract):
    """Variants of a valid entry."""
    schema = contract.resolve({"$ref": "#/components/schemas/MutationDraft"})
    members = schema["properties"]
    for name, member in members.items():
        member = contract.resolve(member)
        yield lambda entry, name=name: entry.pop(name, None)
        for value in [*ANYTHING, *WORDS, *around(member), *(["a" * 64, "a" * 65] if name == "entity_type" else [])]:
            yield lambda entry, name=name, value=value: entry.update({name: value})
    yield lambda entry: entry.update(local_Id=entry["id"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document")
    parser.add_argument("--public", required=True, help="the public listener's address")
    arguments = parser.parse_args()
    contract = Contract(load(arguments.document))
    session = requests.Session()
    session.headers["Authorization"] = "Bearer " + os.environ["SLUICE_USER_TOKEN"]
    drafts = []
    for number, change in enumerate(entries(contract), start=1):
        entry = {
            "id": str(uuid.uuid4()), "idempotency_key": str(uuid.uuid4()), "sequence_number": number,
            "operation": "create", "entity_type": "note", "local_id": str(uuid.uuid4()), "payload": {},
            "created_at": "2026-11-18T08:00:00Z",
        }
        change(entry)
        drafts.append(entry)
    found = []
    taken = 0
    # one device for each, because a number at the end of the range leaves no number after it
    for entry in drafts:
        body = {"device_id": str(uuid.uuid4()), "mutations": [entry]}
        reply = session.post(arguments.public + "/v1/mutations", json=body, timeout=30)
        reply.raise_for_status()
        found += complaints(contract, body, reply.json())
        taken += reply.json()["results"][0]["status"] != "rejected"
    # otherwise the test would pass without any check
    if not 50 < taken < len(drafts) - 50:
        found.append(f"{taken} of {len(drafts)} entries are taken")
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
