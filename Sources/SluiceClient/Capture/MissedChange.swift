public import GRDB

extension SluiceClient {
    /// How the app's changes get into the outbox.
    public enum Capture: Sendable {
        /// The app calls ``SluiceClient/insert(_:options:)`` and similar methods, or ``SluiceClient/enqueue(_:in:)``.
        case calls
        /// Triggers detect the app's changes to mapped columns.
        ///
        /// The app writes its tables without calling the library. For a write with ``Write/Options``, the app can still
        /// call the library. Several changes of a row within a short time become one write.
        ///
        /// The triggers belong to the client's writing connection, and do not detect the writes of other processes.
        case triggers
    }

    /// Returns the rows whose mapped columns differ from the enqueued and pulled data.
    ///
    /// With ``Capture/calls``, each returned row is an error of the app, which changed the row without calling the
    /// library. No other phone receives the change, and the next pull of the row overwrites the change.
    ///
    /// Call this method only in tests and debug builds, because it compares all rows of all synchronized tables.
    /// ``Configuration/onMissedChanges`` reports the rows after each transaction.
    ///
    /// With ``Capture/triggers``, the returned rows are not enqueued yet or cannot be enqueued
    /// (``MissedChange/Kind/invalid(_:)``).
    ///
    /// - Throws: the database's errors.
    public func missedChanges(in db: Database) throws -> [MissedChange] {
        let comparison = RowComparison(map, Projection(map, db, now: configuration.now()), db)
        return try map.entities.flatMap { try comparison.missed(of: $0) }
    }
}

/// A row that the app has changed without calling the library.
public struct MissedChange: Sendable, Hashable, CustomStringConvertible {
    /// The kind of change.
    public enum Kind: Sendable, Hashable {
        case created
        /// The columns that differ.
        case changed(columns: [String])
        case deleted
        /// The row cannot be written as a document, for this reason.
        case invalid(String)
    }

    /// The entity type's name at the gateway.
    public let entityType: String
    /// The text of the row's key.
    public let key: String
    /// The kind of change.
    public let kind: Kind

    init(_ entityType: String, _ key: String, _ kind: Kind) {
        (self.entityType, self.key, self.kind) = (entityType, key, kind)
    }

    init(_ entityType: String, _ key: String, _ difference: RowDifference) {
        switch difference {
        case .created: self.init(entityType, key, Kind.created)
        case .changed(_, let columns): self.init(entityType, key, Kind.changed(columns: columns))
        case .deleted: self.init(entityType, key, Kind.deleted)
        }
    }

    public var description: String {
        switch kind {
        case .created: "'\(entityType)' \(key) was created without a call"
        case .changed(let columns): "'\(entityType)' \(key): \(columns.joined(separator: ", ")) changed without a call"
        case .deleted: "'\(entityType)' \(key) was deleted without a call"
        case .invalid(let reason): "'\(entityType)' \(key): \(reason)"
        }
    }
}
