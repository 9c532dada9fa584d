import FoundationEssentials
import GroupCommit
import Postgres
import SyncModel

/// Reads the entities that refer to those that a group may delete.
///
/// Two round trips more, only for deletions of entities to which relations may lead. The entities to be deleted are
/// locked before, and a write that makes an entity refer to another one locks that one, too. So no references to them are
/// added until the commit. Entities that a cascade deletes are locked here, so their references are read again.
struct ReferrerReader {
    /// The deletions of one push, or of one turn of a lane.
    struct Deletions {
        let organization: UUID
        let relations: EntityRelations
        let entities: [EntityKey]
    }

    private let deletions: [Deletions]
    private let access: GroupReader.Access
    private let seals: SealTable
    /// Bytes of documents that are read; entities with others are too many.
    private let documentBytes: Int

    /// - Parameter deletions: those without entities, or without relations to them, are left out.
    init(_ deletions: [Deletions], _ access: GroupReader.Access, _ seals: SealTable, documentBytes: Int) {
        self.deletions = deletions.compactMap { found in
            let entities = found.entities.filter { found.relations.lead(to: $0.type) }
            guard !entities.isEmpty else { return nil }
            return Deletions(organization: found.organization, relations: found.relations, entities: entities)
        }
        self.access = access
        self.seals = seals
        self.documentBytes = documentBytes
    }

    /// Adds the entities to the tables of their organizations.
    ///
    /// - Throws: ``CommitFailure``, to try again: with fewer jobs, if they need too many documents together, or later, if
    ///   an entity has got a reference in between.
    func read(into tables: inout [UUID: EntityTable], on connection: Connection) async throws {
        guard !deletions.isEmpty else { return }
        let find = deletions.map { ReferenceRows.find($0.entities, of: $0.organization, $0.relations) }
        var referrers = try referrers(await connection.run(find))
        let keys = missing(referrers, tables)
        if !keys.isEmpty {
            let isLocking = access == .locking
            let entities = EntityRows.query(access, keys, documentBytes: documentBytes)
            let results = try await connection.run([entities] + (isLocking ? find : []))
            try EntityRows.loadBounded(results[0], into: &tables, seals)
            if isLocking {
                referrers = try self.referrers(Array(results.dropFirst()))
                guard missing(referrers, tables).allSatisfy({ key in keys.contains { $0 == key } }) else {
                    let detail = "an entity was referred to while it was deleted"
                    throw CommitFailure.contended(PostgresError(.server(sqlState: "40001"), detail))
                }
            }
            if deletions.count > 1, keys.contains(where: { tables[$0.organization]?[$0.key]?.unreadBytes ?? 0 > 0 }) {
                let detail = "entities that refer to deleted ones have too much data for one group"
                throw CommitFailure.refused(PostgresError(.server(sqlState: "54000"), detail))
            }
        }
        for (deletions, found) in zip(deletions, referrers) {
            for (key, found) in found { tables[deletions.organization]?.load(found, of: key) }
        }
    }

    private func referrers(_ results: [Rows]) throws -> [[EntityKey: FoundReferrers]] {
        try zip(deletions, results).map { try ReferenceRows.read($1, of: $0.entities) }
    }

    /// Entities that were not read yet, in key order.
    private func missing(
        _ referrers: [[EntityKey: FoundReferrers]],
        _ tables: [UUID: EntityTable]
    ) -> [EntityRows.Key] {
        var keys: [UUID: Set<EntityKey>] = [:]
        for (deletions, found) in zip(deletions, referrers) {
            let table = tables[deletions.organization]
            for referrers in found.values where !referrers.isCut {
                for key in referrers.entities where table?[key].map(\.isTarget) ?? true {
                    keys[deletions.organization, default: []].insert(key)
                }
            }
        }
        return keys.sorted { $0.key < $1.key }.flatMap { organization, keys in
            keys.sorted { ($0.type, $0.id) < ($1.type, $1.id) }.map { (organization, $0) }
        }
    }
}
