import Foundation

extension Commands {
    func addContact(_ words: inout Words) async throws {
        guard try words.next("what to add") == "contact" else { throw Complaint("add contact NAME [PHONE]") }
        let name = try words.next("the contact's name")
        let number = words.isEmpty ? nil : try words.remainder("a phone number")
        try await phone.add(Contact(name: name, phone: number))
    }

    func addVisit(_ words: inout Words) async throws {
        let contact = try await find(Contact.self, try words.next("the contact's name"))
        try await phone.add(
            Visit(contactID: contact.id, title: try words.remainder("the visit's title"), startsAt: Date())
        )
    }

    func addExpense(_ words: inout Words) async throws {
        let visit = try await find(Visit.self, try words.next("the visit's title"))
        let amount = try Expense.amount(try words.next("an amount"))
        let expense = Expense(visitID: visit.id, text: try words.remainder("what it was for"), amount: amount)
        try await phone.add(expense, Expense.options)
    }

    func edit(_ words: inout Words) async throws {
        switch try words.next("what to edit") {
        case "contact": try await edit(Contact.self, &words)
        case "visit": try await edit(Visit.self, &words)
        case "expense": try await edit(Expense.self, &words)
        default: throw Complaint("edit contact, visit or expense")
        }
    }

    private func edit<Record: Entry>(_ type: Record.Type, _ words: inout Words) async throws {
        let name = try words.next("its name")
        let field = try words.next("a field")
        let text = try words.remainder("the new text")
        try await phone.update(type, called: name) { try $0.set(field, to: text) }
    }

    func delete(_ words: inout Words) async throws {
        let what = try words.next("what to delete")
        let name = try words.remainder("its name")
        switch what {
        case "contact": try await phone.delete(try await find(Contact.self, name))
        case "visit": try await phone.delete(try await find(Visit.self, name))
        case "expense": try await phone.delete(try await find(Expense.self, name))
        default: throw Complaint("delete contact, visit or expense")
        }
    }

    private func find<Record: Entry>(_ type: Record.Type, _ name: String) async throws -> Record {
        try await phone.database.read { db in try type.find(name, db) }
    }
}
