import Foundation
import Logging
import StandardWebhooks
import SyncHTTP
import SyncModel
import SyncStore
import Telemetry
import Testing
import Tokens

@testable import CommandSupport

@Suite struct SettingsTests {
    @Test func `the defaults are those of the contract`() throws {
        let settings = try load([:])
        #expect(settings.databaseURL == "postgresql:///sluice")
        #expect(settings.databasePoolSize == 8)
        #expect(settings.committers == 2)
        #expect(settings.publicAddress == ListenAddress(host: "127.0.0.1", port: 8_080))
        #expect(settings.operationsAddress == ListenAddress(host: "127.0.0.1", port: 8_081))
        #expect(settings.jwtSecret == nil && settings.jwtKeysFile == nil)
        #expect(settings.jwtIssuer == nil && settings.jwtAudience == nil)
        #expect(settings.identityPlaces == IdentityPlaces())
        #expect(settings.jwtAudienceClaim == ClaimPlace(named: "aud"))
        #expect(settings.jwtLeewaySeconds == 0)
        #expect(settings.operatorTokens == nil && settings.signingKeyFile == nil)
        #expect(settings.masterKeyFile == nil && settings.masterKeys == nil)
        #expect(settings.logLevel == .info && settings.logFormat == nil)
        #expect(settings.metricsOrganizations == 0)
        #expect(settings.traceReceiver == nil && settings.traceHeaders.isEmpty && settings.traceRatio == 0.01)
        #expect(settings.maxMutations == 500)
        #expect(settings.maxBodyBytes == 4_194_304)
        #expect(settings.maxPayloadBytes == 262_144)
        #expect(settings.maxConnections == 10_000)
        #expect(settings.maxBodyBytesInFlight == 67_108_864)
        #expect(settings.webhookAddresses == AddressPolicy() && settings.webhookSigningKey == nil)
        #expect(settings.maxWebhooks == 32 && settings.maxPolls == 16)
        #expect(settings.warnings == [])
    }

    @Test func `reads every setting from its variable and its member`() throws {
        let keys = try TextFile("main:" + String(repeating: "00112233445566778899aabbccddeeff", count: 2))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: keys.path)
        let values = [
            "database_url": "host=db dbname=sluice", "hints_database_url": "host=coordinator dbname=sluice",
            "database_pool_size": "20", "committers": "4", "statement_seconds": "10",
            "public_address": "[::]:80", "operations_address": "0.0.0.0:81",
            "cors_origins": "https://app.example.org https://*.example.org:8443",
            "jwt_secret": "0123456789abcdef0123456789abcdef",
            "jwt_keys_file": "/keys", "jwt_jwks_url": "https://i/keys?v=1", "jwt_issuers_file": "/issuers",
            "jwt_issuer": "https://i", "jwt_audience": "a",
            "jwt_audience_claim": "client_id", "jwt_exclusive_keys": "yes", "jwt_user_claim": "$.u.id",
            "jwt_user_ids": "mapped", "jwt_organization_ids": "external",
            "jwt_organization_claim": "o", "jwt_channel_claim": "$.groups", "jwt_channel_prefix": "team/",
            "jwt_channel_role": "write", "jwt_leeway_seconds": "60", "operator_token": "abcdefghijklmnop",
            "signing_key_file": "/key", "master_key_file": keys.path, "retry_base_seconds": "0.5",
            "retry_cap_seconds": "60", "lease_seconds": "30",
            "max_lanes": "7", "max_upstream_requests": "70", "webhook_allowed_networks": "127.0.0.0/8, fd00::/8",
            "webhook_signing_key": "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=", "max_webhooks": "9",
            "max_replications": "7",
            "retention_succeeded_days": "2.5", "retention_days": "14",
            "retention_interval_seconds": "60", "retention_audit_days": "90",
            "log_level": "debug", "log_format": "text", "metrics_organizations": "100", "max_mutations": "10000",
            "otel_exporter_otlp_endpoint": "http://collector:4318/", "otel_exporter_otlp_headers": "api-key=a%20b,x=y",
            "otel_traces_sampler": "traceidratio", "otel_traces_sampler_arg": "0.5", "otel_service_name": "sync",
            "max_body_bytes": "67108864", "max_polls": "8", "direct_commits": "yes",
            "max_payload_bytes": "16777216", "max_connections": "1", "max_body_bytes_in_flight": "8589934592",
            "max_answer_bytes_in_flight": "8589934592", "max_devices_per_user": "7",
        ]
        // the organization is in only one place of a token, so its other settings are not set
        let others: [Setting] = [.jwtOrganizationKeys, .jwtOrganization]
        #expect((values.keys + others.map(\.name)).sorted() == Setting.all.map(\.name).sorted())
        let variables = Dictionary(uniqueKeysWithValues: values.map { (Setting.variable(for: $0.key), $0.value) })
        let members = values.map { name, value in
            Double(value) == nil ? #""\#(name)":"\#(value)""# : #""\#(name)":\#(value)"#
        }
        let file = "{" + members.joined(separator: ",") + "}"
        for settings in [try load(variables), try load([:], file: file)] {
            #expect(settings.databaseURL == values["database_url"])
            #expect(settings.hintsDatabaseURL == values["hints_database_url"])
            #expect(settings.webhookAddresses.allowed.count == 2 && settings.maxWebhooks == 9)
            #expect(settings.maxPolls == 8 && settings.directCommits)
            #expect(settings.webhookSigningKey?.text == values["webhook_signing_key"])
            #expect(settings.databasePoolSize == 20)
            #expect(settings.committers == 4)
            #expect(
                settings.databaseTimeouts.statement == .seconds(10) && settings.databaseTimeouts.lock == .seconds(8)
            )
            #expect(settings.publicAddress == ListenAddress(host: "::", port: 80))
            #expect(settings.operationsAddress == ListenAddress(host: "0.0.0.0", port: 81))
            #expect(settings.allowedOrigins == values["cors_origins"].flatMap(AllowedOrigins.init(parsing:)))
            #expect(settings.allowedOrigins != nil)
            #expect(settings.jwtSecret == values["jwt_secret"])
            #expect(settings.jwtKeysFile == "/keys")
            #expect(settings.jwtJWKSURL == "https://i/keys?v=1")
            #expect(settings.jwtIssuersFile == "/issuers")
            #expect(settings.jwtIssuer == "https://i")
            #expect(settings.jwtAudience == "a")
            #expect(settings.hasExclusiveKeys)
            #expect(settings.jwtAudienceClaim == ClaimPlace(named: "client_id"))
            #expect(settings.identityPlaces.user.description == "$.u.id")
            #expect(settings.identityPlaces.organization == .claim(ClaimPlace(named: "o")))
            #expect(settings.identityPlaces.userForm == .mapped)
            #expect(settings.identityPlaces.organizationForm == .external)
            let channels = ChannelClaim(try ClaimPlace(parsing: "$.groups"), prefix: "team/", role: .write)
            #expect(settings.channelClaim == channels)
            #expect(settings.jwtLeewaySeconds == 60)
            #expect(settings.operatorTokens == OperatorTokens(parsing: "abcdefghijklmnop"))
            #expect(settings.signingKeyFile == "/key")
            #expect(settings.masterKeyFile == keys.path && settings.masterKeys != nil)
            #expect(settings.retryBaseSeconds == 0.5)
            #expect(settings.retryCapSeconds == 60)
            #expect(settings.leaseSeconds == 30)
            #expect(settings.maxLanes == 7)
            #expect(settings.maxUpstreamRequests == 70)
            #expect(settings.retentionSucceededDays == 2.5 && settings.retentionDays == 14)
            #expect(settings.retentionIntervalSeconds == 60)
            #expect(settings.logLevel == .debug)
            #expect(settings.logFormat == .text)
            #expect(settings.metricsOrganizations == 100)
            #expect(settings.traceReceiver == "http://collector:4318" && settings.serviceName == "sync")
            #expect(settings.traceHeaders.map { "\($0.name): \($0.value)" } == ["api-key: a b", "x: y"])
            #expect(settings.traceSampler == "traceidratio" && settings.traceRatio == 0.5)
            #expect(settings.maxMutations == 10_000)
            #expect(settings.maxBodyBytes == 67_108_864)
            #expect(settings.maxPayloadBytes == 16_777_216)
            #expect(settings.maxConnections == 1)
            #expect(settings.maxBodyBytesInFlight == 8_589_934_592)
            #expect(settings.warnings == [])
        }
    }

    @Test func `the organization is in one claim, in its keys, or fixed`() throws {
        let id = UUID()
        let (claim, keys) = ("SLUICE_JWT_ORGANIZATION_CLAIM", "SLUICE_JWT_ORGANIZATION_KEYS")
        #expect(
            try load([keys: "$.organization"]).identityPlaces.organization == .keys(ClaimPlace(named: "organization"))
        )
        let fixed = try load(["SLUICE_JWT_ORGANIZATION": id.uuidString, "SLUICE_JWT_SECRET": "0123456789abcdef"])
        #expect(fixed.identityPlaces.organization == .fixed(id))
        #expect(try fixed.tokenConfiguration().own.organizations == .only([id]))
        for two in [[claim: "o", keys: "k"], [claim: "o", "SLUICE_JWT_ORGANIZATION": "\(id)"]] {
            #expect(throws: ConfigurationError.self) { try load(two) }
        }
        for wrong in [
            [keys: "sub"], [keys: "$.sub"], [claim: "$['sub']"], [claim: "$"], [claim: "$.a[*]"], [claim: "$..org"],
            ["SLUICE_JWT_ORGANIZATION": "acme"], ["SLUICE_JWT_USER_IDS": "external"], ["SLUICE_JWT_USER_CLAIM": "org"],
        ] {
            #expect(throws: ConfigurationError.self, "\(wrong)") { try load(wrong) }
        }
    }

    @Test func `the environment overrides the file and the file the default`() throws {
        let settings = try load(
            ["SLUICE_MAX_MUTATIONS": "1", "SLUICE_MAX_CONNECTIONS": ""],
            file: #"{"max_mutations": 2, "max_connections": 3, "jwt_issuer": "i"}"#
        )
        #expect(settings.maxMutations == 1)
        #expect(settings.maxConnections == 3, "an empty variable is not set")
        #expect(settings.jwtIssuer == "i")
        #expect(settings.committers == 2)
    }

    @Test func `the option overrides the variable for the settings file`() throws {
        let (first, second) = (try TextFile(#"{"max_mutations": 1}"#), try TextFile(#"{"max_mutations": 2}"#))
        let environment = ["SLUICE_CONFIG_FILE": second.path]
        #expect(try Settings.load(configFile: nil, environment: environment).maxMutations == 2)
        #expect(try Settings.load(configFile: first.path, environment: environment).maxMutations == 1)
    }

    @Test func `ignores variables without the prefix`() throws {
        let settings = try load(["MAX_MUTATIONS": "1", "sluice_max_mutations": "2", "SLUICE_committers": "7"])
        #expect(settings.maxMutations == 500 && settings.committers == 2)
        #expect(settings.warnings == [])
    }

    @Test(arguments: [
        ("SLUICE_MAX_MUTATION", "did you mean SLUICE_MAX_MUTATIONS?"), ("SLUICE_PORT", nil),
        ("SLUICE_OPERATOR_TOKEN_FIEL", "did you mean SLUICE_OPERATOR_TOKEN_FILE?"),
    ])
    func `warns about an unknown variable`(variable: String, hint: String?) throws {
        let warnings = try load([variable: "x"]).warnings
        #expect(warnings.count == 1)
        #expect(warnings.first?.hasPrefix("\(variable) is not a setting and has no effect") == true)
        if let hint { #expect(warnings.first?.hasSuffix(hint) == true) }
    }

    @Test func `warns about an unknown member`() throws {
        let file = try TextFile(#"{"max_mutation": 1, "SLUICE_COMMITTERS": 1}"#)
        let warnings = try Settings.load(configFile: file.path, environment: [:]).warnings
        #expect(warnings.count == 2)
        #expect(
            warnings.contains {
                $0.hasPrefix(#""max_mutation" in "#) && $0.hasSuffix(#"did you mean "max_mutations"?"#)
            }
        )
    }

    @Test func `warns about a short secret`() throws {
        #expect(
            try load(["SLUICE_JWT_SECRET": "0123456789abcdef"]).warnings == [
                "SLUICE_JWT_SECRET has 16 bytes; use at least 32."
            ]
        )
    }

    @Test func `shows the effective settings without secrets`() throws {
        let settings = try load([
            "SLUICE_DATABASE_URL": "postgresql://u:hushhush@db/sluice", "SLUICE_JWT_SECRET": "hushhush-hushhush",
            "SLUICE_MAX_MUTATIONS": "7",
        ])
        let shown = Dictionary(uniqueKeysWithValues: settings.inForce)
        #expect(shown.count == Setting.all.count)
        #expect(shown["database_url"] == "set" && shown["jwt_secret"] == "set")
        #expect(shown["operator_token"] == "/admin is off")
        #expect(shown["max_mutations"] == "7")
        #expect(shown["public_address"] == "127.0.0.1:8080")
        #expect(!shown.values.contains { $0.contains("hushhush") })
    }

    // MARK: - Secrets in files

    @Test(arguments: ["", "\n", "\r\n", "\n\n"])
    func `reads a secret from a file without the line ending`(end: String) throws {
        let secret = " a secret with spaces, æøå "
        let file = try TextFile(secret + end)
        #expect(try load(["SLUICE_JWT_SECRET_FILE": file.path]).jwtSecret == secret)
        #expect(try load([:], file: #"{"jwt_secret_file": "\#(file.path)"}"#).jwtSecret == secret)
    }

    @Test func `a secret in the environment overrides its file in the settings file`() throws {
        let file = try TextFile("from a file of its own")
        let member = #"{"jwt_secret_file": "\#(file.path)"}"#
        #expect(try load(["SLUICE_JWT_SECRET": "from a variable!"], file: member).jwtSecret == "from a variable!")
        let plain = #"{"jwt_secret": "from a member of the file"}"#
        let settings = try load(["SLUICE_JWT_SECRET_FILE": file.path], file: plain)
        #expect(settings.jwtSecret == "from a file of its own")
    }

    @Test func `rejects an unusable secret file`() throws {
        let (empty, binary) = (try TextFile("\n"), try TextFile(bytes: Array(repeating: 0xff, count: 40)))
        let short = try TextFile("short\n")
        for (path, problem) in [
            ("/nowhere/secret", "names /nowhere/secret, which cannot be read."),
            (empty.path, "names \(empty.path), which is empty."),
            (binary.path, "names \(binary.path), which is not UTF-8 text."),
            (short.path, "must be at least 16 bytes long."), ("/tmp", "names /tmp, which cannot be read."),
        ] {
            #expect(try problems(["SLUICE_JWT_SECRET_FILE": path]) == ["SLUICE_JWT_SECRET_FILE " + problem])
        }
        #expect(
            try problems(["SLUICE_JWT_SECRET_FILE": short.path, "SLUICE_JWT_SECRET": "0123456789abcdef"]) == [
                "SLUICE_JWT_SECRET and SLUICE_JWT_SECRET_FILE are both set; choose one."
            ]
        )
    }

    @Test func `other variables of OpenTelemetry are ignored without a warning`() throws {
        let settings = try load(["OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_SERVICE_NAME": ""])
        #expect(settings.warnings == [] && settings.serviceName == "sluice" && settings.traceReceiver == nil)
        #expect(Setting.traceReceiver.variable == "OTEL_EXPORTER_OTLP_ENDPOINT")
    }

    @Test(arguments: ["collector:4318", "grpc://collector", "http://u:p@collector", "http://c/?key=1", "http://c/#a"])
    func `rejects an invalid URL of a receiver of traces`(text: String) throws {
        let found = try problems(["OTEL_EXPORTER_OTLP_ENDPOINT": text])
        #expect(found.count == 1 && found[0].contains("must be a URL such as http://collector:4318"), "\(found)")
    }

    @Test(arguments: ["key", "=value", "a b=c", "key=%zz", "key=a%0d%0ab", ",", "key=%ff"])
    func `rejects headers that could not be sent and does not show them`(text: String) throws {
        let found = try problems(["OTEL_EXPORTER_OTLP_HEADERS": text])
        #expect(found.count == 1, "\(found)")
        #expect(found[0].hasPrefix("OTEL_EXPORTER_OTLP_HEADERS must be headers such as "), "\(found)")
    }

    /// The table of `docs/configuration.md` is written manually.
    @Test func `the documentation lists every setting`() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs/configuration.md")
        let table = try String(contentsOf: file, encoding: .utf8)
        for setting in Setting.all { #expect(table.contains("| `\(setting.variable)`"), "\(setting.variable)") }
    }

    @Test func `checks a file of master keys and never shows it`() throws {
        let good = "main:" + String(repeating: "00112233445566778899aabbccddeeff", count: 2)
        for (text, expected) in [("", "no key"), ("main:hushhush", "64 hex digits"), ("hushhush", "line 1")] {
            let file = try TextFile(text)
            let problem = try #require(problems(["SLUICE_MASTER_KEY_FILE": file.path]).first)
            #expect(problem.contains(expected) && problem.contains(file.path), "\(problem)")
            #expect(!problem.contains("hushhush"), "\(problem)")
        }
        #expect(try problems(["SLUICE_MASTER_KEY_FILE": "/nowhere"]).first?.contains("cannot be read") == true)
        let open = try TextFile(good)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: open.path)
        let settings = try load(["SLUICE_MASTER_KEY_FILE": open.path])
        #expect(settings.warnings.count == 1 && settings.warnings[0].contains("chmod 600"))
        #expect(!settings.inForce.contains { $0.value.contains("00112233") })
    }

    // MARK: - Keys that sign for other services

    /// Some providers, such as Firebase, sign the tokens of all projects with the same keys. With a key URL alone, the
    /// users of other projects would be accepted.
    @Test func `public keys require an issuer and an audience`() throws {
        let keys = try TextFile("{}")
        for (name, value) in [("SLUICE_JWT_JWKS_URL", "https://id.example/keys"), ("SLUICE_JWT_KEYS_FILE", keys.path)] {
            func problem(_ more: [String: String]) throws -> String? {
                let settings = try load([name: value].merging(more) { $1 })
                do throws(ConfigurationError) {
                    _ = try settings.tokenConfiguration()
                    return nil
                } catch {
                    return error.description
                }
            }
            let (issuer, audience) = (["SLUICE_JWT_ISSUER": "https://id.example"], ["SLUICE_JWT_AUDIENCE": "us"])
            let bare = try #require(try problem([:]))
            #expect(bare.hasPrefix("\(name) needs SLUICE_JWT_ISSUER and SLUICE_JWT_AUDIENCE: "))
            #expect(bare.contains("SLUICE_JWT_EXCLUSIVE_KEYS=yes"))
            #expect(try problem(issuer)?.hasPrefix("\(name) needs SLUICE_JWT_AUDIENCE: ") == true)
            #expect(try problem(audience)?.hasPrefix("\(name) needs SLUICE_JWT_ISSUER: ") == true)
            #expect(try problem(["SLUICE_JWT_SECRET": "0123456789abcdef"]) != nil)
            #expect(try problem(issuer.merging(audience) { $1 }) == nil)
            #expect(try problem(["SLUICE_JWT_EXCLUSIVE_KEYS": "yes"]) == nil)
        }
        #expect(try load(["SLUICE_JWT_SECRET": "0123456789abcdef"]).tokenConfiguration().issuers.count == 1)
    }
}
