import GRDB
import SluiceClient

/// A pull of 1,000 changes to rows that each have a waiting edit, compared with a pull of the same changes by a phone
/// without edits. The two phones pull in turns.
struct PullUnderEdits {
    private static let rows = 1_000
    private let options: Options
    private let colleague: Phone
    private let edited: Phone
    private let plain: Phone

    init(_ options: Options) throws {
        self.options = options
        colleague = try Phone(options.gateway, token: options.otherToken)
        edited = try Phone(options.gateway, token: options.token)
        plain = try Phone(options.gateway, token: options.token)
    }

    func figures() async throws -> Figures {
        for phone in [colleague, edited, plain] { try await phone.synchronize() }
        try await edited.edit(try await edited.notes(Self.rows)) { $0.title += "!" }
        try await edited.database.write { db in
            // the edits wait for a decision, so that they are not pushed before the pull
            try db.execute(sql: "UPDATE sluice_mutations SET status = 'failed' WHERE status = 'queued'")
        }
        var (under, without): ([Double], [Double]) = ([], [])
        for round in 0..<options.rounds {
            let notes = try await colleague.notes(Self.rows)
            try await colleague.edit(notes) { $0.text = "Round \(round) of what a colleague has written over time." }
            try await colleague.synchronize()
            // the first pull warms up the gateway for the second one
            if round % 2 == 0 { under.append(try await pull(edited, round)) }
            without.append(try await pull(plain, round))
            if round % 2 == 1 { under.append(try await pull(edited, round)) }
        }
        var figures = Figures()
        figures.add("pull_under_edits_milliseconds", under.median)
        figures.add("pull_without_edits_milliseconds", without.median)
        figures.add("pull_ratio", zip(under, without).map { $0 / $1 }.median)
        figures.add("pull_lowest_ratio", zip(under, without).map { $0 / $1 }.min() ?? 0)
        figures.add("pull_highest_ratio", zip(under, without).map { $0 / $1 }.max() ?? 0)
        return figures
    }

    /// Returns the milliseconds of a pull, after which the other user's changes and this phone's edits must be visible.
    private func pull(_ phone: Phone, _ round: Int) async throws -> Double {
        let seconds = try await Clock.seconds { try await phone.synchronize() }
        let (shown, kept) = try await phone.database.read { db in
            (
                try Note.filter(Column("text").like("Round \(round) %")).fetchCount(db),
                try Note.filter(Column("title").like("%!")).fetchCount(db)
            )
        }
        guard shown == Self.rows, kept == (phone === edited ? Self.rows : 0) else {
            throw Failure(description: "\(shown) changes are shown, and \(kept) edits")
        }
        return seconds * 1e3
    }
}
