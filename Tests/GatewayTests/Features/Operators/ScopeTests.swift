import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// The permissions of each scope, over all routes.
@Suite struct ScopeTests {
    /// Changes that count as settling.
    private static let settling: Set = [
        "retryMutationsOfOrganization", "discardMutationsOfOrganization", "retryWebhookDeliveries",
        "retryWebhookDelivery",
    ]
    /// Reads of users' payloads.
    private static let payloads: Set = ["listOrganizationMutations"]
    private static let forAdmins: Set = ["exportUser"]

    /// New routes are included automatically. The contract's description of scopes lists their requirements.
    @Test func `every route requires its scope`() async throws {
        let fixture = try await TwoTenantFixture.withOperators { $0.maximumStream = .milliseconds(50) }
        let contract = try Contract()
        let calls = contract.operations(below: "/admin/")
        #expect(calls.count > 40)
        for (method, template, name) in calls {
            let needed: OperatorScope =
                if Self.forAdmins.contains(name) {
                    .admin
                } else if Self.payloads.contains(name)
                    || Self.settling.contains(name) || contract.isSettling(name)
                { .settle } else if method == .GET { .read } else { .admin }
            let path = template.replacing(/\{[a-z_]+\}/, with: "\(UUID().lowercased)")
            for (token, scope) in [
                (Operators.reader, OperatorScope.read), (Operators.settler, .settle), (Operators.admin, .admin),
            ] {
                let reply = try await fixture.call(method, path, as: token, method == .GET ? nil : "{}")
                guard scope < needed else {
                    #expect(reply.status != 403, "\(scope) \(name): \(reply.text)")
                    continue
                }
                expectProblem(reply, .forbidden, errors: [])
                let detail = reply.json?["detail"]?.string ?? ""
                #expect(detail.contains("'\(needed.rawValue)'") && detail.contains("'\(scope.rawValue)'"), "\(name)")
            }
        }
        // rejected calls are not in the audit log, and other calls are
        #expect(try await fixture.audit("?actor=rita&limit=1000").isEmpty)
        let tried = try await Set(fixture.audit("?actor=sam&limit=1000").compactMap { $0["action"]?.string })
        #expect(tried.isSuperset(of: Self.settling.union(Self.payloads)))
    }

    /// In an earlier version, the documentation lacked a third exception and the operations.
    @Test func `the documentation names routes that require more than their method implies`() async throws {
        let page = try Repository.text("docs/api.md")
        let scopes = try #require(page.components(separatedBy: "| scope | is good for |").last)
            .components(separatedBy: "The console signs in")[0]
        let fixture = try await TwoTenantFixture.withOperators { $0.maximumStream = .milliseconds(50) }
        let contract = try Contract()
        for (method, template, name) in contract.operations(below: "/admin/") where method == .GET {
            let path = template.replacing(/\{[a-z_]+\}/, with: "\(UUID().lowercased)")
            var isRefused = false
            for query in ["", "?payload=true"] {
                guard try await fixture.call(method, path + query, as: Operators.reader).status == 403 else { continue }
                defer { isRefused = true }
                // this route is rejected even without a query, so it is listed without a query
                if isRefused { continue }
                let user = "/admin/organizations/{id}/users/{user}"
                let shown = template.hasPrefix(user) ? "…/users/{user}" + template.dropFirst(user.count) : template
                #expect(scopes.contains("`GET \(shown)\(query)`"), "\(name)")
            }
        }
        for name in ["startOperation", "previewOperation", "cancelOperation"] { #expect(contract.isSettling(name)) }
        #expect(scopes.contains("previewing, starting and cancelling operations"))
        // the only audited action of a route that is not an operation of the contract
        #expect(page.contains("`lookAtPayload` is"))
        #expect(!contract.operations(below: "/admin/").contains { $0.id == "lookAtPayload" })
    }

    @Test func `audited actions are named as in the contract`() async throws {
        let contract = try Contract()
        let fixture = try await TwoTenantFixture.withOperators()
        var tried: Set<String> = []
        for (method, template, name) in contract.operations(below: "/admin/") where method != .GET {
            let path = template.replacing(/\{[a-z_]+\}/, with: "\(UUID().lowercased)")
            _ = try await fixture.call(method, path, as: Operators.admin, "{}")
            tried.insert(name)
        }
        let noted = try await Set(fixture.audit("?actor=anna&limit=1000").compactMap { $0["action"]?.string })
        #expect(noted == tried)
    }
}

extension Contract {
    /// Method, path and `operationId` of each operation below a path.
    func operations(below prefix: String) -> [(HTTPMethod, path: String, id: String)] {
        var found: [(HTTPMethod, path: String, id: String)] = []
        for (path, item) in root["paths"]?.members.map({ $0.map { ($0.name.string, $0.value) } }) ?? []
        where path.hasPrefix(prefix) {
            for (method, operation) in item.members.map({ $0.map { ($0.name.string, $0.value) } }) ?? [] {
                guard let id = operation["operationId"]?.string else { continue }
                found.append((HTTPMethod(rawValue: method.uppercased()), path, id))
            }
        }
        return found
    }

    /// Whether an operation's description states that the scope `settle` suffices.
    func isSettling(_ id: String) -> Bool {
        let text = String(decoding: root.raw, as: UTF8.self)
        guard let place = text.range(of: "\"operationId\": \"\(id)\"") else { return false }
        return text[place.upperBound...].prefix(2_000).contains("scope `settle`")
    }
}
