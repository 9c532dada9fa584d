import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncModel
import SyncStore

/// Seals rows that are stored in plain text or under older data keys.
struct SealRowsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "seal",
        abstract: "Encrypt data that is stored as plaintext or with an older data key.",
        discussion: """
            EXAMPLES
              sluice keys seal
              sluice keys seal --organization 0192f0c1-2345-7abc-8def-0123456789ab

            Run it after encryption was enabled, or after `sluice keys renew`. Without --organization, it processes \
            all organizations. For each, it decrypts all encrypted values to check them, encrypts plaintext and values \
            under older data keys with the newest one, and then drops the older keys. Gateways may keep running. If \
            the newest data key is less than a minute old, the command waits, because transactions in progress may \
            still use the previous key.

            Prints one line per organization, and progress to standard error every few seconds. A value that cannot be \
            decrypted (it is damaged, or its key is missing) is left unchanged, and its data key is kept. The first 20 \
            of an organization are listed, and all are counted. All other values are encrypted.

            Organizations can have a separate key for each user. If such a key was lost, for example by a restore \
            without the table `user_keys`, the user gets no other key. New data of the user is encrypted with the \
            organization's key only, until the key is restored and the command is run again.
            """
                + HelpText.exitCodes([
                    0: "All data is encrypted.",
                    1: HelpText.failure(
                        "Some values cannot be decrypted",
                        "the master key of some organizations is missing",
                        "the organization does not exist"
                    ),
                    78: "The configuration is invalid, or the master key of every processed organization is missing.",
                ])
    )

    @Option(help: "Only this organization (UUID).", transform: uuidArgument)
    var organization: UUID?

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let outcome = try await options.withStore(
            CommandAct("sealRows", of: organization),
            orElse: organization.map(CommandFailure.noOrganization) ?? .notFound("there are no organizations"),
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
                    // nil means that the organization was purged during the run, which is not an error
                    outcome.left += try await seal(organization, place, store.keyRotation)?.left ?? 0
                } catch {
                    if [.storeUnavailable, .overloaded].contains(error.code), !error.isLocked { throw error }
                    locked += error.isLocked ? 1 : 0
                    // if the data keys of all organizations cannot be unwrapped, the configuration is the cause
                    if locked == organizations.count { throw error }
                    Terminal.printError("\(organization.lowercased): \(error.detail)")
                    outcome.left += 1
                }
            }
            return outcome
        }
        if outcome.left > 0 { throw ExitCode.failure }
    }

    private struct Outcome: Sendable {
        /// The number of values that cannot be decrypted and stay unchanged, plus the number of organizations that
        /// could not be processed, for example because their data keys cannot be unwrapped.
        var left = 0
    }

    /// Returns nil if there is no such organization.
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
                let notice = "waiting \(Int(seconds.rounded(.up))) s, until every gateway uses its newest data key"
                if !json { Terminal.printError("\(name)\(place): \(notice)") }
            },
            { rows in
                guard !json, progress.isDue() else { return }
                Terminal.printError("\(name)\(place): \(rows.examined) rows examined, \(rows.sealed) encrypted so far")
            }
        )
        guard let rows else { return nil }
        for value in rows.unreadableValues { Terminal.printError("\(name): cannot be decrypted: \(value)") }
        let unreadable = rows.unreadable > 0 ? "\(rows.unreadable) values that cannot be decrypted, " : ""
        let result =
            "\(name): \(rows.examined) rows examined, \(rows.sealed) encrypted, "
            + unreadable + "\(rows.droppedKeys) older data keys dropped"
            + (rows.keptKeys > 0 ? ", \(rows.keptKeys) kept for them" : "")
        options.output(result) {
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
