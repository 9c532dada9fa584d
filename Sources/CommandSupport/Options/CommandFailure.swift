package import ArgumentParser
package import Foundation
import JSONText
package import SyncModel

/// Why a command's act did nothing: a code for the audit log, a text for the operator.
package struct CommandFailure: Sendable {
    package let code: ProblemCode
    package let userMessage: String
    /// The command's exit code.
    package let status: ExitCode

    package init(_ code: ProblemCode, _ userMessage: String, _ status: ExitCode = .failure) {
        self.code = code
        self.userMessage = userMessage
        self.status = status
    }

    package static func notFound(_ userMessage: String) -> CommandFailure { CommandFailure(.notFound, userMessage) }

    package static func noOrganization(_ id: UUID) -> CommandFailure {
        notFound("no organization has the id \(id.lowercased)")
    }

    package static func noUser(_ user: String, in organization: UUID) -> CommandFailure {
        notFound("organization \(organization.lowercased) has no user \(user)")
    }

    /// Complains, and ends the command.
    package func failure() -> any Error { Terminal.failure(userMessage, status) }
}
