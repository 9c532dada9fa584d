import Foundation
import GRDB

extension SluiceClient {
    /// Restricts synchronization to the entities of some channels. Earlier subscriptions stay in effect.
    ///
    /// Without a subscription, the client keeps all entities that the user can see. With subscriptions, it keeps the
    /// entities of these channels, of the user's own channel `user/…`, and of types without channels. A channel for
    /// which the user has no grant adds no entities.
    ///
    /// A change of the subscriptions starts a pull from the beginning. When this pull ends, rows outside of all
    /// subscriptions are removed. Rows with pending writes stay until the writes are settled.
    ///
    /// - Parameter channels: names such as `project/42`, which are compared by bytes. Together with earlier
    ///   subscriptions, at most ``subscriptionLimit`` channels are allowed.
    /// - Throws: ``SluiceError/invalid(_:)`` for an invalid name or too many channels.
    public func subscribe(to channels: [String]) async throws {
        try await changeSubscriptions { $0 + channels }
    }

    /// Ends subscriptions. After the last subscription has ended, the client keeps all entities that the user can see.
    public func unsubscribe(from channels: [String]) async throws {
        try await changeSubscriptions { before in
            before.filter { name in !channels.contains { $0.utf8.elementsEqual(name.utf8) } }
        }
    }

    /// The channels to which synchronization is restricted; empty if there is no restriction.
    public var subscriptions: [String] {
        get async throws { try await database.read { try Subscriptions.channels($0) } }
    }

    /// The maximum number of channels to which a client can subscribe.
    public static var subscriptionLimit: Int { Subscriptions.limit }

    private func changeSubscriptions(_ change: @Sendable @escaping ([String]) -> [String]) async throws {
        let isChanged = try await database.write { db in
            _ = try Device.id(db)
            let before = try Subscriptions.channels(db)
            let after = Subscriptions.distinct(change(before))
            // a call either adds or removes names, so an equal number of names means that nothing has changed
            if after.count == before.count { return false }
            try Subscriptions.write(after, db)
            return true
        }
        guard isChanged else { return }
        await worker.requestPull()
        bell.ring()
    }
}

/// The channels that the app has subscribed to.
enum Subscriptions {
    /// The limit of the gateway for one pull.
    static let limit = 100

    /// Returns the names of the channels in sorted order.
    static func channels(_ db: Database) throws -> [String] {
        guard let text = try String.fetchOne(db, sql: "SELECT subscriptions FROM sluice_device") else { return [] }
        return try JSON(parsing: Array(text.utf8)).array?.compactMap(\.string) ?? []
    }

    /// Sorts names by their bytes, and removes duplicates.
    static func distinct(_ names: [String]) -> [String] {
        names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.reduce(into: []) { found, name in
            if found.last.map({ !$0.utf8.elementsEqual(name.utf8) }) ?? true { found.append(name) }
        }
    }

    static func write(_ channels: [String], _ db: Database) throws {
        guard channels.count <= limit else {
            throw SluiceError.invalid("\(channels.count) subscriptions; at most \(limit) channels are possible")
        }
        for name in channels where !isValid(name) {
            throw SluiceError.invalid("channel '\(name)': a name has 1 to 200 bytes without control characters")
        }
        let json = JSON.array(channels.map(JSON.string))
        try db.execute(
            sql: "UPDATE sluice_device SET subscriptions = ?",
            arguments: [channels.isEmpty ? nil : String(decoding: json.utf8, as: UTF8.self)]
        )
    }

    private static func isValid(_ name: String) -> Bool {
        (1...200).contains(name.utf8.count) && name.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }
}
