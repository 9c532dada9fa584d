import Foundation
import Postgres
import SyncModel

/// Builds the input rows for `local_ids`.
struct LocalIDRows {
    struct Row {
        let device: DeviceKey
        let id: LocalID
        let serverID: ServerID?
        let create: UUID?
    }

    private var rows: [Row] = []

    var isEmpty: Bool { rows.isEmpty }

    /// - Parameter create: stored while the id leads nowhere.
    mutating func add(
        _ device: DeviceKey,
        _ id: LocalID,
        _ serverID: ServerID?,
        createdBy create: UUID? = nil
    ) {
        rows.append(Row(device: device, id: id, serverID: serverID, create: serverID == nil ? create : nil))
    }

    private var sorted: [Row] {
        rows.sorted { $0.device != $1.device ? $0.device < $1.device : $0.id < $1.id }
    }

    /// The key of a row.
    private static let key = Columns<Row>(.device(\.device), .localID(\.id))

    /// All columns: for ``LocalIDStatements/write`` and its like.
    static let whole = Columns<Row>(
        key,
        .serverID(\.serverID),
        .uuid("mutation_id", \.create),
        .uuid("client_id") { row in row.create.map { _ in row.id.clientID(on: row.device.id) } }
    )

    /// For ``LocalIDStatements/confirmSecond``.
    static let second = Columns<Row>(key, .serverID(\.serverID))

    /// For ``LocalIDStatements/pin``.
    static let pin = Columns<Row>(key, .uuid("client_id") { $0.id.clientID(on: $0.device.id) })

    func query(_ statement: Statement) -> Query { Query(statement, Self.whole.parameters(sorted)) }
    func confirmSecond() -> Query { Query(LocalIDStatements.confirmSecond, Self.second.parameters(sorted)) }
    func pin() -> Query { Query(LocalIDStatements.pin, Self.pin.parameters(sorted)) }
}
