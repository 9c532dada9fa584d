import Foundation
import GatewaySupport
import JSONText
import TestSupport
import Testing

/// Settings that stop the program, as an operator sees them after a mistake.
@Suite(.timeLimit(.minutes(10))) struct RefusedSettingsTests {
    /// Unit tests of the settings cover every kind of mistake. These tests check that the program reports them.
    @Test func `reports all problems at once and does not start`() async throws {
        let result = try await Program.run(
            ["serve"],
            environment: [
                "SLUICE_DATABASE_URL": "sluice", "SLUICE_PUBLIC_ADDRESS": "8080", "SLUICE_MAX_BODY_BYTES": "4 MiB",
                "SLUICE_JWT_SECRET": "hushhush", "SLUICE_LOG_FORMAT": "xml",
            ]
        )
        #expect(result.status == 78)
        #expect(result.output == "")
        let lines = result.complaint.split(separator: "\n").map(String.init)
        #expect(
            lines == [
                "sluice: SLUICE_DATABASE_URL must be a libpq URI such as postgresql://user@host:5432/sluice, "
                    + "or libpq's key=value form; in a password, escape @ as %40, / as %2F.",
                #"sluice: SLUICE_PUBLIC_ADDRESS is "8080", but must be host:port such as 127.0.0.1:8080 or "#
                    + "[::1]:8080, with a port from 0 to 65535.",
                "sluice: SLUICE_JWT_SECRET must be at least 16 bytes long.",
                #"sluice: SLUICE_LOG_FORMAT is "xml", but must be one of json, text."#,
                #"sluice: SLUICE_MAX_BODY_BYTES is "4 MiB", but must be a whole number from 1024 to 67108864."#,
            ]
        )
        #expect(!result.complaint.contains("hushhush"))
    }

    @Test func `reports the problems of all key files at once`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        func file(_ name: String, _ text: String) throws -> String {
            let path = folder.appending(path: name).path
            try text.write(toFile: path, atomically: true, encoding: .utf8)
            return path
        }
        let issuers = #"{"issuers":[{"issuer":"a"},{"issuer":"b","jwks_url":"https://b/k","organizations":"any"},7]}"#
        var environment = [
            "SLUICE_JWT_ISSUER": "i", "SLUICE_JWT_AUDIENCE": "a", "SLUICE_JWT_KEYS_FILE": "/nowhere",
            "SLUICE_JWT_ISSUERS_FILE": try file("issuers", issuers), "SLUICE_SIGNING_KEY_FILE": try file("pem", "x"),
        ]
        let keys = try await Program.run(["serve"], environment: environment)
        #expect(keys.status == 78)
        let lines = keys.complaint.split(separator: "\n")
        let expected = ["_KEYS_FILE", "/issuers/0/", "/issuers/2 ", "_SIGNING_KEY_FILE"]
        #expect(lines.count == expected.count, "\(keys.complaint)")
        for (line, part) in zip(lines, expected) { #expect(line.contains(part), "\(line)") }
        environment["SLUICE_MASTER_KEY_FILE"] = try file("master", "x")
        environment["SLUICE_MAX_MUTATIONS"] = "x"
        let settings = try await Program.run(["serve"], environment: environment)
        #expect(settings.status == 78)
        for name in ["SLUICE_MAX_MUTATIONS", "SLUICE_MASTER_KEY_FILE"] { #expect(settings.complaint.contains(name)) }
    }

    @Test func `a gateway without keys does not start`() async throws {
        let result = try await Program.run(["serve"])
        #expect(result.status == 78)
        #expect(result.complaint.contains("SLUICE_JWT_SECRET") && result.complaint.contains("SLUICE_JWT_KEYS_FILE"))
    }

    /// The error also names an unknown setting that may be the cause.
    @Test(arguments: [["serve"], ["token", "--organization", UUID().uuidString, "--user", UUID().uuidString]])
    func `names the misspelled setting that causes a failure`(arguments: [String]) async throws {
        let result = try await Program.run(arguments, environment: ["SLUICE_JWTSECRET": "hushhushhushhush"])
        #expect(result.status == 78)
        #expect(
            result.complaint.contains(
                "SLUICE_JWTSECRET is not a setting and has no effect; did you mean SLUICE_JWT_SECRET?"
            )
        )
        #expect(!result.complaint.contains("hushhush"))
    }

    @Test func `rejects invalid keys with the file's name`() async throws {
        let file = try TemporaryFile("-----BEGIN PUBLIC KEY-----\nnonsense\n-----END PUBLIC KEY-----\n")
        let result = try await Program.run(
            ["serve"],
            environment: ["SLUICE_JWT_KEYS_FILE": file.path, "SLUICE_JWT_EXCLUSIVE_KEYS": "yes"]
        )
        #expect(result.status == 78)
        #expect(result.complaint.contains(file.path), "\(result.complaint)")
    }

    /// Without these names, tokens that the same keys sign for other services would be accepted.
    @Test func `rejects public keys without issuer and audience`() async throws {
        let result = try await Program.run(
            ["serve"],
            environment: ["SLUICE_JWT_JWKS_URL": "https://id.example/keys", "SLUICE_JWT_ISSUER": "https://id.example"]
        )
        #expect(result.status == 78)
        #expect(result.complaint.hasPrefix("sluice: SLUICE_JWT_JWKS_URL needs SLUICE_JWT_AUDIENCE: "))
        #expect(result.complaint.contains("SLUICE_JWT_EXCLUSIVE_KEYS=yes"))
    }

    @Test func `rejects an invalid signing key with the file's name`() async throws {
        let file = try TemporaryFile("-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n")
        for path in [file.path, "/nowhere"] {
            let result = try await Program.run(
                ["serve"],
                environment: ["SLUICE_JWT_SECRET": "0123456789abcdef", "SLUICE_SIGNING_KEY_FILE": path]
            )
            #expect(result.status == 78)
            #expect(result.complaint.contains("SLUICE_SIGNING_KEY_FILE"), "\(result.complaint)")
            #expect(result.complaint.contains(path), "\(result.complaint)")
        }
    }

    @Test func `reads a settings file and names its mistakes`() async throws {
        let file = try TemporaryFile(#"{"max_mutations": 0, "public_adress": "127.0.0.1:1", "jwt_secret": "hushhush"}"#)
        for (arguments, environment) in [(["--config", file.path], [:]), ([], ["SLUICE_CONFIG_FILE": file.path])] {
            let result = try await Program.run(["serve"] + arguments, environment: environment)
            #expect(result.status == 78)
            #expect(result.complaint.contains(#""max_mutations" in \#(file.path) is "0", but must be"#))
            #expect(result.complaint.contains(#""jwt_secret" in \#(file.path) must be at least 16 bytes long."#))
            #expect(!result.complaint.contains("hushhush"))
        }
        let missing = try await Program.run(["serve", "--config", file.path + ".none"])
        #expect(missing.status == 78)
        #expect(missing.complaint.contains("\(file.path).none cannot be read"))
    }

    /// The settings have a secret in a file, as container platforms provide it, and unknown names. No log line contains
    /// a secret.
    @Test func `reads secrets from files and never logs them`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let secret = try TemporaryFile(GatewayProcess.secret + "\n")
        let operatorToken = try TemporaryFile(GatewayProcess.operatorToken + "\r\n")
        let uri = try TemporaryFile(database.uri + "\n")
        let gateway = try await GatewayProcess.start(
            database: "",
            settings: [
                "SLUICE_JWT_SECRET": "", "SLUICE_OPERATOR_TOKEN": "", "SLUICE_JWT_SECRET_FILE": secret.path,
                "SLUICE_OPERATOR_TOKEN_FILE": operatorToken.path, "SLUICE_DATABASE_URL_FILE": uri.path,
                "SLUICE_LOG_LEVEL": "trace", "SLUICE_PUBLIC_ADRESS": "127.0.0.1:1",
            ]
        )
        let worker = try await SingleWorker(gateway)
        #expect(try await worker.push([worker.draft(1)]).statuses == ["succeeded"])
        #expect(try await gateway.terminate() == 0)
        let start = try #require(gateway.lines.first { $0["message"]?.string == "Sluice starts" })
        for name in ["database_url", "jwt_secret", "operator_token"] {
            #expect(start.value(at: "/" + name)?.string == "set")
        }
        let warnings = gateway.lines.filter { $0["level"]?.string == "warning" }.compactMap { $0["reason"]?.string }
        #expect(
            warnings == ["SLUICE_PUBLIC_ADRESS is not a setting and has no effect; did you mean SLUICE_PUBLIC_ADDRESS?"]
        )
        for text in [GatewayProcess.secret, GatewayProcess.operatorToken, database.uri, worker.token] {
            #expect(!gateway.log.contains(text))
        }
    }
}

/// A file with a text, deleted with this object.
final class TemporaryFile: Sendable {
    let path = "/tmp/sluice-file-\(UInt64.random(in: 0...(.max)))"

    init(_ text: String) throws {
        try text.write(toFile: path, atomically: false, encoding: .utf8)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }
}
