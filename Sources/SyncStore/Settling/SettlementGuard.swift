package import Foundation
package import Postgres

/// A condition that mutations must still meet once their lane is locked.
package protocol SettlementGuard: Sendable {
    /// A query that returns the ids of the mutations that meet it.
    ///
    /// - Parameter user: the user whose lane is locked.
    func query(of user: UUID) -> Query
}
