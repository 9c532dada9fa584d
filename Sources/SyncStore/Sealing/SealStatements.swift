package import Postgres

/// Statements of a ``SealingRun``.
///
/// Those of a lane's rows are in its ``SealedTable``.
package enum SealStatements {
    /// SQL: whether a value is to be sealed again: it exists and has another beginning.
    package static func isOther(_ column: String, _ beginning: String) -> String {
        "coalesce(NOT starts_with(\(column)::text, \(beginning)), false)"
    }

    /// SQL: how a correctly sealed document begins.
    ///
    /// With its owner's key where its type is among those in $6, it begins with $7; otherwise with $5.
    private static func ofOwner(_ row: String) -> String {
        """
        CASE WHEN \(row).entity_type = ANY ($6::text[]) AND \(row).owner_id IS NOT NULL
                THEN $7::text || \(row).owner_id::text || ':' ELSE $5::text END
        """
    }

    package static let nextLane = Statement(
        "seal_next_lane",
        "SELECT user_id FROM lanes WHERE organization_id = $1 AND user_id >= $2 ORDER BY user_id LIMIT 1"
    )

    /// Clears the errors of mappings.
    ///
    /// The upstream's error for a failed create is kept sealed in the mutation; this copy is never read.
    package static let clearMappings = Statement(
        "seal_clear_mappings",
        """
        UPDATE id_mappings SET last_error = NULL
        WHERE organization_id = $1 AND user_id = $2 AND last_error IS NOT NULL AND (client_id, entity_type) <= (
            SELECT k.client_id, k.entity_type FROM (
                SELECT i.client_id, i.entity_type FROM id_mappings i
                WHERE i.organization_id = $1 AND i.user_id = $2 AND i.last_error IS NOT NULL
                ORDER BY i.client_id, i.entity_type LIMIT $3
            ) k
            ORDER BY k.client_id DESC, k.entity_type DESC LIMIT 1)
        """
    )

    package static let entities = Statement(
        "seal_entities",
        """
        SELECT e.entity_type, e.id, \(isOther("e.document", ofOwner("e"))) AS is_due
        FROM entities e
        WHERE e.organization_id = $1 AND (e.entity_type, e.id) > ($2, $3)
        ORDER BY e.entity_type, e.id
        LIMIT $4
        """
    )

    package static let writeEntity = Statement(
        "seal_write_entity",
        "UPDATE entities SET document = $4 WHERE organization_id = $1 AND entity_type = $2 AND id = $3"
    )

    package static let parkedEvents = Statement(
        "seal_parked_events",
        """
        SELECT p.source, p.event_id, \(isOther("p.document", ofOwner("p"))) AS is_due
        FROM parked_events p
        WHERE p.organization_id = $1 AND (p.source, p.event_id) > ($2, $3)
        ORDER BY p.source, p.event_id
        LIMIT $4
        """
    )

    package static let lockParkedEvents = readingParkedEvents("seal_lock_parked_events", fence: "FOR UPDATE")

    /// Reads the same without waiting for row locks.
    package static let lookAtParkedEvents = readingParkedEvents("seal_look_at_parked_events", fence: "OFFSET 0")

    private static func readingParkedEvents(_ name: String, fence: String) -> Statement {
        Statement(
            name,
            """
            SELECT p.*
            FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, source, event_id)
            CROSS JOIN LATERAL (
                SELECT x.source, x.event_id, x.document, x.entity_type, x.owner_id FROM parked_events x
                WHERE x.organization_id = k.organization_id AND x.source = k.source AND x.event_id = k.event_id
                \(fence)
            ) p
            """
        )
    }

    package static let writeParkedEvent = Statement(
        "seal_write_parked_event",
        "UPDATE parked_events SET document = $4 WHERE organization_id = $1 AND source = $2 AND event_id = $3"
    )

    package static let all = [
        nextLane, clearMappings, entities, writeEntity, parkedEvents, lockParkedEvents, lookAtParkedEvents,
        writeParkedEvent,
    ]
}
