extension Substring.UTF8View {
    /// The text without spaces and tabs at its beginning and end.
    package var trimmed: Substring.UTF8View {
        var view = self
        while let first = view.first, first.isBlank { view.removeFirst() }
        while let last = view.last, last.isBlank { view.removeLast() }
        return view
    }

    /// The text with ASCII letters in lower case.
    package var lowercased: String {
        Substring(self).lowercased()
    }
}

extension UInt8 {
    /// Whether the byte is a space or a tab.
    package var isBlank: Bool { self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") }
}
