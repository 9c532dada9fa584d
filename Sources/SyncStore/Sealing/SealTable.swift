package import Foundation
package import SyncModel

/// The seals of the organizations that a group or a reader works with.
package struct SealTable: Sendable {
    private let seals: [UUID: Seal]
    /// Whether all values are stored unsealed.
    package let arePlain: Bool

    package init(_ seals: [UUID: Seal]) {
        self.seals = seals
        arePlain = seals.values.allSatisfy(\.isPlain)
    }

    /// The seal of an organization.
    ///
    /// An organization whose keys were not read is locked: its values are never written unsealed by mistake.
    package subscript(organization: UUID) -> Seal {
        seals[organization] ?? .locked("the organization's keys were not read")
    }

    package func lane(_ lane: LaneKey) -> LaneSeal { LaneSeal(seal: self[lane.organization], user: lane.user) }

    /// Why one of the organizations cannot be read or written; nil where all can.
    package var lock: String? { seals.values.lazy.compactMap(\.lock).first }
}

extension Catalog {
    /// Reads values that may be sealed.
    ///
    /// Where users' keys are not in memory they are fetched, and `body` runs again. Where one is sealed under a key
    /// that another replica just made, the organization's keys are read again, once; values that cannot be opened then
    /// stay closed.
    ///
    /// - Throws: what `body` does; `store_unavailable` while the organization's data are locked.
    package func opening<Value>(
        _ organization: UUID,
        _ body: (Seal) async throws -> Value
    ) async throws -> Value {
        do {
            return try await userKeys.fetchingMissingKeys { try await body(seal(of: organization)) }
        } catch SealError.unknownKey {
            invalidate(organization)
            return try await userKeys.fetchingMissingKeys { try await body(seal(of: organization).withoutKeyRefresh) }
        }
    }

    /// The seal of an organization, at most five seconds old.
    ///
    /// - Throws: ``SealError/locked(_:)``; `store_unavailable`.
    package func seal(of organization: UUID) async throws -> Seal {
        let seal = try await entry(organization).seal
        if let reason = seal.lock { throw SealError.locked(reason) }
        return seal
    }
}
