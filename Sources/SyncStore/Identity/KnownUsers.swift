/// Which users an organization knows, as SQL.
package enum KnownUsers {
    /// Tables with the users who have pushed, registered a device or were admitted.
    ///
    /// A user whose admission was withdrawn is not in `users`, but is still in `lanes` and `devices` after a push.
    package static let tables = ["users", "lanes", "devices"]

    /// Whether a user of an organization (`:organization`) is in one of some tables.
    package static func stand(_ user: String, in tables: [String] = tables) -> String {
        let found = tables.map { table in
            "EXISTS (SELECT 1 FROM \(table) x WHERE x.organization_id = :organization AND x.user_id = \(user))"
        }
        return "(\(found.joined(separator: "\n                OR ")))"
    }
}
