import HTTPTypes
import SyncMaintenance
import SyncModel

/// The routes of `/admin`: each with what a token has to be good for, and with what the audit is told of it.
struct OperatorRoutes {
    let door: OperatorDoor
    let log: AuditLog
    private(set) var table: RouteTable
    /// The names by which the audit calls acts, and looks at what users wrote.
    private(set) var audited: [String] = []

    init(adding table: RouteTable, behind door: OperatorDoor, log: AuditLog) {
        self.door = door
        self.log = log
        self.table = table
    }

    /// A look, which changes nothing.
    ///
    /// - Parameter name: its `operationId` in the contract where it shows what users wrote: then the audit is told. Nil:
    ///   it does not, or tells the audit itself.
    mutating func look(
        at path: String,
        needs scope: OperatorScope = .read,
        audited name: String? = nil,
        answers mediaType: String? = "application/json",
        _ endpoint: @escaping Route.Endpoint
    ) {
        add(.get, path, scope, name, mediaType, endpoint)
    }

    /// An act: something that changes or sends something.
    ///
    /// - Parameter name: its `operationId` in the contract, by which the audit calls it.
    mutating func act(
        _ name: String,
        _ method: HTTPRequest.Method,
        _ path: String,
        needs scope: OperatorScope = .admin,
        _ endpoint: @escaping Route.Endpoint
    ) {
        add(method, path, scope, name, "application/json", endpoint)
    }

    private mutating func add(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ scope: OperatorScope,
        _ action: String?,
        _ mediaType: String?,
        _ endpoint: @escaping Route.Endpoint
    ) {
        let names = path.split(separator: "/").filter { $0.hasPrefix("{") }.map { String($0.dropFirst().dropLast()) }
        if let action { audited.append(action) }
        table.add(method, path, answers: mediaType) { [door, log] exchange in
            let guest = try door.admit(exchange.head, for: scope)
            var exchange = exchange
            exchange.operatorToken = guest.token
            exchange.operatorUntil = guest.end
            let audit = try OperatorAudit(exchange, by: guest.token, in: log)
            exchange.audit = audit
            guard let action else { return try await endpoint(exchange) }
            return try await audit.recording(action, names, exchange, endpoint)
        }
    }
}
