import Foundation
import GatewaySupport
import Glibc
import TestSupport
import Testing

/// Runs the commands that the documentation gives to operators. `DevTests` runs those of the README and the tutorial.
@Suite(.timeLimit(.minutes(10))) struct DocumentedCommandsTests {
    /// A shell in a private folder, with `sluice` in its path, a database, and the prerequisites of the documentation.
    private struct Place {
        let folder: String
        let database: TestDatabase
        let ports: (Int, Int)

        init(_ database: TestDatabase) throws {
            self.database = database
            folder = NSTemporaryDirectory() + "documented-\(UUID().uuidString)"
            ports = try (LoopbackPort.reserve(), LoopbackPort.reserve())
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try "a secret that only the tests know, of decent length"
                .write(toFile: "\(folder)/jwt", atomically: true, encoding: .utf8)
        }

        /// Runs a script and returns its output.
        func run(_ script: String, _ environment: [String: String] = [:]) async throws -> String {
            var settings = [
                "SLUICE_DATABASE_URL": database.uri, "OWNER_URL": database.uri,
                "SLUICE_JWT_SECRET_FILE": "\(folder)/jwt",
                "SLUICE_PUBLIC_ADDRESS": "127.0.0.1:\(ports.0)", "SLUICE_OPERATIONS_ADDRESS": "127.0.0.1:\(ports.1)",
                "SLUICE_STATEMENT_SECONDS": "20",
                "PATH": URL(filePath: Program.path).deletingLastPathComponent().path + ":"
                    + (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"),
            ]
            settings.merge(environment) { $1 }
            let shell = try Program(
                shell: "exec bash <<'END OF IT'\nset -e -o pipefail; cd '\(folder)'\n\(script)\nEND OF IT",
                environment: settings
            )
            #expect(try await shell.end() == 0, "\(script)\n\(shell.output)\(shell.complaint)")
            return shell.output
        }

        func end() async throws {
            try FileManager.default.removeItem(atPath: folder)
            try await database.close()
        }
    }

    /// The shell commands of a page, one text for each block.
    private static func commands(in page: String) throws -> [String] {
        try Repository.text(page).components(separatedBy: "```sh\n").dropFirst()
            .compactMap { $0.components(separatedBy: "```").first }
    }

    /// Runs the page's blocks in order. The test replaces the server's address, ports, programs that run until Ctrl-C,
    /// and the names of the role and the database, which other tests use as well.
    @Test(.onOneServer("has findings of one server")) func `the first tenant's page works as written`() async throws {
        let place = try await Place(TestDatabase.make())
        let blocks = try Self.commands(in: "docs/first-tenant.md")
        try #require(blocks.count == 8)
        let name = "tenant_\(UInt32.random(in: 0...(.max)))"
        let server = try #require(URLComponents(string: place.database.uri))
        let options = Dictionary((server.queryItems ?? []).map { ($0.name, $0.value ?? "") }) { first, _ in first }
        let socket = "host=\(options["host"] ?? "")&port=\(options["port"] ?? "")"
        let replacements: [(String, String)] = [
            ("--pwprompt sluice", name), ("--owner sluice", "--owner \(name)"),
            ("template0 sluice", "template0 \(name)"),
            ("postgresql://sluice:PASSWORD@localhost/sluice", "'postgresql:///\(name)?\(socket)&user=\(name)'"),
            ("127.0.0.1:8081", "127.0.0.1:\(place.ports.1)"), ("127.0.0.1:8080", "127.0.0.1:\(place.ports.0)"),
            ("curl -sS", "curl -sS --fail-with-body -w '\\n'"),
        ]
        let page = blocks.map { block -> String in
            var lines: [String] = []
            for line in block.components(separatedBy: "\n") {
                if line.hasPrefix("sluice doctor") {
                    // the tests' server has no fsync, which is its only problem
                    lines.append("sluice doctor > examined || grep ^failed examined")
                } else if line.hasPrefix("sluice serve") {
                    lines.append("sluice serve > log & trap 'kill %1; wait' EXIT")
                    lines.append("until sluice healthcheck --ready; do sleep 0.1; done")
                } else {
                    lines.append(line)
                }
            }
            var text = lines.joined(separator: "\n")
            for (old, new) in replacements { text = text.replacingOccurrences(of: old, with: new) }
            return text
        }
        #expect(page[2].contains("trap"))
        // no server publishes the key set, so only `sluice doctor` checks the page's block on the identity provider
        let output = try await place.run(
            """
            export PATH="$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH"
            unset SLUICE_DATABASE_URL SLUICE_JWT_SECRET_FILE
            \(page[0])
            \(page[1])
            \(page[2])
            \(page[3])
            (\(page[4])
            sluice doctor || echo "doctor: $?")
            \(page[5])
            \(page[6])
            \(page[7])
            stat -c '%a %n' jwt-secret operator-token
            """,
            ["PGHOST": options["host"] ?? "", "PGPORT": options["port"] ?? "", "PGUSER": options["user"] ?? ""]
        )
        let failed = output.split(separator: "\n").filter { $0.hasPrefix("failed") }
        #expect(failed.first?.contains("fsync") == true, "\(output)")
        #expect(output.contains(#""name":"Acme Ltd""#))
        #expect(output.contains(#""conflict_resolution":"manual""#) && output.contains(#""entity_types":"registered""#))
        #expect(output.contains(#""id_space":"mapped""#) && output.contains(#""visibility":"organization""#))
        #expect(output.contains("doctor: 1") && output.contains("id.example"))
        #expect(output.contains(#""held_by":null"#), "the backlog of a user: \(output)")
        #expect(output.hasSuffix("600 jwt-secret\n600 operator-token\n"))
        _ = try await place.run(
            """
            export PATH="$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH"
            dropdb --force \(name); dropuser \(name)
            """,
            ["PGHOST": options["host"] ?? "", "PGPORT": options["port"] ?? "", "PGUSER": options["user"] ?? ""]
        )
        try await place.end()
    }

    @Test func `the operations page's commands create roles and restore a backup`() async throws {
        let place = try await Place(LiveGateway.migratedDatabase())
        let blocks = try Self.commands(in: "docs/operations.md")
        let roles = try #require(blocks.first { $0.contains("--roles") })
        let backup = try #require(blocks.first { $0.contains("pg_restore") })
        let suffix = "_\(UInt32.random(in: 0...(.max)))"
        let (gateway, analyst) = ("t_gateway\(suffix)", "acme_analyst\(suffix)")
        let own = roles.replacing("CREATE ROLE gateway", with: "CREATE ROLE \(gateway)")
            .replacing("TO gateway\"", with: "TO \(gateway)\"").replacing("acme_analyst", with: analyst)
            .replacing("psql -c", with: "psql -q -d \"$OWNER_URL\" -c")
            .replacing("0192f0c1-2345-7abc-8def-0123456789ab", with: "$ORGANIZATION")
        let made = try await place.run(
            """
            sluice organizations create Acme > made
            export ORGANIZATION=$(grep -oE '[0-9a-f-]{36}' made)
            \(own)
            sluice organizations readers list $ORGANIZATION
            """
        )
        #expect(made.contains(analyst))

        let empty = try await TestDatabase.make()
        // uses PostgreSQL's newest programs, as the server does, not the programs that PATH finds first
        let restored = try await place.run(
            """
            export PATH="$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH"
            \(backup.replacing("# to restore:", with: "OWNER_URL=$EMPTY_URL\nexport SLUICE_DATABASE_URL=$EMPTY_URL\n# to restore:"))
            sluice organizations list
            """,
            ["EMPTY_URL": empty.uri]
        )
        #expect(restored.contains("Acme"))
        try await empty.close()
        _ = try await place.run(
            """
            psql -q -d "$OWNER_URL" -c "DROP OWNED BY \(gateway), \(analyst)" -c "DROP ROLE \(gateway), \(analyst)"
            """
        )
        try await place.end()
    }

    @Test func `the page's commands import and export entities`() async throws {
        let place = try await Place(LiveGateway.migratedDatabase())
        let files = try #require(try Self.commands(in: "docs/ingest.md").first { $0.contains("sluice import") })
        let output = try await place.run(
            """
            sluice organizations create Acme > made
            export ORGANIZATION=$(grep -oE '[0-9a-f-]{36}' made)
            echo '{"entity_type": "contact", "id": 4711, "document": {"name": "Kari"}, "version": 7}' > contacts.ndjson
            \(files)
            wc -l < everything.ndjson
            """
        )
        #expect(output.hasPrefix("1 valid") && output.contains("1 applied") && output.hasSuffix("1\n"), "\(output)")
        try await place.end()
    }
}
