import Foundation
import Postgres
import SyncModel

/// Rows of `local_ids` on their way in.
struct LocalIDRows {
    private struct Row {
        let device: LocalIDColumns.Device
        let id: LocalID
        let serverID: ServerID?
        let create: UUID?
    }

    private var rows: [Row] = []

    var isEmpty: Bool { rows.isEmpty }

    /// - Parameter create: noted while the id leads nowhere.
    mutating func add(
        _ device: LocalIDColumns.Device,
        _ id: LocalID,
        _ serverID: ServerID?,
        createdBy create: UUID? = nil
    ) {
        rows.append(Row(device: device, id: id, serverID: serverID, create: serverID == nil ? create : nil))
    }

    private func keys(_ sorted: [Row]) -> Parameters {
        var columns = LocalIDColumns()
        for row in sorted { columns.add(0, row.device, row.id) }
        return columns.keys
    }

    private var sorted: [Row] {
        rows.sorted { $0.device != $1.device ? $0.device < $1.device : $0.id < $1.id }
    }

    /// Of ``LocalIDStatements/write`` and its like.
    var parameters: Parameters {
        let rows = sorted
        var parameters = keys(rows)
        parameters.add(rows.map(\.serverID?.text))
        parameters.add(rows.map { $0.serverID?.isInteger ?? false })
        parameters.add(rows.map(\.create))
        parameters.add(rows.map { row in row.create.map { _ in row.id.clientID(on: row.device.id) } })
        return parameters
    }

    /// Of ``LocalIDStatements/confirmSecond``.
    var seconds: Parameters {
        let rows = sorted
        var parameters = keys(rows)
        parameters.add(rows.map(\.serverID?.text))
        parameters.add(rows.map { $0.serverID?.isInteger ?? false })
        return parameters
    }

    /// Of ``LocalIDStatements/pin``.
    var pins: Parameters {
        let rows = sorted
        var parameters = keys(rows)
        parameters.add(rows.map { $0.id.clientID(on: $0.device.id) })
        return parameters
    }
}
