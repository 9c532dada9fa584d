/// One forward step of a schema.
public struct Migration: Sendable, Hashable {
    /// Its name, such as `0001_tables`. Migrations run in the order of their names.
    public let name: String
    /// Its statements, without BEGIN and COMMIT.
    public let sql: String

    public init(name: String, sql: String) {
        self.name = name
        self.sql = sql
    }

    /// The text with each `:name` that has a variable replaced.
    ///
    /// A token is a colon and an identifier, with no colon or identifier before it; so `::text` and `a[1:n]` stay as
    /// they are, as do tokens without a variable. Comments and strings are treated like the rest.
    func text(with variables: [String: String]) -> String {
        if variables.isEmpty { return sql }
        var text = ""
        var rest = Substring(sql)
        var previous: Character = " "
        while let colon = rest.firstIndex(of: ":") {
            if colon > rest.startIndex { previous = rest[rest.index(before: colon)] }
            text += rest[..<colon]
            rest = rest[colon...].dropFirst()
            let name = rest.prefix { Self.isWord($0) }
            if previous != ":", !Self.isWord(previous), let value = variables[String(name)] {
                text += value
                rest = rest.dropFirst(name.count)
                previous = " "
            } else {
                text += ":"
                previous = ":"
            }
        }
        return text + rest
    }

    private static func isWord(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || character == "_"
    }
}
