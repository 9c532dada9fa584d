import HTTPTypes
import SyncModel

/// The routes of `/admin`, each with what a token has to be good for.
struct OperatorRoutes {
    let door: OperatorDoor
    private(set) var table: RouteTable

    init(adding table: RouteTable, behind door: OperatorDoor) {
        self.door = door
        self.table = table
    }

    /// A look, which changes nothing.
    mutating func look(
        at path: String,
        needs scope: OperatorScope = .read,
        answers mediaType: String? = "application/json",
        _ endpoint: @escaping Route.Endpoint
    ) {
        add(.get, path, scope, mediaType, endpoint)
    }

    /// An act: something that changes or sends something.
    ///
    /// - Parameter name: its `operationId` in the contract, by which the audit calls it.
    mutating func act(
        _ name: StaticString,
        _ method: HTTPRequest.Method,
        _ path: String,
        needs scope: OperatorScope = .admin,
        _ endpoint: @escaping Route.Endpoint
    ) {
        add(method, path, scope, "application/json", endpoint)
    }

    private mutating func add(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ scope: OperatorScope,
        _ mediaType: String?,
        _ endpoint: @escaping Route.Endpoint
    ) {
        table.add(method, path, answers: mediaType) { [door] exchange in
            var exchange = exchange
            exchange.operatorToken = try door.admit(exchange.head, for: scope)
            return try await endpoint(exchange)
        }
    }
}
