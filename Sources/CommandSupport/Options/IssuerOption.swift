import ArgumentParser
import Foundation
import SyncModel
import SyncStore
import Tokens
import UsersFeature

/// Whose words a name is.
struct IssuerOption: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Issuer of the subject or name: its `iss` or its namespace. Default: the only issuer of the settings.",
            valueName: "name"
        )
    )
    var issuer: String?

    func validate() throws {
        guard ExternalName.isValidIssuer(issuer ?? "") else {
            throw ValidationError("--issuer must have up to 1000 bytes without control characters.")
        }
    }

    /// The user with an issuer and subject.
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

    /// Resolves the user of a text of the issuer.
    func resolve(_ text: ExactText, _ options: ConfigurationOptions) async throws -> Called {
        let subject = Subject(issuer: try await resolve(options), text: text)
        // without settings for tokens, as on an operator's own machine, it is a subject
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

    /// Returns the selected issuer; warns if the settings have no issuer of that name, which may be a typing error.
    func resolve(_ options: ConfigurationOptions) async throws -> ExactText {
        let settings = try await options.load()
        let known = (try? settings.tokenConfiguration().issuers.map(\.rememberedAs)) ?? []
        if let issuer {
            if !known.isEmpty, !known.contains(ExactText(issuer)) {
                let names = known.map { $0 == "" ? "the issuer without a name" : ShownText.of($0) }
                let list = names.prefix(5).joined(separator: ", ")
                Terminal.complain(
                    "the settings contain no issuer \(ShownText.of(issuer)), only \(list)"
                )
            }
            return ExactText(issuer)
        }
        if let only = known.first, Set(known).count == 1 { return only }
        let reason = known.isEmpty ? "the settings have no issuer" : "the settings have \(Set(known).count) issuers"
        throw Terminal.failure("--issuer is required: \(reason)", ExitCode.validationFailure)
    }
}

/// Parses the name that an issuer gives a user.
func externalName(_ text: String) throws -> ExactText {
    guard ExternalName.isValid(text) else {
        throw ValidationError("A name has 1 to \(ExternalName.maximumBytes) bytes without control characters.")
    }
    return ExactText(text)
}
