"""Generates a Python client from the document that a gateway serves, and uses it."""

import argparse
import datetime
import importlib
import os
import subprocess
import sys
import tempfile
import uuid


def generate(url, folder):
    """The client's package."""
    configuration = os.path.join(folder, "configuration.yml")
    with open(configuration, "w", encoding="utf-8") as file:
        # formatting only helps readers
        file.write("post_hooks: []\npackage_name_override: generated_client\n")
        # the generator reads lines of JSON as text
        file.write("content_type_overrides:\n  application/x-ndjson: text/plain\n")
    command = [sys.executable, "-c", "from openapi_python_client.cli import app; app()", "generate", "--url", url]
    command += ["--config", configuration, "--meta", "none", "--output-path", os.path.join(folder, "generated_client")]
    # a warning means that a part was omitted
    subprocess.run([*command, "--fail-on-warning"], check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, folder)
    return importlib.import_module("generated_client")


def use(package, address):
    """A push, a pull, and a rejection, all typed."""
    models = importlib.import_module(package.__name__ + ".models")
    api = {
        name: importlib.import_module(f"{package.__name__}.api.{name}").sync
        for name in ["mutations.push_mutations", "mutations.get_mutation", "changes.list_changes"]
    }
    client = package.AuthenticatedClient(base_url=address, token=os.environ["SLUICE_USER_TOKEN"])
    draft = models.MutationDraft(
        id=uuid.uuid4(), idempotency_key=uuid.uuid4(), sequence_number=1, operation=models.Operation.CREATE,
        entity_type="contact", local_id=uuid.uuid4(), payload={"name": "Kari"},
        created_at=datetime.datetime.now(datetime.timezone.utc),
    )
    answer = api["mutations.push_mutations"](
        client=client, body=models.Push(device_id=uuid.uuid4(), mutations=[draft]), prefer="handling=strict"
    )
    assert isinstance(answer, models.PushAnswer), answer
    result = answer.results[0]
    assert isinstance(result, models.AcceptedResult) and result.status == models.MutationStatus.SUCCEEDED, result
    mutation = api["mutations.get_mutation"](draft.id, client=client)
    assert isinstance(mutation, models.Mutation) and mutation.payload == {"name": "Kari"}, mutation
    page = api["changes.list_changes"](client=client)
    assert isinstance(page, models.ChangePage) and page.up_to_date, page
    assert [change.id for change in page.changes] == [result.server_id], page
    refusal = api["changes.list_changes"](client=client, since="nonsense")
    assert isinstance(refusal, models.InvalidRequestProblem), refusal
    assert refusal.code == "invalid_request" and refusal.errors[0].rule == "parameter_invalid", refusal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--public", required=True, help="the public listener's address")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        use(generate(arguments.public + "/openapi.json", folder), arguments.public)


if __name__ == "__main__":
    main()
