import Foundation
import GRDB
import SluiceClient

/// Two phones that go offline, write, reconnect, and end with the same data. Typed commands follow the phone's name.
struct Tour {
    let kari: Phone
    let ola: Phone
    /// When the visits are.
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
        try await compare()
    }

    private func meet() async throws {
        explain(
            """
            Kari and Ola work for one organization, each with a phone of their own. What Kari writes is on Ola's phone
            within a second.
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
            Both go on. Kari corrects the number, and writes down a visit with an expense. The server knows of neither,
            so the expense names its visit by the key that Kari's phone made up.
            """
        )
        try await type(kari, #"edit contact "Acme Ltd" phone 22 11 11 11"#)
        try await type(kari, #"visit "Acme Ltd" Kickoff"#)
        try await type(kari, "expense Kickoff 249.90 Lunch")
        try await type(kari, "contacts")
        try await type(kari, "ids")
        explain("Ola has heard of another number, and plans a visit too.")
        try await type(ola, #"edit contact "Acme Ltd" phone 22 22 22 22"#)
        try await type(ola, #"visit "Acme Ltd" Contract"#)
        try await type(ola, "contacts")
    }

    private func comeBack() async throws {
        explain("Ola is back first: the server takes what he wrote.")
        try await type(ola, "online")
        try await waitForIDs(ola)
        try await type(ola, "contacts")
        explain(
            """
            Then Kari. She wrote her number without having seen Ola's: a conflict. What she wrote behind it waits until
            somebody has decided.
            """
        )
        try await type(kari, "online")
        try await waitUntil(kari, "has a conflict") { try FailedWrite.fetchConflicts($0).count == 1 }
        try await type(kari, "conflicts")
        explain("Meanwhile her phone shows what she wrote, beside what Ola has written.")
        try await waitUntil(kari, "shows Ola's visit") { try Visit.fetchCount($0) == 2 }
        try await type(kari, "contacts")
    }

    private func settle() async throws {
        explain("Kari decides: her number. Now the visit and the expense are sent as well.")
        try await type(kari, "resolve 1 mine")
        try await waitForIDs(kari)
        explain(
            """
            All have ids of the server's: the gateway's own for contact and visits, and for the expense the number that
            accounting's API gave. The rows' keys are what they were, so nothing on the phone had to change.
            """
        )
        try await type(kari, "ids")
        try await waitUntil(ola, "shows the expense") { try Expense.fetchCount($0) == 1 }
        try await type(ola, "contacts")
    }

    private func retry() async throws {
        explain(
            """
            Accounting's API refuses whatever says "fail once", once. The write has failed, but is not lost: the phone
            shows the expense and knows why.
            """
        )
        try await type(kari, "expense Kickoff 12.50 fail once")
        try await waitUntil(kari, "has a failed write") { try FailedWrite.fetchAll($0).count == 1 }
        try await type(kari, "contacts")
        try await type(kari, "failed")
        explain("Kari sends it again. It is taken, and an edit like any other corrects the text.")
        try await type(kari, "retry 1")
        try await waitForIDs(kari)
        try await type(kari, #"edit expense "fail once" text Taxi"#)
    }

    private func correct() async throws {
        explain(
            """
            Ola pastes a whole report into a note, more than the gateway takes. He corrects the write, and sends it
            again.
            """
        )
        try await type(ola, "edit visit Contract note " + String(repeating: "report ", count: 50_000))
        try await waitUntil(ola, "has a failed write") { try FailedWrite.fetchAll($0).count == 1 }
        try await type(ola, "failed")
        try await type(ola, "edit+retry 1 note Bring the report")
    }

    private func compare() async throws {
        explain("In the end both phones show the same.")
        let shown = """
            Acme Ltd, 22 11 11 11
              Contract, \(day), Bring the report
              Kickoff, \(day)
                Lunch 249.90
                Taxi 12.50
            """
        for phone in [kari, ola] {
            try await waitUntil(phone, "shows all of it, confirmed") {
                try Notebook.fetch($0, phone.sluice).text == shown
            }
            try await type(phone, "contacts")
        }
        for phone in [kari, ola] {
            let status = await phone.sluice.syncOnce()
            guard status.pending == 0, status.failed == 0, status.conflicts == 0, status.held == 0 else {
                throw TourFailure("\(phone.name)'s phone is not done: \(status.short)")
            }
        }
        explain("Nothing is left to send, to retry or to settle.")
    }
}
