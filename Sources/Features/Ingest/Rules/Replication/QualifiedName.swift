package import SyncModel

/// A table's name with its schema's, each as the catalog has it.
package struct QualifiedName: Sendable, Hashable, CustomStringConvertible {
    /// What PostgreSQL keeps of a name, in bytes.
    static let partLimit = 63

    @Exact package private(set) var schema: String
    @Exact package private(set) var name: String

    package init(schema: String, name: String) {
        self.schema = schema
        self.name = name
    }

    /// Reads `schema.name`, each part as it is, or in double quotes if it has a dot or a quote. Nil for another form.
    package init?(_ text: String) {
        var rest = text.unicodeScalars[...]
        guard let schema = Self.part(&rest), rest.popFirst() == ".", let name = Self.part(&rest), rest.isEmpty
        else { return nil }
        self.init(schema: schema, name: name)
    }

    /// What ``init(_:)`` reads.
    package var description: String { "\(Self.written(schema)).\(Self.written(name))" }

    private static let quote: Unicode.Scalar = "\""

    private static func part(_ rest: inout Substring.UnicodeScalarView) -> String? {
        var part = String.UnicodeScalarView()
        if rest.first == quote {
            rest.removeFirst()
            while let next = rest.popFirst() {
                if next == "\"" {
                    guard rest.first == quote else { return isGood(String(part)) ? String(part) : nil }
                    rest.removeFirst()
                }
                part.append(next)
            }
            return nil
        }
        while let next = rest.first, next != "." {
            guard next != "\"" else { return nil }
            part.append(next)
            rest.removeFirst()
        }
        return isGood(String(part)) ? String(part) : nil
    }

    private static func isGood(_ part: String) -> Bool {
        (1...partLimit).contains(part.utf8.count) && !part.utf8.contains(0)
    }

    private static func written(_ part: String) -> String {
        part.contains(".") || part.contains("\"") ? "\"\(part.replacing("\"", with: "\"\""))\"" : part
    }
}
