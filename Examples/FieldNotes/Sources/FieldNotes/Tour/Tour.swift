import Foundation
import GRDB
import SluiceClient

/// Two phones of an office that go offline, write, reconnect, and end with the same data, and two of technicians, who
/// see their own visits only. Typed commands follow the phone's name.
struct Tour {
    let kari: Phone
    let ola: Phone
    let per: Phone
    let lise: Phone
    /// The date of the visits.
    let day = Visit.today

    func run() async throws {
        try await meet()
        try await workOffline()
        let keys = try await keys(of: kari)
        try await comeBack()
        try await settle()
        guard try await self.keys(of: kari).isSuperset(of: keys) else {
            throw TourFailure("Kari's rows have other keys than before.")
        }
        try await retry()
        try await correct()
        try await assign()
        try await deleteParent()
        try await compare()
    }

    private func meet() async throws {
        explain(
            """
            Kari and Ola work in the office of one organization, each with a phone. Kari's changes appear on Ola's
            phone within a second.
            """
        )
        try await type(kari, "online")
        try await type(ola, "online")
        try await type(kari, #"add contact "Acme Ltd" 22 00 00 00"#)
        try await waitUntil(ola, "shows the contact") { try Contact.fetchCount($0) == 1 }
        try await waitForIDs(kari)
        try await type(ola, "contacts")
    }

    private func workOffline() async throws {
        explain("Both lose the network.")
        try await type(kari, "offline")
        try await type(ola, "offline")
        explain(
            """
            Both continue. Kari corrects the number, and enters a visit with an expense. The server has not received
            the visit, so the expense refers to it by the key that Kari's phone assigned.
            """
        )
        try await type(kari, #"edit contact "Acme Ltd" phone 22 11 11 11"#)
        try await type(kari, #"visit "Acme Ltd" Kickoff"#)
        try await type(kari, "expense Kickoff 249.90 Lunch")
        try await type(kari, "contacts")
        try await type(kari, "ids")
        explain("Ola enters another number, and plans a visit too.")
        try await type(ola, #"edit contact "Acme Ltd" phone 22 22 22 22"#)
        try await type(ola, #"visit "Acme Ltd" Contract"#)
        try await type(ola, "contacts")
    }

    private func comeBack() async throws {
        explain("Ola is online first: the server accepts his changes.")
        try await type(ola, "online")
        try await waitForIDs(ola)
        try await type(ola, "contacts")
        explain(
            """
            Then Kari. She changed the number without having seen Ola's change: a conflict. Her later changes wait until
            a person decides.
            """
        )
        try await type(kari, "online")
        try await waitUntil(kari, "has a conflict") { try FailedWrite.fetchConflicts($0).count == 1 }
        try await type(kari, "conflicts")
        explain("Until then her phone shows her own changes, and Ola's.")
        try await waitUntil(kari, "shows Ola's visit") { try Visit.fetchCount($0) == 2 }
        try await type(kari, "contacts")
    }

    private func settle() async throws {
        explain("Kari decides: her number. Now the visit and the expense are sent as well.")
        try await type(kari, "resolve 1 mine")
        try await waitForIDs(kari)
        explain(
            """
            All rows have server ids: contact and visits those of the gateway, and the expense the number that
            accounting's API assigned. The rows keep their keys, so nothing on the phone had to change.
            """
        )
        try await type(kari, "ids")
        try await waitUntil(ola, "shows the expense") { try Expense.fetchCount($0) == 1 }
        try await type(ola, "contacts")
    }

    private func retry() async throws {
        explain(
            """
            Accounting's API rejects an expense with the text "fail once", once. The write has failed, but is not lost:
            the phone shows the expense and the reason.
            """
        )
        try await type(kari, "expense Kickoff 12.50 fail once")
        try await waitUntil(kari, "has a failed write") { try FailedWrite.fetchAll($0).count == 1 }
        try await type(kari, "contacts")
        try await type(kari, "failed")
        explain("Kari retries it. It is accepted, and a normal edit corrects the text.")
        try await type(kari, "retry 1")
        try await waitForIDs(kari)
        try await type(kari, #"edit expense "fail once" text Taxi"#)
    }

    private func correct() async throws {
        explain(
            """
            Ola pastes a whole report into a note, more than the gateway accepts. He corrects the write and retries it.
            """
        )
        try await type(ola, "edit visit Contract note " + String(repeating: "report ", count: 50_000))
        try await waitUntil(ola, "has a failed write") { try FailedWrite.fetchAll($0).count == 1 }
        try await type(ola, "failed")
        try await type(ola, "edit+retry 1 note Bring the report")
    }

    /// Shows a visit that moves from one technician's phone to another's.
    private func assign() async throws {
        explain(
            """
            Per and Lise are technicians. The office sees everything, and a technician sees the visits that are assigned
            to them, with the contacts and the expenses of these. None is, so their phones are empty.
            """
        )
        for technician in [per, lise] {
            try await type(technician, "online")
            try await type(technician, "me")
            _ = await technician.sluice.syncOnce()
            try await type(technician, "contacts")
        }
        explain("Kari assigns a visit to Per. It appears on his phone, and Ola's visit does not.")
        try await type(kari, "edit visit Kickoff assignee \(try Self.id(of: per))")
        let before = """
            Acme Ltd, 22 11 11 11
              Kickoff, \(day)
                Lunch 249.90
                Taxi 12.50
            """
        try await waitUntil(per, "shows the visit") { try Notebook.fetch($0, per.sluice).text == before }
        try await type(per, "contacts")
        explain("Per may also change the visit.")
        try await type(per, "edit visit Kickoff note Bring a ladder")
        try await waitUntilDone(per)
        try await waitUntil(kari, "shows the note") { try Visit.find("Kickoff", $0).note != nil }
        explain("Kari assigns the visit to Lise. It moves from Per's phone to Lise's.")
        try await type(kari, "edit visit Kickoff assignee \(try Self.id(of: lise))")
        let after = before.replacingOccurrences(of: day, with: "\(day), Bring a ladder")
        try await waitUntil(per, "shows nothing") { try Notebook.fetch($0, per.sluice).text.isEmpty }
        try await type(per, "contacts")
        try await waitUntil(lise, "shows the visit") { try Notebook.fetch($0, lise.sluice).text == after }
        try await type(lise, "contacts")
    }

    private static func id(of phone: Phone) throws -> String {
        guard let id = phone.user else { throw TourFailure("The token of \(phone.name) has no id of a user.") }
        return id.uuidString.lowercased()
    }

    /// Shows a visit that was entered offline, at a contact that the colleague deletes.
    private func deleteParent() async throws {
        explain("Ola deletes a contact while Kari, offline, plans a visit there.")
        try await type(kari, #"add contact "Beta Ltd""#)
        try await waitUntil(ola, "shows the contact") { try Contact.fetchCount($0) == 2 }
        try await type(kari, "offline")
        try await type(ola, #"delete contact "Beta Ltd""#)
        try await waitUntilDone(ola)
        try await type(kari, #"visit "Beta Ltd" Offer"#)
        explain(
            """
            The contact is deleted on the server, and a visit must refer to an existing contact. So the visit is a
            conflict, which a person decides. Until then Kari's phone shows the visit and the contact.
            """
        )
        try await type(kari, "online")
        try await waitUntil(kari, "has a conflict") { try FailedWrite.fetchConflicts($0).count == 1 }
        try await type(kari, "conflicts")
        try await type(kari, "contacts")
        explain("Kari discards the visit, and her phone deletes both rows.")
        try await type(kari, "discard 1")
        try await waitUntil(kari, "shows one contact") { try Contact.fetchCount($0) == 1 }
    }

    private func compare() async throws {
        explain("In the end both phones of the office show the same.")
        let shown = """
            Acme Ltd, 22 11 11 11
              Contract, \(day), Bring the report
              Kickoff, \(day), Bring a ladder
                Lunch 249.90
                Taxi 12.50
            """
        for phone in [kari, ola] {
            try await waitUntil(phone, "shows all of it, confirmed") {
                try Notebook.fetch($0, phone.sluice).text == shown
            }
            try await type(phone, "contacts")
        }
        for phone in [kari, ola, per, lise] {
            let status = await phone.sluice.syncOnce()
            guard status.pending == 0, status.failed == 0, status.conflicts == 0, status.held == 0 else {
                throw TourFailure("\(phone.name)'s phone is not done: \(status.short)")
            }
        }
        explain("Nothing is left to send, to retry or to settle.")
    }
}
