public import JSONText

extension JSONWriter {
    /// Writes the member `unreadable`, unless all stored members can be opened.
    ///
    /// It has the names of those that cannot.
    public mutating func unreadable(_ names: [String]) {
        guard !names.isEmpty else { return }
        name("unreadable")
        beginArray()
        for name in names { string(name) }
        endArray()
    }
}
