"""Whether a push validates its entries like the document's schemas."""

# Rules about an entry alone. `validation_failed` has further rules, which depend on stored data.
OF_THE_SCHEMA = {
    "member_range", "member_unknown", "member_duplicate", "member_type", "timestamp_rfc3339", "header_not_allowed",
    "operation_must_be_valid_verb", "endpoint_must_be_relative_path", "uuid_format",
}


def complaints(contract, body, answer):
    """Entries that are accepted although they do not match, or rejected for their form although they match."""
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
            # the schema does not express which headers an organization accepts
            rules = {
                error["rule"] for error in result["error"]["errors"] if "is not an allowed header" not in error["detail"]
            } & OF_THE_SCHEMA
            if rules:
                yield f"an entry that fits its schema is rejected: {result['error']}"
