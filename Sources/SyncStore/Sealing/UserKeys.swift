package import Foundation
import Postgres
package import SyncModel

/// Fetches users' own keys into memory, and makes missing ones.
///
/// Many in a statement.
package struct UserKeys: Sendable {
    /// How often work is repeated if it lacks keys.
    ///
    /// Each time they are fetched, so a second time is rare. The bound ends work that lacks other keys each time.
    static let attempts = 200

    let pool: Pool
    /// Nil where nothing is sealed.
    let masterKeys: MasterKeys?
    /// The cached keys, of all organizations.
    package let ring = UserKeyRing()
    let now: TimeSource
    /// Users who get no new key because theirs is missing but values depend on it.
    ///
    /// The missing key may be restored yet, and there must be no other one then. What is written for them is under the
    /// organization's key alone.
    package var withoutKey: Set<LaneKey> = []

    /// Whether a master key is to wrap users' keys.
    package var canMake: Bool { masterKeys?.wrapping != nil }

    /// Fetches the keys to seal users' rows with, if not cached; makes missing ones.
    ///
    /// In a separate transaction, so that later writes name keys that are stored.
    package func prepare(_ users: some Sequence<LaneKey>, _ seal: (UUID) -> Seal?) async throws {
        let lacking = lacking(users, seal)
        if !lacking.isEmpty { try await make(lacking) }
    }

    /// Fetches the keys that users' rows may have to be sealed with, if not cached.
    ///
    /// Makes no key: a caller that still lacks one calls ``fetchMissingKeys(_:)``.
    package func fetch(_ users: some Sequence<LaneKey>, _ seal: (UUID) -> Seal?) async throws {
        let lacking = lacking(users, seal)
        if !lacking.isEmpty { _ = try await read(lacking.sorted(), isRefused: false) }
    }

    private func lacking(_ users: some Sequence<LaneKey>, _ seal: (UUID) -> Seal?) -> Set<LaneKey> {
        Set(users.filter { seal($0.organization)?.lacking([$0]).isEmpty == false })
    }

    /// Fetches the keys that an error lists, and makes them where needed.
    ///
    /// - Throws: the error, if it is of another kind.
    package func fetchMissingKeys(_ error: SealError) async throws {
        switch error {
        case .unknownUserKeys(let users): _ = try await read(users.sorted(), isRefused: false)
        case .noUserKeys(let users): try await make(users)
        case .locked, .unknownKey, .destroyedUserKey, .closedUserKey, .damaged: throw error
        }
    }

    /// Does something, and does it again each time that it lacked users' keys.
    package func fetchingMissingKeys<Value>(_ body: () async throws -> Value) async throws -> Value {
        for _ in 1..<Self.attempts {
            do {
                return try await body()
            } catch let error as SealError where error.lacksUserKeys {
                try await fetchMissingKeys(error)
            }
        }
        return try await body()
    }

    /// - Returns: the users without a key.
    private func read(_ users: [LaneKey], isRefused: Bool) async throws -> [LaneKey] {
        let found = try await pool.runByIndex(UserKeyRows.read(users)).read(UserKeyRows.key)
        for key in found { ring.insert(key, masterKeys) }
        let none = Set(users).subtracting(found.map(\.name)).sorted()
        for user in none { ring.insertNone(for: user, isRefused: isRefused) }
        return none
    }

    private func make(_ users: Set<LaneKey>) async throws {
        let missing = try await read(users.sorted(), isRefused: masterKeys?.wrapping == nil)
        guard !missing.isEmpty, let master = masterKeys?.wrapping else { return }
        let new = try missing.filter { !withoutKey.contains($0) }.map { try WrappedUserKey.new(for: $0, by: master) }
        if !new.isEmpty {
            let make = UserKeyRows.make(new, by: master.label, at: now())
            _ = try await pool.runByIndex(make)
        }
        _ = try await read(missing, isRefused: true)
    }
}
