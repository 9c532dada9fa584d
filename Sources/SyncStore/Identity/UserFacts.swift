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
