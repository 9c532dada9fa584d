import ArgumentParser
import EncryptionFeature
import Foundation
import JSONText
import SyncModel
import SyncStore

/// Seals rows that are stored in plain text or under older data keys.
struct SealRowsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "seal",
        abstract: "Seal what is stored in the plain or under an older data key.",
        discussion: """
            EXAMPLES
              sluice keys seal                       all organizations
              sluice keys seal --organization 0192f0c1-2345-7abc-8def-0123456789ab

            Opens everything that is sealed, then seals what is due, row by row while
            gateways run, each row under the lock that every writer of it takes, and drops
            older data keys at an organization's end. Begins a minute after the
            organization's newest data key was made, when every gateway seals under it. Run
            again, it only looks at what is sealed already.

            Says on standard error every few seconds how far it is. A value that cannot be
            opened (it was damaged, or is under a key that is not there) is left as it is
            and named (the first 20 of an organization, and how many there are), everything
            else is sealed, a data key that such a value is under stays, and the command
            ends with 1. A user whose key is gone and may be restored gets no new one:
            what is to be sealed for that user is under the organization's key alone, until
            this is run with the right one in place.
            """
    )

    @Option(help: "Only this organization, by its UUID.", transform: uuidArgument)
    var organization: UUID?

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let outcome = try await options.withStore(
            CommandAct("sealRows", of: organization),
            orElse: organization.map(NothingDone.noOrganization) ?? .notFound("there are no organizations"),
            result: { .leaving($0.left) }
        ) { store, _ throws(Problem) -> Outcome? in
            if let organization { return try await seal(organization, "", store.keyRotation) }
            let organizations = try await AdministrationOptions.organizations(store.administration).map(\.id)
            for organization in organizations { _ = try await store.keyRotation.prepare(organization) }
            var outcome = Outcome()
            var locked = 0
            for (index, organization) in organizations.enumerated() {
                let place = " (\(index + 1) of \(organizations.count))"
                do throws(Problem) {
                    // an organization that was purged during the run is no error
                    outcome.left += try await seal(organization, place, store.keyRotation)?.left ?? 0
                } catch {
                    if [.storeUnavailable, .overloaded].contains(error.code), !error.isLocked { throw error }
                    locked += error.isLocked ? 1 : 0
                    // nothing can be opened: that is the configuration's fault, and no organization's
                    if locked == organizations.count { throw error }
                    Terminal.complain("\(organization.lowercased): \(error.detail)")
                    outcome.left += 1
                }
            }
            return outcome
        }
        if outcome.left > 0 { throw ExitCode.failure }
    }

    private struct Outcome: Sendable {
        /// Values that cannot be opened and were left as they are, and organizations that are locked.
        var left = 0
    }

    /// Nil if there is no such organization.
    private func seal(
        _ organization: UUID,
        _ place: String,
        _ keyRotation: KeyRotation
    ) async throws(Problem) -> Outcome? {
        let (json, name) = (options.json, organization.lowercased)
        let progress = Throttle(.seconds(3))
        let rows = try await keyRotation.sealRows(
            of: organization,
            onWait: { seconds in
                let words = "waits \(Int(seconds.rounded(.up))) s, until every gateway seals under its newest data key"
                if !json { Terminal.complain("\(name)\(place): \(words)") }
            },
            { rows in
                guard !json, progress.isDue() else { return }
                Terminal.complain("\(name)\(place): \(rows.examined) rows looked at, \(rows.sealed) sealed so far")
            }
        )
        guard let rows else { return nil }
        for value in rows.unreadableValues { Terminal.complain("\(name): left as it is: \(value)") }
        let unreadable = rows.unreadable > 0 ? "\(rows.unreadable) values that cannot be opened left, " : ""
        let words =
            "\(name): \(rows.examined) rows looked at, \(rows.sealed) sealed, "
            + unreadable + "\(rows.droppedKeys) older data keys dropped"
            + (rows.keptKeys > 0 ? ", \(rows.keptKeys) kept for them" : "")
        options.say(words) {
            $0.member("organization_id", organization)
            $0.member("examined", rows.examined)
            $0.member("sealed", rows.sealed)
            $0.member("unreadable", rows.unreadable)
            $0.member("dropped_keys", rows.droppedKeys)
            $0.member("kept_keys", rows.keptKeys)
        }
        return Outcome(left: rows.unreadable)
    }
}
