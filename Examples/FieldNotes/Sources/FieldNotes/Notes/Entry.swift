import Foundation
import GRDB
import SluiceClient

/// A record that commands address by its name, and edit field by field.
protocol Entry: Identifiable, FetchableRecord, PersistableRecord, Syncable, Sendable where ID == UUID {
    /// The column with the name.
    static var called: Column { get }
    var summary: String { get }
    /// - Throws: ``Complaint`` for an unknown field or an invalid text.
    mutating func set(_ field: String, to text: String) throws
}

extension Entry {
    static func find(_ name: String, _ db: Database) throws -> Self {
        let found = try filter(called == name).fetchAll(db)
        guard let record = found.first else { throw Complaint("there is no \(sync.entityType) '\(name)'") }
        guard found.count == 1 else { throw Complaint("there are \(found.count) of \(sync.entityType) '\(name)'") }
        return record
    }
}

extension Contact: Entry {
    static let called = Column("name")

    var summary: String { [name, phone].compactMap { $0 }.joined(separator: ", ") }

    mutating func set(_ field: String, to text: String) throws {
        switch field {
        case "name": name = text
        case "phone": phone = text.isEmpty ? nil : text
        default: throw Complaint("a contact has name and phone, no '\(field)'")
        }
    }
}

extension Visit: Entry {
    static let called = Column("title")

    var summary: String {
        [title, startsAt.formatted(Self.day), note].compactMap { $0 }.joined(separator: ", ")
    }

    private static let day = Date.ISO8601FormatStyle().year().month().day()

    static var today: String { Date().formatted(day) }

    private static func user(_ text: String) throws -> UUID? {
        if text == "none" { return nil }
        guard let id = UUID(uuidString: text) else { throw Complaint("'\(text)' is no user's id: see me") }
        return id
    }

    mutating func set(_ field: String, to text: String) throws {
        switch field {
        case "title": title = text
        case "note": note = text.isEmpty ? nil : text
        case "date": startsAt = try Date(text, strategy: Self.day)
        case "assignee": assigneeID = try Self.user(text)
        default: throw Complaint("a visit has title, date, note and assignee, no '\(field)'")
        }
    }
}

extension Expense: Entry {
    static let called = Column("text")

    var summary: String {
        let posix = Locale(identifier: "en_US_POSIX")
        return text + " " + amount.formatted(.number.precision(.fractionLength(2...)).grouping(.never).locale(posix))
    }

    mutating func set(_ field: String, to text: String) throws {
        switch field {
        case "text": self.text = text
        case "amount": amount = try Self.amount(text)
        default: throw Complaint("an expense has text and amount, no '\(field)'")
        }
    }

    static func amount(_ text: String) throws -> Decimal {
        guard let amount = Decimal(string: text, locale: Locale(identifier: "en_US_POSIX")) else {
            throw Complaint("'\(text)' is not an amount: try 249.90")
        }
        return amount
    }
}
