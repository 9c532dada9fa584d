package import SyncModel

/// The name that an issuer uses for an organization.
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

/// SQL for the facts about a user on which a join or an erasure depends.
package enum UserFacts {
    /// The time after its last heartbeat for which a gateway is assumed to run, in seconds.
    package static let gatewayMemory: Int64 = 60

    /// SQL for whether a user of an organization (`:organization`) is known.
    ///
    /// A known user has pushed, has registered a device, was added by an operator, has a subject (the external id in
    /// the user's tokens), or has a data key.
    package static func isKnown(_ user: String) -> String {
        KnownUsers.isListed(user, in: KnownUsers.tables + ["user_subjects", "user_keys"])
    }

    /// Returns the migration that all running gateways must have before a user is erased or merged: the newest
    /// migration that creates a table with users' ids.
    ///
    /// The work may continue on any gateway, and a gateway without this migration would omit the rows of that table.
    package static func requiredMigration(for tables: [StoredTable]) -> String {
        Schema.newest(creating: tables.filter { $0.users != nil }.map(\.name)) ?? ""
    }

    /// SQL for whether a running gateway lacks a migration.
    ///
    /// A gateway is assumed to run if its last heartbeat is at most `seconds` old.
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
    /// The tables with the users who have pushed, have registered a device, or were provisioned.
    ///
    /// A user whose provisioning was withdrawn is not in `users`. If the user has pushed, the user is still in `lanes`
    /// and `devices`.
    package static let tables = ["users", "lanes", "devices"]

    /// SQL for whether a user of an organization (`:organization`) is in one of the given tables.
    package static func isListed(_ user: String, in tables: [String] = tables) -> String {
        let found = tables.map { table in
            "EXISTS (SELECT 1 FROM \(table) x WHERE x.organization_id = :organization AND x.user_id = \(user))"
        }
        return "(\(found.joined(separator: "\n                OR ")))"
    }
}
