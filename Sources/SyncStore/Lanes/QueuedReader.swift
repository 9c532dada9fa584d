import Foundation
import Postgres
import SyncModel

/// Reads mutations that lanes have in flight, or come to next.
struct QueuedReader {
    let seals: SealTable
    let now: Timestamp

    /// Reads a mutation, if need be without what of it stays closed: what was damaged, and what was accepted long ago and
    /// is under a data key that is nowhere.
    func mutation(_ row: inout RowReader, of lane: LaneKey, _ entry: Catalog.Entry) throws -> QueuedMutation {
        let seal = seals.lane(lane)
        let start = row
        do {
            return try QueuedColumns.mutation(&row, seal)
        } catch SealError.unknownKey(let number) where entry.readAt >= now && !seal.seal.isThere(number) {
            let closed = LaneSeal(seal: seal.seal.lastWord, user: seal.user)
            row = start
            let mutation = try QueuedColumns.mutation(&row, closed)
            // the key may have been made a moment ago
            guard mutation.acceptedAt.adding(seconds: OrganizationKeys.grace) < now else {
                throw SealError.unknownKey(number)
            }
            return mutation
        }
    }

    /// Reads what ``LaneStatements/heads`` found, behind the job.
    func head(_ row: inout RowReader, of lane: LaneKey, _ entry: Catalog.Entry) throws -> FoundHead {
        let start = row
        do {
            let mutation = try mutation(&row, of: lane, entry)
            let mappings = try Self.mappings(&row)
            let entity = row.isNextNull ? nil : try EntityRows.read(&row, seals).state
            return .mutation(mutation, entry.type(mutation.entity.type), mappings, entity)
        } catch let error as SealError {
            row = start
            return .sealed(position: try QueuedColumns.position(&row), error)
        }
    }

    /// Four arrays side by side: client ids, types, server ids, and whether these are integers.
    private static func mappings(_ row: inout RowReader) throws -> [UUID: [TurnPlanner.ResolvedID]] {
        let clients = try row.optionalUUIDs("client_ids") ?? []
        let types = try row.optionalStrings("entity_types") ?? []
        let ids = try row.optionalStrings("server_ids") ?? []
        let areIntegers = try row.optionalBools("are_integers") ?? []
        var mappings: [UUID: [TurnPlanner.ResolvedID]] = [:]
        for (place, client) in clients.enumerated() {
            let id = ServerID(text: ids[place], isInteger: areIntegers[place])
            mappings[client, default: []].append(TurnPlanner.ResolvedID(entityType: types[place], serverID: id))
        }
        return mappings
    }
}

extension Catalog.Entry {
    /// A type that mutations have; one that an operator has not declared was registered at its first use.
    func type(_ name: String) -> EntityType {
        types[name] ?? EntityType(firstUseOf: name, hasUpstream: organization?.upstream != nil)
    }
}
