import FoundationEssentials
import Postgres
package import SyncModel
import Synchronization

/// Grants users the channels that their tokens name (product rule 26).
///
/// Only the newest token from an issuer determines a user's channels. If older tokens had an effect, two devices with
/// tokens of different ages would alternately grant and revoke the same channels. A token whose channels were already
/// applied needs no query.
package final class TokenGrants: Sendable {
    private struct Key: Hashable {
        let user: LaneKey
        let source: GrantSource
    }

    /// The newest known token of a user and a source.
    private struct Newest {
        let issuedAt: Int64
        let digest: UUID
    }

    private struct State {
        var newest = GenerationCache<Key, Newest>(capacity: 50_000)
        /// The number of invalidations. Data that were read before an invalidation are not cached.
        var generation = 0
    }

    private let pool: Pool
    private let notifier: ChangeNotifier
    private let failure: StoreFailure
    private let metrics: ChannelMetrics
    private let state = Mutex(State())

    init(pool: Pool, notifier: ChangeNotifier, metrics: ChannelMetrics, failure: StoreFailure) {
        self.pool = pool
        self.notifier = notifier
        self.metrics = metrics
        self.failure = failure
    }

    /// Clears the cache after a purge.
    func invalidate() {
        state.withLock { state in
            state.newest.removeAll()
            state.generation += 1
        }
    }

    /// Whether the cache shows that a token requires no write.
    package func isApplied(_ channels: TokenChannels, to user: LaneKey, from source: GrantSource) -> Bool {
        let newest = state.withLock { $0.newest.find(Key(user: user, source: source)) }
        guard let newest else { return false }
        return [.applied, .outdated].contains(channels.order(after: newest.issuedAt, newest.digest))
    }

    /// Grants the channels of a token, and ends the grants of earlier tokens of the same source.
    ///
    /// - Parameter source: the issuer, and the name by which the token identifies the user.
    package func apply(
        _ channels: TokenChannels,
        to user: LaneKey,
        from source: GrantSource
    ) async throws(Problem) {
        if isApplied(channels, to: user, from: source) { return }
        let generation = state.withLock { $0.generation }
        let newest: Newest
        do {
            newest = try await record(channels, user, source.text)
        } catch {
            throw failure.problem(error, doing: "grant the channels of a token")
        }
        state.withLock { state in
            guard state.generation == generation else { return }
            state.newest.insert(newest, for: Key(user: user, source: source))
        }
    }

    private func record(_ channels: TokenChannels, _ user: LaneKey, _ source: String) async throws -> Newest {
        let seen = Newest(issuedAt: channels.issuedAt, digest: channels.digest)
        let find = Self.find(organization: user.organization, user: user.user, source: source)
        let known = try await pool.run([find])[0].read(Self.newest).first
        switch known.map({ channels.order(after: $0.issuedAt, $0.digest) }) ?? .changed {
        case .outdated, .applied: return known ?? seen
        case .renewed where try await pool.run([renewing(channels, user, source)])[0].affected > 0: return seen
        // the token was renewed, but another token was recorded after the first query
        case .renewed, .changed: break
        }
        let changed = try await pool.transaction { connection -> Int? in
            // the feed's lock determines the order of the organization's concurrent tokens
            let locked = try await connection.run([
                ChannelStatements.raiseFeed(organization: user.organization),
                Self.lock(organization: user.organization, user: user.user, source: source),
            ])[1].read(Self.newest).first
            switch locked.map({ channels.order(after: $0.issuedAt, $0.digest) }) ?? .changed {
            case .outdated, .applied: return nil
            case .renewed:
                _ = try await connection.run([renewing(channels, user, source)])
                return 0
            case .changed: break
            }
            let (names, ids) = (channels.names.map(\.string), channels.names.map { ChannelID(named: $0.string).uuid })
            let results = try await connection.run([
                recording(channels, user, source),
                Self.end(
                    organization: user.organization,
                    user: user.user,
                    source: source,
                    channels: ids,
                    role: channels.role.rawValue
                ),
                Self.begin(
                    organization: user.organization,
                    user: user.user,
                    source: source,
                    channels: ids,
                    names: names,
                    role: channels.role.rawValue
                ),
            ])
            return results[1].affected + results[2].affected
        }
        // a concurrent request recorded its token first; the next request reads that token
        guard let changed else { return known ?? Newest(issuedAt: .min, digest: channels.digest) }
        metrics.countChange(byToken: changed)
        if changed > 0 { notifier.changed([user]) }
        return seen
    }

    private func renewing(_ channels: TokenChannels, _ user: LaneKey, _ source: String) -> Query {
        Self.renew(
            organization: user.organization,
            user: user.user,
            source: source,
            issued_at: channels.issuedAt,
            digest: channels.digest
        )
    }

    private func recording(_ channels: TokenChannels, _ user: LaneKey, _ source: String) -> Query {
        Self.record(
            organization: user.organization,
            user: user.user,
            source: source,
            issued_at: channels.issuedAt,
            digest: channels.digest
        )
    }

    private static func newest(_ row: inout RowReader) throws -> Newest {
        Newest(issuedAt: try row.read("issued_at"), digest: try row.read("digest"))
    }

    // MARK: - Statements

    private static let newestText = """
        SELECT t.issued_at, t.digest FROM token_channels t
        WHERE t.organization_id = :organization AND t.user_id = :user AND t.source = :source
        """

    private static let find = Statement(
        "token_channels_find",
        ["organization", "user", "source"],
        newestText
    )

    /// Reads the newest token and locks it. The lock excludes a concurrent renewal, which does not lock the feed.
    private static let lock = Statement(
        "token_channels_lock",
        ["organization", "user", "source"],
        newestText + "\nFOR UPDATE"
    )

    /// Records a token, unless a newer token was recorded or the user was erased.
    private static let record = Statement(
        "token_channels_record",
        ["organization", "user", "source", "issued_at", "digest"],
        """
        INSERT INTO token_channels AS t (organization_id, user_id, source, issued_at, digest)
        SELECT :organization::uuid, :user::uuid, :source::text, :issued_at::int8, :digest::uuid
        WHERE NOT (\(ErasedUsers.isErased(":organization::uuid", ":user::uuid")))
        ON CONFLICT (organization_id, user_id, source) DO UPDATE
        SET issued_at = excluded.issued_at, digest = excluded.digest
        WHERE (t.issued_at, t.digest) < (excluded.issued_at, excluded.digest)
        """
    )

    /// Replaces the time of the newest recorded token by the time of a newer token that has the same channels, unless
    /// another token was recorded in the meantime.
    private static let renew = Statement(
        "token_channels_renew",
        ["organization", "user", "source", "issued_at", "digest"],
        """
        UPDATE token_channels AS t SET issued_at = :issued_at
        WHERE t.organization_id = :organization AND t.user_id = :user AND t.source = :source AND t.digest = :digest
            AND t.issued_at <= :issued_at
        """
    )

    private static let end = Statement(
        "token_channels_end",
        ["organization", "user", "source", "channels", "role"],
        """
        UPDATE channel_grants AS g
        SET until = \(ChannelStatements.feedEnd), changed_at = \(ChannelStatements.feedEnd)
        WHERE g.organization_id = :organization AND g.user_id = :user AND g.source = :source AND g.until IS NULL
            AND (g.role <> :role OR g.channel <> ALL (:channels::uuid[]))
        """
    )

    /// Begins the grants that do not exist yet, up to the maximum number of channels of a user.
    private static let begin = Statement(
        "token_channels_begin",
        ["organization", "user", "source", "channels", "names", "role"],
        """
        INSERT INTO channel_grants AS g (organization_id, user_id, channel, source, since, name, role, changed_at)
        SELECT f.organization_id, :user::uuid, k.channel, :source::text, f.last_position, k.name, :role::text,
            f.last_position
        FROM feeds f
        CROSS JOIN LATERAL (
            SELECT n.channel, n.name FROM unnest(:channels::uuid[], :names::text[]) AS n (channel, name)
            WHERE NOT EXISTS (
                SELECT FROM channel_grants x
                WHERE x.organization_id = :organization AND x.user_id = :user AND x.channel = n.channel
                    AND x.source = :source AND x.until IS NULL)
            LIMIT (
                SELECT \(ChannelName.limitOfUser) - count(*) FROM (
                    SELECT FROM channel_grants y
                    WHERE y.organization_id = :organization AND y.user_id = :user AND y.until IS NULL
                    LIMIT \(ChannelName.limitOfUser)) z)
        ) k
        WHERE f.organization_id = :organization AND NOT (\(ErasedUsers.isErased(":organization::uuid", ":user::uuid")))
        """
    )

    static let statements = [find, lock, renew, record, end, begin]
}
