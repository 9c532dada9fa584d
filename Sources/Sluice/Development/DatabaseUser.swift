import Glibc
import Subprocess

/// Whom a server runs as when root starts it: PostgreSQL refuses to be root.
struct DatabaseUser: Sendable {
    let name: String
    let userID: uid_t
    let groupID: gid_t

    /// `postgres`, or `nobody`; nil when this process is not root, and may run a server itself.
    static func forRoot() throws -> DatabaseUser? {
        guard geteuid() == 0 else { return nil }
        for name in ["postgres", "nobody"] {
            guard let entry = getpwnam(name)?.pointee else { continue }
            return DatabaseUser(name: name, userID: entry.pw_uid, groupID: entry.pw_gid)
        }
        throw DevelopmentError("PostgreSQL does not run as root, and there is no user postgres or nobody to run it.")
    }
}

extension PlatformOptions {
    /// A child that runs as the user, if there is one.
    static func of(_ user: DatabaseUser?) -> PlatformOptions {
        var options = PlatformOptions()
        guard let user else { return options }
        options.userID = user.userID
        options.groupID = user.groupID
        options.supplementaryGroups = []
        return options
    }
}
