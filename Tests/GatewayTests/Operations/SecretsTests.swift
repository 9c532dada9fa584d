import Crypto
import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import Postgres
import SyncModel
import TestSupport
import Testing

/// No output contains a secret, even at the lowest log level and after all kinds of failures. Each secret has a text by
/// which it is found.
@Suite(.timeLimit(.minutes(10))) struct SecretsTests {
    /// Each secret contains a marker, so that a leaked part of the secret is found.
    private static let password = "hushpassword-of-the-database"
    private static let jwtSecret = "hushsecret-of-the-tokens-0123456789"
    private static let operatorToken = "hushtoken-of-the-operator"
    private static let upstreamToken = "hushcredential-of-the-upstream"
    private static let issuerSecret = "hushissuer-secret-0123456789-abcdef"
    private static let query = "hushquery"

    private static func expectNothing(
        in text: String,
        _ what: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(!text.contains("hush"), "\(what): \(text)", sourceLocation: sourceLocation)
    }

    /// A database with password authentication.
    private static func guardedDatabase() async throws -> (TestCluster, TestDatabase, uri: String) {
        let cluster = try await TestCluster.dedicated()
        let database = try await LiveGateway.migratedDatabase(on: cluster)
        let connection = try await database.connect()
        try await connection.execute(
            script: """
                CREATE ROLE keeper LOGIN PASSWORD '\(password)';
                GRANT ALL ON ALL TABLES IN SCHEMA public TO keeper;
                """
        )
        let rows = try await connection.run(Query(Statement("hba", "SELECT current_setting('hba_file')")))
        let file: String = try rows.read(0, 0)
        await connection.closeAndWait()
        let rules = try String(contentsOfFile: file, encoding: .utf8)
        let guarded = "local all keeper scram-sha-256\nhost all keeper all scram-sha-256\n" + rules
        try guarded.write(toFile: file, atomically: false, encoding: .utf8)
        let again = try await database.connect()
        try await again.execute(script: "SELECT pg_reload_conf()")
        await again.closeAndWait()
        return (cluster, database, "\(database.uri)&user=keeper&password=\(password)")
    }

    @Test func `no output contains a secret regardless of the failure`() async throws {
        let (cluster, database, uri) = try await Self.guardedDatabase()
        let signingKey = P256.Signing.PrivateKey().pemRepresentation
        let keyFile = try TemporaryFile(signingKey)
        let issuerSecret = try TemporaryFile(Self.issuerSecret)
        let issuers = try TemporaryFile(
            """
            {"issuers":[
              {"issuer":"https://a.example","secret_file":"\(issuerSecret.path)","organizations":"any"},
              {"issuer":"https://b.example","jwks_url":"http://127.0.0.1:9/keys?token=\(Self.query)","audience":"us",
               "organizations":"any"}]}
            """
        )
        let upstream = try await KeyProvider(.status(401))
        let settings = [
            "SLUICE_JWT_SECRET": Self.jwtSecret, "SLUICE_OPERATOR_TOKEN": Self.operatorToken,
            "SLUICE_SIGNING_KEY_FILE": keyFile.path, "SLUICE_JWT_ISSUERS_FILE": issuers.path,
            "SLUICE_LOG_LEVEL": "trace", "SLUICE_STATEMENT_SECONDS": "5",
        ]
        let gateway = try await GatewayProcess.start(database: uri, settings: settings)
        let organization = UUID()
        var reported: [String] = []
        func ask(_ method: String, _ path: String, _ body: String?, _ token: String) async throws -> Reply {
            let reply = try await send(
                .RAW(value: method),
                path,
                token: token,
                body: body.map { Array($0.utf8) }
            )
            reported.append(reply.headers.description + reply.text)
            return reply
        }
        let admin = "\(gateway.operations)/admin/organizations/\(organization.lowercased)"
        #expect(try await ask("PUT", admin, #"{"name":"x"}"#, Self.operatorToken).status == 201)
        #expect(try await ask("GET", admin, nil, Self.operatorToken + "x").status == 401)
        let base = "http://127.0.0.1:\(upstream.port)"
        let body = #"{"base_url":"\#(base)","credential":{"bearer":"\#(Self.upstreamToken)"}}"#
        #expect(try await ask("PUT", admin + "/upstream", body, Self.operatorToken).status == 201)
        #expect(try await ask("GET", admin + "/upstream", nil, Self.operatorToken).status == 200)
        #expect(try await ask("PUT", admin + "/upstream", String(body.dropLast(2)), Self.operatorToken).status == 400)
        let type = try await ask("PUT", admin + "/entity-types/task", #"{"upstream":true}"#, Self.operatorToken)
        #expect([200, 201].contains(type.status))

        let user = UUID()
        let expires = Int64(Date.now.timeIntervalSince1970) + 600
        let token = IdentityKey.token(
            secret: Array(Self.jwtSecret.utf8),
            organization: organization,
            user: user,
            expires: expires
        )
        let push = """
            {"device_id":\(UUID().quoted),"mutations":[{"id":\(UUID().quoted),"idempotency_key":\(UUID().quoted),
            "sequence_number":1,"operation":"create","entity_type":"task","endpoint":"/tasks","local_id":\(UUID().quoted),
            "payload":{"title":"x"},"created_at":"2026-11-18T07:00:00.000Z"}]}
            """
        let pushed = try await ask("POST", gateway.address + "/v1/mutations", push, token)
        #expect(pushed.status == 202, "\(pushed.text)")
        // the upstream rejects the credential
        try await waitUntil("the upstream is asked") { upstream.count > 0 }
        #expect(upstream.requests.first?.headers["Authorization"] == ["Bearer " + Self.upstreamToken])
        let other = IdentityKey.token(
            secret: Array(Self.issuerSecret.utf8),
            organization: organization,
            user: user,
            issuer: "https://a.example",
            expires: expires
        )
        #expect(try await ask("GET", gateway.address + "/v1/changes", nil, other).status == 200)
        for broken in [token + "x", other.dropLast(3) + "abc", "hush.hush.hush"] {
            #expect(try await ask("GET", gateway.address + "/v1/changes", nil, String(broken)).status == 401)
        }
        // files become invalid
        try Self.issuerSecret.write(toFile: issuers.path, atomically: true, encoding: .utf8)
        try await gateway.metric("sluice_jwt_files_broken", reaches: 1)
        // the database rejects the password from this moment
        let owner = try await database.connect()
        try await owner.execute(script: "ALTER ROLE keeper PASSWORD 'another'")
        try await owner.execute(
            script: "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'"
        )
        let away = try await ask("GET", gateway.address + "/v1/changes", nil, token)
        #expect([200, 503].contains(away.status))
        for path in ["/readyz", "/livez", "/metrics"] { _ = try await ask("GET", gateway.operations + path, nil, "x") }
        #expect(try await gateway.terminate() == 0)
        for text in reported { Self.expectNothing(in: text, "an answer") }
        Self.expectNothing(in: gateway.log, "the log")
        let key = signingKey.split(separator: "\n")[1]
        #expect(!gateway.log.contains(token) && !gateway.log.contains(other) && !gateway.log.contains(key))
        await owner.closeAndWait()

        // a wrong password from the start
        for arguments in [["serve"], ["doctor"], ["doctor", "--json"], ["migrate"], ["organizations", "list"]] {
            let result = try await Program.run(
                arguments,
                environment: settings.merging([
                    "SLUICE_DATABASE_URL": uri, "SLUICE_PUBLIC_ADDRESS": "127.0.0.1:\(try LoopbackPort.reserve())",
                    "SLUICE_OPERATIONS_ADDRESS": "192.0.2.1:1",
                ]) { $1 }
            )
            #expect(result.status != 0, "\(arguments)")
            Self.expectNothing(in: result.output + result.complaint, arguments.joined(separator: " "))
            #expect(!(result.output + result.complaint).contains(key))
        }
        try await database.close()
        withExtendedLifetime(cluster) {}
    }

    @Test(arguments: [
        "postgresql://u:hush%zzpassword@127.0.0.1:1/db", "postgresql://u:x@hushpassword@127.0.0.1:1/db",
        "postgresql://u:hush/password@127.0.0.1:1/db", "postgresql://u:hushpassword@127.0.0.1:1/db",
        "postgresql://u:1/hush@127.0.0.1:1/db", "host=127.0.0.1 port=1 password=x hushpassword",
        "host=127.0.0.1 port=1 password='hushpassword", "host=127.0.0.1 port=1 passwrod=hush",
        "postgresql://u@127.0.0.1:1/db?pasword=hush", "postgresql://127.0.0.1:1/db?password=hush&sslmode=hushed",
        "hushpassword",
    ])
    func `a malformed database URL is never quoted`(url: String) async throws {
        for arguments in [["doctor"], ["doctor", "--json"], ["migrate"]] {
            let result = try await Program.run(
                arguments,
                environment: ["SLUICE_DATABASE_URL": url, "SLUICE_JWT_SECRET": Self.jwtSecret]
            )
            #expect(result.status != 0)
            Self.expectNothing(in: result.output + result.complaint, arguments.joined(separator: " "))
        }
    }

    @Test func `unusable secret files are not quoted`() async throws {
        let pem = "-----BEGIN PRIVATE KEY-----\nhushhushhushhush\n-----END PRIVATE KEY-----\n"
        for text in [
            pem, "hushhush", "-----BEGIN hush-----", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"hush\"}]}",
            "{\"keys\":[{\"kty\":\"EC\",\"d\":\"hush\"}]}", "{\"hush\":", "{\"issuers\":[{\"issuer\":\"hush\"}]}",
            "{\"issuers\":[{\"issuer\":{\"hush\":1}}]}",
        ] {
            let file = try TemporaryFile(text)
            for name in ["JWT_KEYS_FILE", "SIGNING_KEY_FILE", "JWT_ISSUERS_FILE"] {
                for arguments in [["serve"], ["doctor", "--json"]] {
                    let result = try await Program.run(
                        arguments,
                        environment: [
                            "SLUICE_DATABASE_URL": "postgresql://127.0.0.1:1/db",
                            "SLUICE_JWT_SECRET": name == "SIGNING_KEY_FILE" ? Self.jwtSecret : "",
                            "SLUICE_\(name)": file.path, "SLUICE_OPERATOR_TOKEN": Self.operatorToken,
                        ]
                    )
                    #expect(result.status == (arguments == ["serve"] ? 78 : 1), "\(text) \(name)")
                    Self.expectNothing(in: result.output + result.complaint, "\(arguments) \(name)")
                }
            }
        }
    }

    @Test func `help texts contain no configured values`() async throws {
        let settings = [
            "SLUICE_DATABASE_URL": "postgresql://u:hush@h/db", "SLUICE_JWT_SECRET": Self.jwtSecret,
            "SLUICE_OPERATOR_TOKEN": Self.operatorToken,
        ]
        for command in [[], ["serve"], ["doctor"], ["token"], ["migrate"], ["dev"], ["organizations"]] {
            let result = try await Program.run(command + ["--help"], environment: settings)
            #expect(result.status == 0)
            Self.expectNothing(in: result.output + result.complaint, "help of \(command)")
        }
    }

    @Test func `an operator's token is printed once with its hash`() async throws {
        let first = try await Program.run(["token", "--operator"])
        #expect(first.status == 0)
        let lines = first.output.split(separator: "\n").map(String.init)
        #expect(lines.count == 2)
        let token = try #require(lines.first?.split(separator: " ").last.map(String.init))
        #expect(token.wholeMatch(of: #/[0-9a-f]{64}/#) != nil)
        let hash = SHA256.hash(data: Data(token.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        #expect(lines.last == "SLUICE_OPERATOR_TOKEN=sha256:\(hash)")
        #expect(try await Program.run(["token", "--operator"]).output != first.output)
        #expect(try await Program.run(["token", "--operator", "--user", UUID().uuidString]).status == 64)

        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(
            database: database.uri,
            settings: ["SLUICE_OPERATOR_TOKEN": "sha256:\(hash)\nanother-token-of-operator"]
        )
        let url = gateway.operations + "/admin/organizations"
        for good in [token, "another-token-of-operator"] {
            #expect(try await GatewayProcess.get(url, token: good).status == 200)
        }
        for bad in ["sha256:\(hash)", hash, token + "0", "another-token"] {
            #expect(try await GatewayProcess.get(url, token: bad).status == 401)
        }
    }
}
