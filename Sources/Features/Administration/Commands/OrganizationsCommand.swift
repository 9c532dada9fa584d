import ArgumentParser
import CommandSupport

struct OrganizationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "organizations",
        abstract:
            "Create, list, suspend, activate and purge organizations; manage their external ids and readers.",
        discussion: """
            EXAMPLES
              sluice organizations create "Acme Ltd"
              sluice organizations list --json
              sluice organizations suspend 0192f0c1-2345-7abc-8def-0123456789ab
              sluice organizations external-ids add 0192f0c1-2345-7abc-8def-0123456789ab org_1
              sluice organizations purge 0192f0c1-2345-7abc-8def-0123456789ab --yes

            The commands change the database of SLUICE_DATABASE_URL. Gateways apply a change
            within 5 seconds.
            """,
        subcommands: [
            CreateOrganizationCommand.self, ListOrganizationsCommand.self, SuspendOrganizationCommand.self,
            ActivateOrganizationCommand.self, PurgeOrganizationCommand.self, ExternalIDsCommand.self,
            ReadersCommand.self,
        ]
    )
}
