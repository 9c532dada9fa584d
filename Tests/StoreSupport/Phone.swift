package import Foundation
package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore
import Synchronization

/// A phone: numbers its mutations, and encodes them.
package final class Phone: Sendable {
    package let gateway: Gateway
    package let organization: Organization
    package let user: UUID
    package let device: UUID
    private let lastNumber: Mutex<Int64>

    package init(_ gateway: Gateway, _ organization: Organization, user: UUID = UUID(), device: UUID = UUID()) {
        self.gateway = gateway
        self.organization = organization
        self.user = user
        self.device = device
        lastNumber = Mutex(0)
    }

    /// The same phone, with a token of another user.
    private init(_ phone: Phone, as user: UUID, through gateway: Gateway) {
        self.gateway = gateway
        organization = phone.organization
        self.user = user
        device = phone.device
        lastNumber = Mutex(phone.lastNumber.withLock { $0 })
    }

    /// The same phone, with a token of another user.
    package func signedIn(as user: UUID, through gateway: Gateway? = nil) -> Phone {
        Phone(self, as: user, through: gateway ?? self.gateway)
    }

    /// The next number of this device.
    package func nextNumber() -> Int64 {
        lastNumber.withLock { number in
            number += 1
            return number
        }
    }

    /// An entry with the device's next number.
    package func entry(
        _ operation: String,
        _ type: String = "task",
        local: UUID? = nil,
        server: String? = nil,
        payload: String? = nil,
        number: Int64? = nil,
        id: UUID = UUID(),
        key: UUID = UUID(),
        extra: [String: String] = [:]
    ) -> Entry {
        Entry(
            id: id,
            key: key,
            number: number ?? nextNumber(),
            operation: operation,
            type: type,
            local: local,
            server: server,
            payload: payload ?? (operation == "delete" ? nil : #"{"title":"x"}"#),
            extra: extra
        )
    }

    package func create(_ type: String = "task", local: UUID = UUID(), payload: String? = nil) -> Entry {
        entry("create", type, local: local, payload: payload)
    }

    @discardableResult
    package func push(
        _ entries: [Entry],
        after: Int64? = nil,
        strict: Bool = false,
        limits: IntakeLimits = IntakeLimits(),
        through other: Gateway? = nil
    ) async throws -> JSONValue {
        let list = entries.map(\.json).joined(separator: ",")
        let sequence = after.map { #","after_sequence":\#($0)"# } ?? ""
        let body = #"{"device_id":"\#(device.lowercased)"\#(sequence),"mutations":[\#(list)]}"#
        let request = try PushRequest(body: Array(body.utf8), limits: limits)
        let answer = try await (other ?? gateway).store.pushes.submit(
            request,
            organization: organization,
            user: user,
            isStrict: strict
        )
        return try JSONTree(parsing: answer.json()).root
    }

    /// Every change of the organization that this user sees, oldest first.
    package func pull(since: String? = nil, limit: Int = 100, types: [String] = []) async throws -> [JSONValue] {
        var found: [JSONValue] = []
        var cursor = since
        while true {
            let page = try await changes(since: cursor, limit: limit, types: types)
            found += page.changes
            cursor = page.next
            if page.isUpToDate { return found }
        }
    }

    /// One page of the feed, as the API returns it.
    package func changes(since: String?, limit: Int, types: [String] = []) async throws -> JSONValue {
        let page = try await gateway.store.changes.page(
            since: since,
            limit: limit,
            entityTypes: types,
            organization: organization,
            user: user
        )
        return try JSONTree(parsing: page.json()).root
    }

    /// Pushes until there is an answer: retries when asked to.
    package func persist(_ entries: [Entry], after: Int64? = nil, through gateway: () -> Gateway) async throws
        -> JSONValue
    {
        while true {
            do {
                return try await push(entries, after: after, through: gateway())
            } catch let problem as Problem where problem.retryAfter != nil {
                await Task.yield()
            }
        }
    }
}
