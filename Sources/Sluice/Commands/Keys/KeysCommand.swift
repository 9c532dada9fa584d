import ArgumentParser

struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Master keys and data keys of encryption at rest.",
        discussion: """
            With SLUICE_MASTER_KEY_FILE each organization's payloads, documents, answers
            and credentials are sealed under a data key of its own, which a master key
            wraps. The file has a master key a line, NAME:64 HEX DIGITS; the first wraps,
            all of them unwrap. A first line - stands for none that wraps: what is sealed
            is opened, and no organization gets its first data key.

            EXAMPLES
              sluice keys create main >> /etc/sluice/master-keys
              sluice keys list                       what wraps which data key
              sluice keys seal                       seal what is stored in the plain
              sluice keys rewrap                     after a new master key came first
              sluice keys renew --organization 0192f0c1-2345-7abc-8def-0123456789ab

            All but create work on the database that SLUICE_DATABASE_URL names, while
            gateways run, and can be cut off and run again.
            """,
        subcommands: [
            CreateMasterKeyCommand.self, ListKeysCommand.self, RewrapKeysCommand.self, RenewKeyCommand.self,
            SealRowsCommand.self,
        ]
    )
}
