import Foundation
import Postgres
import SyncModel

/// Draws requests from the buckets of several organizations in one transaction.
///
/// It has two round trips: lock and read, then write and commit.
struct RequestDraw {
    /// The requests that one organization asks for.
    struct Demand {
        let organization: UUID
        let quota: Quota
        let wanted: Int64
    }

    /// The requests granted, and the bucket afterwards.
    struct Grant {
        let granted: Int64
        let bucket: TokenBucket
    }

    let pool: Pool

    /// - Parameter wishes: each organization once.
    /// - Returns: grants by organization; organizations that are no longer active are missing.
    func draw(_ wishes: [Demand], at now: Timestamp) async throws -> [UUID: Grant] {
        let sorted = wishes.sorted { $0.organization < $1.organization }
        let quotas = Dictionary(uniqueKeysWithValues: sorted.map { ($0.organization, $0) })
        return try await pool.withConnection { connection in
            let keys = Parameters(sorted.map(\.organization))
            var made = keys
            made.add(timestamp: now.microseconds)
            let results = try await connection.run([
                .begin, Query(QuotaStatements.noFlush), Query(QuotaStatements.makeRequests, made),
                Query(QuotaStatements.lockRequests, keys),
            ])
            var grants: [(UUID, Grant)] = []
            for var row in results[3] {
                let id = try row.uuid("organization_id")
                guard let wish = quotas[id] else { continue }
                var bucket = TokenBucket(missing: try row.int64("missing"), asOf: try row.moment("as_of"))
                let granted = bucket.take(upTo: wish.wanted, of: wish.quota, at: now)
                grants.append((id, Grant(granted: granted, bucket: bucket)))
            }
            let taken = grants.filter { $0.1.granted > 0 }
            if taken.isEmpty {
                _ = try await connection.run([.commit])
            } else {
                let write = RequestBucketRow.columns.query(
                    QuotaStatements.writeRequests,
                    taken.map { RequestBucketRow(organization: $0, bucket: $1.bucket) }
                )
                _ = try await connection.run([write, .commit])
            }
            return Dictionary(uniqueKeysWithValues: grants)
        }
    }
}
