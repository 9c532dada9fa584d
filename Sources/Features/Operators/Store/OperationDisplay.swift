package import Foundation
package import Postgres
import SyncModel
import SyncStore

/// Selects the mutations that an operation still covers once their lane is locked.
///
/// The operation leaves out mutations that were settled, or that failed again, after they were found. If another
/// gateway has the operation, or if it has ended, it leaves out all of them.
package struct OperationDisplay: SettlementGuard {
    let organization: UUID
    let operation: UUID
    let lease: Int64
    let found: [FailureQuery.Place]

    package init(organization: UUID, operation: UUID, lease: Int64, found: [FailureQuery.Place]) {
        self.organization = organization
        self.operation = operation
        self.lease = lease
        self.found = found
    }

    /// - Parameter user: whose lane is locked.
    package func query(of user: UUID) -> Query {
        var parameters = Parameters(of: organization, user, found.map(\.id))
        parameters.add(timestamps: found.map(\.at.microseconds))
        parameters.add(operation)
        parameters.add(lease)
        return Query(Self.statement, parameters)
    }

    static let statement = Statement(
        "operation_screen",
        ["organization", "user", "ids", "stuck_at", "id", "token"],
        """
        SELECT m.id
        FROM unnest(:ids::uuid[], :stuck_at::timestamptz[]) AS k (id, stuck_at)
        \(SettleStatements.byID("k", as: "m"))
        WHERE m.stuck_at = k.stuck_at
            AND EXISTS (
                SELECT 1 FROM operations o
                WHERE o.organization_id = :organization AND o.id = :id AND o.lease_token = :token AND o.state = 'running')
        """
    )
}
