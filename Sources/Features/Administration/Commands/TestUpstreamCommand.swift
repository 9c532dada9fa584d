import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import Logging
import SyncModel
import SyncStore
import SyncUpstream

struct TestUpstreamCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test",
        abstract: "Send a request that changes nothing to an organization's upstream.",
        discussion: """
            EXAMPLES
              sluice upstream test 0192f0c1-2345-7abc-8def-0123456789ab
              sluice upstream test 0192f0c1-2345-7abc-8def-0123456789ab --path /contacts --json
              sluice upstream test 0192f0c1-2345-7abc-8def-0123456789ab --batch

            The request has the upstream's credential and headers, and comes from this machine. With --batch it is a \
            batch of two GET requests for the path, which requires the upstream's setting `batch`. Prints the status, \
            the start of the response, and the upstream's outcome rule that would decide if a mutation got this \
            response.
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
