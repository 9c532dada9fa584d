import ArgumentParser
import SyncModel

struct CreateMasterKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Print a new master key as a line for SLUICE_MASTER_KEY_FILE.",
        discussion: """
            EXAMPLES
              sluice keys create main > /etc/sluice/master-keys
              sluice keys create 2027-01

            It is kept nowhere else. Whoever loses it loses everything that is sealed:
            keep a copy apart from the database's backups.
            """
    )

    @Argument(help: "What to call it: a to z, digits, - and _; 32 characters at most.")
    var name: String

    func validate() throws {
        guard MasterKey.isValidName(name) else {
            throw ValidationError("A name has 1 to 32 of a to z, digits, - and _, and begins with a letter or a digit.")
        }
    }

    func run() async throws {
        Terminal.say(MasterKey.newLine(name: name))
    }
}
