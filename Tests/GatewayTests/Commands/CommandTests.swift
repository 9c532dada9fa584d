import Foundation
import GatewaySupport
import Glibc
import JSONText
import TestSupport
import Testing

/// The program's help texts and its error messages.
@Suite(.timeLimit(.minutes(10))) struct CommandTests {
    private static let commands = [
        ["serve"], ["dev"], ["migrate"], ["organizations"], ["organizations", "create"], ["organizations", "list"],
        ["organizations", "suspend"], ["organizations", "activate"], ["organizations", "purge"], ["token"],
        ["token", "explain"], ["token", "make"], ["retention"], ["users"], ["users", "erase"], ["users", "export"],
        ["users", "join"], ["users", "list"], ["users", "add"], ["channels"], ["channels", "grant"],
        ["channels", "revoke"], ["channels", "list"], ["channels", "evaluate"], ["import"], ["export"],
        ["organizations", "external-ids"], ["organizations", "external-ids", "add"],
        ["organizations", "external-ids", "remove"], ["organizations", "external-ids", "list"],
        ["tokens"], ["tokens", "create"], ["tokens", "list"], ["tokens", "revoke"],
        ["sources"], ["sources", "list"], ["sources", "show"], ["sources", "put"], ["sources", "test"],
        ["sources", "run"], ["sources", "remove"],
        ["after-restore"],
        ["doctor"], ["bench"],
        ["organizations", "readers"], ["organizations", "readers", "add"], ["organizations", "readers", "remove"],
        ["organizations", "readers", "list"],
        ["audit"], ["healthcheck"], ["webhooks"], ["webhooks", "listen"], ["webhooks", "create-key"],
        ["upstream"], ["upstream", "show"], ["upstream", "test"], ["upstream", "import"], ["upstream", "pause"],
        ["upstream", "resume"], ["keys"], ["keys", "create"], ["keys", "list"], ["keys", "rewrap"], ["keys", "renew"],
        ["keys", "seal"],
    ]

    @Test func `help lists every command and the exit codes`() async throws {
        let help = try await Program.run(["--help"])
        #expect(help.status == 0)
        for command in Self.commands { #expect(help.output.contains(command[0])) }
        #expect(help.output.contains("EXAMPLES") && help.output.contains("EXIT CODES"))
        for code in ["64", "69", "75", "78"] { #expect(help.output.contains(code)) }
        #expect(help.complaint == "")
        for line in help.output.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
        #expect(try await Program.run([]).output == help.output)
    }

    @Test(arguments: commands) func `every command's help has examples that name it`(command: [String]) async throws {
        let help = try await Program.run(command + ["--help"])
        #expect(help.status == 0)
        #expect(help.output.contains("EXAMPLES\n  "))
        #expect(help.output.contains("sluice " + command.joined(separator: " ")))
        #expect(help.complaint == "")
        for line in help.output.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
        // examples can be pasted into a shell, also if they have several lines
        let examples = try #require(
            help.output.components(separatedBy: "EXAMPLES\n").last?.components(separatedBy: "\n\n").first
        )
        let check = try await Program(shell: "sh -n <<'END OF EXAMPLES'\n\(examples)\nEND OF EXAMPLES").result()
        #expect(check.status == 0 && check.complaint == "", "\(check.complaint)")
        #expect(!examples.hasSuffix("\\"))
    }

    /// If the output with the new key is lost, the command must not report success.
    @Test(arguments: ["> /dev/full", ">&-"])
    func `a command fails if its output cannot be written`(redirection: String) async throws {
        let result = try await Program(shell: "'\(Program.path)' keys create main \(redirection)").result()
        #expect(result.status == 1)
        #expect(result.complaint.hasPrefix("sluice: standard output could not be written: "))
        #expect(result.output == "")
    }

    @Test func `the help of serve documents every variable`() async throws {
        let help = try await Program.run(["serve", "--help"])
        let variables = [
            "DATABASE_URL", "HINTS_DATABASE_URL", "DIRECT_COMMITS", "DATABASE_POOL_SIZE", "COMMITTERS",
            "STATEMENT_SECONDS",
            "PUBLIC_ADDRESS", "OPERATIONS_ADDRESS", "CORS_ORIGINS", "JWT_SECRET",
            "JWT_KEYS_FILE", "JWT_JWKS_URL", "JWT_ISSUERS_FILE", "JWT_ISSUER", "JWT_AUDIENCE",
            "JWT_EXCLUSIVE_KEYS", "JWT_USER_CLAIM", "JWT_USER_IDS", "JWT_ORGANIZATION_CLAIM",
            "JWT_ORGANIZATION_KEYS", "JWT_ORGANIZATION", "JWT_ORGANIZATION_IDS", "JWT_AUDIENCE_CLAIM",
            "JWT_CHANNEL_CLAIM", "JWT_CHANNEL_PREFIX", "JWT_CHANNEL_ROLE",
            "JWT_LEEWAY_SECONDS", "OPERATOR_TOKEN", "SIGNING_KEY_FILE", "MASTER_KEY_FILE", "RETRY_BASE_SECONDS",
            "RETRY_CAP_SECONDS", "LEASE_SECONDS", "MAX_LANES", "MAX_UPSTREAM_REQUESTS", "WEBHOOK_ALLOWED_NETWORKS",
            "WEBHOOK_SIGNING_KEY", "MAX_WEBHOOKS", "MAX_REPLICATIONS", "MAX_POLLS", "RETENTION_SUCCEEDED_DAYS",
            "RETENTION_DAYS", "RETENTION_AUDIT_DAYS",
            "RETENTION_INTERVAL_SECONDS",
            "LOG_LEVEL", "LOG_FORMAT", "METRICS_ORGANIZATIONS", "MAX_MUTATIONS",
            "MAX_BODY_BYTES",
            "MAX_PAYLOAD_BYTES", "MAX_CONNECTIONS", "MAX_BODY_BYTES_IN_FLIGHT",
            "MAX_ANSWER_BYTES_IN_FLIGHT", "MAX_DEVICES_PER_USER",
        ]
        let shared = [
            "EXPORTER_OTLP_ENDPOINT", "EXPORTER_OTLP_HEADERS", "TRACES_SAMPLER", "TRACES_SAMPLER_ARG", "SERVICE_NAME",
        ]
        for variable in variables { #expect(help.output.contains("SLUICE_\(variable)"), "\(variable)") }
        for variable in shared { #expect(help.output.contains("OTEL_\(variable)"), "\(variable)") }
        let count = variables.count + shared.count
        let words = help.output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(words.components(separatedBy: "; default: ").count == count + 1)
    }

    @Test func `prints the version, the commit and the release of Swift on one line`() async throws {
        let version = try await Program.run(["--version"])
        #expect(version.status == 0)
        let line = #/\d+\.\d+\.\d+ \(commit (?:unknown|[0-9a-f]{40}(?:-dirty)?), Swift \d+\.\d+(?: or later)?\)\n/#
        #expect(version.output.wholeMatch(of: line) != nil, "\(version.output)")
    }

    @Test(arguments: [
        ["sevre"], ["serve", "--prot", "1"], ["serve", "more"], ["migrate", "--partitions", "0"],
        ["migrate", "--partitions", "1025"], ["migrate", "--partitions", "many"], ["token"],
        ["token", "--organization", "x", "--user", "y"],
        ["token", "--organization", UUID().uuidString, "--user", UUID().uuidString, "--ttl", "0"],
        ["token", "make", "--operator", "--ttl", "60"], ["organizations", "create"],
        ["organizations", "suspend", "me"], ["organizations", "purge"],
        ["organizations", "readers", "add", UUID().uuidString],
        ["import", "all.ndjson"], ["import", "--organization", UUID().uuidString],
        ["import", "--organization", UUID().uuidString, "--source", "The CRM", "all.ndjson"],
        ["import", "--organization", UUID().uuidString, "--rate", "0", "all.ndjson"],
        ["import", "--organization", UUID().uuidString, "--updated-since", "yesterday", "all.ndjson"],
        ["channels", "list", "--organization", UUID().uuidString], ["channels", "grant", "team/7"],
        ["export"], ["export", "--organization", "Acme"], ["export", "--organization", UUID().uuidString, "--resume"],
        ["export", "--organization", UUID().uuidString, "--type", "Contact"],
        ["dev", "--port", "65536"], ["dev", "--port", "-1"], ["dev", "--port", "9000", "--operations-port", "9000"],
        ["bench", "--seconds", "2"], ["bench", "--seconds", "601"], ["bench", "--connections", "1"],
        ["bench", "--connections", "513"], ["bench", "--edits-per-day", "0"], ["bench", "--edits-per-day", "10001"],
        ["bench", "--peak-factor", "0"], ["bench", "--peak-factor", "101"],
        ["dev", "--demo-upstream-port", "9002"], ["dev", "--demo-upstream", "--demo-upstream-port", "8080"],
    ])
    func `explains wrong usage and exits with 64`(arguments: [String]) async throws {
        let result = try await Program.run(arguments)
        #expect(result.status == 64)
        #expect(result.output == "")
        #expect(result.complaint.contains("Error: "), "\(result.complaint)")
        #expect(result.complaint.contains("Usage: sluice"), "\(result.complaint)")
    }

    @Test(arguments: [
        (["sevre"], "sluice serve"), (["users", "lst"], "sluice users list"),
        (["token", "explian"], "sluice token explain"),
    ])
    func `suggests a similar command for a misspelled one`(arguments: [String], suggestion: String) async throws {
        let result = try await Program.run(arguments)
        #expect(result.status == 64)
        #expect(result.complaint.hasSuffix("Did you mean: \(suggestion)\n"), "\(result.complaint)")
    }

    @Test func `quotes a user argument that is not a UUID`() async throws {
        let organization = UUID().uuidString
        let result = try await Program.run(["token", "--organization", organization, "--user", "alice"])
        #expect(result.status == 64 && result.complaint.contains(#""alice" is not a UUID"#), "\(result.complaint)")
    }

    @Test(arguments: [["migrate"], ["organizations", "list"], ["organizations", "create", "Acme"], ["after-restore"]])
    func `explains an unreachable database and exits with 69`(command: [String]) async throws {
        let environment = ["SLUICE_DATABASE_URL": "postgresql://somebody:hushhush@/sluice?host=/nowhere"]
        let result = try await Program.run(command, environment: environment)
        #expect(result.status == 69)
        #expect(result.output == "")
        #expect(result.complaint.hasPrefix("sluice: the database cannot be reached: "), "\(result.complaint)")
        #expect(result.complaint.split(separator: "\n").count <= 2)
        #expect(!result.complaint.contains("hushhush"))
    }

    /// Without a URL, the default is tried. The error message names the default and any misspelled variable.
    @Test(arguments: [["migrate"], ["organizations", "list"], ["doctor"]])
    func `names the missing or misspelled database variable`(command: [String]) async throws {
        let environment = ["PGHOST": "/nowhere", "SLUICE_DATABASEURL": "postgresql://hushhush@db/sluice"]
        let result = try await Program.run(command, environment: environment)
        let text = result.output + result.complaint
        #expect(result.status == (command == ["doctor"] ? 1 : 69), "\(text)")
        #expect(text.contains("SLUICE_DATABASE_URL is not set, so the default postgresql:///sluice is used"), "\(text)")
        #expect(text.contains("did you mean SLUICE_DATABASE_URL") && !text.contains("hushhush"), "\(text)")
    }

    /// The error message contains the server's own text.
    @Test(arguments: [["migrate"], ["organizations", "list"], ["doctor"]])
    func `quotes the server's error message`(command: [String]) async throws {
        let database = try await LiveGateway.migratedDatabase()
        let uri = database.uri.replacing(#/\/[^\/?]*(\?|$)/#) { "/nothing_like_it\($0.1)" }
        let result = try await Program.run(command, environment: ["SLUICE_DATABASE_URL": uri])
        let text = result.output + result.complaint
        #expect(text.contains("nothing_like_it") && !text.contains("server(") && !text.contains("Optional("), "\(text)")
    }

    // MARK: - Tokens

    @Test func `an issued token grants access until it expires`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(database: database.uri)
        let (organization, user) = (UUID(), UUID())
        try await gateway.makeOrganization(organization)
        // upper case, as on iOS
        let arguments = ["token", "--organization", organization.uuidString, "--user", user.uuidString]
        let environment = ["SLUICE_JWT_SECRET": GatewayProcess.secret]
        let result = try await Program.run(arguments, environment: environment)
        #expect(result.status == 0)
        #expect(result.output.hasSuffix("\n") && result.output.split(separator: "\n").count == 1)
        let token = result.output.trimmingCharacters(in: .newlines)
        #expect(try await GatewayProcess.get(gateway.address + "/v1/changes", token: token).status == 200)

        let short = try await Program.run(arguments + ["--ttl", "1"], environment: environment)
        let shortLived = short.output.trimmingCharacters(in: .newlines)
        try await waitUntil("a token of one second is refused", every: .milliseconds(50)) {
            try await GatewayProcess.get(gateway.address + "/v1/changes", token: shortLived).status == 401
        }
        let wrong = try await Program.run(
            arguments,
            environment: ["SLUICE_JWT_SECRET": "another secret of decent length, too"]
        )
        let foreign = wrong.output.trimmingCharacters(in: .newlines)
        #expect(try await GatewayProcess.get(gateway.address + "/v1/changes", token: foreign).status == 401)
        #expect(try await gateway.terminate() == 0)
    }

    /// A command and a gateway with the same settings also agree on claims, issuer and audience.
    @Test func `an issued token follows the gateway's settings`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let settings = [
            "SLUICE_JWT_ISSUER": "https://login.example", "SLUICE_JWT_AUDIENCE": "sync",
            "SLUICE_JWT_USER_CLAIM": "user_id", "SLUICE_JWT_ORGANIZATION_CLAIM": "tenant",
            "SLUICE_JWT_SECRET": GatewayProcess.secret,
        ]
        let gateway = try await GatewayProcess.start(database: database.uri, settings: settings)
        let organization = UUID()
        try await gateway.makeOrganization(organization)
        let arguments = ["token", "--organization", organization.uuidString, "--user", UUID().uuidString]
        for (environment, status) in [(settings, 200), (["SLUICE_JWT_SECRET": GatewayProcess.secret], 401)] {
            let token = try await Program.run(arguments, environment: environment).output
                .trimmingCharacters(in: .newlines)
            #expect(try await GatewayProcess.get(gateway.address + "/v1/changes", token: token).status == status)
        }
        #expect(try await gateway.terminate() == 0)
    }

    @Test func `requires a secret to issue a token`() async throws {
        let result = try await Program.run(["token", "--organization", UUID().uuidString, "--user", UUID().uuidString])
        #expect(result.status == 78)
        #expect(result.complaint.contains("SLUICE_JWT_SECRET"))
        #expect(result.output == "")
    }

    // MARK: - Addresses

    @Test(arguments: ["SLUICE_PUBLIC_ADDRESS", "SLUICE_OPERATIONS_ADDRESS"])
    func `names an address in use and its setting`(variable: String) async throws {
        let database = try await LiveGateway.migratedDatabase()
        let occupant = try Listening()
        let port = occupant.port
        let gateway = try GatewayProcess(
            database: database.uri,
            settings: [variable: "127.0.0.1:\(port)", "SLUICE_LOG_LEVEL": "info"]
        )
        #expect(try await gateway.end() == 1)
        let last = try #require(gateway.lines.last)
        #expect(last["level"]?.string == "critical")
        #expect(last["address"]?.string == "127.0.0.1:\(port)")
        #expect(last["setting"]?.string == variable)
        // the test process itself
        #expect(last["reason"]?.string?.hasPrefix("another program") == true)
        #expect(last["reason"]?.string?.hasSuffix("listens there") == true)
        withExtendedLifetime(occupant) {}
    }

    @Test func `rejects an address of another machine`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try GatewayProcess(
            database: database.uri,
            settings: ["SLUICE_PUBLIC_ADDRESS": "192.0.2.1:8080"]
        )
        #expect(try await gateway.end() == 1)
        #expect(gateway.lines.last?["setting"]?.string == "SLUICE_PUBLIC_ADDRESS")
    }
}

/// A port of this machine that another process uses.
final class Listening {
    let port: Int
    private let descriptor: Int32

    init() throws {
        port = try LoopbackPort.reserve()
        descriptor = try #require(LoopbackPort.listen(on: port))
    }

    deinit { close(descriptor) }
}
