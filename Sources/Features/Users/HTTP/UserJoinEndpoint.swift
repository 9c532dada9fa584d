import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `POST /admin/organizations/{id}/users/{user}/join`.
struct UserJoinEndpoint: Sendable {
    let joining: UserJoining
    let administration: Administration
    let bodies: BodyReader
    /// The time for which a request waits until no worker has the users' lanes.
    let timeout: Duration

    /// Responds with 200 once the users are joined, and with 202 while the join is in progress. A repeated request
    /// continues the join.
    func join(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        let target = try await bodies.withBody(of: exchange) {
            try UserJoinRow.table.read($0, into: LaneKey.unknown.user)
        }
        exchange.act?.record(into: target)
        let join = try await BlockingWork.run {
            try await joining.join(user, into: target, in: organization, timeout: timeout)
        }
        guard let join else { throw Refusal.notFound }
        let subjects = try await administration.subjects(of: [user, target], in: organization)
        return Answer(join.state == .closing ? .accepted : .ok, MergeBody(join: join, subjects: subjects))
    }
}

/// A join, and the subjects that issuers use for its users.
private struct MergeBody: AnswerBody {
    let join: UserJoinRow
    let subjects: [UUID: [Subject]]

    func writeMembers(to writer: inout JSONWriter) {
        join.writeMembers(to: &writer)
        writer.member("user_subjects", subjects[join.user] ?? [])
        writer.member("into_subjects", subjects[join.target] ?? [])
    }
}

extension UserJoinRow: AnswerBody {
    fileprivate static let table = MemberTable<UUID, Self>("a join", missing: .alone) {
        BodyMember("user", shown: \.user)
        BodyMember("into", .user, into: \.self)
            .required("into is required: the user into which the other user is merged")
            .shown(\.target)
        BodyMember("state", shown: \.state.rawValue)
        BodyMember("started_at", shown: \.startedAt.rfc3339)
        BodyMember("finished_at", shown: \.finishedAt?.rfc3339)
    }

    package func writeMembers(to writer: inout JSONWriter) { Self.table.write(self, to: &writer) }
}

extension MemberKind<UUID> {
    fileprivate static var user: Self {
        Self("must be the UUID of a user", rule: Rule.uuid) { $0.string.flatMap { UUID(parsing: $0) } }
    }
}
