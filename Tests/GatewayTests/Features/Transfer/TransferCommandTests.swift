import Foundation
import GatewaySupport
import Glibc
import JSONText
import Postgres
import SyncModel
import TestSupport
import Testing

/// `sluice import` and `sluice export`, as an operator runs them.
@Suite(.timeLimit(.minutes(10))) struct TransferCommandTests {
    /// A folder, a database with two organizations, and the programs' environment.
    private struct Place {
        let folder: String
        let database: TestDatabase
        let north = UUID()
        let south = UUID()
        var environment: [String: String]

        init() async throws {
            database = try await LiveGateway.migratedDatabase()
            folder = NSTemporaryDirectory() + "transfer-\(UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            environment = ["SLUICE_DATABASE_URL": database.uri, "SLUICE_STATEMENT_SECONDS": "20"]
            for id in [north, south] {
                let made = try await Program.run(
                    ["organizations", "create", id.uuidString, "--id", id.uuidString],
                    environment: environment
                )
                try #require(made.status == 0, "\(made.complaint)")
            }
        }

        func write(_ name: String, _ text: String) throws -> String {
            try text.write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
            return "\(folder)/\(name)"
        }

        func text(_ name: String) throws -> String { try String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8) }

        func run(_ command: String, of organization: UUID, _ arguments: String...) async throws -> Program.Result {
            try await Program.run(
                [command, "--organization", organization.uuidString] + arguments,
                environment: environment
            )
        }

        func number(_ sql: String) async throws -> Int64 {
            let connection = try await database.connect()
            defer { connection.close() }
            return try await connection.run(Query(Statement("", sql))).read(0, 0, as: Int64.self)
        }

        func end() async throws {
            try FileManager.default.removeItem(atPath: folder)
            try await database.close()
        }
    }

    private static func lines(_ count: Int) -> String {
        (0..<count).map { #"{"entity_type":"task","id":\#($0),"document":{"title":"number \#($0)","n":\#($0).50}}"# }
            .joined(separator: "\n") + "\n"
    }

    @Test func `an export can be imported into another organization`() async throws {
        let place = try await Place()
        let file = try place.write("in.ndjson", Self.lines(3_000))
        let first = try await place.run("import", of: place.north, "--rate", "100000", file)
        #expect(first.status == 0, "\(first.complaint)")
        #expect(first.output.hasPrefix("3000 applied, 0 stale, 0 duplicates, 0 rejected; 3000 lines"))
        let exported = try await place.run("export", of: place.north, "\(place.folder)/out.ndjson")
        #expect(exported.status == 0 && exported.output.hasPrefix("3000 entities, in "), "\(exported.complaint)")
        let again = try await place.run("export", of: place.north, "\(place.folder)/out.ndjson")
        #expect(again.status == 1 && again.complaint.contains("--resume") && again.output.isEmpty)
        #expect(try place.text("out.ndjson").contains(#""n":7.50}"#))

        let second = try await place.run("import", of: place.south, "--json", "\(place.folder)/out.ndjson")
        let reported = try JSONTree(parsing: Array(second.output.utf8)).root
        #expect(second.status == 0 && reported["applied"]?.int64 == 3_000 && second.complaint.isEmpty)
        // if the export is on standard output, the summary is written to standard error
        let out = try await place.run("export", of: place.south, "--type", "task")
        #expect(out.output.split(separator: "\n").count == 3_000 && out.complaint.contains("3000 entities"))
        #expect(try await place.run("export", of: place.south, "--type", "note").output == "")
        try await place.end()
    }

    @Test func `a killed import resumes without gaps or duplicates`() async throws {
        let place = try await Place()
        let count: Int64 = 6_000
        let file = try place.write("in.ndjson", Self.lines(Int(count)))
        let taken = "SELECT count(*) FROM entities"
        for part in [1, 2, 3] {
            let program = try Program(
                ["import", "--organization", place.north.uuidString, "--rate", "20000", file],
                environment: place.environment
            )
            try await waitUntil("a part is imported", every: .milliseconds(2)) {
                try await place.number(taken) >= Int64(part) * 1_000
            }
            program.send(SIGKILL)
            #expect(try await program.end() == -SIGKILL)
        }
        let before = try await place.number(taken)
        #expect(before < count, "the command was killed during the import")
        let last = try await place.run("import", of: place.north, "--rate", "100000", "--json", file)
        let reported = try JSONTree(parsing: Array(last.output.utf8)).root
        #expect(
            last.status == 0 && reported["duplicates"]?.int64 == before && reported["applied"]?.int64 == count - before
        )
        #expect(try await place.number("SELECT count(*) FROM entities WHERE version = 1") == count)
        #expect(try await place.number("SELECT last_position FROM feeds WHERE last_position > 0") == count)
        let again = try await place.run("import", of: place.north, file)
        #expect(again.output.hasPrefix("0 applied, 0 stale, 6000 duplicates"))
        try await place.end()
    }

    @Test func `a killed export resumes after its last complete line`() async throws {
        let place = try await Place()
        let file = try place.write("in.ndjson", Self.lines(2_000))
        #expect(try await place.run("import", of: place.north, "--rate", "100000", file).status == 0)
        let out = "\(place.folder)/out.ndjson"
        let program = try Program(
            ["export", "--organization", place.north.uuidString, "--rate", "1000", out],
            environment: place.environment
        )
        try await waitUntil("some lines are there", every: .milliseconds(2)) {
            (try? place.text("out.ndjson"))?.isEmpty == false
        }
        program.send(SIGSTOP)
        let busy = try await place.run("export", of: place.north, "--resume", out)
        #expect(busy.status == 75 && busy.complaint.contains("another process"))
        program.send(SIGKILL)
        _ = try await program.end()
        // an incomplete line
        let part = try place.text("out.ndjson")
        try (part + #"{"entity_type":"ta"#).write(toFile: out, atomically: false, encoding: .utf8)
        let resumed = try await place.run("export", of: place.north, "--resume", out)
        #expect(resumed.status == 0, "\(resumed.complaint)")
        let whole = try place.text("out.ndjson")
        #expect(whole.hasPrefix(part) && whole.split(separator: "\n").count == 2_000)
        let lines = try whole.split(separator: "\n").map { try JSONTree(parsing: Array($0.utf8)).root }
        let ids = lines.compactMap { $0["id"]?.int64 }
        #expect(Set(ids).count == 2_000)

        let foreign = try await place.run("export", of: place.south, "--resume", out)
        #expect(foreign.status == 1 && foreign.complaint.contains("another organization"))
        #expect(try place.text("out.ndjson") == whole)
        let other = try place.write("other.ndjson", "{\"a\":1}\n")
        let strange = try await place.run("export", of: place.north, "--resume", other)
        #expect(strange.status == 1 && strange.complaint.contains("not a line of an export"))
        // a file that is not an export is left unchanged, even after its last complete line
        for text in ["not json without an end", "{\"a\":1}\n{\"b\":"] {
            let foreign = try place.write("foreign.txt", text)
            #expect(try await place.run("export", of: place.north, "--resume", foreign).status == 1)
            #expect(try place.text("foreign.txt") == text)
        }
        // other users must not be able to read the file, although the shell created it with that permission
        let open = try place.write("open.ndjson", "")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: open)
        #expect(try await place.run("export", of: place.north, "--resume", open).status == 0)
        #expect(try FileManager.default.attributesOfItem(atPath: open)[.posixPermissions] as? Int == 0o600)
        try await place.end()
    }

    @Test func `rejected lines are reported, and the error file contains all of them`() async throws {
        let place = try await Place()
        let bad = (0..<30).map { #"{"entity_type":"task","id":\#($0)}"# }.joined(separator: "\n")
        let file = try place.write("in.ndjson", Self.lines(2) + bad + "\n\u{1b}[2J\n")
        let errors = "\(place.folder)/errors.ndjson"
        let result = try await place.run("import", of: place.north, "--errors", errors, file)
        #expect(result.status == 1 && result.output.hasPrefix("2 applied, 0 stale, 0 duplicates, 31 rejected"))
        #expect(result.complaint.contains("sluice: line 3: /document: document is required"))
        #expect(result.complaint.split(separator: "\n").count == 21 && !result.complaint.contains("\u{1b}"))
        let reported = try place.text("errors.ndjson").split(separator: "\n")
            .map { try JSONTree(parsing: Array($0.utf8)).root }
        #expect(reported.compactMap { $0["line"]?.int64 } == Array(3...33))
        #expect(reported[0].value(at: "/errors/0/pointer")?.string == "/document")
        // the input must not be overwritten
        let input = try place.text("in.ndjson")
        let same = try await place.run("import", of: place.north, "--errors", "\(place.folder)/./in.ndjson", file)
        #expect(same.status == 64 && same.complaint.contains("is the input"))
        #expect(try place.text("in.ndjson") == input)
        let dry = try await place.run("import", of: place.south, "--dry-run", file)
        #expect(dry.status == 1 && dry.output.hasPrefix("2 valid, 31 rejected;"))
        #expect(try await place.number("SELECT count(*) FROM entities WHERE organization_id = '\(place.south)'") == 0)
        try await place.end()
    }

    @Test func `accepts standard input and rejects a compressed file`() async throws {
        let place = try await Place()
        let file = try place.write("in.ndjson", Self.lines(100))
        let shell = try Program(
            shell: "gzip -k '\(file)'; zcat '\(file).gz' | '\(Program.path)' import --organization \(place.north) -",
            environment: place.environment
        )
        #expect(try await shell.end() == 0 && shell.output.hasPrefix("100 applied"), "\(shell.complaint)")
        let packed = try await place.run("import", of: place.north, "\(file).gz")
        #expect(packed.status == 1 && packed.complaint.contains("zcat"))
        try await place.end()
    }

    @Test func `explains impossible imports and exports`() async throws {
        let place = try await Place()
        let file = try place.write("in.ndjson", Self.lines(1))
        let nobody = UUID()
        for command in ["import", "export"] {
            let unknown = try await place.run(command, of: nobody, command == "import" ? file : "\(place.folder)/x")
            #expect(unknown.status == 1 && unknown.complaint.contains("has the id \(nobody.lowercased)"))
        }
        let missing = try await place.run("import", of: place.north, "\(place.folder)/nothing")
        #expect(missing.status == 1 && missing.complaint.contains("No such file"))
        #expect(try await place.run("import", of: place.north, place.folder).complaint.contains("is a directory"))
        _ = try await Program.run(["organizations", "suspend", place.north.uuidString], environment: place.environment)
        let suspended = try await place.run("import", of: place.north, file)
        #expect(suspended.status == 1 && suspended.complaint.contains("suspended"))
        #expect(try await place.run("export", of: place.north).status == 0, "a suspended organization can be exported")
        var away = place.environment
        away["SLUICE_DATABASE_URL"] = "postgresql://somebody@/sluice?host=/nowhere"
        let result = try await Program.run(
            ["import", "--organization", place.north.uuidString, file],
            environment: away
        )
        #expect(result.status == 69)
        try await place.end()
    }

    @Test func `a terminal shows a progress bar, and other outputs get an occasional line`() async throws {
        let place = try await Place()
        let file = try place.write("in.ndjson", Self.lines(4_000))
        let command = "'\(Program.path)' import --organization \(place.north) --rate 4000 '\(file)'"
        let script = try Program(shell: "script -qec \"\(command)\" /dev/null", environment: place.environment)
        #expect(try await script.end() == 0)
        #expect(script.output.contains("\r\u{1b}[K[") && script.output.contains(" lines, "), "\(script.output)")
        #expect(script.output.contains("4000 applied"))
        try await place.end()
    }

    @Test func `imports wake waiting phones, and a sealed database stays sealed`() async throws {
        var place = try await Place()
        let keys = try place.write("master-keys", TestKeys.first)
        place.environment["SLUICE_MASTER_KEY_FILE"] = keys
        let gateway = try await GatewayProcess.start(
            database: place.database.uri,
            settings: ["SLUICE_MASTER_KEY_FILE": keys]
        )
        let worker = try await SingleWorker(gateway, organization: place.north)
        let cursor = try #require(try await worker.get("/v1/changes").json?["next"]?.string)
        async let waiting = worker.get("/v1/changes?since=\(cursor)&wait=60")
        let file = try place.write(
            "in.ndjson",
            #"{"entity_type":"task","id":1,"document":{"title":"s3cr3t from afar"}}"# + "\n"
        )
        let result = try await place.run("import", of: place.north, file)
        #expect(result.status == 0, "\(result.complaint)")
        #expect(try await waiting.text.contains("s3cr3t from afar"))
        let open = "SELECT count(*) FROM entities WHERE document::text LIKE '%s3cr3t%'"
        #expect(try await place.number(open) == 0)
        #expect(try await place.run("export", of: place.north).output.contains("s3cr3t from afar"))
        #expect(try await gateway.terminate() == 0)
        try await place.end()
    }
}
