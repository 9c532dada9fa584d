import CommandSupport
import FoundationEssentials
import SyncModel
import SyncStore
import Tokens

extension IssuerOption {
    /// A user who is identified by an issuer and a subject.
    struct Called: Sendable {
        let subject: Subject
        /// The user's own id, if the issuer's tokens contain user ids.
        let id: UUID?
        /// Whether every token with this subject is refused.
        let isNobody: Bool

        /// Finds the user, who may have been created under earlier settings.
        func find(_ administration: Administration, in organization: UUID) async throws(Problem) -> UserRow? {
            if let user = try await administration.user(subject, in: organization) { return user }
            guard let id else { return nil }
            return try await administration.user(id, in: organization)
        }
    }

    /// Resolves the user whom the text identifies at the issuer.
    func resolve(_ text: ByteExactString, _ options: ConfigurationOptions) async throws -> Called {
        let subject = Subject(issuer: try await resolve(options), text: text)
        // an operator's machine may have no token settings; in this case the text is a subject
        guard let configuration = try? await options.load().tokenConfiguration() else {
            return Called(subject: subject, id: nil, isNobody: false)
        }
        do {
            let user = try configuration.user(called: text, by: subject.issuer)
            if case .id(let id) = user { return Called(subject: subject, id: id, isNobody: false) }
            return Called(subject: subject, id: nil, isNobody: false)
        } catch {
            return Called(subject: subject, id: nil, isNobody: true)
        }
    }
}
