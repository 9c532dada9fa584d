"""Compares the lines of a user's export with the document: the members of each kind, and that every kind occurs."""

import json
import sys

from contract import Contract, load


def complaints(contract, lines):
    schemas = contract.document["components"]["schemas"]
    kinds = {}
    for line in schemas["UserExportLine"]["oneOf"]:
        name = line["$ref"].rsplit("/", 1)[1]
        parts = [schemas[name], *schemas[name].get("allOf", [])]
        kinds[next(part["properties"]["kind"]["enum"][0] for part in parts if "properties" in part)] = line
    found = {line["kind"] for line in lines}
    if found != set(kinds):
        yield f"the lines have the kinds {sorted(found)}, the document {sorted(kinds)}"
    for line in lines:
        if line["kind"] in kinds:
            for problem in contract.problems(line, kinds[line["kind"]], strict=True):
                yield f"{line['kind']}: {problem}"


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        text = file.read()
    problems = list(complaints(Contract(load(sys.argv[1])), [json.loads(line) for line in text.splitlines()]))
    print("\n".join(problems))
    sys.exit(1 if problems else 0)
