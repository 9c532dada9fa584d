package import HTTPTypes
package import SyncModel
package import SyncStore

/// The routes of `/admin`.
///
/// Each route has the operator scope that it requires and, if it is audited, its name in the audit log. After a change
/// of an organization, the other operators' views of this organization are notified.
package struct OperatorRoutes {
    /// The common beginning of the paths of one organization.
    private static let organization = "/admin/organizations/{id}"

    package let authenticator: OperatorAuthenticator
    package let log: AuditLog
    package let notifier: ChangeNotifier
    private(set) var table: RouteTable
    /// The names of actions, and of accesses to user content, in the audit log.
    private(set) var audited: [String] = []

    package init(
        adding table: RouteTable,
        behind authenticator: OperatorAuthenticator,
        log: AuditLog,
        notifier: ChangeNotifier
    ) {
        self.authenticator = authenticator
        self.log = log
        self.notifier = notifier
        self.table = table
    }

    /// Adds a route that only reads.
    ///
    /// - Parameters:
    ///   - name: the `operationId` in the contract if the route shows user content. The audit log then records the
    ///     access. Nil if the route shows no user content, or records the access itself.
    ///   - auditTarget: the part of the query that is recorded in the audit log.
    package mutating func read(
        at path: String,
        needs scope: OperatorScope = .read,
        audited name: String? = nil,
        auditTarget: AuditTarget.Reading? = nil,
        answers mediaType: String? = "application/json",
        _ endpoint: @escaping Route.Endpoint
    ) {
        add(.get, path, scope, name, auditTarget, mediaType, endpoint)
    }

    /// Adds an action: a route that changes or sends something.
    ///
    /// - Parameters:
    ///   - name: the `operationId` in the contract, which is the action's name in the audit log.
    ///   - auditTarget: the part of the query that is recorded in the audit log.
    package mutating func write(
        _ name: String,
        _ method: HTTPRequest.Method,
        _ path: String,
        needs scope: OperatorScope = .admin,
        auditTarget: AuditTarget.Reading? = nil,
        _ endpoint: @escaping Route.Endpoint
    ) {
        let isOfOne = path.hasPrefix(Self.organization)
        add(method, path, scope, name, auditTarget, "application/json") { [notifier] exchange in
            // a refused action throws here; a completed action is answered even if its notification fails
            let answer = try await endpoint(exchange)
            if isOfOne, exchange.act?.mayHaveChanged == true, let organization = try? exchange.uuid(at: 0) {
                notifier.changed(organization)
            }
            return answer
        }
    }

    /// Adds a route that requires no token: signing in and out.
    package mutating func addOpen(_ method: HTTPRequest.Method, _ path: String, _ endpoint: @escaping Route.Endpoint) {
        table.add(method, path, answers: nil, endpoint)
    }

    /// Adds static pages at a path and below it.
    package mutating func addPages(at path: String, _ endpoint: @escaping Route.Endpoint) {
        table.addPages(at: path, endpoint)
    }

    private mutating func add(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ scope: OperatorScope,
        _ action: String?,
        _ auditTarget: AuditTarget.Reading?,
        _ mediaType: String?,
        _ endpoint: @escaping Route.Endpoint
    ) {
        let names = path.split(separator: "/").filter { $0.hasPrefix("{") }.map { String($0.dropFirst().dropLast()) }
        if let action { audited.append(action) }
        table.add(method, path, answers: mediaType) { [authenticator, log] exchange in
            let identity = try await authenticator.authorize(exchange.head, for: scope)
            var exchange = exchange
            exchange.operatorToken = identity.token
            exchange.operatorUntil = identity.end
            let audit = try OperatorAudit(exchange, by: identity.token, in: log)
            exchange.audit = audit
            guard let action else { return try await endpoint(exchange) }
            var target: AuditTarget?
            if let auditTarget { target = try? auditTarget(exchange) }
            return try await audit.recording(action, names, target, exchange, endpoint)
        }
    }
}
