import ArgumentParser
import CommandSupport
import SyncModel

struct CreateMasterKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Print a new master key as a line for SLUICE_MASTER_KEY_FILE.",
        discussion: """
            EXAMPLES
              sluice keys create main > /etc/sluice/master-keys
              sluice keys create 2027-01

            The key is stored nowhere else. Without it, all encrypted data is lost: keep a
            copy, separate from the backups of the database.
            """
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
