import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncModel
import SyncStore

struct ImportRoutesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Set routes of entity types from an OpenAPI document of the upstream.",
        discussion: """
            EXAMPLES
              sluice upstream import 0192f0c1-2345-7abc-8def-0123456789ab openapi.json \\
                --dry-run
              sluice upstream import 0192f0c1-2345-7abc-8def-0123456789ab openapi.json \\
                --type contact
              curl -sS https://api.example.com/openapi.json \\
                | sluice upstream import 0192f0c1-2345-7abc-8def-0123456789ab - --dry-run
              yq -o=json openapi.yaml \\
                | sluice upstream import 0192f0c1-2345-7abc-8def-0123456789ab - --dry-run

            The document is OpenAPI 3.0 or 3.1 in JSON; convert YAML first. Each collection, such as /contacts with \
            /contacts/{id}, becomes an entity type with routes. The routes of an existing type are replaced, and its \
            other settings are kept. Types that the document lacks stay unchanged. Create the upstream first: a type \
            that is registered without an upstream is not sent to it.

            Check the routes with --dry-run first, then the requests that a push would cause with POST \
            /v1/mutations/preview.
            """
                + HelpText.exitCodes([
                    0: "The routes are set, or printed with --dry-run.",
                    1: "The document cannot be used, or the organization does not exist; standard error has the "
                        + "reason.",
                ])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @Argument(help: "OpenAPI document in JSON, or - for standard input.", completion: .file(extensions: ["json"]))
    var file: String

    @Option(help: ArgumentHelp("Only this entity type; can be repeated.", valueName: "name"))
    var type: [String] = []

    @Flag(help: "Print what would be set without changing anything.")
    var dryRun = false

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let document = try document()
        let proposals = try selected(of: document)
        var remarks: [ByteExactString: [String]] = [:]
        for proposal in proposals { remarks[ByteExactString(proposal.type)] = proposal.remarks }
        let builtIn = dryRun ? [] : try await apply(proposals)
        for type in builtIn {
            remarks[ByteExactString(type), default: []].append(
                "it is in the built-in store: set its upstream to true to forward it"
            )
        }
        options.output(text(document, proposals, remarks)) { writer in
            writer.member("dry_run", dryRun)
            writer.member("server", document.server)
            writer.member("entity_types") { writer in
                for proposal in proposals {
                    writer.name(proposal.type)
                    writer.object { writer in
                        writer.member("routes", raw: proposal.routes.json)
                        writer.member("remarks", remarks[ByteExactString(proposal.type)] ?? [])
                    }
                }
            }
            writer.member("skipped", document.skipped)
        }
    }

    private func document() throws -> OpenAPIRoutes {
        let bytes = try InputFile(file).bytes(upTo: OpenAPIRoutes.maximumBytes + 1)
        guard bytes.count <= OpenAPIRoutes.maximumBytes else {
            throw Terminal.failure("\(file) has more than \(OpenAPIRoutes.maximumBytes) bytes")
        }
        do throws(OpenAPIRoutes.Refusal) {
            return try OpenAPIRoutes(bytes)
        } catch {
            throw Terminal.failure("\(file): \(error.detail)")
        }
    }

    private func selected(of document: OpenAPIRoutes) throws -> [OpenAPIRoutes.Proposal] {
        for name in type where !document.proposals.contains(where: { $0.type == name }) {
            throw Terminal.failure("\(file) has no collection for the entity type \(TerminalText.of(name))")
        }
        let proposals = document.proposals.filter { type.isEmpty || type.contains($0.type) }
        if proposals.isEmpty { throw Terminal.failure("\(file) has no collection with POST, PATCH, PUT or DELETE") }
        return proposals
    }

    /// Sets the routes; returns the types that are not forwarded.
    private func apply(_ proposals: [OpenAPIRoutes.Proposal]) async throws -> [String] {
        let id = id
        let names = proposals.map(\.type).joined(separator: ",")
        let act = CommandAct("importRoutes", of: id, ["names": names])
        return try await options.run(act, orElse: .noOrganization(id)) { administration throws(Problem) -> [String]? in
            var builtIn: [String] = []
            for proposal in proposals {
                var update = EntityTypeUpdate()
                update.routes = .set(proposal.routes.json)
                guard let put = try await administration.putEntityType(proposal.type, in: id, update) else {
                    return nil
                }
                if !put.value.isForwarded { builtIn.append(proposal.type) }
            }
            return builtIn
        }
    }

    private func text(
        _ document: OpenAPIRoutes,
        _ proposals: [OpenAPIRoutes.Proposal],
        _ remarks: [ByteExactString: [String]]
    ) -> String {
        var lines: [String] = []
        for proposal in proposals {
            lines.append("\(proposal.type)  \(TerminalText.of(String(decoding: proposal.routes.json, as: UTF8.self)))")
            lines += (remarks[ByteExactString(proposal.type)] ?? []).map { "  check: \($0)" }
        }
        lines += document.skipped.map { "skipped \(TerminalText.of($0))" }
        if let server = document.server { lines.append("the document's server is \(TerminalText.of(server))") }
        lines.append(dryRun ? "dry run: nothing was set" : "routes of \(proposals.count) entity types are set")
        return lines.joined(separator: "\n")
    }
}
