import Foundation
import Postgres
package import SyncModel

/// Reads mutations that are in flight, or next in their lanes.
struct QueuedReader {
    let seals: SealTable
    let now: Timestamp

    /// Reads a mutation, if need be without its values that cannot be opened.
    ///
    /// These are damaged ones, and those accepted long ago under a data key that does not exist.
    func mutation(_ row: inout RowReader, of lane: LaneKey, _ entry: Catalog.Entry) throws -> QueuedMutation {
        let seal = seals.lane(lane)
        let start = row
        do {
            return try QueuedColumns.mutation(&row, seal)
        } catch SealError.unknownKey(let number) where entry.readAt >= now && !seal.seal.isThere(number) {
            let closed = LaneSeal(seal: seal.seal.withoutKeyRefresh, user: seal.user)
            row = start
            let mutation = try QueuedColumns.mutation(&row, closed)
            // the key may have been made a moment ago
            guard mutation.acceptedAt.adding(seconds: OrganizationKeys.grace) < now else {
                throw SealError.unknownKey(number)
            }
            return mutation
        }
    }

    /// Reads the columns of ``LaneStatements/heads`` behind the job.
    func head(_ row: inout RowReader, of lane: LaneKey, _ entry: Catalog.Entry) throws -> FoundHead {
        let start = row
        do {
            let mutation = try mutation(&row, of: lane, entry)
            let mappings = try Self.mappings(&row)
            let entity = row.isNextNull ? nil : try EntityRows.read(&row, seals).state
            return .mutation(mutation, entry.type(mutation.entity.type), mappings, entity)
        } catch let error as SealError where !error.lacksUserKeys {
            row = start
            return .sealed(position: try QueuedColumns.position(&row), error)
        }
    }

    /// Reads four parallel arrays: client ids, types, server ids, and their kinds.
    private static func mappings(_ row: inout RowReader) throws -> [UUID: [DispatchPlanner.ResolvedID]] {
        let clients = try row.optionalUUIDs("client_ids") ?? []
        let types = try row.optionalStrings("entity_types") ?? []
        let ids = try row.optionalStrings("server_ids") ?? []
        let areIntegers = try row.optionalBools("are_integers") ?? []
        var mappings: [UUID: [DispatchPlanner.ResolvedID]] = [:]
        for (place, client) in clients.enumerated() {
            let id = ServerID(text: ids[place], isInteger: areIntegers[place])
            mappings[client, default: []].append(DispatchPlanner.ResolvedID(entityType: types[place], serverID: id))
        }
        return mappings
    }
}

extension Catalog.Entry {
    /// A mutation's type; an undeclared one was registered at its first use.
    package func type(_ name: String) -> EntityType {
        types[name] ?? EntityType(firstUseOf: name, hasUpstream: organization?.upstream != nil)
    }
}
