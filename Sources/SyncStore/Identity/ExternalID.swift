package import SyncModel

/// An organization's name at an issuer.
package struct ExternalID: Sendable, Hashable {
    /// The issuer, as in ``Subject/issuer``.
    package let issuer: ByteExactString
    /// The name: 1 to 255 bytes, without control characters.
    package let id: ByteExactString

    package init(issuer: ByteExactString, id: ByteExactString) {
        self.issuer = issuer
        self.id = id
    }
}

/// The facts about a user that a join or an erasure requires, as SQL.
package enum UserFacts {
    /// The seconds after its last heartbeat for which a gateway counts as running.
    package static let gatewayMemory: Int64 = 60

    /// Whether a user of an organization (`:organization`) is known.
    ///
    /// A known user has pushed, registered a device or used a subject, or was added by an operator, or has a key.
    package static func isKnown(_ user: String) -> String {
        KnownUsers.stand(user, in: KnownUsers.tables + ["user_subjects", "user_keys"])
    }

    /// Whether a running gateway lacks a migration.
    ///
    /// A gateway counts as running if its last heartbeat is at most some seconds old.
    package static func hasOldGateway(_ migration: String, within seconds: String) -> String {
        """
        EXISTS (
                SELECT 1 FROM gateways g
                WHERE coalesce(g.newest_migration, '') < \(migration)
                    AND g.seen_at > clock_timestamp() - \(seconds)::int8 * interval '1 second')
        """
    }
}

/// SQL for the known users of an organization.
package enum KnownUsers {
    /// The tables with the users who have pushed or registered a device, or were provisioned.
    ///
    /// A user whose provisioning was withdrawn is not in `users`, but is still in `lanes` and `devices` after a push.
    package static let tables = ["users", "lanes", "devices"]

    /// Whether a user of an organization (`:organization`) is in one of the given tables.
    package static func stand(_ user: String, in tables: [String] = tables) -> String {
        let found = tables.map { table in
            "EXISTS (SELECT 1 FROM \(table) x WHERE x.organization_id = :organization AND x.user_id = \(user))"
        }
        return "(\(found.joined(separator: "\n                OR ")))"
    }
}
