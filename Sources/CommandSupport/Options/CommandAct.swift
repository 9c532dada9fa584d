package import ArgumentParser
package import FoundationEssentials
import Glibc
import JSONText
package import SyncModel

/// A command's action, which the audit log records under the name of the operating system's user.
package struct CommandAct: Sendable {
    /// The name of the API operation with the same effect. If there is no such operation, the command has a separate
    /// name.
    package let action: String
    package var organization: UUID?
    package var user: UUID?
    package var into: UUID?
    package var target: [(name: String, value: String)] = []

    package init(
        _ action: String,
        of organization: UUID? = nil,
        user: UUID? = nil,
        into: UUID? = nil,
        _ target: KeyValuePairs<String, String> = [:]
    ) {
        self.action = action
        self.organization = organization
        self.user = user
        self.into = into
        self.target = target.map { ($0.key, $0.value) }
    }

    package func act(reason: String?) -> AuditedAction {
        var act = AuditedAction(of: organization, by: "cli:" + Self.systemUser, scope: .admin, action, reason: reason)
        act.user = user
        act.into = into
        act.target = target
        return act
    }

    /// The user at the terminal, even if the command runs under sudo.
    private static var systemUser: String {
        let account = getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) }
        let names = [ProcessInfo.processInfo.environment["SUDO_USER"], account].compactMap(\.self)
        let name = names.first { !$0.isEmpty && !ExternalName.hasControls($0) }
        return name ?? "unknown"
    }
}

/// The degree to which a command's act was completed, for the audit log.
package enum ActResult {
    case whole
    /// The act was completed except for this number of objects, which the command listed. The command exits with 1.
    case partial(left: Int)
    /// Nothing was done.
    case failed(ProblemCode)

    package static func leaving(_ count: Int) -> ActResult { count == 0 ? .whole : .partial(left: count) }

    func record(in outcome: inout AuditOutcome) {
        switch self {
        case .whole: outcome.record("status", "ok" as StaticString)
        case .partial(let left):
            outcome.record("status", "partial" as StaticString)
            outcome.record("left", Int64(left))
        case .failed(let code):
            outcome.record("status", "failed" as StaticString)
            outcome.record("code", code.rawValue)
        }
    }
}

/// The reason why a command's act did nothing: a code for the audit log, and a text for the operator.
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

    /// Prints the message, and returns the error that ends the command.
    package func failure() -> any Error { Terminal.failure(userMessage, status) }
}
