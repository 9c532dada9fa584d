"""Executes the document's examples against a running gateway.

`x-example-order` is a list of "OPERATION EXAMPLE STATUS": the calls in their order. A call's parameters, body and
response are the examples of that name. A parameter without such a name uses its single `example`.

The response must have the status and be valid against its schema without additional members. It must equal its example,
except for times and for the ids and cursors that the gateway generates. The first occurrence of each is recorded and
replaces the example's value in all later places, also in requests.

With --record, new or different responses are written into the document.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import re
import sys
import urllib.parse

import requests

import events
from contract import Contract, load

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
# cursors of the feed, of id mappings and of events contain the feed's epoch, which is random
CURSOR = re.compile(r"([fie]1)-([0-9a-z]+)-(.*)")
REQUEST_ID = "019bb000-7e57-7000-8000-000000000001"
EPOCH = "bcttei3ol"
# service tokens, which are generated like ids
TOKEN = re.compile(r"slt_[A-Za-z0-9_-]{86}")
EXAMPLE_TOKEN = "slt_" + "A" * 86
# prefixes of ids that the gateway generated, in examples
MADE = "019bb100-5e00-7000-8000-"


# the secret with which the examples' source verifies messages
SECRET = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def signed(identifier, body, seconds):
    """The headers of a message according to Standard Webhooks."""
    text = f"{identifier}.{seconds}.".encode() + body
    code = hmac.new(base64.b64decode(SECRET), text, hashlib.sha256).digest()
    return {"webhook-timestamp": str(seconds), "webhook-signature": "v1," + base64.b64encode(code).decode()}


class Mismatch(Exception):
    pass


class Runner:
    def __init__(self, contract, arguments):
        self.contract = contract
        self.arguments = arguments
        self.operations = {o["operationId"]: (m, p, i, o) for m, p, i, o in contract.operations()}
        self.learned = {}
        self.complaints = []
        self.executed = set()
        self.session = requests.Session()
        # ids that clients generate
        self.known = {REQUEST_ID}
        for requests_of in [list(self.named_requests(operation)) for operation in self.operations]:
            self.known.update(UUID.findall(json.dumps(requests_of)))

    def run(self):
        for entry in self.contract.document["x-example-order"]:
            operation, name, status = entry.split()
            method, path, _, _ = self.operations[operation]
            self.executed.add((operation, name))
            if f"{method.upper()} {path}" in self.arguments.skip or f"{operation} {name}" in self.arguments.skip:
                continue
            for complaint in self.call(operation, name, status):
                self.complaints.append(f"{entry}: {complaint}")
        for operation in self.operations:
            for name in self.names(operation):
                if (operation, name) not in self.executed:
                    self.complaints.append(f"{operation} {name}: x-example-order does not have it")
        return self.complaints

    # MARK: - The document's content

    def named_requests(self, operation):
        *_, definition = self.operations[operation]
        for parameter in definition.get("parameters", []):
            parameter = self.contract.resolve(parameter)
            yield parameter.get("examples", {})
            if "example" in parameter:
                self.known.update(UUID.findall(json.dumps(parameter["example"])))
        for content in definition.get("requestBody", {}).get("content", {}).values():
            yield content.get("examples", {})

    def names(self, operation):
        *_, definition = self.operations[operation]
        names = set().union(*self.named_requests(operation), set())
        for response in definition["responses"].values():
            for content in self.contract.resolve(response).get("content", {}).values():
                names.update(content.get("examples", {}))
        return names

    # MARK: - One call

    def call(self, operation, name, status):
        method, path, item, definition = self.operations[operation]
        base = self.arguments.operations if "servers" in item else self.arguments.public
        headers = {"X-Request-ID": REQUEST_ID}
        query = []
        for parameter in map(self.contract.resolve, definition.get("parameters", [])):
            examples = parameter.get("examples", {})
            if name in examples:
                value = examples[name]["value"]
            elif "example" in parameter:
                value = parameter["example"]
            elif parameter.get("required"):
                yield f"there is no example of the parameter {parameter['name']}"
                continue
            else:
                continue
            for problem in self.contract.problems(value, parameter["schema"]):
                yield f"parameter {parameter['name']}: {problem}"
            value = self.live(value)
            value = json.dumps(value) if isinstance(value, bool) else value
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", urllib.parse.quote(text, safe=""))
            elif parameter["in"] == "query":
                query.append((parameter["name"], text))
            else:
                headers[parameter["name"]] = text
        body = None
        for media, content in definition.get("requestBody", {}).get("content", {}).items():
            if name in content.get("examples", {}):
                value = content["examples"][name]["value"]
                for problem in self.contract.problems(value, content["schema"]):
                    yield f"body: {problem}"
                body = json.dumps(self.live(value)).encode()
                headers["Content-Type"] = media
        for scheme in self.schemes(definition):
            if scheme == "operatorSession":
                # browsers use the cookie; the token is the alternative
                continue
            if scheme == "webhookSignature":
                headers.update(signed(headers["webhook-id"], body or b"", self.arguments.clock))
            else:
                headers["Authorization"] = "Bearer " + self.token(scheme)
        url = base + path + ("?" + urllib.parse.urlencode(query) if query else "")
        reply = self.session.request(method.upper(), url, headers=headers, data=body, timeout=30)
        if str(reply.status_code) != status:
            yield f"answered {reply.status_code}: {reply.text[:1000]}"
            return
        yield from self.check(reply, self.contract.resolve(definition["responses"][status]), name)

    def token(self, scheme):
        if scheme == "serviceToken":
            return self.learned.get(EXAMPLE_TOKEN, EXAMPLE_TOKEN)
        return os.environ["SLUICE_OPERATOR_TOKEN" if scheme == "operatorToken" else "SLUICE_USER_TOKEN"]

    def schemes(self, definition):
        security = definition.get("security", self.contract.document["security"])
        return [scheme for requirement in security for scheme in requirement]

    def check(self, reply, response, name):
        for header, definition in response.get("headers", {}).items():
            definition = self.contract.resolve(definition)
            if header not in reply.headers:
                if definition.get("required"):
                    yield f"has no header {header}"
                continue
            value = reply.headers[header]
            if definition["schema"].get("type") == "integer":
                value = int(value)
            for problem in self.contract.problems(value, definition["schema"]):
                yield f"header {header}: {problem}"
        media = reply.headers.get("Content-Type", "").split(";")[0]
        content = response.get("content", {}).get(media)
        if content is None:
            if reply.content or response.get("content"):
                yield f"the media type '{media}' is not documented"
            return
        examples = content.get("examples", {})
        if name not in examples:
            yield "there is no example of the answer"
            return
        if media == "text/event-stream":
            answer, example = events.parse(reply.text), events.parse(examples[name]["value"])
            yield from events.problems(self.contract, answer)
        elif media.endswith("json"):
            answer, example = reply.json(), examples[name]["value"]
            yield from self.contract.problems(answer, content["schema"], strict=True)
        else:
            return
        learned = dict(self.learned)
        try:
            self.compare(example, answer, "$")
        except Mismatch as mismatch:
            if not self.arguments.record:
                yield str(mismatch)
                return
            self.learned = learned
            answer = self.documented(answer)
            examples[name]["value"] = events.render(answer) if media == "text/event-stream" else answer

    # MARK: - Values that the gateway generates

    def compare(self, example, answer, place):
        """Compares two values. Times may differ, and so may ids and cursors if they correspond consistently."""
        if type(example) is not type(answer):
            raise Mismatch(f"{place} is {json.dumps(answer)[:200]}, not {json.dumps(example)[:200]}")
        if isinstance(example, dict):
            if list(example) != list(answer):
                raise Mismatch(f"{place} has the members {list(answer)}, not {list(example)}")
            for key in example:
                self.compare(example[key], answer[key], f"{place}.{key}")
        elif isinstance(example, list):
            if len(example) != len(answer):
                raise Mismatch(f"{place} has {len(answer)} elements, not {len(example)}")
            for index, (left, right) in enumerate(zip(example, answer)):
                self.compare(left, right, f"{place}[{index}]")
        elif isinstance(example, str):
            if self.is_same(example, answer):
                return
            raise Mismatch(f"{place} is {answer!r}, not {example!r}")
        elif example != answer:
            raise Mismatch(f"{place} is {answer!r}, not {example!r}")

    def is_same(self, example, answer):
        if example in self.learned:
            return self.learned[example] == answer
        if example == answer or (TIME.fullmatch(example) and TIME.fullmatch(answer)):
            return True
        left, right = CURSOR.fullmatch(example), CURSOR.fullmatch(answer)
        if TOKEN.fullmatch(example) and TOKEN.fullmatch(answer):
            same = True
        elif left and right:
            same = left[1] == right[1] and self.replaced(left[3]) == right[3]
        else:
            same = example.startswith(MADE) and UUID.fullmatch(answer) and answer not in self.known
        if not same or answer in self.learned.values():
            return False
        self.learned[example] = answer
        return True

    def replaced(self, text):
        for example, answer in self.learned.items():
            text = text.replace(example, answer)
        return text

    def live(self, value):
        """A value of a request, with the gateway's generated values instead of the example's."""
        if isinstance(value, dict):
            return {key: self.live(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.live(part) for part in value]
        return self.learned.get(value, value) if isinstance(value, str) else value

    def documented(self, value):
        """A response as an example shows it: ids and cursors are the same in every recording."""
        if isinstance(value, dict):
            return {key: self.documented(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.documented(part) for part in value]
        if not isinstance(value, str):
            return value
        for example, answer in self.learned.items():
            if answer == value:
                return example
        cursor = CURSOR.fullmatch(value)
        example = value
        if cursor:
            example = f"{cursor[1]}-{EPOCH}-{cursor[3]}"
        elif TOKEN.fullmatch(value):
            example = EXAMPLE_TOKEN
        elif UUID.fullmatch(value) and value not in self.known:
            example = f"{MADE}{sum(1 for known in self.learned if known.startswith(MADE)) + 1:012}"
        if example != value:
            self.learned[example] = value
        return example


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document")
    parser.add_argument("--public", required=True, help="the public listener's address")
    parser.add_argument("--operations", required=True, help="the operations listener's address")
    parser.add_argument("--skip", action="append", default=[], help="METHOD PATH or OPERATION EXAMPLE not tried")
    parser.add_argument("--clock", type=int, default=1795000000, help="the gateway's, in seconds since 1970")
    parser.add_argument("--record", action="store_true", help="write answers that differ into the document")
    arguments = parser.parse_args()
    contract = Contract(load(arguments.document))
    complaints = Runner(contract, arguments).run()
    if arguments.record:
        with open(arguments.document, "w", encoding="utf-8") as file:
            json.dump(contract.document, file, indent=2, ensure_ascii=False)
            file.write("\n")
    print("\n".join(complaints))
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
