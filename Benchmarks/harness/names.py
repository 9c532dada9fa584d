"""The ids of organizations and their users, as LoadGenerator and ceiling.pgb number them."""

ORGANIZATION_SQL = "('00000000-0000-4000-8000-' || lpad(o::text, 12, '0'))::uuid"
"""The id of organization `o`."""
USER_SQL = "('00000000-0000-4000-9000-' || lpad((o * 1000 + u)::text, 12, '0'))::uuid"
"""The id of its user `u`, below 1,000."""


def organization(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def user_of(organization_number: int, number: int) -> str:
    return f"00000000-0000-4000-9000-{organization_number * 1000 + number:012d}"
