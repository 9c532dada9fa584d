import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `/admin/organizations/{id}/channels` and `/admin/organizations/{id}/users/{user}/channels`.
struct ChannelEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader

    /// Responds with the users of a channel, and the number of its entities.
    func read(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["channel", "limit", "cursor"])
        let limit = try query.limit(default: 100)
        let cursor = try query.text("cursor")
        let name = try Self.channel(query)
        let organization = try exchange.uuid(at: 0)
        let found = try await store.administration.channel(name, in: organization, limit: limit, after: cursor)
        guard let report = found else { throw Refusal.notFound }
        return Answer(.ok, capacity: 64 + 128 * report.grants.count) { writer in
            writer.member("channel", name)
            writer.member("entities", Int64(report.entities.count))
            writer.member("more_entities", report.entities.isMore)
            writer.member("grants", report.grants)
            writer.member("next", report.next)
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
        let wanted = try await bodies.withBody(of: exchange) {
            try ChannelGrantRow.table.read($0, into: ChannelGrantRequest())
        }
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
            throw .invalidParameter("the query parameter 'channel' must have \(ChannelName.bounds)")
        }
        return name
    }
}

/// The body that grants a channel.
struct ChannelGrantRequest {
    fileprivate var channel = ""
    fileprivate var role = ChannelRole.read
}

extension ChannelGrantRow: AnswerBody {
    fileprivate static let table = MemberTable<ChannelGrantRequest, Self>("a grant") {
        BodyMember("user_id", shown: \.user)
        BodyMember("channel", .channelName, into: \.channel).required().shown(\.channel)
        BodyMember("role", .choice(), into: \.role).required().shown(\.role.rawValue)
        BodyMember("source", shown: \.source.text)
    }

    package func writeMembers(to writer: inout JSONWriter) { Self.table.write(self, to: &writer) }
}

extension MemberKind<String> {
    fileprivate static var channelName: Self {
        text("must be a text of \(ChannelName.bounds)") { ChannelName.isValid($0) }
    }
}
