package import FoundationEssentials
import HTTPTypes
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore
import Tokens

/// `/admin/organizations/{id}/users` and `/admin/organizations/{id}/users/{user}`.
struct UserEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader
    let erasing: UserErasing
    /// Returns the user that a token with this issuer and subject authenticates.
    let userCalled: @Sendable (Subject) throws(TokenConfiguration.UnusableSubject) -> TokenClaims.User
    /// The time for which a request waits until no worker has the erased user's lane.
    let timeout: Duration

    /// Responds with a page of users, or with the user of an issuer and subject.
    func list(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["issuer", "subject", "limit", "cursor"])
        let limit = try query.limit(default: 100)
        let first = try query.text("cursor").map { text throws(Problem) in
            guard let id = UUID(parsing: text) else { throw .invalidParameter("cursor is invalid") }
            return id
        }
        let organization = try exchange.uuid(at: 0)
        if let subject = try Self.subject(query) {
            guard try await store.administration.organization(organization) != nil else { throw Refusal.notFound }
            let user = try await user(subject, in: organization)
            return Self.page(user.map { [$0] } ?? [], next: nil)
        }
        guard let page = try await store.administration.users(of: organization, limit: limit, from: first) else {
            throw Refusal.notFound
        }
        return Self.page(page.users, next: page.next)
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        return try .found(await store.administration.user(user, in: organization))
    }

    /// Provisions the user with this issuer and subject, even before the issuer's first token for the user.
    func letIn(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let organization = try exchange.uuid(at: 0)
        let subject = try await bodies.withBody(of: exchange) { try Self.subject(in: $0) }
        let called: TokenClaims.User
        do {
            called = try userCalled(subject)
        } catch {
            let detail = "the issuer's tokens contain only UUIDs (user_ids), so this text identifies no user"
            throw Problem(.validationFailed, pointer: "/subject", rule: Rule.uuid, detail)
        }
        switch called {
        case .subject:
            let written = try await store.administration.putUser(subject, in: organization)
            exchange.act?.record(user: written?.value.id)
            return try .written(written)
        case .id(let user):
            exchange.act?.record(user: user)
            // provisions the user whose id is the token's subject
            guard let isNew = try await store.administration.putUser(user, in: organization),
                let row = try await store.administration.user(user, in: organization)
            else { throw Refusal.notFound }
            return try .written((isNew, row))
        }
    }

    /// Returns the user whom a token with this subject identifies, under the present or earlier settings.
    private func user(_ subject: Subject, in organization: UUID) async throws -> UserRow? {
        if let user = try await store.administration.user(subject, in: organization) { return user }
        guard case .id(let user) = try? userCalled(subject) else { return nil }
        return try await store.administration.user(user, in: organization)
    }

    func add(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        guard let created = try await store.administration.putUser(user, in: organization) else {
            throw Refusal.notFound
        }
        return Answer(created ? .created : .ok)
    }

    /// Returns the target for the audit log, because the path does not show whether a user is erased or only blocked.
    func removed(_ exchange: Exchange) throws(Problem) -> AuditTarget {
        var target = AuditTarget()
        if try Self.erases(exchange) { target.names = [("erase", "true")] }
        return target
    }

    private static func erases(_ exchange: Exchange) throws(Problem) -> Bool {
        try URLQuery(of: exchange, allowing: ["erase"]).flag("erase")
    }

    /// Blocks a user; with `erase=true`, erases the user.
    func remove(_ exchange: Exchange) async throws -> Answer {
        let erases = try Self.erases(exchange)
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        if erases { return try await erase(user, in: organization) }
        guard try await store.administration.deleteUser(user, in: organization) else { throw Refusal.notFound }
        return Answer(.noContent)
    }

    private static func page(_ users: [UserRow], next: UUID?) -> Answer {
        Answer(.ok) { writer in
            writer.member("users", users)
            writer.member("next", next)
        }
    }

    /// Returns the `subject` and its `issuer` from the query; nil without `subject`. The default is the issuer without
    /// a name.
    private static func subject(_ query: URLQuery) throws(Problem) -> Subject? {
        let issuer = try query.text("issuer")
        guard let subject = try query.text("subject") else {
            guard issuer == nil else { throw URLQuery.invalid("issuer", "requires 'subject'") }
            return nil
        }
        guard ExternalName.isValid(subject) else {
            let bounds = "1 to \(ExternalName.maximumBytes) bytes without control characters"
            throw URLQuery.invalid("subject", "must be a text of \(bounds)")
        }
        guard ExternalName.isValidIssuer(issuer ?? "") else {
            let bounds = "up to \(ExternalName.maximumIssuerBytes) bytes without control characters"
            throw URLQuery.invalid("issuer", "must be a text of \(bounds)")
        }
        return Subject(issuer: ByteExactString(issuer ?? ""), text: ByteExactString(subject))
    }

    private static func subject(in body: [UInt8]) throws(Problem) -> Subject {
        let name = try IssuedName.table("a user", "subject").read(body, into: IssuedName())
        return Subject(issuer: name.issuer, text: name.name)
    }

    /// Responds with 200 once no stored data identify the user, and with 202 while the erasure is in progress.
    ///
    /// Repeating the request continues the erasure, and gateways also continue it.
    private func erase(_ user: UUID, in organization: UUID) async throws -> Answer {
        let erasure = try await BlockingWork.run {
            try await erasing.erase(user, in: organization, timeout: timeout)
        }
        guard let erasure else { throw Refusal.notFound }
        return Answer(erasure.state == .done ? .ok : .accepted, UserErasureAnswer(user: user, erasure: erasure))
    }
}

extension UserRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("registered", registeredAt != nil)
        writer.member("first_seen_at", firstSeenAt?.rfc3339)
        writer.member("last_seen_at", lastSeenAt?.rfc3339)
        writer.member("subjects", names)
        writer.member("into", into)
    }
}

extension UserRow.Name: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        subject.writeMembers(to: &writer)
        writer.member("first_seen_at", createdAt.rfc3339)
    }
}

/// The response to a request to erase the user with an id.
package struct UserErasureAnswer: AnswerBody {
    let user: UUID
    let erasure: UserErasureRow

    package init(user: UUID, erasure: UserErasureRow) {
        self.user = user
        self.erasure = erasure
    }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("user", user)
        writer.member("state", erasure.state.rawValue)
        writer.member("started_at", erasure.startedAt.rfc3339)
        writer.member("finished_at", erasure.finishedAt?.rfc3339)
        writer.member("attempts", Int64(erasure.attempts))
        writer.member("last_error", erasure.lastError)
    }
}

/// `GET /admin/organizations/{id}/users/{user}/export`.
struct UserExportEndpoint: Sendable {
    static let mediaType = "application/x-ndjson"

    let exports: UserExport

    /// Responds with 200 and one line for each of the user's rows, written while the rows are read.
    func export(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let user = LaneKey(organization: try exchange.uuid(at: 0), user: try exchange.uuid(at: 1))
        guard try await exports.isKnown(user) else { throw Refusal.notFound }
        try exchange.hold.assign(to: user)
        let room = exchange.hold.room()
        var answer = Answer(.ok)
        answer.contentType = Self.mediaType
        answer.headers[.cacheControl] = "no-store"
        answer.stream = { [exports] write in try await exports.run(user, room: room, write) }
        return answer
    }
}
