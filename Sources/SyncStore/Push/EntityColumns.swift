import Foundation
import Postgres
import SyncModel

/// Columns that name entities which a group writes, each in one of three ways: by server id, by a client id of the user,
/// by an id of the device's own.
struct EntityColumns {
    /// An id of a device's own.
    struct Own: Hashable {
        let device: UUID
        let number: Int64
    }

    private struct Row: Hashable {
        let push: Int
        let lane: LaneKey
        let type: String
        let localID: UUID?
        let own: Own?
        let serverID: String?
    }

    private var rows: [Row] = []

    var isEmpty: Bool { rows.isEmpty }

    mutating func add(
        _ push: Int,
        _ lane: LaneKey,
        _ type: String,
        _ localID: UUID?,
        _ own: Own?,
        _ serverID: String?
    ) {
        rows.append(Row(push: push, lane: lane, type: type, localID: localID, own: own, serverID: serverID))
    }

    /// The latest open mutation on each.
    var open: Query {
        // a push may write one entity five hundred times
        let rows = rows.count > 1 ? Array(Set(rows)) : rows
        var parameters = Parameters()
        parameters.add(rows.map { Int32($0.push) })
        parameters.add(rows.map(\.lane.organization))
        parameters.add(rows.map(\.lane.user))
        parameters.add(rows.map(\.type))
        parameters.add(rows.map(\.localID))
        parameters.add(rows.map(\.serverID))
        guard rows.contains(where: { $0.own != nil }) else { return Query(GroupStatements.open, parameters) }
        parameters.add(rows.map(\.own?.device))
        parameters.add(rows.map(\.own?.number))
        return Query(GroupStatements.openOwn, parameters)
    }

    /// Reads the entities, under locks or not.
    func query(_ access: GroupReader.Access) -> Query {
        let direct = rows.filter { $0.serverID != nil }
        let own = rows.filter { $0.serverID == nil && $0.own != nil }
        let mapped = rows.filter { $0.serverID == nil && $0.own == nil }
        var parameters = Parameters()
        parameters.add(direct.map(\.lane.organization))
        parameters.add(direct.map(\.type))
        parameters.add(direct.map(\.serverID))
        parameters.add(mapped.map(\.lane.organization))
        parameters.add(mapped.map(\.lane.user))
        parameters.add(mapped.map(\.localID))
        parameters.add(mapped.map(\.type))
        let isLocking = access == .locking
        guard !own.isEmpty else {
            return Query(isLocking ? EntityStatements.lockEntities : EntityStatements.lookAtEntities, parameters)
        }
        parameters.add(own.map(\.lane.organization))
        parameters.add(own.map(\.lane.user))
        parameters.add(own.compactMap(\.own?.device))
        parameters.add(own.map(\.type))
        parameters.add(own.compactMap(\.own?.number))
        return Query(isLocking ? EntityStatements.lockOwnEntities : EntityStatements.lookAtOwnEntities, parameters)
    }
}
