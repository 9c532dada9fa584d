package import Postgres

/// Statements of a ``SealingRun``.
///
/// The statements for lanes' rows are in ``SealedTable``.
package enum SealStatements {
    /// SQL for whether a value does not have the given beginning, and therefore must be sealed again.
    package static func isOther(_ column: String, _ beginning: String) -> String {
        "coalesce(NOT starts_with(\(column)::text, \(beginning)), false)"
    }

    /// SQL for the beginning of a correctly sealed document.
    ///
    /// The document is sealed with its owner's key if its type is among `types`.
    private static func ofOwner(_ row: String) -> String {
        """
        CASE WHEN \(row).entity_type = ANY (:types::text[]) AND \(row).owner_id IS NOT NULL
                THEN :user_beginning::text || \(row).owner_id::text || ':' ELSE :beginning::text END
        """
    }

    package static let nextLane = Statement(
        "seal_next_lane",
        ["organization", "first"],
        "SELECT user_id FROM lanes WHERE organization_id = :organization AND user_id >= :first ORDER BY user_id LIMIT 1"
    )

    /// Deletes the errors of mappings.
    ///
    /// The mutation of a failed create stores the upstream's error in sealed form. The copy in the mapping is never
    /// read.
    package static let clearMappings = Statement(
        "seal_clear_mappings",
        ["organization", "user", "limit"],
        """
        UPDATE id_mappings SET last_error = NULL
        WHERE organization_id = :organization AND user_id = :user AND last_error IS NOT NULL AND (client_id, entity_type) <= (
            SELECT k.client_id, k.entity_type FROM (
                SELECT i.client_id, i.entity_type FROM id_mappings i
                WHERE i.organization_id = :organization AND i.user_id = :user AND i.last_error IS NOT NULL
                ORDER BY i.client_id, i.entity_type LIMIT :limit
            ) k
            ORDER BY k.client_id DESC, k.entity_type DESC LIMIT 1)
        """
    )

    package static let entities = Statement(
        "seal_entities",
        ["organization", "after_type", "after_id", "limit", "beginning", "types", "user_beginning"],
        """
        SELECT e.entity_type, e.id, \(isOther("e.document", ofOwner("e"))) AS is_due
        FROM entities e
        WHERE e.organization_id = :organization AND (e.entity_type, e.id) > (:after_type, :after_id)
        ORDER BY e.entity_type, e.id
        LIMIT :limit
        """
    )

    package static let writeEntity = Statement(
        "seal_write_entity",
        ["organization", "entity_type", "id", "document"],
        "UPDATE entities SET document = :document WHERE organization_id = :organization AND entity_type = :entity_type AND id = :id"
    )

    package static let parkedEvents = Statement(
        "seal_parked_events",
        ["organization", "after_source", "after_event", "limit", "beginning", "types", "user_beginning"],
        """
        SELECT p.source, p.event_id, \(isOther("p.document", ofOwner("p"))) AS is_due
        FROM parked_events p
        WHERE p.organization_id = :organization AND (p.source, p.event_id) > (:after_source, :after_event)
        ORDER BY p.source, p.event_id
        LIMIT :limit
        """
    )

    package static let lockParkedEvents = readingParkedEvents("seal_lock_parked_events", fence: "FOR UPDATE")

    /// Reads parked events without waiting for row locks.
    package static let readParkedEvents = readingParkedEvents("seal_look_at_parked_events", fence: "OFFSET 0")

    private static func readingParkedEvents(_ name: String, fence: String) -> Statement {
        Statement(
            name,
            ["organizations", "sources", "event_ids"],
            """
            SELECT p.*
            FROM unnest(:organizations::uuid[], :sources::text[], :event_ids::text[]) AS k (organization_id, source, event_id)
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
        ["organization", "source", "event_id", "document"],
        "UPDATE parked_events SET document = :document WHERE organization_id = :organization AND source = :source AND event_id = :event_id"
    )

    package static let all = [
        nextLane, clearMappings, entities, writeEntity, parkedEvents, lockParkedEvents, readParkedEvents,
        writeParkedEvent,
    ]
}
