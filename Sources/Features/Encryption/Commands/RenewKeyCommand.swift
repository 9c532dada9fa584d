import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncModel
import SyncStore

struct RenewKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "renew",
        abstract: "Create a new data key for an organization.",
        discussion: """
            EXAMPLE
              sluice keys renew --organization 0192f0c1-2345-7abc-8def-0123456789ab
              sluice keys seal  --organization 0192f0c1-2345-7abc-8def-0123456789ab

            All gateways encrypt new data with it within 5 seconds. `sluice keys seal`
            re-encrypts existing data, then drops the old key.
            """
    )

    @Option(help: "The organization's UUID.", transform: uuidArgument)
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
