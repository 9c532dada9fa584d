import ArgumentParser
import CommandSupport
import FoundationEssentials
import SyncModel

/// The options that select the entities of an import or an export and set its pace.
struct TransferOptions: ParsableArguments {
    @Option(help: .organization, transform: uuidArgument)
    var organization: UUID

    @Option(help: ArgumentHelp("Only entities of this type. Can be repeated.", valueName: "name"))
    var type: [String] = []

    @Option(
        help: ArgumentHelp(
            "Only entities changed at or after this time (RFC 3339). An import includes lines without a time.",
            valueName: "time"
        ),
        transform: momentArgument
    )
    var updatedSince: Timestamp?

    @Option(
        help: ArgumentHelp(
            "Lines per second, regardless of the database's load. Default: depends on the load.",
            valueName: "number"
        )
    )
    var rate: Int?

    func validate() throws {
        for name in type where !EntityType.isValidName(name) {
            throw ValidationError("--type must be the name of an entity type, such as contact.")
        }
        guard rate.map({ $0 >= 1 }) ?? true else { throw ValidationError("--rate must be 1 or more.") }
    }
}
