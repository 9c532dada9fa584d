import Foundation
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
    /// How long a request waits for the users' lanes to come to rest.
    let timeout: Duration

    /// Responds with 200 once the users are joined, and with 202 while the join waits; the same request continues it.
    func join(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        let target = try await bodies.withBody(of: exchange) { try Self.target(in: $0) }
        exchange.act?.record(into: target)
        let join = try await BlockingWork.run {
            try await joining.join(user, into: target, in: organization, timeout: timeout)
        }
        guard let join else { throw Refusal.notFound }
        let subjects = try await administration.subjects(of: [user, target], in: organization)
        return Answer(join.state == .closing ? .accepted : .ok, MergeBody(join: join, subjects: subjects))
    }

    private static func target(in body: [UInt8]) throws(Problem) -> UUID {
        var target: UUID?
        try RequestReport.read(body, of: "a join: into") { report, member, value in
            guard member == "into" else { return false }
            target = value.string.flatMap { UUID(parsing: $0) }
            if target == nil { report.refuse("/into", Rule.uuid, "into must be the UUID of a user") }
            return true
        }
        guard let target else {
            let detail = "into is required: the user into which the other user is merged"
            throw Problem(.validationFailed, pointer: "/into", rule: Rule.required, detail)
        }
        return target
    }
}

/// A join, and what issuers call its users.
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
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("user", user)
        writer.member("into", target)
        writer.member("state", state.rawValue)
        writer.member("started_at", startedAt.rfc3339)
        writer.member("finished_at", finishedAt?.rfc3339)
    }
}
