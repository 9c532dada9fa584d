import Foundation
import HTTPTypes
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `/admin/organizations/{id}/channels` and `/admin/organizations/{id}/users/{user}/channels`.
struct ChannelEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader

    /// Responds with the users of a channel, and how many entities are in it.
    func read(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["channel", "limit", "cursor"])
        let limit = try query.limit(default: 100)
        let last = try query.uuid("cursor")
        let name = try Self.channel(query)
        let organization = try exchange.uuid(at: 0)
        let found = try await store.administration.channel(name, in: organization, limit: limit, after: last)
        guard let report = found else { throw Refusal.notFound }
        return Answer(.ok, capacity: 64 + 128 * report.grants.count) { writer in
            writer.member("channel", name)
            writer.member("entities", Int64(report.entities.count))
            writer.member("more_entities", report.entities.isMore)
            writer.member("grants", report.grants)
            writer.member("next", report.next?.lowercased)
        }
    }

    /// Responds with the channels that a user holds.
    func list(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        guard let grants = try await store.administration.channels(of: user, in: organization) else {
            throw Refusal.notFound
        }
        return Answer(.ok, capacity: 128 + 128 * grants.count) { writer in
            writer.member("own_channel", ChannelName.name(ofUser: user))
            writer.member("grants", grants)
        }
    }

    func grant(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        exchange.act?.record(user: user)
        let wanted = try await bodies.withBody(of: exchange) { try ChannelGrantRequest(body: $0) }
        exchange.act?.record("channel", wanted.channel)
        let isChanged = try await store.administration.grantChannel(
            wanted.channel,
            to: user,
            wanted.role,
            in: organization
        )
        guard let isChanged else { throw Refusal.notFound }
        let row = ChannelGrantRow(user: user, channel: wanted.channel, role: wanted.role, source: .operator)
        return try .written((isChanged, row))
    }

    func revoke(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["channel"])
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        exchange.act?.record(user: user)
        let name = try Self.channel(query)
        exchange.act?.record("channel", name)
        guard try await store.administration.revokeChannel(name, from: user, in: organization) == true else {
            throw Refusal.notFound
        }
        return Answer(.noContent)
    }

    private static func channel(_ query: URLQuery) throws(Problem) -> String {
        guard let name = try query.text("channel") else {
            throw .invalidParameter("the query parameter 'channel' is required")
        }
        guard ChannelName.isValid(name) else {
            let bounds = "1 to \(ChannelName.maximumBytes) bytes without control characters"
            throw .invalidParameter("the query parameter 'channel' must have \(bounds)")
        }
        return name
    }
}

/// The body that grants a channel.
struct ChannelGrantRequest {
    private(set) var channel = ""
    private(set) var role = ChannelRole.read

    init(body: [UInt8]) throws(Problem) {
        var (channel, role): (String?, ChannelRole?) = (nil, nil)
        try RequestReport.read(body, of: "a grant: channel, role") { report, member, value in
            switch member {
            case "channel":
                let name = value.string.flatMap { ChannelName.isValid($0) ? $0 : nil }
                let bounds = "1 to \(ChannelName.maximumBytes) bytes without control characters"
                channel = report.value(name, at: "/channel", "channel must be a text of \(bounds)")
            case "role":
                let name = value.string.flatMap(ChannelRole.init(rawValue:))
                role = report.value(name, at: "/role", "role must be read or write")
            default: return false
            }
            return true
        } then: { report in
            guard report.problems.isEmpty else { return }
            if channel == nil { report.refuse("/channel", Rule.required, "channel is required") }
            if role == nil { report.refuse("/role", Rule.required, "role is required") }
        }
        (self.channel, self.role) = (channel ?? "", role ?? .read)
    }
}

extension ChannelGrantRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("user_id", user)
        writer.member("channel", channel)
        writer.member("role", role.rawValue)
        writer.member("source", source.text)
    }
}
