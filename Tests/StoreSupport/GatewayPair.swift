import Synchronization
package import TestSupport

/// Two replicas on one database, each of which can be replaced by a new one with an empty cache.
package final class GatewayPair: Sendable {
    /// Never dropped: keeps the database, and reads.
    package let base: Gateway
    private let gateways: Mutex<[Gateway]>
    private let masterKeys: String?

    package init(committers: Int = 1, masterKeys: String? = nil) async throws {
        self.masterKeys = masterKeys
        base = try await Gateway(committers: committers, masterKeys: masterKeys)
        gateways = Mutex([
            try await Gateway(replicaOf: base, committers: committers, masterKeys: masterKeys),
            try await Gateway(replicaOf: base, committers: committers, masterKeys: masterKeys),
        ])
    }

    package subscript(index: Int) -> Gateway { gateways.withLock { $0[index] } }

    package func random(_ generator: inout SeededRandom) -> Gateway { self[Int.random(in: 0...1, using: &generator)] }

    /// Drops a replica with its cache and starts another in its place.
    package func restart(_ index: Int) async throws {
        let fresh = try await Gateway(replicaOf: base, committers: 1, masterKeys: masterKeys)
        gateways.withLock { $0[index] = fresh }
    }
}
