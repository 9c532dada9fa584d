import Foundation
import JSONText
import Logging
import Postgres
import StoreSupport
import SyncModel
import Testing

@testable import RetentionFeature
@testable import SyncStore

extension Gateway {
    static let day: Double = 86_400

    /// A run of retention from claim to release; nil if another run holds the lease.
    @discardableResult
    func retain(
        _ policy: RetentionPolicy = RetentionPolicy(),
        limit: Int = 100,
        isDryRun: Bool = false
    ) async throws -> RetentionRun.Result? {
        let retention = store.retention
        let lease = isDryRun ? nil : try await retention.claim(owner: UUID(), interval: nil)
        if !isDryRun, lease == nil { return nil }
        var logger = Logger(label: "test")
        logger.logLevel = .error
        let run = RetentionRun(
            store: retention,
            cutoffs: policy.cutoffs(at: clock.now),
            lease: lease,
            logger: logger
        )
        let result = await run.run { limit }
        if let lease {
            try await retention.release(lease, report: result.report, due: clock.now.adding(seconds: 3_600))
        }
        return result
    }

    /// All rows of one organization in a table, as text.
    func dump(_ table: String, _ organization: UUID) async throws -> [String] {
        let rows = try await read(
            """
            SELECT t::text FROM \(table) t WHERE organization_id = '\(organization.lowercased)' ORDER BY t::text
            """
        )
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
    }
}

extension Phone {
    func count(_ table: String, _ condition: String = "true") async throws -> Int64 {
        let rows = try await gateway.read(
            """
            SELECT count(*) FROM \(table) t
            WHERE organization_id = '\(organization.id.lowercased)' AND (\(condition))
            """
        )
        return try rows.read(0, 0, as: Int64.self)
    }
}
