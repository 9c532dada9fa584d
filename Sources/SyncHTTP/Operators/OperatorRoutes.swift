package import HTTPTypes
package import SyncModel
package import SyncStore

/// The routes of `/admin`: each with what a token has to be good for, with what the audit is told of it, and with whom
/// the others who look on are told was changed.
package struct OperatorRoutes {
    /// What the path of everything of an organization begins with.
    private static let organization = "/admin/organizations/{id}"

    package let door: OperatorDoor
    package let log: AuditLog
    package let notifier: ChangeNotifier
    private(set) var table: RouteTable
    /// The names by which the audit calls acts, and looks at what users wrote.
    private(set) var audited: [String] = []

    package init(adding table: RouteTable, behind door: OperatorDoor, log: AuditLog, notifier: ChangeNotifier) {
        self.door = door
        self.log = log
        self.notifier = notifier
        self.table = table
    }

    /// A look, which changes nothing.
    ///
    /// - Parameters:
    ///   - name: its `operationId` in the contract where it shows what users wrote: then the audit is told. Nil: it
    ///     does not, or tells the audit itself.
    ///   - told: what of its query the audit is told.
    package mutating func look(
        at path: String,
        needs scope: OperatorScope = .read,
        audited name: String? = nil,
        told: ActTarget.Reading? = nil,
        answers mediaType: String? = "application/json",
        _ endpoint: @escaping Route.Endpoint
    ) {
        add(.get, path, scope, name, told, mediaType, endpoint)
    }

    /// An act: something that changes or sends something.
    ///
    /// - Parameters:
    ///   - name: its `operationId` in the contract, by which the audit calls it.
    ///   - told: what of its query the audit is told.
    package mutating func act(
        _ name: String,
        _ method: HTTPRequest.Method,
        _ path: String,
        needs scope: OperatorScope = .admin,
        told: ActTarget.Reading? = nil,
        _ endpoint: @escaping Route.Endpoint
    ) {
        let isOfOne = path.hasPrefix(Self.organization)
        add(method, path, scope, name, told, "application/json") { [notifier] exchange in
            // what is refused is thrown; what was done is answered, whatever becomes of the news of it
            let answer = try await endpoint(exchange)
            if isOfOne, exchange.act?.mayHaveChanged == true, let organization = try? exchange.uuid(at: 0) {
                notifier.changed(organization)
            }
            return answer
        }
    }

    /// A route that needs no token: signing in and out.
    package mutating func addOpen(_ method: HTTPRequest.Method, _ path: String, _ endpoint: @escaping Route.Endpoint) {
        table.add(method, path, answers: nil, endpoint)
    }

    /// Static pages at a path and below it.
    package mutating func addPages(at path: String, _ endpoint: @escaping Route.Endpoint) {
        table.addPages(at: path, endpoint)
    }

    private mutating func add(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ scope: OperatorScope,
        _ action: String?,
        _ told: ActTarget.Reading?,
        _ mediaType: String?,
        _ endpoint: @escaping Route.Endpoint
    ) {
        let names = path.split(separator: "/").filter { $0.hasPrefix("{") }.map { String($0.dropFirst().dropLast()) }
        if let action { audited.append(action) }
        table.add(method, path, answers: mediaType) { [door, log] exchange in
            let guest = try await door.admit(exchange.head, for: scope)
            var exchange = exchange
            exchange.operatorToken = guest.token
            exchange.operatorUntil = guest.end
            let audit = try OperatorAudit(exchange, by: guest.token, in: log)
            exchange.audit = audit
            guard let action else { return try await endpoint(exchange) }
            var target: ActTarget?
            if let told { target = try? told(exchange) }
            return try await audit.recording(action, names, target, exchange, endpoint)
        }
    }
}
