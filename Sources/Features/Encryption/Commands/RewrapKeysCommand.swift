import ArgumentParser
import CommandSupport
import JSONText
import SyncModel
import SyncStore

struct RewrapKeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rewrap",
        abstract: "Wrap every data key with the first master key, so that the others can be removed.",
        discussion: """
            EXAMPLE
              sluice keys rewrap

            To rotate the master key without downtime: add the new key as the LAST line and
            restart all gateways; move it to the first line and restart all gateways; run
            this command; remove the old line and restart all gateways. Only the rows of the
            data keys are written.
            """
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
