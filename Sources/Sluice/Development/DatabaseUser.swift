import Glibc

/// The user that a server runs as when root starts it: PostgreSQL refuses to be root.
struct DatabaseUser: Sendable {
    let name: String
    let userID: uid_t
    let groupID: gid_t

    /// `postgres`, or `nobody`; nil if this process is not root, and may run a server itself.
    static func forRoot() throws -> DatabaseUser? {
        guard geteuid() == 0 else { return nil }
        for name in ["postgres", "nobody"] {
            guard let entry = getpwnam(name)?.pointee else { continue }
            return DatabaseUser(name: name, userID: entry.pw_uid, groupID: entry.pw_gid)
        }
        throw DevelopmentError("PostgreSQL does not run as root, and there is no user postgres or nobody to run it.")
    }
}
