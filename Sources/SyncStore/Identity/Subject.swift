package import SyncModel

/// An issuer's name of a user.
package struct Subject: Sendable, Hashable {
    /// The issuer's name, or the name under which the operator has it remembered.
    package let issuer: ByteExactString
    /// 1 to 255 bytes, without control characters.
    package let text: ByteExactString

    package init(issuer: ByteExactString, text: ByteExactString) {
        self.issuer = issuer
        self.text = text
    }
}

/// An issuer's name of an organization.
package struct ExternalID: Sendable, Hashable {
    /// The issuer, as in ``Subject/issuer``.
    package let issuer: ByteExactString
    /// 1 to 255 bytes, without control characters.
    package let id: ByteExactString

    package init(issuer: ByteExactString, id: ByteExactString) {
        self.issuer = issuer
        self.id = id
    }
}

/// The facts about a user that a join or an erasure requires, as SQL.
package enum UserFacts {
    /// Seconds for which a silent gateway counts as running.
    package static let gatewayMemory: Int64 = 60

    /// Whether a user of an organization (`:organization`) is known.
    ///
    /// That is a user who has pushed, registered a device, used a subject, was added by an operator, or has their own
    /// key.
    package static func isKnown(_ user: String) -> String {
        KnownUsers.stand(user, in: KnownUsers.tables + ["user_subjects", "user_keys"])
    }

    /// Whether a running gateway lacks a migration.
    ///
    /// A gateway counts as running if it reported within some seconds.
    package static func hasOldGateway(_ migration: String, within seconds: String) -> String {
        """
        EXISTS (
                SELECT 1 FROM gateways g
                WHERE coalesce(g.newest_migration, '') < \(migration)
                    AND g.seen_at > clock_timestamp() - \(seconds)::int8 * interval '1 second')
        """
    }
}

/// Which users an organization knows, as SQL.
package enum KnownUsers {
    /// Tables with the users who have pushed, registered a device or were admitted.
    ///
    /// A user whose admission was withdrawn is not in `users`, but is still in `lanes` and `devices` after a push.
    package static let tables = ["users", "lanes", "devices"]

    /// Whether a user of an organization (`:organization`) is in one of some tables.
    package static func stand(_ user: String, in tables: [String] = tables) -> String {
        let found = tables.map { table in
            "EXISTS (SELECT 1 FROM \(table) x WHERE x.organization_id = :organization AND x.user_id = \(user))"
        }
        return "(\(found.joined(separator: "\n                OR ")))"
    }
}
