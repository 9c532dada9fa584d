import Foundation
import HTTPTypes
import JSONText
import SyncMaintenance
import SyncModel

/// `POST /admin/organizations/{id}/users/{user}/join`.
struct UserJoinEndpoint: Sendable {
    let joining: UserJoining
    let bodies: BodyReader
    /// How long a request waits for the users' lanes to come to rest.
    let patience: Duration

    /// Answers 200 once the users are one, 202 while that has to wait: then the same request goes on with it.
    func join(_ exchange: Exchange) async throws -> Answer {
        _ = try Query(of: exchange)
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        let target = try await bodies.withBody(of: exchange) { try Self.target(in: $0) }
        let join = try await OffEventLoop.run {
            try await joining.join(user, into: target, in: organization, patience: patience)
        }
        guard let join else { throw Refusal.notFound }
        return Answer(join.state == .closing ? .accepted : .ok, join)
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
            let detail = "into must say which user the other becomes part of"
            throw Problem(.validationFailed, pointer: "/into", rule: Rule.required, detail)
        }
        return target
    }
}
