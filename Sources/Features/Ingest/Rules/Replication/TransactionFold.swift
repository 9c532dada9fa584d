package import SyncModel

/// Reduces the changes of one transaction to its final state, for ids that pass from one row to another.
///
/// If a unique constraint is deferrable, a transaction may give an id to a row while another row still has it:
/// `UPDATE contact SET id = id + 1` writes "row 1 becomes 2" before "row 2 becomes 3". In the order of the log, the
/// deletion of entity 2 would follow its update, and the entity would be lost. A table with such a constraint has
/// REPLICA IDENTITY FULL, so the log contains each old row as a whole, and this type follows which row leaves an id.
///
/// Transactions of up to ``eventLimit`` events and ``byteLimit`` bytes are reduced exactly. Larger ones are handed on in
/// parts: if equal rows pass an id on in different parts, the order of the log decides.
package struct TransactionFold: Sendable {
    /// Events that are held until their transaction ends.
    package static let eventLimit = 20_000
    /// Bytes of documents that are held until their transaction ends.
    package static let byteLimit = 8 << 20
    /// Ids of one transaction whose rows are followed. The changes of further ids are handed on in the log's order.
    static let placeLimit = 250_000

    private struct Key: Hashable {
        let table: QualifiedName?
        let entity: EntityKey
    }

    fileprivate struct Row {
        var hash: UInt64
        /// The held event with the row's newest content; nil if that was handed on.
        var event: Int?
        /// Whether the row had the id before the transaction.
        let isOriginal: Bool
    }

    /// The rows that had one id within the transaction.
    fileprivate struct Place {
        var rows: [Row] = []
        /// Whether a row had the id before the transaction; nil if the log does not show it.
        var hadRow: Bool?
        var hasOriginalLeft = false
        var hasArrival = false
        /// The held events.
        var events: [Int] = []
    }

    private var places: [Key: Place] = [:]
    /// The ids that a row left after another had arrived.
    private var questions: Set<Key> = []
    /// The ids with held events.
    private var touched: Set<Key> = []
    private var events: [LoggedEvent] = []
    private var bytes = 0

    package init() {}

    package var isEmpty: Bool { events.isEmpty }

    /// Whether the held events have to be handed on before the transaction's end.
    package var isFull: Bool { events.count >= Self.eventLimit || bytes >= Self.byteLimit }

    /// Starts a transaction. Every event of the transaction before has been taken.
    package mutating func begin() { self = TransactionFold() }

    /// Adds the next event of the transaction.
    package mutating func add(_ event: LoggedEvent) {
        let index = events.count
        events.append(event)
        bytes += 200 + event.documentBytes
        guard let step = event.step, case .success(let content) = event.entry.event else { return }
        let key = Key(table: event.table, entity: content.key)
        guard places[key] != nil || places.count < Self.placeLimit else { return }
        touched.insert(key)
        if places[key, default: Place()].apply(step, index) { questions.insert(key) }
    }

    /// Returns the entities whose existence before the transaction must be read from the feed.
    ///
    /// - Parameter isFinal: whether the transaction has ended.
    package func unknown(isFinal: Bool) -> [EntityKey] {
        (isFinal ? questions : touched).compactMap { key in
            guard let place = places[key], place.hadRow == nil, place.hasArrival else { return nil }
            if isFinal, place.hasOriginalLeft || !place.rows.isEmpty { return nil }
            return key.entity
        }
    }

    /// Removes and returns the held events, without those that the rest of the transaction undoes.
    ///
    /// - Parameter living: those of ``unknown(isFinal:)`` that exist in the feed.
    package mutating func take(living: Set<EntityKey>) -> [LoggedEvent] {
        var dropped: Set<Int> = []
        for key in questions {
            guard let place = places[key] else { continue }
            var kept: Int?
            if let row = place.rows.max(by: { ($0.event ?? -1) < ($1.event ?? -1) }) {
                kept = row.event
                if let kept, place.hasOriginalLeft { events[kept].setLineage(.restarts) }
            } else if place.hasOriginalLeft || !(place.hadRow ?? living.contains(key.entity)) {
                kept = place.events.last
            }
            dropped.formUnion(place.events.filter { $0 != kept })
        }
        for key in touched {
            guard var place = places[key] else { continue }
            if place.hadRow == nil, place.hasArrival { place.hadRow = living.contains(key.entity) }
            place.events = []
            for index in place.rows.indices { place.rows[index].event = nil }
            places[key] = place
        }
        let taken = events
        (events, bytes) = ([], 0)
        questions.removeAll(keepingCapacity: true)
        touched.removeAll(keepingCapacity: true)
        guard !dropped.isEmpty else { return taken }
        return taken.indices.filter { !dropped.contains($0) }.map { taken[$0] }
    }
}

extension TransactionFold.Place {
    /// Notes a change.
    ///
    /// - Returns: whether a row left after another had arrived.
    fileprivate mutating func apply(_ step: RowStep, _ event: Int) -> Bool {
        events.append(event)
        switch step {
        case .arrival(let hash):
            hasArrival = true
            rows.append(TransactionFold.Row(hash: hash, event: event, isOriginal: false))
            return false
        case .change(let old, let new):
            if let index = rows.lastIndex(where: { $0.hash == old }) {
                (rows[index].hash, rows[index].event) = (new, event)
            } else {
                hadRow = true
                rows.append(TransactionFold.Row(hash: new, event: event, isOriginal: true))
            }
            return false
        case .departure(let hash):
            if let index = rows.lastIndex(where: { $0.hash == hash }) {
                if rows.remove(at: index).isOriginal { hasOriginalLeft = true }
            } else {
                (hadRow, hasOriginalLeft) = (true, true)
            }
            return hasArrival
        }
    }
}
