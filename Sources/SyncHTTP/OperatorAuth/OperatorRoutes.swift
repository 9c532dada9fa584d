package import HTTPTypes
package import SyncModel
package import SyncStore

/// The routes of `/admin`.
///
/// Each has the scope that its token requires, its entry in the audit log, and the organization whose change other
/// operators' views receive.
package struct OperatorRoutes {
    /// The beginning of the paths of an organization.
    private static let organization = "/admin/organizations/{id}"

    package let door: OperatorAuthenticator
    package let log: AuditLog
    package let notifier: ChangeNotifier
    private(set) var table: RouteTable
    /// The names of acts, and of accesses to user content, in the audit log.
    private(set) var audited: [String] = []

    package init(adding table: RouteTable, behind door: OperatorAuthenticator, log: AuditLog, notifier: ChangeNotifier)
    {
        self.door = door
        self.log = log
        self.notifier = notifier
        self.table = table
    }

    /// Adds a route that only reads.
    ///
    /// - Parameters:
    ///   - name: its `operationId` in the contract if it shows user content: then it is recorded in the audit log. Nil:
    ///     it shows no such content, or records the access itself.
    ///   - told: the part of its query that is recorded in the audit log.
    package mutating func look(
        at path: String,
        needs scope: OperatorScope = .read,
        audited name: String? = nil,
        told: AuditTarget.Reading? = nil,
        answers mediaType: String? = "application/json",
        _ endpoint: @escaping Route.Endpoint
    ) {
        add(.get, path, scope, name, told, mediaType, endpoint)
    }

    /// An act: something that changes or sends something.
    ///
    /// - Parameters:
    ///   - name: its `operationId` in the contract, by which the audit calls it.
    ///   - told: the part of its query that is recorded in the audit log.
    package mutating func act(
        _ name: String,
        _ method: HTTPRequest.Method,
        _ path: String,
        needs scope: OperatorScope = .admin,
        told: AuditTarget.Reading? = nil,
        _ endpoint: @escaping Route.Endpoint
    ) {
        let isOfOne = path.hasPrefix(Self.organization)
        add(method, path, scope, name, told, "application/json") { [notifier] exchange in
            // a refusal is thrown; a completed act is answered even if its notification fails
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
        _ told: AuditTarget.Reading?,
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
            var target: AuditTarget?
            if let told { target = try? told(exchange) }
            return try await audit.recording(action, names, target, exchange, endpoint)
        }
    }
}
