/// The commands of a phone.
struct Commands {
    let phone: Phone

    static let help = """
        contacts                          all contacts, with visits and expenses
        add contact NAME [PHONE]
        visit CONTACT TITLE               a visit to a contact, today
        expense VISIT AMOUNT TEXT         an expense of a visit; accounting's API has those
        edit contact NAME FIELD TEXT      FIELD: name, phone
        edit visit TITLE FIELD TEXT       FIELD: title, date, note, assignee (an id of me, or none)
        edit expense TEXT FIELD TEXT      FIELD: text, amount
        delete contact|visit|expense NAME

        offline, online                   disconnect, and reconnect
        status                            the state of synchronization
        me                                your id, by which others assign visits to you
        ids                               each row's local key, and the server's id

        failed, conflicts                 writes that wait for a decision, numbered
        retry N                           send it again unchanged
        edit+retry N FIELD TEXT           correct it, and send it again
        discard N [all|keep]              give it up, with its dependents or without
        resolve N mine|theirs             end a conflict
        quit

        Put names of several words into double quotes: visit "Acme Ltd" Kickoff
        """

    /// - Returns: the text to print; empty if the printed notebook already contains it.
    /// - Throws: ``Complaint``, and errors of the library and the database.
    func run(_ line: String) async throws -> String {
        var words = Words(line)
        guard !words.isEmpty else { return "" }
        let command = try words.next("a command")
        switch command {
        case "help": return Self.help
        case "contacts": return try await contacts()
        case "add": try await addContact(&words)
        case "visit": try await addVisit(&words)
        case "expense": try await addExpense(&words)
        case "edit": try await edit(&words)
        case "delete": try await delete(&words)
        case "offline": phone.sluice.suspend()
        case "online": phone.sluice.resume()
        case "status": return try await status()
        case "me": return phone.user?.uuidString.lowercased() ?? "the token has no id of yours"
        case "ids": return try await ids()
        case "failed": return try await failed()
        case "conflicts": return try await conflicts()
        case "retry": try await retry(&words)
        case "edit+retry": try await editAndRetry(&words)
        case "discard": try await discard(&words)
        case "resolve": try await resolve(&words)
        default: throw Complaint("'\(command)' is not a command: see help")
        }
        return ""
    }
}
