import ArgumentParser
import Foundation
import JSONText
import SyncModel

/// Why a command's act did nothing: a code for the audit log, a text for the operator.
struct NothingDone: Sendable {
    let code: ProblemCode
    let words: String
    /// The command's exit code.
    let status: ExitCode

    init(_ code: ProblemCode, _ words: String, _ status: ExitCode = .failure) {
        self.code = code
        self.words = words
        self.status = status
    }

    static func notFound(_ words: String) -> NothingDone { NothingDone(.notFound, words) }

    static func noOrganization(_ id: UUID) -> NothingDone { notFound("no organization has the id \(id.lowercased)") }

    static func noUser(_ user: String, in organization: UUID) -> NothingDone {
        notFound("organization \(organization.lowercased) has no user \(user)")
    }

    /// Complains, and ends the command.
    func failure() -> any Error { Terminal.failure(words, status) }
}
