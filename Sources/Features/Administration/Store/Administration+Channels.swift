package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel
package import SyncStore

/// A grant of a channel to a user. The grant has not ended.
package struct ChannelGrantRow: Sendable {
    package let user: UUID
    package let channel: String
    package let role: ChannelRole
    package let source: GrantSource
}

/// The users who hold a channel, and the number of its entities.
package struct ChannelReport: Sendable {
    package let grants: [ChannelGrantRow]
    package let entities: BoundedCount
    /// The cursor of the next page, if more follow.
    package let next: String?
}

/// A position in the list of a channel's grants. The position includes the source of the grant, because several sources
/// can grant a channel to the same user.
private struct GrantPlace {
    var user = Writer.erased
    var source = ""

    init(_ row: ChannelGrantRow) { (user, source) = (row.user, row.source.text) }

    init(_ cursor: String?) throws(Problem) {
        guard let cursor else { return }
        // only the first two dots separate parts, because the source of a grant can contain dots
        let parts = cursor.split(separator: ".", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, parts[0] == "c1", let user = UUID(parsing: parts[1]), GrantSource(parts[2]) != nil,
            !ExternalName.hasControls(parts[2])
        else { throw .invalidParameter("the query parameter 'cursor' is invalid") }
        (self.user, self.source) = (user, parts[2])
    }

    var text: String { "c1.\(user.lowercased).\(source)" }
}

extension Administration {
    /// The maximum number of grants in a list of a user's channels.
    package static let mostListedGrants = 1_000
    /// The maximum number of a channel's entities that are counted.
    private static let mostCountedEntities: Int64 = 100_000

    /// Grants a channel to a user, as an operator. An earlier operator's grant of the channel is replaced if its role
    /// differs.
    ///
    /// - Returns: whether anything changed; nil if the organization does not exist.
    /// - Throws: `validation_failed` (rule `channel_limit`) if the user already holds the maximum number of channels.
    package func grantChannel(
        _ name: String,
        to user: UUID,
        _ role: ChannelRole,
        in organization: UUID
    ) async throws(Problem) -> Bool? {
        guard try await self.organization(organization) != nil else { return nil }
        let user = try await catalog.owner(of: user, in: organization)
        do {
            let isChanged = try await pool.transaction { connection in
                let known = try await connection.run([
                    Self.lockFeedStatement(organization: organization),
                    Self.heldStatement(
                        organization: organization,
                        user: user,
                        channel: ChannelID(named: name).uuid,
                        limit: Int64(ChannelName.limitOfUser)
                    ),
                ])[1]
                let held = try known.read {
                    (role: try $0.read("role", as: String?.self), count: try $0.read("count", as: Int64.self))
                }.first
                if held?.role == role.rawValue { return false }
                if held?.role == nil, let count = held?.count, count >= ChannelName.limitOfUser {
                    let detail = "the user holds \(ChannelName.limitOfUser) channels; revoke one first"
                    throw Problem(.validationFailed, pointer: "/channel", rule: Rule.channelLimit, detail)
                }
                _ = try await connection.run([
                    ChannelStatements.raiseFeed(organization: organization),
                    Self.revokeStatement(
                        organization: organization,
                        user: user,
                        channel: ChannelID(named: name).uuid
                    ),
                    Self.grantStatement(
                        organization: organization,
                        user: user,
                        channel: ChannelID(named: name).uuid,
                        name: name,
                        role: role.rawValue
                    ),
                ])
                return true
            }
            if isChanged {
                store.channelMetrics.countChange(byOperator: 1)
                store.notifier.changed([LaneKey(organization: organization, user: user)])
            }
            return isChanged
        } catch {
            throw failure.problem(error, doing: "grant a channel")
        }
    }

    /// Ends an operator's grant. Grants of other sources remain.
    ///
    /// - Returns: whether an operator's grant existed; nil if the organization does not exist.
    package func revokeChannel(
        _ name: String,
        from user: UUID,
        in organization: UUID
    ) async throws(Problem) -> Bool? {
        guard try await self.organization(organization) != nil else { return nil }
        let user = try await catalog.owner(of: user, in: organization)
        do {
            let results = try await pool.transaction { connection in
                try await connection.run([
                    ChannelStatements.raiseFeed(organization: organization),
                    Self.revokeStatement(
                        organization: organization,
                        user: user,
                        channel: ChannelID(named: name).uuid
                    ),
                ])
            }
            guard results[1].affected > 0 else { return false }
            store.channelMetrics.countChange(byOperator: 1)
            store.notifier.changed([LaneKey(organization: organization, user: user)])
            return true
        } catch {
            throw failure.problem(error, doing: "revoke a channel")
        }
    }

    /// Returns the channels that a user holds, sorted by name and source; nil if the organization does not exist.
    ///
    /// The list does not include the user's own channel.
    package func channels(
        of user: UUID,
        in organization: UUID
    ) async throws(Problem) -> [ChannelGrantRow]? {
        guard try await self.organization(organization) != nil else { return nil }
        let user = try await catalog.owner(of: user, in: organization)
        let parameters = Parameters(of: organization, user, Int64(Self.mostListedGrants))
        return try await rows(Self.ofUserStatement, parameters, "list a user's channels", Self.row)
    }

    /// Returns the users who hold a channel by a grant, and the number of entities in the channel.
    ///
    /// Returns nil if the organization does not exist.
    ///
    /// - Parameter cursor: ``ChannelReport/next`` of the previous page.
    package func channel(
        _ name: String,
        in organization: UUID,
        limit: Int,
        after cursor: String?
    ) async throws(Problem) -> ChannelReport? {
        let after = try GrantPlace(cursor)
        guard try await self.organization(organization) != nil else { return nil }
        let channel = ChannelID(named: name).uuid
        let parameters = Parameters(of: organization, channel, after.user, after.source, Int64(limit + 1))
        let found = try await rows(Self.ofChannelStatement, parameters, "list a channel's users", Self.row)
        let counted = Parameters(of: organization, channel, Self.mostCountedEntities + 1)
        let count = try await rows(Self.countStatement, counted, "count a channel's entities") { row in
            try row.read("count", as: Int64.self)
        }
        let shown = Array(found.prefix(limit))
        return ChannelReport(
            grants: shown,
            entities: BoundedCount(found: count.first ?? 0, limit: Self.mostCountedEntities),
            next: found.count > limit ? shown.last.map { GrantPlace($0).text } : nil
        )
    }

    private static func row(_ row: inout RowReader) throws -> ChannelGrantRow {
        ChannelGrantRow(
            user: try row.read("user_id"),
            channel: try row.read("name"),
            role: try row.choice("role"),
            source: GrantSource(try row.read("source")) ?? .operator
        )
    }

    // MARK: - Statements

    private static let position = ChannelStatements.feedEnd

    private static let lockFeedStatement = Statement(
        "channels_lock_feed",
        ["organization"],
        "SELECT f.last_position FROM feeds f WHERE f.organization_id = :organization FOR UPDATE"
    )

    private static let heldStatement = Statement(
        "channels_held",
        ["organization", "user", "channel", "limit"],
        """
        SELECT (
                SELECT x.role FROM channel_grants x
                WHERE x.organization_id = :organization AND x.user_id = :user AND x.channel = :channel
                    AND x.source = 'operator' AND x.until IS NULL LIMIT 1) AS role, (
                SELECT count(*) FROM (
                    SELECT FROM channel_grants y
                    WHERE y.organization_id = :organization AND y.user_id = :user AND y.until IS NULL LIMIT :limit) z) AS count
        """
    )

    private static let grantStatement = Statement(
        "channels_grant",
        ["organization", "user", "channel", "name", "role"],
        """
        INSERT INTO channel_grants AS g (organization_id, user_id, channel, source, since, name, role, changed_at)
        SELECT f.organization_id, :user::uuid, :channel::uuid, 'operator', f.last_position, :name::text, :role::text,
            f.last_position
        FROM feeds f WHERE f.organization_id = :organization
        """
    )

    private static let revokeStatement = Statement(
        "channels_revoke",
        ["organization", "user", "channel"],
        """
        UPDATE channel_grants AS g SET until = \(position), changed_at = \(position)
        WHERE g.organization_id = :organization AND g.user_id = :user AND g.channel = :channel AND g.source = 'operator'
            AND g.until IS NULL
        """
    )

    private static let ofUserStatement = Statement(
        "channels_of_user",
        ["organization", "user", "limit"],
        """
        SELECT g.user_id, g.name, g.role, g.source FROM channel_grants g
        WHERE g.organization_id = :organization AND g.user_id = :user AND g.until IS NULL
        ORDER BY g.name, g.source LIMIT :limit
        """
    )

    private static let ofChannelStatement = Statement(
        "channels_of_channel",
        ["organization", "channel", "after_user", "after_source", "limit"],
        """
        SELECT g.user_id, g.name, g.role, g.source FROM channel_grants g
        WHERE g.organization_id = :organization AND g.channel = :channel AND g.until IS NULL
            AND (g.user_id, g.source) > (:after_user::uuid, :after_source::text)
        ORDER BY g.user_id, g.source LIMIT :limit
        """
    )

    private static let countStatement = Statement(
        "channels_count",
        ["organization", "channel", "limit"],
        """
        SELECT count(*) AS count FROM (
            SELECT FROM entity_channels s WHERE s.organization_id = :organization AND s.channel = :channel LIMIT :limit) x
        """
    )

    static let channelStatements = [
        lockFeedStatement, heldStatement, grantStatement, revokeStatement, ofUserStatement,
        ofChannelStatement, countStatement,
    ]
}
