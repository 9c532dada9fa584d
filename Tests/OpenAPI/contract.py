"""The OpenAPI document, as the programs in this folder read it."""

import json
import re

import jsonschema

METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _pattern(validator, pattern, value, schema):
    """Patterns follow ECMA-262, whose `$` matches only at the end, unlike Python's, which also matches before a last
    newline."""
    python = pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern
    if isinstance(value, str) and not re.search(python, value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": _pattern})


class Contract:
    def __init__(self, document):
        self.document = document
        strict = {name: _strict(schema) for name, schema in document["components"]["schemas"].items()}
        # where `#/components/schemas/…` leads, from a schema in the same document
        self._lenient = {"components": {"schemas": document["components"]["schemas"]}}
        self._strict = {"components": {"schemas": strict}}

    def operations(self):
        """(method, path, path item, operation) of every operation, in the document's order."""
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if method in item:
                    yield method, path, item, item[method]

    def example_organization(self):
        """The users whose data the examples contain."""
        return self.document["paths"]["/admin/organizations/{id}"]["get"]["parameters"][0]["example"]

    def resolve(self, value):
        """The target of a `$ref`, or the value itself."""
        while isinstance(value, dict) and "$ref" in value:
            target = self.document
            for step in value["$ref"].removeprefix("#/").split("/"):
                target = target[step.replace("~1", "/").replace("~0", "~")]
            value = target
        return value

    def problems(self, value, schema, strict=False):
        """The errors of a value. If strict, members that the schema does not name are errors, too."""
        if strict:
            root = {**_strict(schema, outermost=True), **self._strict}
        else:
            root = {**schema, **self._lenient}
        validator = Validator(root, format_checker=jsonschema.FormatChecker())
        return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(value)]


def _strict(schema, outermost=False, in_all_of=False):
    """The schema, without members that it does not name.

    A schema combined by `allOf` is closed where it is used, not in its parts; the same applies to components.
    """
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if key in ("properties", "patternProperties"):
            value = {name: _strict(part, outermost=True) for name, part in value.items()}
        elif key == "allOf":
            value = [_strict(part, in_all_of=True) for part in value]
        elif key in ("oneOf", "anyOf"):
            value = [_strict(part, outermost=True) for part in value]
        elif key in ("items", "additionalProperties", "propertyNames"):
            value = _strict(value, outermost=True)
        result[key] = value
    names_members = any(key in schema for key in ("properties", "allOf", "$ref"))
    if outermost and not in_all_of and names_members and "additionalProperties" not in schema:
        result["unevaluatedProperties"] = False
    return result
