import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import Postgres
import SyncModel
import TestSupport
import Testing

/// `sluice token explain`
@Suite(.timeLimit(.minutes(10))) struct ExplainTokenTests {
    private static let issuer = "https://id.example/"

    /// A database with two organizations, one of them with an external id, and settings with a key.
    private struct Place {
        let database: TestDatabase
        let key = IdentityKey("north-1")
        let folder = NSTemporaryDirectory() + "explain-\(UUID().uuidString)"
        let organization = UUID()
        let closed = UUID()
        var settings: [String: String]

        init() async throws {
            database = try await LiveGateway.migratedDatabase()
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try IdentityKey.jwks(key).write(toFile: folder + "/keys.json", atomically: true, encoding: .utf8)
            settings = [
                "SLUICE_DATABASE_URL": database.uri, "SLUICE_JWT_KEYS_FILE": folder + "/keys.json",
                "SLUICE_JWT_ISSUER": ExplainTokenTests.issuer, "SLUICE_JWT_AUDIENCE": "sync",
            ]
            let connection = try await database.connect()
            defer { connection.close() }
            for (id, provisioning) in [(organization, "on_first_push"), (closed, "explicit")] {
                try await connection.execute(
                    script: """
                        INSERT INTO organizations (id, name, status, settings, created_at, updated_at)
                        VALUES ('\(id)', 'Fjord', 'active', '{"provisioning":"\(provisioning)"}', now(), now());
                        INSERT INTO external_ids (organization_id, issuer, external_id, created_at)
                        VALUES ('\(id)', '\(ExplainTokenTests.issuer)', 'name-of-\(provisioning)', now())
                        """
                )
            }
        }

        /// A token with payload members as JSON text, in addition to `iss`, `aud` and `exp`.
        func token(_ members: String, expiresIn seconds: Int64 = 600) throws -> String {
            let expires = Int64(Date().timeIntervalSince1970) + seconds
            return try key.token(
                claims: #"{"iss":"\#(ExplainTokenTests.issuer)","aud":["sync","x"],"exp":\#(expires),\#(members)}"#
            )
        }

        func explain(
            _ token: String,
            _ options: [String] = [],
            _ change: (inout [String: String]) -> Void = { _ in }
        ) async throws -> Program.Result {
            var settings = settings
            change(&settings)
            return try await Program.run(["token", "explain", token] + options, environment: settings)
        }

        func rows() async throws -> [String: Int] { try await database.mentions(of: organization.lowercased) }
    }

    private static func lines(_ result: Program.Result) -> [String] {
        result.output.split(separator: "\n").map(String.init)
    }

    @Test func `resolves a valid token to its user without creating rows`() async throws {
        let place = try await Place()
        let before = try await place.rows()
        let token = try place.token(#""sub":"auth0|ada","org":"name-of-on_first_push","email":"ada@secret.example""#)
        let result = try await place.explain(token)
        #expect(result.status == 0, "\(result.output)\(result.complaint)")
        let lines = Self.lines(result)
        #expect(lines.map { String($0.prefix(8)).trimmingCharacters(in: .whitespaces) }.allSatisfy { $0 == "ok" })
        #expect(
            lines.map { $0.dropFirst(9).prefix { $0 != ":" } }
                == ["token", "issuer", "key", "claims", "organization", "user", "verdict"]
        )
        #expect(lines[0].hasSuffix("ES256, key north-1") && lines[1].hasSuffix(Self.issuer))
        #expect(lines[2].contains("north-1, ES256, configured"))
        #expect(lines[4].contains("\(place.organization.lowercased), Fjord"))
        #expect(lines[5].contains("subject auth0|ada is new"))
        #expect(!result.output.contains("secret.example"))
        let parts = token.split(separator: ".")
        #expect(!result.output.contains(parts[1]) && !result.output.contains(parts[2]))
        #expect(try await place.rows() == before)
        // from standard input, as copied from a request
        var settings = place.settings
        settings["TOKEN"] = token
        let piped = try Program(
            shell: "printf 'Authorization: Bearer %s\\n' \"$TOKEN\" | '\(Program.path)' token explain - --json",
            environment: settings
        )
        #expect(try await piped.end() == 0, "\(piped.output)\(piped.complaint)")
        let json = try JSONTree(parsing: Array(piped.output.utf8)).root
        #expect(json["ok"]?.bool == true)
        #expect(json["checks"]?.elements.map { Array($0).count } == lines.count)
    }

    @Test func `names a known user and explains why an unknown user is rejected`() async throws {
        let place = try await Place()
        let id = UUID()
        let known = try await place.explain(place.token(#""sub":\#(id.quoted),"org":\#(place.organization.quoted)"#))
        #expect(known.status == 0 && known.output.contains("a UUID is user \(id.lowercased)"), "\(known)")
        let stranger = try place.token(#""sub":"eve","org":"name-of-explicit""#)
        let refused = try await place.explain(stranger)
        #expect(refused.status == 1, "\(refused)")
        #expect(refused.output.contains("failed   user: subject eve: The user of this token is not registered"))
        #expect(
            refused.output.contains(
                "sluice users add SUBJECT --organization \(place.closed.lowercased) --issuer \(Self.issuer)"
            )
        )
        let added = try await Program.run(
            ["users", "add", "eve", "--organization", place.closed.lowercased],
            environment: place.settings
        )
        #expect(added.status == 0, "\(added)")
        let served = try await place.explain(stranger)
        #expect(served.status == 0, "\(served)")
        #expect(served.output.contains("subject eve is user " + added.output.trimmingCharacters(in: .newlines)))
    }

    @Test func `names the error together with the setting that fixes it`() async throws {
        let place = try await Place()
        let good = #""sub":"ada","org":"name-of-on_first_push""#
        let token = try place.token(good)
        let parts = token.split(separator: ".").map(String.init)
        let foreign = try String(#require(place.token(good + #","x":1"#).split(separator: ".").last))
        let strange = IdentityKey("south-1")
        let expires = Int64(Date().timeIntervalSince1970) + 600
        func other(_ claims: String) throws -> String {
            try place.key.token(claims: #"{"exp":\#(expires),\#(claims)}"#)
        }
        let cases: [(String, String, String)] = [
            ("x", "token", "three base64url parts"),
            (String(repeating: "x", count: 9_000), "token", "longer than 8192 bytes"),
            (
                parts[0] + "." + parts[1] + "." + foreign, "key",
                "the signature does not match key north-1"
            ),
            (
                try strange.token(claims: #"{"iss":"\#(Self.issuer)","exp":\#(expires)}"#), "key",
                "no key south-1; the available keys are north-1"
            ),
            (
                IdentityKey.token(secret: Array("secret".utf8), organization: UUID(), user: UUID(), expires: expires),
                "key", "SLUICE_JWT_SECRET"
            ),
            (try place.token(good, expiresIn: -60), "claims", "expired: exp is"),
            (try place.token(good + #","nbf":\#(expires)"#), "claims", "SLUICE_JWT_LEEWAY_SECONDS"),
            (
                try other(#""iss":"https://id.example","aud":"sync""#), "issuer",
                "iss is https://id.example; the settings have https://id.example/"
            ),
            (try other(#""aud":"sync""#), "issuer", "Configure the issuer to add it"),
            (
                try place.key.token(
                    claims: #"{"iss":"\#(Self.issuer)","exp":\#(expires)}"#,
                    header: #"{"alg":"RS512"}"#
                ),
                "key", "Configure the issuer to sign with RS256, ES256 or EdDSA"
            ),
            (try other(#""iss":"\#(Self.issuer)","aud":"other""#), "audience", "Set SLUICE_JWT_AUDIENCE"),
            (try other(#""iss":"\#(Self.issuer)","client_id":"sync""#), "audience", "Set SLUICE_JWT_AUDIENCE_CLAIM"),
            (try place.token(#""org":"name-of-on_first_push""#), "user", "Set SLUICE_JWT_USER_CLAIM"),
            (
                try place.token(#""sub":"ada","org_id":"org_1""#), "organization",
                "If it is org_id, set SLUICE_JWT_ORGANIZATION_CLAIM to org_id"
            ),
            (try place.token(#""sub":"ada","o":{"id":"org_1"}"#), "organization", "If it is $.o.id, set"),
            (
                try place.token(#""sub":"ada","organization":{"acme":{}}"#), "organization",
                "set SLUICE_JWT_ORGANIZATION_KEYS to organization"
            ),
            (
                try place.token(#""sub":"ada","org":"nobody""#), "organization",
                "sluice organizations external-ids add UUID NAME --issuer \(Self.issuer)"
            ),
            (try place.token(#""sub":"ada","org":\#(UUID().quoted)"#), "organization", "sluice organizations create"),
        ]
        for (token, subject, words) in cases {
            let result = try await place.explain(token)
            #expect(result.status == 1, "\(words): \(result)")
            #expect(result.output.contains("failed   \(subject): "), "\(words): \(result.output)")
            #expect(result.output.lowercased().contains(words.lowercased()), "\(words): \(result.output)")
            #expect(result.output.contains("failed   verdict: "), "\(result.output)")
            #expect(token.count < 20 || !result.output.contains(token.suffix(20)), "\(result.output)")
        }
    }

    @Test func `covers several issuers, several organizations and unsuitable claims`() async throws {
        let place = try await Place()
        let issuers = """
            {"issuers": [
              {"issuer": "https://acme.okta.com/oauth2/default", "keys_file": "keys.json", "audience": "sync",
               "organizations": ["\(UUID().lowercased)"], "organization_keys": "groups"},
              {"issuer": "\(Self.issuer)", "keys_file": "keys.json", "audience": "sync", "organization_keys": "groups",
               "organizations": "any"}]}
            """
        try issuers.write(toFile: place.folder + "/issuers.json", atomically: true, encoding: .utf8)
        let several: (inout [String: String]) -> Void = { settings in
            for name in ["KEYS_FILE", "ISSUER", "AUDIENCE"] { settings["SLUICE_JWT_\(name)"] = nil }
            settings["SLUICE_JWT_ISSUERS_FILE"] = place.folder + "/issuers.json"
        }
        let token = try place.token(#""sub":"ada","groups":["name-of-on_first_push","else"]"#)
        let unchosen = try await place.explain(token, [], several)
        #expect(unchosen.status == 1 && unchosen.output.contains("Choose one with --organization"), "\(unchosen)")
        let chosen = try await place.explain(token, ["--organization", "name-of-on_first_push"], several)
        #expect(chosen.status == 0 && chosen.output.contains("one of 2"), "\(chosen)")
        #expect(!chosen.output.contains("warning"), "\(chosen)")
        let expires = Int64(Date().timeIntervalSince1970) + 600
        let okta = try place.key.token(
            claims:
                #"{"iss":"https://acme.okta.com/oauth2/default","aud":"sync","sub":"ada@acme.example","exp":\#(expires),"#
                + #""groups":["name-of-on_first_push"]}"#
        )
        let bound = try await place.explain(okta, [], several)
        #expect(bound.status == 1 && bound.output.contains("only issue tokens for its `organizations`"), "\(bound)")
        #expect(bound.output.contains("warning  user claim of https://acme.okta.com/oauth2/default: Okta's `sub`"))
        #expect(bound.output.contains("Set its `user_claim` in SLUICE_JWT_ISSUERS_FILE to uid"), "\(bound)")
        var settings = place.settings
        several(&settings)
        let examined = try await Program.run(["doctor"], environment: settings)
        #expect(examined.output.contains("warning  user claim of https://acme.okta.com/oauth2/default"), "\(examined)")
        #expect(examined.output.contains("warning  issuers that share organizations"), "\(examined)")
    }

    @Test func `no part of a token reaches a terminal unescaped`() async throws {
        let place = try await Place()
        let name = #"\u001b[31m\u202efoo\u2028\u0085"#
        for members in [
            #""sub":"ada","org":"a\u200bb""#, #""sub":"ada","\#(name)":1"#,
            #""sub":"\u202eada","org":"name-of-on_first_push""#,
        ] {
            let result = try await place.explain(place.token(members))
            let isPlain = result.output.unicodeScalars.allSatisfy { scalar in
                scalar == "\n" || ![.control, .format, .lineSeparator].contains(scalar.properties.generalCategory)
            }
            #expect(isPlain && result.output.contains("\\u{"), "\(result.output)")
        }
    }

    @Test func `suggests the right remedy for each kind of issuer`() async throws {
        let place = try await Place()
        let strict: (inout [String: String]) -> Void = { settings in
            settings["SLUICE_JWT_USER_IDS"] = "uuid"
            settings["SLUICE_JWT_ORGANIZATION_IDS"] = "uuid"
        }
        let organization = #""org":\#(place.organization.quoted)"#
        let closed = #""org":\#(place.closed.quoted)"#
        let (user, made) = (UUID(), UUID.version8())
        let connection = try await place.database.connect()
        defer { connection.close() }
        try await connection.execute(
            script: """
                INSERT INTO user_subjects (organization_id, issuer, subject, user_id, created_at)
                VALUES ('\(place.organization)', 'https://other.example', 'x', '\(made)', now());
                INSERT INTO organizations (id, name, status, settings, created_at, updated_at)
                VALUES ('\(user)', 'S', 'suspended', '{}', now(), now())
                """
        )
        let cases: [(String, [String], String, (inout [String: String]) -> Void)] = [
            (#""sub":"ada",\#(organization)"#, [], "Set SLUICE_JWT_USER_IDS to either", strict),
            (#""sub":\#(user.quoted),"org":"acme""#, [], "set SLUICE_JWT_ORGANIZATION_IDS to either", strict),
            (organization, [], "→ Set SLUICE_JWT_USER_CLAIM to the claim that identifies the user.\n", strict),
            (
                #""sub":\#(user.quoted),\#(closed)"#, [],
                "PUT /admin/organizations/\(place.closed.lowercased)/users/\(user.lowercased)", { _ in }
            ),
            (#""sub":\#(made.quoted),\#(organization)"#, [], "it is not accepted in a token", { _ in }),
            (#""sub":"ada",\#(organization)"#, ["--organization", user.uuidString], "or be omitted", { _ in }),
            (
                #""sub":"ada","org":"name-of-explicit""#, ["--organization", "x"], "one that the token contains",
                { _ in }
            ),
            (#""sub":"ada","org":\#(user.quoted)"#, [], "sluice organizations activate \(user.lowercased)", { _ in }),
        ]
        for (members, options, words, change) in cases {
            let result = try await place.explain(place.token(members), options, change)
            #expect(result.status == 1 && result.output.contains(words), "\(words): \(result)")
        }
        try await connection.execute(
            script: """
                INSERT INTO user_erasures (organization_id, user_hash, started_at, state, finished_at)
                VALUES ('\(place.organization)',
                    sha256(uuid_send('\(place.organization)') || uuid_send('\(user)')), now(), 'done', now())
                """
        )
        let erased = try await place.explain(place.token(#""sub":\#(user.quoted),\#(organization)"#))
        #expect(erased.status == 1 && erased.output.contains("another account of the provider"), "\(erased)")
        // an issuer with only a secret
        let secret = "a secret of the tests, at least 32 bytes long"
        let signed = IdentityKey.token(
            secret: Array("another secret, at least 32 bytes long as well".utf8),
            organization: UUID(),
            user: UUID(),
            expires: Int64(Date().timeIntervalSince1970) + 600
        )
        let own: (inout [String: String]) -> Void = { settings in
            settings["SLUICE_JWT_KEYS_FILE"] = nil
            settings["SLUICE_JWT_SECRET"] = secret
        }
        let wrong = try await place.explain(signed, [], own)
        #expect(wrong.output.contains("Check that SLUICE_JWT_SECRET is the signing secret."), "\(wrong)")
        let published = try await place.explain(place.token(#""sub":"ada""#), [], own)
        #expect(
            published.output.contains("ES256 requires a public key of its kind: check SLUICE_JWT_JWKS_URL"),
            "\(published)"
        )
    }

    private enum Keys: CaseIterable { case secret, file, published, publishedAndSecret }

    /// In an earlier version, a gateway with a key set answered an HS256 token with "no key -; the keys have no ids".
    @Test(arguments: Keys.allCases)
    private func `explains by a token's algorithm why no configured key can verify it`(_ keys: Keys) async throws {
        let place = try await Place()
        let expires = Int64(Date().timeIntervalSince1970) + 600
        let provider = try await KeyProvider(.document(IdentityKey.jwks(place.key)))
        let hasSecret = keys == .secret || keys == .publishedAndSecret
        let isPublished = keys == .published || keys == .publishedAndSecret
        for algorithm in ["HS256", "RS256", "ES256", "EdDSA", "HS512", "none"] {
            for keyID in ["", #","kid":"other-1""#] {
                let token = try place.key.token(
                    claims: #"{"iss":"\#(Self.issuer)","aud":"sync","exp":\#(expires)}"#,
                    header: #"{"alg":"\#(algorithm)"\#(keyID)}"#
                )
                let result = try await place.explain(token) { settings in
                    if keys != .file { settings["SLUICE_JWT_KEYS_FILE"] = nil }
                    if hasSecret { settings["SLUICE_JWT_SECRET"] = "a secret of the tests, at least 32 bytes long" }
                    if isPublished { settings["SLUICE_JWT_JWKS_URL"] = provider.url }
                }
                let comment: Comment = "\(algorithm) \(keyID): \(result)"
                switch algorithm {
                case "HS256" where !hasSecret: #expect(result.output.contains("set SLUICE_JWT_SECRET"), comment)
                case "RS256" where !isPublished, "EdDSA" where !isPublished, "ES256" where keys == .secret:
                    let advice = "\(algorithm) requires a public key of its kind: check SLUICE_JWT_JWKS_URL"
                    #expect(result.output.contains(advice), comment)
                case "HS512", "none":
                    #expect(result.output.contains("the algorithm \(algorithm) is not supported"), comment)
                default: break
                }
                #expect(!result.output.contains("no key -"), comment)
                #expect(result.status == 1, comment)
            }
        }
    }

    /// The token was copied with line ends, without quotes, without the command, or in the position of another
    /// argument.
    @Test func `a token in a wrong position is never shown`() async throws {
        let place = try await Place()
        let token = try place.token(#""sub":"ada","org":"name-of-on_first_push""#)
        let parts = token.split(separator: ".").map(String.init)
        let tail = String(token.suffix(8))
        for arguments in [
            ["explain", parts[0], parts[1]], ["explain", token, tail], ["explain", "Authorization:", "Bearer", token],
            [token], [parts[0] + "."], ["explain", "-" + tail], ["explain", "-" + token], ["explain", "--" + parts[2]],
            ["explain", token, "--json=" + tail], ["explain", token, "--organisation", tail],
            ["--organization", token, "--user", UUID().uuidString], ["--ttl", tail],
        ] {
            let result = try await Program.run(["token"] + arguments, environment: place.settings)
            let said = result.output + result.complaint
            // letters after a hyphen may request help by chance
            #expect(result.status == 64 || said.hasPrefix("OVERVIEW"), "\(arguments): \(said)")
            for piece in [token, tail] + parts { #expect(!said.contains(piece), "\(arguments): \(said)") }
            // a part of a token that begins with a hyphen may be rejected by the command above
            let usages = ["usage: sluice token", "usage: sluice <subcommand>"]
            #expect(usages.contains { said.lowercased().contains($0) }, "\(arguments): \(said)")
        }
        let elsewhere = try await Program.run(["users", "list", "--organization", token], environment: place.settings)
        #expect(elsewhere.status == 64 && !elsewhere.complaint.contains(parts[2]), "\(elsewhere)")
        // a text that is not a token is shown
        let typo = try await Program.run(["users", "list", "--organization", "acme"], environment: place.settings)
        #expect(typo.complaint.contains("acme"), "\(typo)")
    }

    @Test func `reports a missing database or missing settings`() async throws {
        let place = try await Place()
        let token = try place.token(#""sub":"ada","org":"name-of-on_first_push""#)
        let away = try await place.explain(token) {
            $0["SLUICE_DATABASE_URL"] = "postgresql://x:hushhush@/x?host=/nowhere"
        }
        #expect(away.status == 69 && away.output.contains("failed   database: "), "\(away)")
        #expect(away.output.contains("the signature is valid") && !away.output.contains("hushhush"), "\(away)")
        let unset = try await Program.run(["token", "explain", token])
        #expect(unset.status == 78, "\(unset)")
        let gone = try await place.explain(token) { settings in
            settings["SLUICE_JWT_KEYS_FILE"] = nil
            settings["SLUICE_JWT_JWKS_URL"] = "http://127.0.0.1:1/keys.json"
        }
        #expect(
            gone.status == 1
                && gone.output.contains("failed   key: the keys of http://127.0.0.1:1/keys.json cannot be fetched"),
            "\(gone)"
        )
        #expect(gone.output.contains("Check SLUICE_JWT_JWKS_URL"), "\(gone)")
    }
}
