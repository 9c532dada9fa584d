package import SyncStore

extension Store {
    /// Joins users.
    package var joining: UserJoining { UserJoining(self) }

    /// Erases users.
    package var erasing: UserErasing { UserErasing(self) }

    /// Writes down all that is stored of a user.
    package var exports: UserExport { UserExport(self) }
}
