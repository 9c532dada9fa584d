import Foundation
import GRDB

extension SluiceClient {
    /// Restricts synchronization to entities of some channels, in addition to earlier subscriptions.
    ///
    /// Without a subscription, the client keeps all entities that the user may see. With subscriptions, it keeps the
    /// entities of these channels, those of the user's own channel `user/…`, and the entities of types without channels.
    /// A channel that the user does not hold contributes nothing.
    ///
    /// A change of the subscriptions starts a pull from the beginning. Rows that no subscription needs are removed at
    /// its end; rows under pending writes stay until these are settled.
    ///
    /// - Parameter channels: names such as `project/42`, at most ``subscriptionLimit`` with earlier ones.
    /// - Throws: ``SluiceError/invalid(_:)`` for an invalid name, and for too many channels.
    public func subscribe(to channels: Set<String>) async throws {
        try await changeSubscriptions { $0.formUnion(channels) }
    }

    /// Ends subscriptions. After the last one ends, the client keeps all entities that the user may see.
    public func unsubscribe(from channels: Set<String>) async throws {
        try await changeSubscriptions { $0.subtract(channels) }
    }

    /// The channels to which synchronization is restricted; empty for all entities that the user may see.
    public var subscriptions: Set<String> {
        get async throws { Set(try await database.read { try Subscriptions.channels($0) }) }
    }

    /// The maximum number of channels that a client subscribes to.
    public static var subscriptionLimit: Int { Subscriptions.limit }

    private func changeSubscriptions(_ change: @Sendable @escaping (inout Set<String>) -> Void) async throws {
        let isChanged = try await database.write { db in
            _ = try Device.id(db)
            let before = Set(try Subscriptions.channels(db))
            var after = before
            change(&after)
            if after == before { return false }
            try Subscriptions.write(after, db)
            return true
        }
        guard isChanged else { return }
        await worker.wantPull()
        bell.ring()
    }
}

/// The channels that the app has subscribed to.
enum Subscriptions {
    /// The limit of the gateway for one pull.
    static let limit = 100

    /// Sorted names.
    static func channels(_ db: Database) throws -> [String] {
        guard let text = try String.fetchOne(db, sql: "SELECT subscriptions FROM sluice_device") else { return [] }
        return try JSON(parsing: Array(text.utf8)).array?.compactMap(\.string).sorted() ?? []
    }

    static func write(_ channels: Set<String>, _ db: Database) throws {
        guard channels.count <= limit else {
            throw SluiceError.invalid("\(channels.count) subscriptions; at most \(limit) channels are possible")
        }
        for name in channels where !isValid(name) {
            throw SluiceError.invalid("channel '\(name)': a name has 1 to 200 bytes without control characters")
        }
        let json = JSON.array(channels.sorted().map(JSON.string))
        try db.execute(
            sql: "UPDATE sluice_device SET subscriptions = ?",
            arguments: [channels.isEmpty ? nil : String(decoding: json.utf8, as: UTF8.self)]
        )
    }

    private static func isValid(_ name: String) -> Bool {
        (1...200).contains(name.utf8.count) && name.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }
}
