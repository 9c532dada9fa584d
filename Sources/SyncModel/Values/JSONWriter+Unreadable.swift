public import JSONText

extension JSONWriter {
    /// Writes the member `unreadable`: the names of stored members that cannot be opened; nothing where all can.
    public mutating func unreadable(_ names: [String]) {
        guard !names.isEmpty else { return }
        name("unreadable")
        beginArray()
        for name in names { string(name) }
        endArray()
    }
}
