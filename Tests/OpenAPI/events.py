"""Server-sent events as comparable values, and the reverse."""

import json

# the `data` of an event
SCHEMAS = {"mutation": "MutationEvent", "id_mapping": "IDMapping", "changes": "ChangesEvent"}


def parse(text):
    """The frames of a stream without its comments: their fields by name, `data` as JSON."""
    frames = []
    for block in text.split("\n\n"):
        fields = {}
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            if name == "data" and name in fields:
                value = fields[name] + "\n" + value
            if name:
                fields[name] = value
        if fields:
            frames.append({**fields, "data": json.loads(fields["data"])} if "data" in fields else fields)
    return frames


def render(frames):
    """The stream that has these frames."""
    blocks = []
    for frame in frames:
        shown = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in frame.items()
        }
        blocks.append("".join(f"{name}: {value}\n" for name, value in shown.items()))
    return "".join(block + "\n" for block in blocks)


def problems(contract, frames):
    """The errors in the data of events."""
    for frame in frames:
        if "data" in frame:
            schema = {"$ref": f"#/components/schemas/{SCHEMAS[frame['event']]}"}
            yield from contract.problems(frame["data"], schema, strict=True)
