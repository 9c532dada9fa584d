import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncModel
import SyncStore

struct ImportRoutesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Propose and set routes and relations of entity types from an OpenAPI document.",
        discussion: """
            EXAMPLES
              sluice upstream import 0192f0c1-2345-7abc-8def-0123456789ab openapi.yaml
              sluice upstream import 0192f0c1-2345-7abc-8def-0123456789ab openapi.json \\
                --type contact --apply
              curl -sS https://api.example.com/openapi.json \\
                | sluice upstream import 0192f0c1-2345-7abc-8def-0123456789ab -

            The document is OpenAPI 3.0 or 3.1 in JSON or YAML. Each collection, such as /contacts with /contacts/{id}, \
            becomes an entity type with routes. A member of the request that creates an entity becomes a relation if it \
            names another of these types, such as contact_id.

            Without --apply the command only prints its proposals. With --apply, the routes of an existing type are \
            replaced, relations are added to the relations that the type has, and its other settings are kept. Types that \
            the document lacks stay unchanged. Create the upstream first: a type that is registered without an upstream \
            is not sent to it.

            Check the proposals first, then the requests that a push would cause with POST /v1/mutations/preview.
            """
                + HelpText.exitCodes([
                    0: "The proposals are printed and, with --apply, set.",
                    1: "The document cannot be used, or the organization does not exist; standard error has the "
                        + "reason.",
                ])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @Argument(
        help: "OpenAPI document in JSON or YAML, or - for standard input.",
        completion: .file(extensions: ["json", "yaml", "yml"])
    )
    var file: String

    @Option(help: ArgumentHelp("Only this entity type; can be repeated.", valueName: "name"))
    var type: [String] = []

    @Flag(help: "Set the proposed routes and relations.")
    var apply = false

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let document = try document()
        let proposals = try selected(of: document)
        var remarks: [ByteExactString: [String]] = [:]
        for proposal in proposals { remarks[ByteExactString(proposal.type)] = proposal.remarks }
        let notes = try await apply ? set(proposals) : []
        for (type, remark) in notes {
            remarks[ByteExactString(type), default: []].append(remark)
        }
        options.output(text(document, proposals, remarks)) { writer in
            writer.member("applied", apply)
            writer.member("server", document.server)
            writer.member("entity_types") { writer in
                for proposal in proposals {
                    writer.name(proposal.type)
                    writer.object { writer in
                        writer.member("routes", raw: proposal.routes.json)
                        writer.member("relations") { writer in
                            for relation in proposal.relations {
                                writer.name(relation.member)
                                writer.string(relation.type)
                            }
                        }
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

    /// Sets the routes and relations; returns remarks about types.
    private func set(_ proposals: [OpenAPIRoutes.Proposal]) async throws -> [(type: String, remark: String)] {
        let id = id
        let names = proposals.map(\.type).joined(separator: ",")
        let act = CommandAct("importRoutes", of: id, ["names": names])
        return try await options.run(act, orElse: .noOrganization(id)) {
            administration throws(Problem) -> [(type: String, remark: String)]? in
            var remarks: [(type: String, remark: String)] = []
            for proposal in proposals {
                var update = EntityTypeUpdate()
                update.routes = .set(proposal.routes.json)
                let known = try await administration.entityType(proposal.type, in: id)
                let merged = proposal.merged(with: known?.relations ?? [])
                remarks += merged.remarks.map { (proposal.type, $0) }
                if let relations = merged.relations { update.relations = relations }
                guard let put = try await administration.putEntityType(proposal.type, in: id, update) else {
                    return nil
                }
                if !put.value.isForwarded {
                    let remark = "it is in the built-in store: set its upstream to true to forward it"
                    remarks.append((proposal.type, remark))
                }
            }
            return remarks
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
            lines += proposal.relations.map { "  relation: \(TerminalText.of($0.member)) refers to \($0.type)" }
            lines += (remarks[ByteExactString(proposal.type)] ?? []).map { "  check: \($0)" }
        }
        lines += document.skipped.map { "skipped \(TerminalText.of($0))" }
        if let server = document.server { lines.append("the document's server is \(TerminalText.of(server))") }
        let types = "\(proposals.count) entity \(proposals.count == 1 ? "type" : "types")"
        lines.append(
            apply ? "routes and relations of \(types) are set" : "nothing was set; use --apply to set \(types)"
        )
        return lines.joined(separator: "\n")
    }
}

extension OpenAPIRoutes.Proposal {
    /// Returns all relations of the type in their stored form, and remarks about relations that stay as they are.
    ///
    /// The relations are nil if the document has no new relation.
    ///
    /// - Parameter known: the relations that the type has. They are kept, because a type in use cannot lose a relation.
    func merged(with known: [Relation]) -> (relations: [UInt8]?, remarks: [String]) {
        var (relations, remarks) = (known.map { (member: $0.member, type: $0.entityType) }, [String]())
        for relation in self.relations {
            if let same = relations.first(where: { $0.member == relation.member }) {
                guard same.type != relation.type else { continue }
                remarks.append("\(relation.member) keeps its relation to \(same.type)")
            } else if relations.count < Relation.limit {
                relations.append((relation.member, relation.type))
            } else {
                remarks.append("\(relation.member) is not set: a type has at most \(Relation.limit) relations")
            }
        }
        guard relations.count > known.count else { return (nil, remarks) }
        let json = JSONWriter.object { writer in
            for relation in relations {
                writer.name(relation.member)
                writer.string(relation.type)
            }
        }
        return (json, remarks)
    }
}
