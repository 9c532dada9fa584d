package import Foundation
package import SyncModel

/// A command's action, as recorded in the audit log under the system's user.
package struct CommandAct: Sendable {
    /// The name of the API operation that does the same; commands without one have their own name.
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

    package func act(reason: String?) -> AuditAct {
        var act = AuditAct(of: organization, by: "cli:" + Self.systemUser, scope: .admin, action, reason: reason)
        act.user = user
        act.into = into
        act.target = target
        return act
    }

    /// The user at the terminal, also behind sudo.
    private static var systemUser: String {
        let names = [ProcessInfo.processInfo.environment["SUDO_USER"], NSUserName()].compactMap(\.self)
        let name = names.first { !$0.isEmpty && !ExternalName.hasControls($0) }
        return name ?? "unknown"
    }
}
