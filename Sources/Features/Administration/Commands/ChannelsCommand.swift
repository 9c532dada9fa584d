import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncModel
import SyncStore

struct ChannelsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "channels",
        abstract: "Grant, revoke and list the channels of users, and evaluate the channels of entities.",
        discussion: """
            EXAMPLES
              sluice channels grant project/42 --user 0192f0c2-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab --role write
              sluice channels list --user 0192f0c2-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab
              sluice channels list --channel project/42 \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab

            A channel is a named part of an organization's entities. The setting `channels` of an entity type has \
            templates, such as project/{/project_id}, from which the channels of each entity are computed. A user sees \
            the entities of the channels that the user holds. After a change, devices receive or remove entities with \
            their next pull.

            The commands change the database of SLUICE_DATABASE_URL. Gateways apply a change within 5 seconds.
            """,
        subcommands: [
            GrantChannelCommand.self, RevokeChannelCommand.self, ListChannelsCommand.self,
            EvaluateChannelsCommand.self,
        ]
    )
}

/// A channel, the user who holds it, and their organization.
struct ChannelArguments: ParsableArguments {
    @Argument(help: "The channel's name, such as project/42.", transform: channelArgument)
    var channel: String

    @Option(help: .user, transform: uuidArgument)
    var user: UUID

    @Option(help: .organization, transform: uuidArgument)
    var organization: UUID

    @OptionGroup var options: AdministrationOptions
}

/// Reads a channel's name.
func channelArgument(_ text: String) throws -> String {
    guard ChannelName.isValid(text) else {
        throw ValidationError("A channel has \(ChannelName.bounds).")
    }
    return text
}

/// Reads a role.
func roleArgument(_ text: String) throws -> ChannelRole {
    guard let role = ChannelRole(rawValue: text) else { throw ValidationError("--role must be read or write.") }
    return role
}

struct GrantChannelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "grant",
        abstract: "Grant a channel to a user.",
        usage:
            "sluice channels grant <channel> --user <user> --organization <organization> [--role <role>] [<options>]",
        discussion: """
            EXAMPLES
              sluice channels grant project/42 --user 0192f0c2-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab --role write

            With the role write, the user may also change the entities of the channel. A grant with another role \
            replaces an operator's earlier grant. Neither the user nor the channel needs to exist yet. Prints the \
            user, the role and the channel.
            """
                + HelpText.exitCodes([
                    1: HelpText.failure("The organization does not exist", "the user holds 10,000 channels")
                ])
    )

    @OptionGroup var arguments: ChannelArguments

    @Option(help: ArgumentHelp("read or write. Default: read.", valueName: "role"), transform: roleArgument)
    var role = ChannelRole.read

    func run() async throws {
        let (channel, user, organization) = (arguments.channel, arguments.user, arguments.organization)
        let act = CommandAct("grantChannel", of: organization, user: user, ["channel": channel])
        let role = role
        let isNew = try await arguments.options.run(act, orElse: .noOrganization(organization)) {
            administration throws(Problem) -> Bool? in
            try await administration.grantChannel(channel, to: user, role, in: organization)
        }
        let text = "\(user.lowercased) may \(role.rawValue) \(TerminalText.of(channel))"
        arguments.options.output(text + (isNew ? "" : " already")) { writer in
            writer.member("user_id", user)
            writer.member("channel", channel)
            writer.member("role", role.rawValue)
        }
    }
}

struct RevokeChannelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Revoke a channel that an operator granted to a user.",
        usage: "sluice channels revoke <channel> --user <user> --organization <organization> [<options>]",
        discussion: """
            EXAMPLES
              sluice channels revoke project/42 \\
                --user 0192f0c2-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab

            Grants by entities and tokens remain: `sluice channels list` shows all sources.
            """
                + HelpText.exitCodes([
                    1: HelpText.failure("The organization does not exist", "no operator granted the channel")
                ])
    )

    @OptionGroup var arguments: ChannelArguments

    func run() async throws {
        let (channel, user, organization) = (arguments.channel, arguments.user, arguments.organization)
        let act = CommandAct("revokeChannel", of: organization, user: user, ["channel": channel])
        let missing = CommandFailure.notFound("no operator granted \(TerminalText.of(channel)) to \(user.lowercased)")
        try await arguments.options.run(act, orElse: missing) { administration throws(Problem) -> Void? in
            try await administration.revokeChannel(channel, from: user, in: organization) == true ? () : nil
        }
        arguments.options.output("revoked \(TerminalText.of(channel)) from \(user.lowercased)") { writer in
            writer.member("user_id", user)
            writer.member("channel", channel)
            writer.member("revoked", true)
        }
    }
}

struct ListChannelsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the channels of a user, or the users of a channel.",
        usage: "sluice channels list (--user <user> | --channel <channel>) --organization <organization> [<options>]",
        discussion: """
            EXAMPLES
              sluice channels list --user 0192f0c2-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab
              sluice channels list --channel project/42 \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab --json

            Prints one grant per line: the user, the channel, the role and the source. Of a channel it prints at most \
            1,000; GET /admin/organizations/{id}/channels has all. Each user also holds the channel user/ followed by \
            the user's UUID.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization does not exist")])
    )

    @Option(help: .user, transform: uuidArgument)
    var user: UUID?

    @Option(help: ArgumentHelp("The channel's name.", valueName: "channel"), transform: channelArgument)
    var channel: String?

    @Option(help: .organization, transform: uuidArgument)
    var organization: UUID

    @OptionGroup var options: AdministrationOptions

    func validate() throws {
        guard (user == nil) != (channel == nil) else { throw ValidationError("Specify --user or --channel.") }
    }

    func run() async throws {
        let (user, channel, organization) = (user, channel, organization)
        let found = try await options.run { administration throws(Problem) -> [ChannelGrantRow]? in
            if let user { return try await administration.channels(of: user, in: organization) }
            guard let channel else { return [] }
            return try await administration.channel(
                channel,
                in: organization,
                limit: Administration.mostListedGrants,
                after: nil
            )?.grants
        }
        guard let grants = found else { throw AdministrationOptions.unknown(organization) }
        if options.outputJSON("grants", grants, { $0.writeMembers(to: &$1) }) { return }
        for grant in grants {
            let (name, source) = (TerminalText.of(grant.channel), TerminalText.of(grant.source.text))
            Terminal.output("\(grant.user.lowercased)  \(name)  \(grant.role.rawValue)  \(source)")
        }
        if let user { Terminal.printError("\(user.lowercased) also holds \(ChannelName.name(ofUser: user))") }
    }
}

struct EvaluateChannelsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evaluate",
        abstract: "Compute the channels of a type's existing entities again.",
        usage: "sluice channels evaluate <type> --organization <organization> [<options>]",
        discussion: """
            EXAMPLES
              sluice channels evaluate visit \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab

            After each change of a type's channels or grants, gateways do this in the background. An operator can \
            cancel it in the console or with /admin; use the command to repeat it. If the command is interrupted, run \
            it again. Prints how many entities it examined and wrote.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization has no such entity type")])
    )

    @Argument(help: "The entity type.")
    var type: String

    @Option(help: .organization, transform: uuidArgument)
    var organization: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let (type, organization) = (type, organization)
        let act = CommandAct("evaluateChannels", of: organization, ["entity_type": type])
        let missing = CommandFailure.notFound(
            "organization \(organization.lowercased) has no type \(TerminalText.of(type))"
        )
        let total = try await options.withStore(
            act,
            orElse: missing,
            recording: { (total: (examined: Int, written: Int), outcome: inout AuditOutcome) in
                outcome.record("written", Int64(total.written))
            }
        ) { store, _ throws(Problem) -> (examined: Int, written: Int)? in
            var total = (examined: 0, written: 0)
            var last: String? = ""
            while let after = last {
                let found = try await store.channelEvaluation.step(of: type, in: organization, after: after)
                guard let step = found else { return nil }
                total.examined += step.examined
                total.written += step.written
                last = step.next
            }
            return total
        }
        options.output("examined \(total.examined) entities, wrote \(total.written)") { writer in
            writer.member("examined", Int64(total.examined))
            writer.member("written", Int64(total.written))
        }
    }
}
