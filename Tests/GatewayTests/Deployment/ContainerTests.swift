import Foundation
import GatewaySupport
import SyncModel
import TestSupport
import Testing
import Tokens

@testable import CommandSupport
@testable import Sluice

/// Checks of docker/ and its systemd unit that need neither Docker nor systemd as process 1.
@Suite struct ContainerTests {
    private static let files = [
        "docker/Dockerfile", "docker/compose.yml", "docker/systemd/sluice.service", "docker/nginx/nginx.conf",
        "docker/caddy/Caddyfile", "docker/prometheus/alerts.yml", "docs/runbook.md", "docs/configuration.md",
        "docs/first-tenant.md", "docs/operations.md",
    ]

    @Test(arguments: files) func `every variable in the deployment files is a setting`(file: String) throws {
        let known = Set(Setting.knownNames.map(Setting.variable(for:)))
        let text = try Repository.text(file)
        for variable in text.matches(of: #/SLUICE_[A-Z_]+/#).map({ String($0.0) }) {
            #expect(known.contains(variable), "\(variable)")
        }
    }

    @Test func `the proxies accept bodies as large as the gateway does`() throws {
        let bytes = try #require(Setting.maxBodyBytes.fallback)
        #expect(try Repository.text("docker/nginx/nginx.conf").contains("client_max_body_size    \(bytes);"))
        #expect(try Repository.text("docker/caddy/Caddyfile").contains("max_size \(bytes)\n"))
        #expect(try Repository.text("docker/compose.yml").contains(#"SLUICE_MAX_BODY_BYTES: "\#(bytes)""#))
    }

    /// The compose file refers only to existing files and publishes no internal port.
    @Test func `the compose file is complete`() async throws {
        let python = Repository.path(".build-python/bin/python")
        guard FileManager.default.isExecutableFile(atPath: python) else {
            throw Program.Failure("no \(python); run scripts/bootstrap --tests")
        }
        let program = try Program(
            shell: "'\(python)' '\(Repository.path("Tests/Deployment/compose.py"))' "
                + "'\(Repository.path("docker"))'"
        )
        #expect(try await program.end() == 0)
        #expect(program.output + program.complaint == "")
    }

    /// `docker/prepare` creates the files that compose mounts, once, in a form that a gateway and nginx can read.
    @Test(.enabled(if: TestServer.program("openssl") != nil, "openssl is not installed"))
    func `docker/prepare creates usable secrets once`() async throws {
        let folder = try TemporaryFolder()
        let command = "'\(Repository.path("docker/prepare"))' --directory '\(folder.path)/secrets' --host sync.example"
        let first = try Program(shell: command)
        #expect(try await first.end() == 0, "\(first.complaint)")
        let compose = try Repository.text("docker/compose.yml")
        let names = Set(compose.matches(of: #/file: \.\/secrets\/(\w+)/#).map { String($0.1) })
        let made = try FileManager.default.contentsOfDirectory(atPath: folder.path + "/secrets")
        #expect(names == Set(made) && !names.isEmpty)
        func content(_ name: String) throws -> String {
            try String(contentsOfFile: "\(folder.path)/secrets/\(name)", encoding: .utf8)
        }
        let before = try names.sorted().map(content)
        let second = try Program(shell: command)
        #expect(try await second.end() == 0)
        #expect(second.output == "")
        #expect(try names.sorted().map(content) == before)
        let environment = [
            "SLUICE_DATABASE_URL_FILE": "\(folder.path)/secrets/database_url",
            "SLUICE_JWT_SECRET_FILE": "\(folder.path)/secrets/jwt_secret",
            "SLUICE_OPERATOR_TOKEN_FILE": "\(folder.path)/secrets/operator_token",
        ]
        let settings = try Settings.load(configFile: nil, environment: environment)
        #expect(settings.warnings == [])
        // the owner migrates; gateways use a role that owns nothing
        for (url, user, secret) in [
            (settings.databaseURL, "gateway", "gateway_password"),
            (try content("owner_url"), "sluice", "postgres_password"),
        ] {
            let password = try content(secret).trimmingCharacters(in: .newlines)
            #expect(url == "postgresql://\(user):\(password)@postgres:5432/sluice")
        }
        let show = try Program(
            shell: "openssl x509 -noout -ext subjectAltName -in '\(folder.path)/secrets/tls_certificate'"
        )
        #expect(try await show.end() == 0)
        #expect(show.output.contains("DNS:sync.example"))
    }

    /// The files' instructions for an identity provider instead of a secret result in a working configuration. An empty
    /// variable overrides the variable with the file, and the placeholder credential is not used as a secret.
    @Test func `an identity provider can replace the secret`() throws {
        let recipe = [
            "SLUICE_JWT_SECRET_FILE=", "SLUICE_JWT_JWKS_URL=https://id.example/.well-known/jwks.json",
            "SLUICE_JWT_ISSUER=https://id.example", "SLUICE_JWT_AUDIENCE=sluice",
        ]
        for file in ["docker/systemd/sluice.service", "docker/compose.yml"] {
            let text = try Repository.text(file)
            for line in recipe { #expect(text.contains("#   \(line)\n"), "\(file) \(line)") }
        }
        let pairs = recipe.map {
            $0.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        }
        let environment = Dictionary(uniqueKeysWithValues: pairs.map { ($0[0], $0[1]) })
        let issuers = try Settings.load(configFile: nil, environment: environment).tokenConfiguration().issuers
        #expect(issuers.map(\.audience) == ["sluice"] && issuers.map(\.secret) == [nil])

        let unit = try Repository.text("docker/systemd/sluice.service")
        #expect(unit.contains("\nEnvironmentFile=-/etc/sluice/environment\n"))
        #expect(unit.contains("\nBindReadOnlyPaths=-/etc/sluice/keys:/run/sluice-keys\n"))
        let none = try #require(unit.firstMatch(of: #/\nSetCredential=jwt_secret:(\w+)\n/#).map { String($0.1) })
        #expect(!Setting.jwtSecret.form.accepts(none))
        let compose = try Repository.text("docker/compose.yml")
        for variable in [
            Setting.jwtJWKSURL, .jwtKeysFile, .jwtIssuersFile, .jwtIssuer, .jwtAudience, .jwtExclusiveKeys,
        ] {
            let name = variable.variable
            #expect(compose.contains("    \(name): ${\(name)-}\n"), "\(name)")
        }
        #expect(compose.contains("SLUICE_JWT_SECRET_FILE: ${SLUICE_JWT_SECRET_FILE-/run/secrets/jwt_secret}\n"))
        #expect(compose.contains(#"volumes: ["./keys:/etc/sluice/keys:ro"]"#))
    }

    // MARK: - systemd

    private static let systemd = TestServer.program("systemd-analyze")

    @Test(.enabled(if: systemd != nil, "systemd-analyze is not installed"))
    func `the systemd unit is valid and sandboxed`() async throws {
        let folder = try TemporaryFolder()
        // the check requires the program to exist
        let unit = try Repository.text("docker/systemd/sluice.service")
            .replacing(all: ["/usr/local/bin/sluice": Program.path])
        try unit.write(toFile: "\(folder.path)/sluice.service", atomically: false, encoding: .utf8)
        let verify = try Program(shell: "systemd-analyze verify '\(folder.path)/sluice.service'")
        let status = try await verify.end()
        #expect(status == 0, "\(verify.complaint)")
        #expect(!verify.complaint.contains("sluice.service"), "\(verify.complaint)")
        let security = try Program(
            shell: "systemd-analyze security --offline=true --threshold=15 '\(folder.path)/sluice.service'"
        )
        #expect(try await security.end() == 0, "\(security.output)")
    }

    @Test func `the unit's time-outs cover a start and a shutdown`() throws {
        let unit = try Repository.text("docker/systemd/sluice.service")
        #expect(unit.contains("TimeoutStopSec=20s"))
        // ten minutes for each migration that waits for locks, without a limit on their number
        #expect(unit.contains("\nTimeoutStartSec=infinity\n"))
        #expect(try Repository.text("docker/compose.yml").contains("stop_grace_period: 20s"))
        // a file limit below the need of the settings would reject connections
        let files = FileLimit.reserve + (Int(Setting.maxConnections.fallback ?? "") ?? 0)
        #expect(unit.firstMatch(of: #/LimitNOFILE=(\d+)/#).flatMap { Int($0.1) } ?? 0 >= 2 * files)
    }
}
