import FoundationEssentials
import Postgres
import SyncModel

/// Takes requests from the token buckets of several organizations in one transaction (a draw).
///
/// A draw takes two round trips: one to lock and read, one to write and commit.
struct RequestDraw {
    /// The number of requests that one organization needs.
    struct Demand {
        let organization: UUID
        let quota: Quota
        let wanted: Int64
    }

    /// The number of granted requests, and the bucket after the draw.
    struct Grant {
        let granted: Int64
        let bucket: TokenBucket
    }

    let pool: Pool
    /// Whether the buckets belong to upstreams. Those buckets are stored in the upstreams' rows.
    var isOfUpstreams = false

    /// - Parameter wishes: the demands, at most one for each organization.
    /// - Returns: the grants by organization. Organizations that are no longer active are missing.
    func draw(_ wishes: [Demand], at now: Timestamp) async throws -> [UUID: Grant] {
        let sorted = wishes.sorted { $0.organization < $1.organization }
        let quotas = Dictionary(uniqueKeysWithValues: sorted.map { ($0.organization, $0) })
        return try await pool.withConnection { connection in
            let keys = Parameters(sorted.map(\.organization))
            var made = keys
            made.add(now)
            let reads =
                isOfUpstreams
                ? [Query(QuotaStatements.lockUpstreams, keys)]
                : [Query(QuotaStatements.makeRequests, made), Query(QuotaStatements.lockRequests, keys)]
            let results = try await connection.run([.begin, Query(QuotaStatements.noFlush)] + reads)
            var grants: [(UUID, Grant)] = []
            for var row in results[results.count - 1] {
                let id: UUID = try row.read("organization_id")
                guard let wish = quotas[id] else { continue }
                var bucket = TokenBucket(missing: try row.read("missing"), asOf: try row.read("as_of"))
                let granted = bucket.take(upTo: wish.wanted, of: wish.quota, at: now)
                grants.append((id, Grant(granted: granted, bucket: bucket)))
            }
            let taken = grants.filter { $0.1.granted > 0 }
            if taken.isEmpty {
                _ = try await connection.run([.commit])
            } else {
                let write = RequestBucketRow.columns.query(
                    isOfUpstreams ? QuotaStatements.writeUpstreams : QuotaStatements.writeRequests,
                    taken.map { RequestBucketRow(organization: $0, bucket: $1.bucket) }
                )
                _ = try await connection.run([write, .commit])
            }
            return Dictionary(uniqueKeysWithValues: grants)
        }
    }
}

/// An organization's use of its quota of requests.
struct RequestBucketRow {
    let organization: UUID
    let bucket: TokenBucket

    static let columns = Columns<RequestBucketRow>(
        .value("organization_id", \.organization),
        .value("missing", \.bucket.missing),
        .value("as_of", \.bucket.asOf)
    )
}

/// The statements on the remaining quotas.
enum QuotaStatements {
    /// Reads the remaining quotas of users, under the locks of their lanes.
    static let mutations = Statement(
        "quotas_mutations",
        PushRow.columns.inputs,
        """
        SELECT k.push, q.missing, q.as_of
        FROM \(PushRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.missing, x.as_of FROM mutation_quotas x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
            OFFSET 0
        ) q
        """
    )

    static let writeMutations = Statement(
        "quotas_write_mutations",
        AllowanceRow.columns.inputs,
        """
        INSERT INTO mutation_quotas AS q (organization_id, user_id, missing, as_of)
        SELECT k.*
        FROM \(AllowanceRow.columns.unnested(as: "k"))
        ON CONFLICT (organization_id, user_id) DO UPDATE SET missing = excluded.missing, as_of = excluded.as_of
        """
    )

    /// Allows a commit to return before it is written to the disk.
    ///
    /// After a crash of the server, the draws of the last milliseconds can be missing from the buckets. This does no
    /// harm.
    static let noFlush = Statement("quotas_no_flush", "SELECT set_config('synchronous_commit', 'off', true)")

    /// Creates missing buckets, of active organizations only.
    ///
    /// The statement locks the organization's row, as the creation of a lane does. Therefore no bucket remains after a
    /// purge.
    static let makeRequests = Statement(
        "quotas_make_requests",
        ["organizations", "now"],
        """
        INSERT INTO request_quotas AS q (organization_id, missing, as_of)
        SELECT k.organization_id, 0, :now
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        WHERE CASE
            WHEN (SELECT x.organization_id FROM request_quotas x WHERE x.organization_id = k.organization_id) IS NULL
            THEN (SELECT o.status FROM organizations o WHERE o.id = k.organization_id FOR SHARE) = 'active'
        END
        ORDER BY k.organization_id
        ON CONFLICT (organization_id) DO NOTHING
        """
    )

    /// Locks buckets in key order and reads them.
    static let lockRequests = Statement(
        "quotas_lock_requests",
        ["organizations"],
        """
        SELECT q.organization_id, q.missing, q.as_of
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (
            SELECT x.organization_id, x.missing, x.as_of FROM request_quotas x
            WHERE x.organization_id = k.organization_id
            FOR UPDATE
        ) q
        """
    )

    static let writeRequests = Statement(
        "quotas_write_requests",
        RequestBucketRow.columns.inputs,
        """
        INSERT INTO request_quotas AS q (organization_id, missing, as_of)
        SELECT k.* FROM \(RequestBucketRow.columns.unnested(as: "k"))
        ON CONFLICT (organization_id) DO UPDATE SET missing = excluded.missing, as_of = excluded.as_of
        """
    )

    /// Locks the buckets of upstreams in key order and reads them.
    static let lockUpstreams = Statement(
        "quotas_lock_upstreams",
        ["organizations"],
        """
        SELECT q.organization_id, q.missing, q.as_of
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (
            SELECT x.organization_id, x.rate_missing AS missing, x.rate_as_of AS as_of FROM upstreams x
            WHERE x.organization_id = k.organization_id
            FOR UPDATE
        ) q
        """
    )

    static let writeUpstreams = Statement(
        "quotas_write_upstreams",
        RequestBucketRow.columns.inputs,
        """
        UPDATE upstreams AS u
        SET rate_missing = k.missing, rate_as_of = k.as_of
        FROM \(RequestBucketRow.columns.unnested(as: "k"))
        WHERE u.organization_id = k.organization_id
        """
    )

    static let all = [
        mutations, writeMutations, noFlush, makeRequests, lockRequests, writeRequests, lockUpstreams, writeUpstreams,
    ]
}
