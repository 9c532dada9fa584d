import Foundation
import Postgres
import SyncModel
import SyncStore

/// An organization's entities, each under its own lock.
struct SealedEntities: SealedDocuments {
    let organization: UUID

    var page: Statement { SealStatements.entities }
    var first: EntityKey { EntityKey(type: "", id: "") }

    func place(_ key: EntityKey) -> Parameters {
        let parameters = Parameters(of: organization, key.type, key.id)
        return parameters
    }

    func key(_ row: inout RowReader) throws -> EntityKey { try row.entityKey() }
    func next(after key: EntityKey) -> EntityKey? { key }
    func read(_ keys: [EntityKey]) -> [Query] { [EntityRows.lock(keys.map { (organization, $0) })] }
    func find(_ keys: [EntityKey]) -> Query { EntityRows.find(at: keys.map { (organization, $0) }) }

    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query? {
        guard let (key, document, owner) = try EntityRows.document(&row) else { return nil }
        var parameters = place(key)
        let place = SealedPlace.document(type: key.type, id: key.id)
        parameters.add(json: try renewal.json(document, as: place, type: key.type, owner: owner))
        return Query(SealStatements.writeEntity, parameters)
    }
}
