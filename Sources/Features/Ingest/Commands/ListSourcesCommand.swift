import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct ListSourcesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List an organization's sources and their state.",
        discussion: """
            EXAMPLE
              sluice sources list 0192f0c1-2345-7abc-8def-0123456789ab

            Each line shows a source: its name, its kind, its state (receiving, running,
            waiting, retrying, disabled), its last success and, if it fails, the time of the
            first failure and the reason.
            """
    )

    @Argument(help: "The organization's UUID.", transform: uuidArgument)
    var organization: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let found = try await options.withStore { store, _ throws(Problem) in
            try await store.sourceAdministration.list(in: organization)
        }
        guard let sources = found else { throw AdministrationOptions.unknown(organization) }
        if options.json {
            let body = AdministrationOptions.body { writer in
                writer.name("sources")
                writer.beginArray()
                for source in sources { writer.object { source.writeMembers(to: &$0) } }
                writer.endArray()
            }
            return Terminal.output(String(decoding: body, as: UTF8.self))
        }
        for source in sources { Terminal.output(source.line) }
        if sources.isEmpty { Terminal.printError("\(organization.lowercased) has no sources") }
    }
}

struct ShowSourceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a source: its settings, its progress, and its last failure.",
        discussion: """
            EXAMPLE
              sluice sources show 0192f0c1-2345-7abc-8def-0123456789ab crm

            Secrets are not shown.
            """
    )

    @OptionGroup var source: SourceArguments

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let key = source.key
        let found = try await options.withStore { store, _ throws(Problem) in
            try await store.sourceAdministration.source(key)
        }
        guard let found else { throw source.unknown.failure() }
        options.output(found.userMessage) { found.writeMembers(to: &$0) }
    }
}

struct RemoveSourceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a source. Data that it delivered is kept.",
        discussion: """
            EXAMPLE
              sluice sources remove 0192f0c1-2345-7abc-8def-0123456789ab crm
            """
    )

    @OptionGroup var source: SourceArguments

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let key = source.key
        let act = CommandAct("deleteSource", of: key.organization, ["name": key.name])
        try await options.withStore(act, orElse: source.unknown) { store, _ throws(Problem) -> Void? in
            try await store.sourceAdministration.delete(key) ? () : nil
        }
        options.output("\(key.name) is removed") { $0.member("name", key.name) }
    }
}
