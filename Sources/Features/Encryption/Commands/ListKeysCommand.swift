import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncModel
import SyncStore

struct ListKeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List data keys: organization, number, master key, time of creation.",
        discussion: """
            EXAMPLES
              sluice keys list
              sluice keys list --json                one data key per line

            An organization's highest number encrypts. A master key is shown by its name and
            a check value; keys are never shown.
            """
    )

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let isEmpty = try await options.withStore { store, _ throws(Problem) -> Bool in
            var page = try await store.keyRotation.keys(after: Self.first, 0)
            let isEmpty = page.isEmpty
            while let last = page.last {
                for key in page { output(key) }
                page = try await store.keyRotation.keys(after: last.organization, last.number)
            }
            return isEmpty
        }
        if isEmpty, !options.json { Terminal.printError("there are no data keys; nothing is encrypted") }
    }

    private static let first = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    private func output(_ key: KeyRotation.Key) {
        let madeAt = key.createdAt.rfc3339
        options.output("\(key.organization.lowercased)  \(key.number)  \(TerminalText.of(key.masterKey))  \(madeAt)") {
            $0.member("organization_id", key.organization)
            $0.member("number", Int64(key.number))
            $0.member("master_key", key.masterKey)
            $0.member("created_at", madeAt)
        }
    }
}
