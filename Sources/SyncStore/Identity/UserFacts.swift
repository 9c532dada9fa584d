/// What has to be known of a user before it is joined or erased, as SQL.
package enum UserFacts {
    /// Seconds for which a gateway counts as running that says nothing.
    package static let gatewayMemory: Int64 = 60

    /// Whether an organization ($1) knows a user: who has pushed, registered a device, come under a subject, was added by an
    /// operator, or has a key of its own.
    package static func isKnown(_ user: String) -> String {
        KnownUsers.stand(user, in: KnownUsers.tables + ["user_subjects", "user_keys"])
    }

    /// Whether a gateway is running that does not know of a migration, of those that said so within some seconds.
    package static func hasOldGateway(_ migration: String, within seconds: String) -> String {
        """
        EXISTS (
                SELECT 1 FROM gateways g
                WHERE coalesce(g.newest_migration, '') < \(migration)
                    AND g.seen_at > clock_timestamp() - \(seconds)::int8 * interval '1 second')
        """
    }
}
