"""Facts about the gateway that its document does not contain: the sources of real cursors, and details that the general
checks lack."""

import os

import requests
import schemathesis
from hypothesis import strategies as st

from contract import Contract, load
from pushes import complaints

CONTRACT = Contract(load(os.environ["SLUICE_DOCUMENT"]))


# MARK: - Cursors


def cursors(listener, token, path, member):
    """Cursors of a list: the next cursor of a response."""
    answer = requests.get(
        os.environ[listener] + path, headers={"Authorization": "Bearer " + os.environ[token]}, timeout=30
    )
    found = answer.json().get(member) if answer.status_code == 200 else None
    made_up = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
    return st.one_of(st.just(found), made_up) if found else made_up


for name, listener, token, path in [
    ("mutation", "SLUICE_PUBLIC", "SLUICE_USER_TOKEN", "/v1/mutations?limit=1"),
    ("feed", "SLUICE_PUBLIC", "SLUICE_USER_TOKEN", "/v1/changes?limit=1"),
    ("mapping", "SLUICE_PUBLIC", "SLUICE_USER_TOKEN", "/v1/id-mappings?limit=1"),
    (
        "operator",
        "SLUICE_OPERATIONS",
        "SLUICE_OPERATOR_TOKEN",
        f"/admin/organizations/{os.environ['SLUICE_ORGANIZATION']}/mutations?limit=1",
    ),
    ("failure", "SLUICE_OPERATIONS", "SLUICE_OPERATOR_TOKEN", "/admin/failures?limit=1"),
    ("stuck", "SLUICE_OPERATIONS", "SLUICE_OPERATOR_TOKEN", "/admin/mutations?limit=1"),
    ("stopped-lane", "SLUICE_OPERATIONS", "SLUICE_OPERATOR_TOKEN", "/admin/lanes?limit=1"),
    ("operation", "SLUICE_OPERATIONS", "SLUICE_OPERATOR_TOKEN", "/admin/operations?limit=1"),
    (
        "lane",
        "SLUICE_OPERATIONS",
        "SLUICE_OPERATOR_TOKEN",
        f"/admin/organizations/{os.environ['SLUICE_ORGANIZATION']}/users/{os.environ['SLUICE_ORGANIZATION']}/lane?limit=1",
    ),
    (
        "recent",
        "SLUICE_OPERATIONS",
        "SLUICE_OPERATOR_TOKEN",
        f"/admin/organizations/{os.environ['SLUICE_ORGANIZATION']}/mutations/recent?limit=1",
    ),
    (
        "entity",
        "SLUICE_OPERATIONS",
        "SLUICE_OPERATOR_TOKEN",
        f"/admin/organizations/{os.environ['SLUICE_ORGANIZATION']}/entities?limit=1",
    ),
]:
    schemathesis.openapi.format(f"sluice-{name}-cursor", cursors(listener, token, path, "next"))

# Each token of the tests names one organization, and any other is rejected before all other checks.
@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is not None and case.meta.generation.mode.is_positive and case.headers:
        case.headers.pop("X-Sluice-Organization", None)
    # a program's token instead of a user's
    if operation(case) == "ingestEvents" and case.headers:
        users = ("SLUICE_USER_TOKEN", "SLUICE_OTHER_TOKEN")
        if case.headers.get("Authorization") in ["Bearer " + os.environ.get(name, "") for name in users]:
            case.headers["Authorization"] = "Bearer " + os.environ["SLUICE_SERVICE_TOKEN"]


# MARK: - Checks

# Reasons to reject a request that matches its schema: operation, code, rule, and the beginning of the detail.
REASONS = [
    # cursors are opaque, so the schema accepts any text; each is bound to its filter
    ("listMutations", "invalid_request", "parameter_invalid", "cursor"),
    ("listOrganizationMutations", "invalid_request", "parameter_invalid", "cursor"),
    ("listOrganizationMutations", "invalid_request", "parameter_invalid", "the query parameter 'cursor' is invalid"),
    ("listFailures", "invalid_request", "parameter_invalid", "cursor"),
    ("listFailures", "invalid_request", "parameter_invalid", "the query parameter 'cursor' is invalid"),
    ("listStuckMutations", "invalid_request", "parameter_invalid", "cursor"),
    ("listStuckMutations", "invalid_request", "parameter_invalid", "the query parameter 'cursor' is invalid"),
    ("listStuckMutations", "invalid_request", "parameter_invalid", "the query parameter 'user_id' requires"),
    ("listStoppedLanes", "invalid_request", "parameter_invalid", "cursor"),
    ("listStoppedLanes", "invalid_request", "parameter_invalid", "the query parameter 'cursor' is invalid"),
    ("listRecentMutations", "invalid_request", "parameter_invalid", "cursor"),
    ("listRecentMutations", "invalid_request", "parameter_invalid", "the query parameter 'cursor' is invalid"),
    ("listRecentMutations", "invalid_request", "parameter_invalid", "the query parameter 'entity_id' requires"),
    ("listEntities", "invalid_request", "parameter_invalid", "cursor"),
    ("listEntities", "invalid_request", "parameter_invalid", "the query parameter 'cursor' is invalid"),
    ("listEntities", "invalid_request", "parameter_invalid", "the query parameter 'entity_id' requires"),
    ("listEntities", "invalid_request", "parameter_invalid", "the query parameter 'payload' requires"),
    ("getUserLane", "invalid_request", "parameter_invalid", "the query parameter 'cursor' is invalid"),
    ("listOperations", "invalid_request", "parameter_invalid", "the query parameter 'cursor' is invalid"),
    ("listOperationsOfOrganization", "invalid_request", "parameter_invalid", "the query parameter 'cursor' is invalid"),
    # the syntax of templates and JSON Pointers, the bytes of a channel's name, and how visibility and channels depend on
    # each other
    ("putEntityType", "validation_failed", "channel_name", ""),
    ("putEntityType", "validation_failed", "member_range", "user must be a JSON Pointer"),
    ("putEntityType", "validation_failed", "member_range", "channels are used only with"),
    ("putEntityType", "validation_failed", "member_range", "check_channels needs"),
    ("putEntityType", "validation_failed", "member_required", "check_channels needs"),
    ("putEntityType", "validation_failed", "member_range", "grants need visibility"),
    ("putEntityType", "validation_failed", "member_required", "visibility is channels"),
    ("grantChannel", "validation_failed", "member_range", "channel must be a text"),
    ("revokeChannel", "invalid_request", "parameter_invalid", "the query parameter 'channel' must have"),
    ("getChannel", "invalid_request", "parameter_invalid", "the query parameter 'channel' must have"),
    ("getChannel", "invalid_request", "parameter_invalid", "the query parameter 'cursor' is invalid"),
    ("listChanges", "invalid_request", "parameter_invalid", "the query parameter 'channel' must be"),
    # the number of running operations is not in the request
    ("startOperation", "validation_failed", "member_range", "20 operations"),
    ("startOperation", "validation_failed", "entity_type_valid_enum", "'"),
    ("previewOperation", "validation_failed", "entity_type_valid_enum", "'"),
    ("listChanges", "invalid_request", "parameter_invalid", "since"),
    ("listChanges", "cursor_expired", None, ""),
    ("listMappings", "invalid_request", "parameter_invalid", "since"),
    ("pullChanges", "invalid_request", "parameter_invalid", "since"),
    ("pullChanges", "invalid_request", "parameter_invalid", "received"),
    # the bytes of a channel's name, and the dependency of two members
    ("pullChanges", "invalid_request", "member_range", "channels must be"),
    ("pullChanges", "invalid_request", "member_required", "received is required"),
    ("explainUser", "invalid_request", "parameter_invalid", "'entity_type' and 'entity_id'"),
    ("pullChanges", "cursor_expired", None, ""),
    # the schema does not express which types have device ids, and which numbers are left
    ("pullChanges", "invalid_request", "entity_type_valid_enum", "entities of type"),
    ("pullChanges", "validation_failed", "member_range", "'"),
    ("listMappings", "cursor_expired", None, ""),
    ("streamEvents", "invalid_request", "header_invalid", "Last-Event-ID"),
    ("streamEvents", "cursor_expired", None, ""),
    # the schema does not express whether an entity type is built in, and for which purpose it is sent
    ("retryMutation", "validation_failed", "payload_must_be_valid_json", "the payload of a"),
    ("retryMutation", "validation_failed", "dependency_ids_must_exist_in_queue", ""),
    ("retryMutation", "reference_ambiguous", "entity_reference_must_exist", ""),
    ("resolveConflict", "validation_failed", "payload_must_be_valid_json", "the payload of a"),
    # a payload is any JSON that PostgreSQL can store
    ("retryMutation", "validation_failed", "payload_must_be_valid_json", "The character U+0000"),
    ("resolveConflict", "validation_failed", "payload_must_be_valid_json", "The character U+0000"),
    ("resolveConflict", "validation_failed", "dependency_ids_must_exist_in_queue", ""),
    ("resolveConflict", "reference_ambiguous", "entity_reference_must_exist", ""),
    ("discardMutation", "validation_failed", "member_required", ""),
    # the same for an operator's
    ("retryMutationOfUser", "validation_failed", "payload_must_be_valid_json", ""),
    ("retryMutationOfUser", "validation_failed", "dependency_ids_must_exist_in_queue", ""),
    ("retryMutationOfUser", "reference_ambiguous", "entity_reference_must_exist", ""),
    ("resolveConflictOfUser", "validation_failed", "payload_must_be_valid_json", ""),
    ("resolveConflictOfUser", "validation_failed", "dependency_ids_must_exist_in_queue", ""),
    ("resolveConflictOfUser", "reference_ambiguous", "entity_reference_must_exist", ""),
    ("discardMutationOfUser", "validation_failed", "member_required", ""),
    ("putDevice", "validation_failed", "device_limit", ""),
    # a schema cannot compare a member with the path, and does not express which users can be merged
    ("joinUser", "validation_failed", "join_already", ""),
    ("joinUser", "validation_failed", "join_unknown_user", "the organization has no such target user"),
    ("joinUser", "validation_failed", "join_same_user", ""),
    # the schema does not express which users are merged
    ("joinUser", "validation_failed", "join_chain", ""),
    # the schema does not express which users are erased
    ("putUser", "user_erased", None, ""),
    # a schema cannot forbid segments of a path
    ("putUpstream", "validation_failed", "member_range", "erase_endpoint"),
    # a schema compares neither the rules of a list nor the members of a rule, and does not count bytes
    *[
        (operation, "validation_failed", "member_range", detail)
        for operation in ("putUpstream", "putEntityType")
        for detail in (
            "the rule never decides", "no answer satisfies", "a 5xx", "only a rule with then", "a rule with then",
            "a condition has one of", "pointer must be", "message must be", "document must be", "status must be",
        )
    ],
    ("putUpstream", "validation_failed", "member_range", "paused_until is in the past"),
    ("putUpstream", "validation_failed", "member_range", "an active upstream has no"),
    ("putUpstream", "validation_failed", "member_range", "batches need the organization's setting `order`"),
    ("putUpstream", "validation_failed", "timestamp_rfc3339", "paused_until must be"),
    # nor does it express the rules of paths, templates and pointers
    ("putEntityType", "validation_failed", "endpoint_must_be_relative_path", ""),
    ("putEntityType", "validation_failed", "member_range", '{"$"} must have'),
    ("putEntityType", "validation_failed", "member_range", "a body may have"),
    ("putEntityType", "validation_failed", "member_range", "id_pointer must be"),
    ("putEntityType", "validation_failed", "member_range", "document_pointer must be"),
    # a number is unique only together with its device and type
    ("lookUpMappings", "invalid_request", "member_required", "a number is an id of one device"),
    ("putEntityType", "validation_failed", "member_range", "the organization has no upstream"),
    ("putEntityType", "validation_failed", "relation_is_immutable", ""),
    # a schema counts characters
    ("putEntityType", "validation_failed", "member_range", "a relation is a member"),
    ("putUpstream", "validation_failed", "member_required", "base_url is required: the organization has no"),
    # the presence of a master key depends on the configuration
    ("putOrganization", "validation_failed", "master_key_required", ""),
    ("putOrganization", "validation_failed", "member_range", "external_id must be a text"),
    ("putOrganization", "validation_failed", "member_range", "issuer must be a text"),
    ("letUserIn", "validation_failed", "member_range", "subject must be a text"),
    ("letUserIn", "validation_failed", "member_range", "issuer must be a text"),
    ("listUsers", "invalid_request", "parameter_invalid", "the query parameter 'subject' must be a text"),
    ("listUsers", "invalid_request", "parameter_invalid", "the query parameter 'issuer' must be a text"),
    # nor compare one parameter with another
    ("listUsers", "invalid_request", "parameter_invalid", "the query parameter 'issuer' requires"),
    # a schema cannot forbid segments of a path
    ("testUpstream", "validation_failed", "member_range", "path "),
    # a schema cannot compare header names case-insensitively
    ("putUpstream", "validation_failed", "member_duplicate", "names of headers are compared without case"),
    ("putUpstream", "validation_failed", "header_not_allowed", ""),
    # allowed addresses depend on the configuration, and a schema cannot express which of them are private
    ("addWebhook", "validation_failed", "member_range", "url must be https"),
    ("addWebhook", "validation_failed", "member_range", "url cannot be used: its address"),
    ("addWebhook", "validation_failed", "member_range", "url cannot be used: it is not https"),
    ("addWebhook", "validation_failed", "member_range", "url contains an address in an unusual form"),
    ("addWebhook", "validation_failed", "member_range", "an organization has at most"),
    # the schema does not express the kind of an existing source
    ("rotateSourceSecret", "validation_failed", "member_range", ""),
    ("runSource", "validation_failed", "member_unknown", ""),
    ("runSource", "validation_failed", "member_range", ""),
    ("changeWebhook", "validation_failed", "member_range", "url must be https"),
    ("changeWebhook", "validation_failed", "member_range", "url cannot be used: its address"),
    ("changeWebhook", "validation_failed", "member_range", "url cannot be used: it is not https"),
    ("changeWebhook", "validation_failed", "member_range", "url contains an address in an unusual form"),
]


def operation(case):
    return case.operation.definition.raw.get("operationId")


@schemathesis.check
def refusals_are_about_what_is_stored(ctx, response, case):
    """A request that matches its schema is rejected only for a reason that a schema cannot express."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code not in (400, 410, 422):
        return
    problem = response.json()
    name = operation(case)
    if name in ("pushMutations", "previewMutations") and response.status_code == 422:
        assert "strict" in (case.headers or {}).get("Prefer", "").lower(), f"refused, though not strict: {problem}"
        return
    # settings depend on the kind, and a mapping may find nothing in a body
    if name in ("putSource", "testSource") and problem["code"] in ("validation_failed", "invalid_request"):
        return
    for error in problem.get("errors") or [{"rule": None, "detail": problem["detail"]}]:
        reasons = [
            reason
            for reason in REASONS
            if reason[:3] == (name, problem["code"], error["rule"]) and error["detail"].startswith(reason[3])
        ]
        assert reasons, f"a request that fits its schema is refused: {error}"


@schemathesis.check
def entries_are_judged_by_the_schema(ctx, response, case):
    """A push rejects exactly the entries that do not match their schema."""
    if operation(case) in ("pushMutations", "previewMutations") and response.status_code in (200, 202):
        found = list(complaints(CONTRACT, case.body, response.json()))
        assert not found, "\n".join(found)
