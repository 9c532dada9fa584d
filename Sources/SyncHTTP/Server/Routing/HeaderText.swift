extension Substring.UTF8View {
    /// The text without the spaces and tabs around it.
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
    /// A space or tab.
    package var isBlank: Bool { self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") }
}
