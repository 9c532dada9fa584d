import ArgumentParser
import CommandSupport

struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Manage master keys and data keys of encryption at rest.",
        discussion: """
            With SLUICE_MASTER_KEY_FILE, the payloads, documents, responses and credentials
            of each organization are encrypted with its data key. A master key wraps the data
            keys. Each line of the file is a master key, NAME:64 HEX DIGITS. The first key
            wraps; all of them unwrap. If the first line is -, no key wraps: encrypted values
            are still decrypted, but no organization gets a first data key.

            EXAMPLES
              sluice keys create main >> /etc/sluice/master-keys
              sluice keys list                       data keys and their master keys
              sluice keys seal                       encrypt what is stored as plaintext
              sluice keys rewrap                     after adding a new first master key
              sluice keys renew --organization 0192f0c1-2345-7abc-8def-0123456789ab

            All commands except create use the database of SLUICE_DATABASE_URL while gateways
            run. They can be interrupted and run again.
            """,
        subcommands: [
            CreateMasterKeyCommand.self, ListKeysCommand.self, RewrapKeysCommand.self, RenewKeyCommand.self,
            SealRowsCommand.self,
        ]
    )
}
