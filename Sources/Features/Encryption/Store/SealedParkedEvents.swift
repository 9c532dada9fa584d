import Foundation
import Postgres
import SyncModel
import SyncStore

/// An organization's events that wait, each under its own lock.
struct SealedParkedEvents: SealedDocuments {
    /// An event's source and id.
    struct Key: Sendable {
        let source: String
        let event: String
    }

    let organization: UUID

    var page: Statement { SealStatements.parkedEvents }
    var first: Key { Key(source: "", event: "") }

    func place(_ key: Key) -> Parameters { Parameters(of: organization, key.source, key.event) }

    func key(_ row: inout RowReader) throws -> Key {
        Key(source: try row.string("source"), event: try row.string("event_id"))
    }

    func next(after key: Key) -> Key? { key }

    func read(_ keys: [Key]) -> [Query] { [query(SealStatements.lockParkedEvents, keys)] }
    func find(_ keys: [Key]) -> Query { query(SealStatements.lookAtParkedEvents, keys) }

    private func query(_ statement: Statement, _ keys: [Key]) -> Query {
        statement(
            organizations: keys.map { _ in organization },
            sources: keys.map(\.source),
            event_ids: keys.map(\.event)
        )
    }

    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query? {
        let key = try key(&row)
        guard let document = try row.optionalBytes("document") else { return nil }
        let place = SealedPlace.parked(source: key.source, event: key.event)
        let (type, owner) = (try row.string("entity_type"), try row.optionalUUID("owner_id"))
        var parameters = self.place(key)
        parameters.add(json: try renewal.json(document, as: place, type: type, owner: owner))
        return Query(SealStatements.writeParkedEvent, parameters)
    }
}
