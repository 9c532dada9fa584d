"""Reports errors of the document itself: it is not OpenAPI 3.1, or its examples do not match its schemas."""

import sys

from openapi_spec_validator import OpenAPIV31SpecValidator

from contract import Contract, load


def examples(place, holder):
    """(location, value) of each example."""
    if "example" in holder:
        yield f"{place} example", holder["example"]
    for name, example in holder.get("examples", {}).items():
        yield f"{place} {name}", example["value"]


def contents(contract, place, holder):
    """(location, schema, value) of each example of bodies."""
    for media, content in holder.get("content", {}).items():
        for where, value in examples(f"{place} {media}", content):
            yield where, content["schema"], value


def complaints(document):
    for error in OpenAPIV31SpecValidator(document).iter_errors():
        yield f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
    contract = Contract(document)
    for method, path, _, operation in contract.operations():
        place = f"{method.upper()} {path}"
        for parameter in map(contract.resolve, operation.get("parameters", [])):
            for where, value in examples(f"{place} {parameter['name']}", parameter):
                yield from (f"{where}: {problem}" for problem in contract.problems(value, parameter["schema"]))
        for where, schema, value in contents(contract, place, operation.get("requestBody", {})):
            yield from (f"{where}: {problem}" for problem in contract.problems(value, schema))
        for status, response in operation["responses"].items():
            for where, schema, value in contents(contract, f"{place} {status}", contract.resolve(response)):
                yield from (f"{where}: {problem}" for problem in contract.problems(value, schema, strict=True))


if __name__ == "__main__":
    found = list(complaints(load(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)
