extension Store {
    /// Administrative access to organizations.
    package var administration: Administration { Administration(store: self) }
}
