public import Foundation
public import GRDB

/// The options of a retry.
public struct RetryOptions: Sendable {
    /// The endpoint of the retry, which replaces the write's own endpoint. The endpoint may contain `{local_id}`.
    public var endpoint: String?
    /// Whether to retry even if it is unknown whether the last attempt took effect. With `true`, an edited write may
    /// take effect in addition to the last attempt. With `false`, the gateway refuses such a retry, and
    /// ``FailedWrite/decisionError`` contains the reason.
    public var isForced: Bool

    /// Creates options. Every option has a default, so `RetryOptions(isForced: true)` is enough to set one option.
    public init(endpoint: String? = nil, isForced: Bool = false) {
        self.endpoint = endpoint
        self.isForced = isForced
    }
}

/// Decisions about writes that did not take effect (``failedWrites``).
///
/// These writes include failed writes of the user's other devices (``FailedWrite/deviceID``).
///
/// Each decision takes effect on the phone immediately, even offline. It is sent to the gateway in the same way as
/// writes.
///
/// Each method has two forms. The form with `in: db` takes part in a transaction of the app. The other form opens a
/// separate transaction.
extension SluiceClient {
    /// Retries a write that failed, is in conflict, or was not accepted.
    ///
    /// A write that an earlier version of the app made without an endpoint gets its entity's endpoint.
    ///
    /// - Throws: ``SluiceError/stateForbids(_:)``, ``SluiceError/unknownMutation``, ``SluiceError/invalid(_:)``; the
    ///   database's errors.
    public func retry(_ mutation: UUID, options: RetryOptions = RetryOptions(), in db: Database) throws {
        try settle(in: db) { try $0.retry(mutation, payload: nil, options) }
    }

    /// Retries a write, in a separate transaction. See ``retry(_:options:in:)``.
    public func retry(_ mutation: UUID, options: RetryOptions = RetryOptions()) async throws {
        try await settle { client, db in try client.retry(mutation, options: options, in: db) }
    }

    /// Retries a write with the record's present values. The app's row shows these values immediately, except for
    /// members that a later write of the row also changes: there, the row continues to show the later write.
    ///
    /// - Throws: ``SluiceError/stateForbids(_:)``, ``SluiceError/unknownMutation``, ``SluiceError/invalid(_:)``; the
    ///   database's errors.
    public func retry<Record: Syncable>(
        _ mutation: UUID,
        editing record: Record,
        options: RetryOptions = RetryOptions(),
        in db: Database
    ) throws {
        try retry(mutation, try record.databaseDictionary, options, in: db)
    }

    /// Retries a write with the record's present values, in a separate transaction. See
    /// ``retry(_:editing:options:in:)``.
    public func retry<Record: Syncable>(
        _ mutation: UUID,
        editing record: Record,
        options: RetryOptions = RetryOptions()
    ) async throws {
        let values = try record.databaseDictionary
        try await settle { client, db in try client.retry(mutation, values, options, in: db) }
    }

    private func retry(
        _ mutation: UUID,
        _ values: [String: DatabaseValue],
        _ options: RetryOptions,
        in db: Database
    ) throws {
        try settle(in: db) { try $0.retry(mutation, payload: try $0.payload(mutation, of: values), options) }
    }

    /// Retries a write with another payload, which must contain the gateway's ids.
    ///
    /// - Throws: ``SluiceError/stateForbids(_:)``, ``SluiceError/unknownMutation``; the database's errors.
    public func retry(
        _ mutation: UUID,
        payload: JSON,
        options: RetryOptions = RetryOptions(),
        in db: Database
    ) throws {
        try settle(in: db) { try $0.retry(mutation, payload: payload, options) }
    }

    /// Retries a write with another payload, in a separate transaction. See ``retry(_:payload:options:in:)``.
    public func retry(_ mutation: UUID, payload: JSON, options: RetryOptions = RetryOptions()) async throws {
        try await settle { client, db in try client.retry(mutation, payload: payload, options: options, in: db) }
    }

    /// Discards a write. The app's row then shows the server's entity.
    ///
    /// - Parameter dependents: how to treat writes that need this write (``dependents(of:in:)``). If there are such
    ///   writes, the parameter is required.
    /// - Throws: ``SluiceError/hasDependents(_:)``, ``SluiceError/stateForbids(_:)``, ``SluiceError/unknownMutation``;
    ///   the database's errors.
    public func discard(_ mutation: UUID, dependents: Dependents? = nil, in db: Database) throws {
        try settle(in: db) { try $0.discard(mutation, dependents: dependents) }
    }

    /// Discards a write, in a separate transaction. See ``discard(_:dependents:in:)``.
    public func discard(_ mutation: UUID, dependents: Dependents? = nil) async throws {
        try await settle { client, db in try client.discard(mutation, dependents: dependents, in: db) }
    }

    /// Returns the writes that need this write, directly or through other writes, in the order in which they were made.
    ///
    /// These writes reference the row that this write creates, write the same row later, or were declared to depend on
    /// this write.
    ///
    /// - Throws: ``SluiceError/unknownMutation``; the database's errors.
    public func dependents(of mutation: UUID, in db: Database) throws -> [UUID] {
        try Settling(map, db, now: configuration.now()).dependents(of: mutation)
    }

    /// Resolves a conflict in favor of the server or of the phone.
    ///
    /// - Throws: ``SluiceError/stateForbids(_:)``, ``SluiceError/unknownMutation``; the database's errors.
    public func resolve(_ mutation: UUID, _ winner: Winner, in db: Database) throws {
        try settle(in: db) { try $0.resolve(mutation, winner, payload: nil) }
    }

    /// Resolves a conflict, in a separate transaction. See ``resolve(_:_:in:)``.
    public func resolve(_ mutation: UUID, _ winner: Winner) async throws {
        try await settle { client, db in try client.resolve(mutation, winner, in: db) }
    }

    /// Resolves a conflict with a record in which a person has merged the two versions. ``theirs(of:as:in:)`` returns
    /// the server's version.
    ///
    /// - Throws: ``SluiceError/stateForbids(_:)``, ``SluiceError/unknownMutation``, ``SluiceError/invalid(_:)``; the
    ///   database's errors.
    public func resolve<Record: Syncable>(_ mutation: UUID, with record: Record, in db: Database) throws {
        try resolve(mutation, with: try record.databaseDictionary, in: db)
    }

    /// Resolves a conflict with a merged record, in a separate transaction. See ``resolve(_:with:in:)``.
    public func resolve<Record: Syncable>(_ mutation: UUID, with record: Record) async throws {
        let values = try record.databaseDictionary
        try await settle { client, db in try client.resolve(mutation, with: values, in: db) }
    }

    private func resolve(_ mutation: UUID, with values: [String: DatabaseValue], in db: Database) throws {
        try settle(in: db) { try $0.resolve(mutation, .client, payload: try $0.payload(mutation, of: values)) }
    }

    // MARK: - What all of them do

    /// Applies a decision, and wakes the worker after the commit to send it. If the body throws, nothing is changed.
    private func settle(in db: Database, _ body: (Settling) throws -> Void) throws {
        try db.inSavepoint {
            if configuration.capture == .triggers { try captured.enqueueAll(db, now: configuration.now()) }
            try body(Settling(map, db, now: configuration.now()))
            return .commit
        }
        ring(after: db)
    }

    private func settle(_ body: @escaping @Sendable (SluiceClient, Database) throws -> Void) async throws {
        try await database.write { [self] db in try body(self, db) }
    }
}
