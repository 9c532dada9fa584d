"""Runs schemathesis, which searches for differences between the document and a running gateway, with all of its checks.

The document's examples run first, so that the objects that they name exist.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import requests

from contract import Contract, load
from examples import Runner

FOLDER = os.path.dirname(os.path.abspath(__file__))


def prepare(arguments):
    """Executes the examples, except those that delete everything, or all data of the requesting user. Other tests check
    the responses."""
    document = load(arguments.document)
    document["x-example-order"] = [
        entry
        for entry in document["x-example-order"]
        if not entry.startswith(("deleteOrganization ", "deleteUser erase ", "revokeServiceToken ", "deleteSource "))
    ]
    arguments.record = False
    arguments.clock = 1795000000
    runner = Runner(Contract(document), arguments)
    runner.run()
    # a user of another tenant, for whom the first user's objects do not exist
    url = f"{arguments.operations}/admin/organizations/{os.environ['SLUICE_OTHER_ORGANIZATION']}"
    headers = {"Authorization": "Bearer " + os.environ["SLUICE_OPERATOR_TOKEN"]}
    requests.put(url, headers=headers, json={"status": "active"}, timeout=30).raise_for_status()
    return runner.token("serviceToken")


def configuration(arguments, folder):
    """schemathesis.toml, with the callers' tokens."""
    with open(os.path.join(FOLDER, "schemathesis.toml"), encoding="utf-8") as file:
        text = file.read().replace('hooks = "hooks.py"', f"hooks = {json.dumps(os.path.join(FOLDER, 'hooks.py'))}")
    if arguments.listener == "operations":
        return text + '\n[auth.openapi.operatorToken]\nbearer = "${SLUICE_OPERATOR_TOKEN}"\n'
    users = [("ada", "SLUICE_USER_TOKEN"), ("eve", "SLUICE_OTHER_TOKEN")]
    path = os.path.join(folder, "users.json")
    with open(path, "w", encoding="utf-8") as file:
        headers = {
            name: [{"name": "Authorization", "value": "Bearer " + os.environ[variable]}] for name, variable in users
        }
        json.dump({"auth": [{"name": name, "fixedHeaders": headers[name]} for name, _ in users]}, file)
    return text + f'\n[auth.wfc]\npath = {json.dumps(path)}\npeers = ["ada", "eve"]\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document")
    parser.add_argument("listener", choices=["public", "operations"])
    parser.add_argument("--public", required=True, help="the public listener's address")
    parser.add_argument("--operations", required=True, help="the operations listener's address")
    parser.add_argument("--skip", action="append", default=[], help="METHOD PATH of a route that is not tried")
    parser.add_argument("--examples", default=os.environ.get("FUZZ_EXAMPLES", "8"), help="made up of each operation")
    parser.add_argument("--seed", default=os.environ.get("FUZZ_SEED", "1"), help="another one makes up others")
    arguments = parser.parse_args()
    service_token = prepare(arguments)
    contract = Contract(load(arguments.document))
    command = [sys.executable, "-m", "schemathesis.cli"]
    url = arguments.operations if arguments.listener == "operations" else arguments.public
    options = ["--url", url, "--checks", "all", "--max-examples", arguments.examples, "--seed", arguments.seed]
    for method, path, item, _ in contract.operations():
        name = f"{method.upper()} {path}"
        if ("servers" in item) == (arguments.listener == "operations") and name not in arguments.skip:
            options += ["--include-name", name]
    environment = {
        **os.environ,
        "PYTHONPATH": FOLDER,
        "SLUICE_DOCUMENT": arguments.document,
        "SLUICE_SERVICE_TOKEN": service_token,
        "SLUICE_PUBLIC": arguments.public,
        "SLUICE_OPERATIONS": arguments.operations,
        "SLUICE_ORGANIZATION": contract.example_organization(),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "schemathesis.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(configuration(arguments, folder))
        command += ["--config-file", path, "run", arguments.document] + options
        sys.exit(subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=False).returncode)


if __name__ == "__main__":
    main()
