import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import Logging
import SyncHTTP
import SyncModel
import SyncStore
import SyncUpstream

struct UpstreamCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "upstream",
        abstract: "Show, test, pause and resume an organization's upstream; import its routes.",
        discussion: """
            EXAMPLES
              sluice upstream show 0192f0c1-2345-7abc-8def-0123456789ab
              sluice upstream test 0192f0c1-2345-7abc-8def-0123456789ab --path /contacts
              sluice upstream import 0192f0c1-2345-7abc-8def-0123456789ab openapi.json
              sluice upstream pause 0192f0c1-2345-7abc-8def-0123456789ab \\
                --reason "migration"
              sluice upstream resume 0192f0c1-2345-7abc-8def-0123456789ab

            An organization has at most one upstream: its REST API, to which mutations are sent. Create, change and \
            remove it with /admin/organizations/{id}/upstream (docs/upstreams.md has examples). The commands change \
            the database of SLUICE_DATABASE_URL. Gateways apply a change within 5 seconds.
            """,
        subcommands: [
            ShowUpstreamCommand.self, TestUpstreamCommand.self, ImportRoutesCommand.self, PauseUpstreamCommand.self,
            ResumeUpstreamCommand.self,
        ]
    )
}

struct ShowUpstreamCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show an organization's upstream and routes, without secrets.",
        discussion: """
            EXAMPLES
              sluice upstream show 0192f0c1-2345-7abc-8def-0123456789ab
              sluice upstream show 0192f0c1-2345-7abc-8def-0123456789ab --json

            Prints the base URL, the status, the limits, the outcome rules, and the routes of entity types; with \
            --json, the upstream.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization has no upstream")])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let id = id
        let (upstream, types) = try await options.withStore(nil, orElse: .noUpstream(id)) {
            store,
            _ throws(Problem) -> (UpstreamRow, [EntityType])? in
            guard let upstream = try await store.administration.upstream(of: id) else { return nil }
            let page = try await store.administration.entityTypes(of: id, limit: 1_000, after: nil)
            return (upstream, page?.types ?? [])
        }
        options.output(upstream.json(), Self.text(upstream.settings, types))
    }

    private static func text(_ upstream: UpstreamSettings, _ types: [EntityType]) -> String {
        var lines = ["base URL         \(upstream.baseURL)", "status           \(status(upstream.pause))"]
        lines.append("max concurrency  \(upstream.maximumConcurrency)")
        lines.append("timeout          \(upstream.timeoutSeconds) s")
        if let limit = upstream.requestsPerSecond { lines.append("requests/second  \(limit)") }
        if let batch = upstream.batch {
            lines.append("batches          \(TerminalText.of(batch.path)), up to \(batch.maxRequests) requests")
        }
        lines += upstream.outcomes.rules.map { rule in "outcome rule     \(rule.place): \(rule.verdict.rawValue)" }
        for type in types where type.isForwarded {
            guard let routes = type.routes else {
                lines.append("\(type.name): no routes; mutations contain the path")
                continue
            }
            for operation in SyncModel.Operation.allCases {
                guard let route = routes.routes[operation] else { continue }
                lines.append("\(type.name) \(operation.rawValue): \(route.method) \(TerminalText.of(route.path.text))")
            }
        }
        return lines.joined(separator: "\n")
    }

    private static func status(_ pause: UpstreamPause?) -> String {
        guard let pause else { return "active" }
        return pause.until.map { "paused until \($0.rfc3339)" } ?? "paused until it is resumed"
    }
}

struct PauseUpstreamCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Send nothing to an organization's upstream. Pushes are accepted.",
        discussion: """
            EXAMPLES
              sluice upstream pause 0192f0c1-2345-7abc-8def-0123456789ab \\
                --reason "migration"
              sluice upstream pause 0192f0c1-2345-7abc-8def-0123456789ab \\
                --until 2026-12-01T04:00:00Z

            Use it during maintenance of the API. Requests in flight are completed. Mutations wait, spend no attempts \
            and do not expire. To change the end of a pause, run the command again. Prints the status; with --json, \
            the upstream.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization has no upstream")])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @Option(
        help: ArgumentHelp(
            "When the pause ends, such as 2026-12-01T04:00:00Z. Default: when it is resumed.",
            valueName: "time"
        )
    )
    var until: String?

    @OptionGroup var options: AdministrationOptions

    func validate() throws {
        guard let until, Timestamp(rfc3339: until) == nil else { return }
        throw ValidationError("--until must be a date-time like 2026-12-01T04:00:00Z.")
    }

    func run() async throws {
        var update = UpstreamUpdate()
        update.isPaused = .set(true)
        update.pausedUntil = until.flatMap(Timestamp.init(rfc3339:)).map { .set($0) } ?? .reset
        try await options.change(id, update, isPaused: true)
    }
}

struct ResumeUpstreamCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "End the pause of an organization's upstream.",
        discussion: """
            EXAMPLES
              sluice upstream resume 0192f0c1-2345-7abc-8def-0123456789ab

            Gateways end the pause within 5 seconds, and waiting lanes continue within half a minute. This also ends \
            the back-off of mutations whose attempts failed, so the command is useful even if the upstream is not \
            paused. Prints the status; with --json, the upstream.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization has no upstream")])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        var update = UpstreamUpdate()
        update.isPaused = .set(false)
        try await options.change(id, update, isPaused: false)
    }
}

struct TestUpstreamCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test",
        abstract: "Send an organization's upstream a request without effects.",
        discussion: """
            EXAMPLES
              sluice upstream test 0192f0c1-2345-7abc-8def-0123456789ab
              sluice upstream test 0192f0c1-2345-7abc-8def-0123456789ab --path /contacts \\
                --json
              sluice upstream test 0192f0c1-2345-7abc-8def-0123456789ab --batch

            The request has the upstream's credential and headers, and comes from this machine. With --batch it is a \
            batch of two GET requests for the path, which requires the upstream's setting `batch`. Prints the status, \
            the start of the response, and the outcome rule that would apply to a mutation with this response.
            """
                + HelpText.exitCodes([
                    0: "The upstream responded, with any status; with --batch, it supports batches.",
                    1: "There is no upstream, no response, or no support of batches; standard error has the reason.",
                ])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @Option(help: "Path below the base URL.")
    var path = "/"

    @Option(help: ArgumentHelp("GET, HEAD or OPTIONS; without effect with --batch.", valueName: "method"))
    var method = "GET"

    @Flag(help: "Send a batch of two GET requests for the path.")
    var batch = false

    @OptionGroup var options: AdministrationOptions

    func validate() throws {
        guard UpstreamProbeRequest.methods.contains(method) else {
            throw ValidationError("--method must be GET, HEAD or OPTIONS.")
        }
        if let problem = PathRules.problem(in: path) { throw ValidationError("--path \(problem).") }
    }

    func run() async throws {
        var request = UpstreamProbeRequest()
        (request.path, request.method, request.isBatch) = (path, method, batch)
        let (id, probed) = (id, request)
        let probe = try await options.withStore(nil, orElse: .noUpstream(id)) {
            store,
            settings throws(Problem) -> UpstreamProbe? in
            guard let upstream = try await store.administration.upstream(of: id) else { return nil }
            let sign = try await Self.signing(settings)
            let client = HTTPUpstream(sign: sign, now: SystemClock.now, logger: .ofCommands())
            let result: Result<UpstreamProbe, Problem>
            do throws(Problem) {
                result = .success(try await UpstreamProbe(probed, of: id, to: upstream.settings, by: client))
            } catch {
                result = .failure(error)
            }
            await client.shutdown()
            return try result.get()
        }
        options.output(Self.text(of: probe)) { probe.writeMembers(to: &$0) }
        if case .none(let reason) = probe.answer { throw Terminal.failure(reason) }
        if let batch = probe.batch, batch.isSupported != true { throw Terminal.failure(batch.detail) }
    }

    private static func signing(_ settings: Settings) async throws(Problem) -> HTTPUpstream.Sign? {
        do throws(ConfigurationError) {
            return try await settings.upstreamSigning()
        } catch {
            throw Problem(.validationFailed, "\(error)")
        }
    }

    private static func text(of probe: UpstreamProbe) -> String {
        var lines = ["sent      \(probe.method) \(TerminalText.of(probe.url))"]
        if case .response(let response) = probe.answer {
            lines.append("status    \(response.status), in \(probe.milliseconds) ms")
            if let location = response.location { lines.append("location  \(TerminalText.of(location))") }
        }
        if let rule = probe.rule { lines.append("rule      \(rule.place): \(rule.verdict.rawValue)") }
        if let batch = probe.batch { lines.append("batches   \(TerminalText.of(batch.detail))") }
        if let excerpt = probe.excerpt, !excerpt.isEmpty { lines.append("body      \(TerminalText.of(excerpt))") }
        return lines.joined(separator: "\n")
    }
}

extension AdministrationOptions {
    fileprivate func change(_ id: UUID, _ update: UpstreamUpdate, isPaused: Bool) async throws {
        let act = CommandAct("putUpstream", of: id, ["members": isPaused ? "status,paused_until" : "status"])
        let row = try await run(act, orElse: .noUpstream(id)) { administration throws(Problem) -> UpstreamRow? in
            guard try await administration.upstream(of: id) != nil else { return nil }
            guard let row = try await administration.putUpstream(of: id, update)?.value else { return nil }
            // the change is already stored; if ending the back-offs fails here, a gateway ends them within a minute
            if !isPaused { try? await administration.endBackOffs(of: id, changedAt: row.settings.changedAt) }
            return row
        }
        output(row.json(), row.settings.pause == nil ? "active" : "paused")
    }
}

extension CommandFailure {
    static func noUpstream(_ id: UUID) -> CommandFailure {
        CommandFailure(.notFound, "organization \(id.lowercased) has no upstream")
    }
}
