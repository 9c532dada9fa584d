import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncModel
import SyncStore

struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Manage master keys and data keys of encryption at rest.",
        discussion: """
            EXAMPLES
              sluice keys create main >> /etc/sluice/master-keys
              sluice keys list
              sluice keys seal
              sluice keys renew --organization 0192f0c1-2345-7abc-8def-0123456789ab

            With SLUICE_MASTER_KEY_FILE, the payloads, documents, responses and credentials of each organization are \
            encrypted with its data key. A master key wraps the data keys. Each line of the file is a master key, \
            NAME:64 HEX DIGITS. The first key wraps; all of them unwrap. If the first line is -, no key wraps: \
            organizations with a data key continue to encrypt, and others remain unencrypted. To begin, start all \
            gateways with a - above the first key, so that each can decrypt what another one encrypts:

              -
              main:64 HEX DIGITS

            Then remove the - and restart the gateways, which read the file only at their start. For an organization \
            with a data key, encryption cannot be turned off.

            After the first master key was added, `seal` encrypts existing data. After a master key was replaced, \
            `rewrap` makes the old one unnecessary. All commands except create use the database of \
            SLUICE_DATABASE_URL; gateways may keep running. The commands can be interrupted and run again.
            """,
        subcommands: [
            CreateMasterKeyCommand.self, ListKeysCommand.self, RewrapKeysCommand.self, RenewKeyCommand.self,
            SealRowsCommand.self,
        ]
    )
}

struct CreateMasterKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Print a new master key as a line for SLUICE_MASTER_KEY_FILE.",
        discussion: """
            EXAMPLES
              sluice keys create main >> /etc/sluice/master-keys

            The key is stored nowhere else. Without it, all encrypted data is lost: keep a copy, separate from the \
            backups of the database. Append the line with >>, because > would delete the keys that the file already \
            contains.
            """
                + HelpText.exitCodes(
                    [
                        0: "The key is printed.",
                        1: "The output could not be written completely: discard it.",
                    ],
                    usesDatabase: false
                )
    )

    @Argument(help: "Name of the key: a to z, digits, - and _; at most 32 characters.")
    var name: String

    func validate() throws {
        guard MasterKey.isValidName(name) else {
            throw ValidationError("A name has 1 to 32 of a to z, digits, - and _, and begins with a letter or a digit.")
        }
    }

    func run() async throws {
        Terminal.output(MasterKey.newLine(name: name))
    }
}

struct ListKeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List data keys: organization, number, master key, time of creation.",
        discussion: """
            EXAMPLES
              sluice keys list
              sluice keys list --json

            Prints one line per data key; with --json, one JSON object per line. New data is encrypted with the \
            organization's key of the highest number. A master key is shown by its name and a check value; keys are \
            never shown.
            """ + HelpText.exitCodes([:])
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

struct RenewKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "renew",
        abstract: "Create a new data key for an organization.",
        discussion: """
            EXAMPLES
              sluice keys renew --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                && sluice keys seal --organization 0192f0c1-2345-7abc-8def-0123456789ab

            Use it if an organization's data key may have become known, or if your policy requires new keys. All \
            gateways encrypt new data with the new key within 5 seconds. `sluice keys seal` re-encrypts existing \
            data, then drops the old key. Prints the new key's number.
            """
                + HelpText.exitCodes([
                    1: HelpText.failure("The organization does not exist"),
                    78: "The configuration is invalid, or no master key wraps data keys.",
                ])
    )

    @Option(help: .organization, transform: uuidArgument)
    var organization: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        try await options.requireMasterKey()
        let act = CommandAct("renewKey", of: organization)
        let number = try await options.withStore(act, orElse: .noOrganization(organization)) {
            store,
            _ throws(Problem) -> Int32? in
            try await store.keyRotation.renew(organization)
        }
        options.output("\(organization.lowercased) has data key \(number)") {
            $0.member("organization_id", organization)
            $0.member("number", Int64(number))
        }
    }
}

struct RewrapKeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rewrap",
        abstract: "Wrap every data key with the first master key, so that the others can be removed.",
        discussion: """
            EXAMPLES
              sluice keys rewrap

            To rotate the master key without downtime: add the new key as the LAST line and restart all gateways; move \
            it to the first line and restart all gateways; run this command; remove the old line and restart all \
            gateways. Only the rows of the data keys are written. Backups from before the rotation still need the old \
            key: keep the key as long as these backups. Prints the number of rewrapped keys.
            """
                + HelpText.exitCodes([
                    0: "Only the first master key is needed now.",
                    78: "The configuration is invalid, or the file lacks a master key that wraps a data key. Do not "
                        + "remove any key.",
                ])
    )

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        try await options.requireMasterKey()
        let isQuiet = options.json
        let (rewrapped, unknown) = try await options.withStore(
            CommandAct("rewrapKeys"),
            orElse: .notFound("there are no data keys"),
            result: { .leaving($0.unknown) }
        ) { store, _ throws(Problem) -> (rewrapped: Int, unknown: Int)? in
            try await store.keyRotation.rewrap { count in
                if !isQuiet, count > 0 { Terminal.printError("\(count) data keys rewrapped") }
            }
        }
        if unknown == 0 || options.json {
            options.output("\(rewrapped) data keys rewrapped; only the first master key is needed now") {
                $0.member("rewrapped", rewrapped)
                $0.member("unknown", unknown)
            }
        }
        if unknown > 0 {
            throw Terminal.failure(
                "\(rewrapped) data keys rewrapped, \(unknown) not: their master keys are not in the file "
                    + "(see: sluice keys list); do not remove any key",
                Terminal.badConfiguration
            )
        }
    }
}
