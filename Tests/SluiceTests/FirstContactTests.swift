import Foundation
import SyncHTTP
import SyncModel
import Testing

@testable import CommandSupport
@testable import OperatorsFeature
@testable import Postgres
@testable import Sluice
@testable import SyncStore

/// Errors that a new user meets first, and their remedies.
@Suite struct FirstContactTests {
    private static func failure(_ text: String) -> ConnectionFailure {
        ConnectionFailure(PostgresError(ConnectFailure.read(text)))
    }

    private static let refuses = "the database refuses the connection: "

    @Test(arguments: [
        (#"FATAL:  28000: role "anna" does not exist"#, refuses, "createuser --pwprompt anna;"),
        (#"FATAL:  28000: role "o'neil" does not exist"#, refuses, #"'o'\''neil'"#),
        (#"FATAL:  3D000: database "trial" does not exist"#, refuses, "--owner ROLE trial;"),
        (#"FATAL:  28P01: password authentication failed for user "a""#, refuses, "correct user and password"),
        ("fe_sendauth: no password supplied", refuses, "add the password"),
        ("connection failed: Connection refused", "the database cannot be reached: ", "start PostgreSQL there"),
        (#"could not translate host name "db" to address: x"#, "the database cannot be reached: ", "correct the host"),
        ("server does not support SSL, but SSL was required", "the database cannot be reached: ", "sslmode"),
    ])
    func `reports a failed connection with its remedy`(text: String, start: String, cure: String) {
        let message = Self.failure(text).userMessage
        #expect(
            message.hasPrefix(start) && message.contains("; ") && message.contains(cure),
            "\(message)"
        )
    }

    @Test func `every failure has a remedy`() {
        let remedies = Set(
            ConnectFailure.allCases.map { failure in
                ConnectionFailure(PostgresError(.init(message: "m", failure: failure, sqlState: nil))).cure
            }
        )
        #expect(remedies.count == ConnectFailure.allCases.count)
    }

    @Test func `shortens long lists of migrations`() {
        #expect(SchemaCheck.list(["0001_a", "0002_b"]) == "0001_a, 0002_b")
        #expect(SchemaCheck.list((1...28).map { "m\($0)" }) == "28 migrations, m1 to m28")
        #expect(SchemaCheck.Finding.empty.userMessage == "the database is empty: run sluice migrate")
    }

    @Test func `finds the objects that a migration would create`() {
        #expect(Schema.created(by: Schema.migrations[0].sql).contains("organizations"))
        let sql = """
            -- CREATE TABLE comment (
            CREATE UNIQUE INDEX one ON a (b);
              CREATE TABLE IF NOT EXISTS two (
            CREATE DOMAIN three AS text;
            """
        #expect(Schema.created(by: sql) == ["one", "two", "three"])
    }

    // MARK: - PostgreSQL

    @Test func `sluice dev uses the newest supported PostgreSQL`() throws {
        let files = FileManager.default
        let root = "/tmp/sluice-postgresql-\(UInt64.random(in: 0...(.max)))"
        defer { try? files.removeItem(atPath: root) }
        func install(_ version: Int) throws {
            let folder = "\(root)/\(version)/bin"
            try files.createDirectory(atPath: folder, withIntermediateDirectories: true)
            for name in ["initdb", "postgres"] {
                let program = "\(folder)/\(name)"
                #expect(files.createFile(atPath: program, contents: nil, attributes: [.posixPermissions: 0o755]))
            }
        }
        func find(_ major: String? = nil, path: String = "") throws -> String {
            try PostgresBinaries.find(major: major, path: path, root: root).folder
        }
        try install(9)
        try install(14)
        for path in ["", "\(root)/14/bin"] {
            let error = #expect(throws: DevelopmentError.self) { try find(path: path) }
            #expect(error?.description.hasPrefix("No PostgreSQL 15 or later server is installed: ") == true)
        }
        let old = #expect(throws: DevelopmentError.self) { try find("14") }
        #expect(old?.description.contains("needs PostgreSQL 15 or later") == true)
        try install(15)
        #expect(try find() == "\(root)/15/bin")
        try install(16)
        #expect(try find() == "\(root)/16/bin")
        #expect(try find("15") == "\(root)/15/bin")
        #expect(throws: DevelopmentError.self) { try find("17") }
    }

    // MARK: - Ports

    @Test func `finds listeners in the system's table`() {
        let table = """
              sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
               0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000 100 0 0
               1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000 100 0 0
               2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0000 100 0 0
            """
        #expect(PortOwner.listeners(in: table, at: 8_080) == ["4711"])
        #expect(PortOwner.listeners(in: table, at: 80).isEmpty)
        #expect(PortOwner.listeners(in: "", at: 80).isEmpty)
    }

    /// Foundation returns only the first 4,096 bytes of such a file.
    @Test func `a file of proc is read to its end`() {
        let maps = PortOwner.text(of: "/proc/self/maps")
        #expect(maps.utf8.count > 4_096 && maps.contains("[stack]") && maps.hasSuffix("\n"))
    }

    // MARK: - Commands

    @Test(arguments: [
        (["serv"], "sluice serve"), (["user"], "sluice users"), (["users", "lst"], "sluice users list"),
        (["organisations", "list"], "sluice organizations"), (["health-check"], "sluice healthcheck"),
        (["serve"], nil), (["users", "list"], nil), (["--versoin"], nil), (["xyzzy"], nil), ([String](), nil),
        (["token", "explian", "x"], "sluice token explain"),
    ])
    func `suggests a command for a misspelled one`(arguments: [String], suggestion: String?) {
        #expect(CommandSuggestion.of(arguments) == suggestion)
    }

    @Test func `shows the value of an option without a token`() {
        let message = #"Error: The value 'alice' is invalid for '--user <user>': "alice" is not a UUID"#
        #expect(TerminalMessage.of(message, about: ["token", "--user", "alice"]) == message)
        #expect(TerminalMessage.of(message, about: ["token", "make", "--user=alice"]) == message)
        let secret = "eyJhbGciOiJIUzI1NiJ9"
        let long = "Error: The value '\(secret)' is invalid"
        #expect(!TerminalMessage.of(long, about: ["token", "--user", secret]).contains(secret))
        #expect(!TerminalMessage.of("Unexpected 'alice'", about: ["token", "explain", "alice"]).contains("alice"))
    }

    // MARK: - Files

    @Test func `ignores a byte order mark before a configuration`() throws {
        let file = try TextFile(bytes: [0xef, 0xbb, 0xbf] + Array(#"{"max_mutations": 7}"#.utf8))
        #expect(try Settings.load(configFile: file.path, environment: [:]).maxMutations == 7)
        let issuers = try TextFile(bytes: [0xef, 0xbb, 0xbf] + Array(#"{"issuers":[]}"#.utf8))
        let problem = problems(of: ["SLUICE_JWT_ISSUERS_FILE": issuers.path])
        #expect(problem.contains("/issuers") && !problem.contains("JSON"), "\(problem)")
    }

    @Test func `ignores a byte order mark before keys`() async throws {
        let pem = """
            -----BEGIN PUBLIC KEY-----
            MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
            -----END PUBLIC KEY-----
            """
        let environment = ["SLUICE_JWT_EXCLUSIVE_KEYS": "yes"]
        for mark in [[], [0xef, 0xbb, 0xbf] as [UInt8]] {
            let file = try TextFile(bytes: mark + Array(pem.utf8))
            let settings = try load(environment.merging(["SLUICE_JWT_KEYS_FILE": file.path]) { $1 })
            _ = try await settings.tokenVerifier()
            let key = (0..<32).map { String($0 + 16, radix: 16) }.joined()
            let master = try TextFile(bytes: mark + Array("main:\(key)".utf8))
            #expect(try load(["SLUICE_MASTER_KEY_FILE": master.path]).masterKeys != nil)
        }
    }

    @Test(arguments: [[0xff, 0xfe], [0xfe, 0xff]] as [[UInt8]])
    func `reports a file in UTF-16`(mark: [UInt8]) throws {
        let file = try TextFile(bytes: mark + [0x7b, 0])
        for name in ["JWT_KEYS_FILE", "JWT_ISSUERS_FILE", "MASTER_KEY_FILE", "JWT_SECRET_FILE"] {
            let variable = "SLUICE_" + name
            let problem = problems(of: [variable: file.path, "SLUICE_JWT_EXCLUSIVE_KEYS": "yes"])
            #expect(problem.contains("UTF-16 with a byte order mark"), "\(variable): \(problem)")
        }
        let error = #expect(throws: ConfigurationError.self) {
            try Settings.load(configFile: file.path, environment: [:])
        }
        #expect(error?.problems.first?.contains("UTF-16") == true)
    }

    @Test func `rejects a byte order mark before a secret by name`() throws {
        let file = try TextFile(bytes: [0xef, 0xbb, 0xbf] + Array(String(repeating: "s", count: 32).utf8))
        let problem = problems(of: ["SLUICE_JWT_SECRET_FILE": file.path])
        #expect(problem.contains("begins with a byte order mark") && !problem.contains("ssss"), "\(problem)")
    }

    @Test func `rejects one operator token for two names`() throws {
        let token = String(repeating: "t", count: 32)
        let hash = OperatorTokens.hash(of: token)
        for text in ["anna@\(token) bert@\(token)", "anna@\(token) bert@read:\(hash)", "\(token) anna@\(token)"] {
            let problem = problems(of: ["SLUICE_OPERATOR_TOKEN": text])
            #expect(problem.contains("for two names"), "\(text)")
            #expect(!problem.contains(token) && !problem.contains(hash))
        }
        #expect(problems(of: ["SLUICE_OPERATOR_TOKEN": "anna@\(token) anna@\(hash) bert@\(token)x"]) == "")
    }

    /// All problems of the settings and of their files, in one text.
    private func problems(of environment: [String: String]) -> String {
        do throws(ConfigurationError) {
            let settings = try Settings.load(configFile: nil, environment: environment)
            if settings.jwtKeysFile != nil || settings.jwtIssuersFile != nil { _ = try settings.tokenConfiguration() }
            return ""
        } catch {
            return error.problems.joined(separator: "\n")
        }
    }
}
