import ArgumentParser
import Foundation
import JSONText
import SyncMaintenance
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

            Works row by row while gateways run, each row under the lock that every writer
            of it takes, and drops older data keys at an organization's end. Begins a
            minute after the organization's newest data key was made, when every gateway
            seals under it. Run again, it only looks at what is sealed already.

            Says on standard error every few seconds how far it is. A value that cannot be
            opened (it was damaged, or is under a key that is not there) is left as it is
            and named, everything else is sealed, and the command ends with 1.
            """
    )

    @Option(help: "Only this organization, by its UUID.", transform: uuidArgument)
    var organization: UUID?

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let outcome = try await options.withStore(
            CommandAct("sealRows", of: organization),
            orElse: organization.map(NothingDone.noOrganization) ?? .notFound("there are no organizations")
        ) { store, _ throws(Problem) -> Outcome? in
            if let organization { return try await seal(organization, "", store.keyRotation) }
            let organizations = try await AdministrationOptions.organizations(store.administration).map(\.id)
            for organization in organizations { _ = try await store.keyRotation.prepare(organization) }
            var outcome = Outcome.sealed
            for (index, organization) in organizations.enumerated() {
                let place = " (\(index + 1) of \(organizations.count))"
                do throws(Problem) {
                    // an organization that was purged meanwhile is no error
                    let one = try await seal(organization, place, store.keyRotation)
                    if one == .incomplete { outcome = .incomplete }
                } catch {
                    if [.storeUnavailable, .overloaded].contains(error.code), !error.isLocked { throw error }
                    Terminal.complain("\(organization.lowercased): \(error.detail)")
                    outcome = .incomplete
                }
            }
            return outcome
        }
        if outcome == .incomplete { throw ExitCode.failure }
    }

    private enum Outcome: Sendable {
        case sealed
        /// Some rows are left in plain text or under an older key.
        case incomplete
    }

    /// Nil where there is no such organization.
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
        options.say(words) {
            $0.member("organization_id", organization)
            $0.member("examined", rows.examined)
            $0.member("sealed", rows.sealed)
            $0.member("unreadable", rows.unreadable)
            $0.member("dropped_keys", rows.droppedKeys)
        }
        return rows.unreadable > 0 ? Outcome.incomplete : Outcome.sealed
    }
}
