package import ArgumentParser
package import Foundation
import JSONText
package import SyncModel

/// Why a command's act did nothing: a code for the audit log, a text for the operator.
package struct CommandFailure: Sendable {
    package let code: ProblemCode
    package let words: String
    /// The command's exit code.
    package let status: ExitCode

    package init(_ code: ProblemCode, _ words: String, _ status: ExitCode = .failure) {
        self.code = code
        self.words = words
        self.status = status
    }

    package static func notFound(_ words: String) -> CommandFailure { CommandFailure(.notFound, words) }

    package static func noOrganization(_ id: UUID) -> CommandFailure {
        notFound("no organization has the id \(id.lowercased)")
    }

    package static func noUser(_ user: String, in organization: UUID) -> CommandFailure {
        notFound("organization \(organization.lowercased) has no user \(user)")
    }

    /// Complains, and ends the command.
    package func failure() -> any Error { Terminal.failure(words, status) }
}
