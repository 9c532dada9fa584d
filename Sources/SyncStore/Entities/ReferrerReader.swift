import FoundationEssentials
import GroupCommit
import Postgres
import SyncModel

/// Reads the entities that refer to an entity which a committer's group may delete (the referrers).
///
/// The reader needs two more round trips, but only if relations can lead to the deleted entities. The group has already
/// locked the entities that it may delete, and a write of a reference locks the entity to which the reference leads.
/// Therefore no other transaction adds a reference to these entities until the commit.
///
/// The reader itself locks the entities that a cascade deletes, and then reads the references to these entities again.
struct ReferrerReader {
    /// The deletions of one push, or of one step of a lane.
    struct Deletions {
        let organization: UUID
        let relations: EntityRelations
        let entities: [EntityKey]
    }

    private let deletions: [Deletions]
    private let access: GroupReader.Access
    private let seals: SealTable
    /// The maximum number of bytes of documents that are read.
    private let documentBytes: Int

    /// - Parameter deletions: the deletions of the group. Entities to which no relation leads are ignored.
    init(_ deletions: [Deletions], _ access: GroupReader.Access, _ seals: SealTable, documentBytes: Int) {
        self.deletions = deletions.compactMap { found in
            let entities = found.entities.filter { found.relations.isTarget($0.type) }
            guard !entities.isEmpty else { return nil }
            return Deletions(organization: found.organization, relations: found.relations, entities: entities)
        }
        self.access = access
        self.seals = seals
        self.documentBytes = documentBytes
    }

    /// Adds the referrers to the tables of their organizations.
    ///
    /// - Returns: whether further entities were read.
    /// - Throws: ``CommitFailure``, after which the group is tried again. The retry has fewer jobs if the documents of
    ///   all referrers are too large for one group. The retry is delayed if an entity got a reference in the meantime.
    @discardableResult
    func read(into tables: inout [UUID: EntityTable], on connection: Connection) async throws -> Bool {
        guard !deletions.isEmpty else { return false }
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
                let read = Dictionary(grouping: keys, by: \.organization).mapValues { Set($0.map(\.key)) }
                guard missing(referrers, tables).allSatisfy({ read[$0.organization]?.contains($0.key) == true }) else {
                    let detail = "an entity got a reference while it was being deleted"
                    throw CommitFailure.contended(PostgresError(.server(sqlState: "40001"), detail))
                }
            }
            if deletions.count > 1, keys.contains(where: { tables[$0.organization]?[$0.key]?.unreadBytes ?? 0 > 0 }) {
                let detail = "the entities that refer to deleted entities have too much data for one group"
                throw CommitFailure.refused(PostgresError(.server(sqlState: "54000"), detail))
            }
        }
        for (deletions, found) in zip(deletions, referrers) {
            for (key, found) in found { tables[deletions.organization]?.load(found, of: key) }
        }
        return !keys.isEmpty
    }

    private func referrers(_ results: [Rows]) throws -> [[EntityKey: FoundReferrers]] {
        try zip(deletions, results).map { try ReferenceRows.read($1, of: $0.entities) }
    }

    /// Returns, in key order, the referrers that were not read yet, or that were read without their documents.
    private func missing(
        _ referrers: [[EntityKey: FoundReferrers]],
        _ tables: [UUID: EntityTable]
    ) -> [EntityRows.Key] {
        var keys: [UUID: Set<EntityKey>] = [:]
        for (deletions, found) in zip(deletions, referrers) {
            let table = tables[deletions.organization]
            for referrers in found.values where !referrers.isCut {
                for key in referrers.entities where table?[key].map({ $0.isTarget || $0.unreadBytes > 0 }) ?? true {
                    keys[deletions.organization, default: []].insert(key)
                }
            }
        }
        return keys.sorted { $0.key < $1.key }.flatMap { organization, keys in
            keys.sorted { ($0.type, $0.id) < ($1.type, $1.id) }.map { (organization, $0) }
        }
    }
}
