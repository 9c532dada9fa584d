"""Whether a push judges its entries as the document's schemas do."""

# What is wrong with an entry by itself; `validation_failed` has other rules for what is wrong with it here and now.
OF_THE_SCHEMA = {
    "member_range", "member_unknown", "member_duplicate", "member_type", "timestamp_rfc3339", "header_not_allowed",
    "operation_must_be_valid_verb", "endpoint_must_be_relative_path", "uuid_format",
}


def complaints(contract, body, answer):
    """What is taken that does not fit, or rejected for its form though it fits."""
    schemas = contract.document["components"]["schemas"]
    if not isinstance(body, dict) or not isinstance(body.get("mutations"), list):
        yield f"a body that is no push is taken: {body!r}"
        return
    for problem in contract.problems({**body, "mutations": []}, schemas["Push"]):
        yield f"an envelope that does not fit its schema is taken: {problem}"
    for entry, result in zip(body["mutations"], answer["results"], strict=True):
        problems = contract.problems(entry, schemas["MutationDraft"])
        if problems and result["status"] != "rejected":
            yield f"an entry that does not fit its schema is taken: {problems}"
        elif not problems and result["status"] == "rejected" and result["error"]["code"] == "validation_failed":
            # which headers an organization takes is known to the gateway alone
            rules = {
                error["rule"] for error in result["error"]["errors"] if "is not an allowed header" not in error["detail"]
            } & OF_THE_SCHEMA
            if rules:
                yield f"an entry that fits its schema is rejected: {result['error']}"
