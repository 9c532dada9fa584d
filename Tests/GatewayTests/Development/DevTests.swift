import Foundation
import GatewaySupport
import Glibc
import JSONText
import OperatorsFeature
import SyncModel
import TestSupport
import Testing

/// `sluice dev`: a new user's first five minutes.
@Suite(.serialized, .timeLimit(.minutes(10))) struct DevTests {
    @Test func `the commands on the screen work and the next start keeps the data`() async throws {
        let place = try DevelopmentPlace()
        let first = try await place.start()
        #expect(first.screen.contains("Sluice \(try await Self.version) is running"))
        #expect(first.screen.contains("http://127.0.0.1:"))
        try await waitUntil("it is ready", every: .milliseconds(20)) {
            try await GatewayProcess.get(first.operations + "/readyz", token: "").status == 200
        }

        // as printed, the token is a shell variable, and the push and the pull are commands
        let push = try await first.paste("/v1/mutations")
        #expect(push.results.map { $0["status"]?.string } == ["succeeded", "succeeded", "succeeded"])
        #expect(push.results.map { $0["replayed"]?.bool } == [false, false, false])
        let ids = push.results.compactMap { $0["server_id"]?.uuid }
        #expect(Set(ids).count == 3)
        for result in push.results { #expect(result["server_id"]?.uuid != result["local_id"]?.uuid) }
        let again = try await first.paste("/v1/mutations")
        #expect(again.results.map { $0["replayed"]?.bool } == [true, true, true])
        #expect(again.results.compactMap { $0["server_id"]?.uuid } == ids)
        let changes = try await first.paste("/v1/changes").changes
        #expect(changes.compactMap { $0["id"]?.uuid } == ids)
        #expect(changes.dropFirst().first?["document"]?["contact_id"]?.uuid == ids.first)
        #expect(changes.last?["document"]?["activity_id"]?.uuid == ids.dropFirst().first)
        #expect(changes.last?["document"]?["amount"]?.text == "249.90")

        #expect(try await first.end(with: SIGINT) == 0)
        #expect(place.postgresProcesses == [])
        #expect(first.screen.contains("ending PostgreSQL"))

        let second = try await place.start()
        #expect(!second.screen.contains("creating a database cluster"))
        let later = try await second.paste("/v1/mutations")
        #expect(later.results.map { $0["replayed"]?.bool } == [true, true, true])
        #expect(later.results.compactMap { $0["server_id"]?.uuid } == ids)
        // the earlier token is still valid
        #expect(try await first.pull(from: second.address).status == 200)
        #expect(try await second.end(with: SIGTERM) == 0)
        #expect(place.postgresProcesses == [])
        place.remove()
    }

    /// Runs the commands of the README and then those of the tutorial, which continues from there.
    @Test func `the commands of the README and the tutorial work`() async throws {
        let place = try DevelopmentPlace()
        let run = try await place.start()
        let shown = Self.commands(in: try Repository.text("README.md"), under: "A push, from curl to result")
        try #require(shown.count == 2)
        // the console's first steps show the same push
        let card = try Repository.text("Sources/CConsole/assets/steps.js")
        for line in shown[0].split(separator: "\n").dropFirst(2) {
            #expect(card.contains(String(line.hasSuffix("'") ? line.dropLast() : line)), "\(line)")
        }
        for isReplayed in [false, true] {
            let push = try await run.paste(command: shown[0])
            #expect(push.results.map { $0["status"]?.string } == ["succeeded"])
            #expect(push.results.map { $0["replayed"]?.bool } == [isReplayed])
            #expect(push.json?["accepted_sequence"]?.text == "1")
        }
        #expect(try await run.paste(command: shown[1]).changes.map { $0["entity_type"]?.string } == ["contact"])

        let tutorial = try Repository.text("docs/tutorial.md")
        let relations = Self.commands(in: tutorial, under: "A push with relations")
        try #require(relations.count == 2)
        // the README's command has pushed the contact
        for isRepeated in [false, true] {
            let push = try await run.paste(command: relations[0])
            #expect(push.results.map { $0["status"]?.string } == Self.allSucceeded)
            #expect(push.results.map { $0["replayed"]?.bool } == [true, isRepeated, isRepeated])
            #expect(push.json?["accepted_sequence"]?.text == "3")
        }
        let changes = try await run.paste(command: relations[1]).changes
        #expect(changes.map { $0["entity_type"]?.string } == ["contact", "activity", "expense"])
        #expect(changes.last?["document"]?["amount"]?.text == "249.90")

        let commands = Self.commands(in: tutorial, under: "A worker's loop")
        #expect(commands.count == 6)
        // A person is slower than the start of the stream and the outcome of a push. Events report a mutation's current
        // state, not its earlier ones.
        func waiting(for output: String, _ command: String) -> String {
            "until grep -q '\(output)' events.txt; do sleep 0.1; done\n" + command
        }
        var steps = commands
        steps[1] = waiting(for: "id: ", steps[1])
        steps[3] = waiting(for: #""sequence_number":4,"status":"conflict""#, steps[3])
        steps[5] = waiting(for: #""sequence_number":4,"status":"succeeded""#, steps[5])
        let script = steps.joined().replacing("http://127.0.0.1:8080", with: run.address)
        let shell = try Program(
            shell: """
                exec bash <<'END OF THE LOOP'
                set -e -o pipefail; cd '\(place.path)'; TOKEN='\(run.token)'
                mkdir tmp; export TMPDIR="$PWD/tmp"
                \(script)
                [ "$PWD" = '\(place.path)' ]
                ls -A | sed 's/^/left: /'; ls -A tmp | sed 's/^/left in tmp: /'
                END OF THE LOOP
                """
        )
        #expect(try await shell.end() == 0, "\(shell.complaint)")
        let printed = shell.output.split(separator: "\n")
        #expect(
            printed.prefix(4).map { $0.prefix(30) } == [
                #""status":"conflict""#, #""held_by":{"reason":"conflict""#, #""status":"succeeded""#,
                #""phone": "+47 22 22 22 22""#,
            ]
        )
        #expect(
            printed.filter { $0.hasPrefix("left") } == ["left: .sluice", "left: tmp"],
            "the tutorial leaves no file"
        )
        let statuses = printed.dropFirst(4).compactMap { $0.firstMatch(of: /"status":"([a-z]+)"/)?.output.1 }
        #expect(statuses.first == "succeeded" && statuses.contains("conflict") && statuses.last == "succeeded")
        #expect(try await run.end(with: SIGINT) == 0)
        place.remove()
    }

    @Test func `a killed run leaves nothing behind that prevents the next start`() async throws {
        let place = try DevelopmentPlace()
        let first = try await place.start()
        let ids = try await first.paste("/v1/mutations").results.map { $0["server_id"]?.string }
        #expect(try await first.end(with: SIGKILL) == -SIGKILL)
        // this starts immediately, while the watchdog may still be stopping the server
        let second = try await place.start()
        let again = try await second.paste("/v1/mutations")
        #expect(again.results.map { $0["replayed"]?.bool } == [true, true, true])
        #expect(again.results.map { $0["server_id"]?.string } == ids)

        // all processes are killed at once, as in a power failure; the server's pid file remains, and its number may
        // belong to another process
        let victims = place.postgresProcesses
        #expect(!victims.isEmpty)
        second.program.send(SIGKILL)
        for victim in victims { kill(victim, SIGKILL) }
        _ = try await second.program.end()
        try await place.everythingHasEnded()
        let file = try #require(place.postmasterFile)
        var lines = try String(contentsOfFile: file, encoding: .utf8).components(separatedBy: "\n")
        lines[0] = "\(getpid())"
        try lines.joined(separator: "\n").write(toFile: file, atomically: false, encoding: .utf8)
        let third = try await place.start()
        #expect(try await third.paste("/v1/mutations").results.map { $0["server_id"]?.string } == ids)
        #expect(kill(getpid(), 0) == 0, "the process that reused the number is not killed")
        #expect(try await third.end(with: SIGINT) == 0)
        #expect(place.postgresProcesses == [])
        place.remove()
    }

    /// Without the watchdog, the server of the previous run is an orphan that keeps running.
    @Test func `the next start stops an orphaned server`() async throws {
        let place = try DevelopmentPlace()
        let first = try await place.start()
        _ = try await first.paste("/v1/mutations")
        for watchdog in place.watchdogs { kill(watchdog, SIGKILL) }
        first.program.send(SIGKILL)
        _ = try await first.program.end()
        let orphans = place.postgresProcesses
        #expect(!orphans.isEmpty)
        let second = try await place.start()
        #expect(Set(place.postgresProcesses).isDisjoint(with: orphans))
        #expect(try await second.paste("/v1/mutations").results.map { $0["replayed"]?.bool } == [true, true, true])
        #expect(try await second.end(with: SIGINT) == 0)
        #expect(place.postgresProcesses == [])
        place.remove()
    }

    @Test func `a second Ctrl-C ends gateway and server immediately`() async throws {
        let place = try DevelopmentPlace()
        let run = try await place.start()
        // a request whose rest never arrives
        let phone = try RawConnection(port: run.port)
        await phone.send(
            "POST /v1/mutations HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(run.token)\r\n"
                + "Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"
        )
        #expect(try await phone.reply().status == 100)
        run.program.send(SIGINT)
        try await waitUntil("no connection is accepted") { !LoopbackPort.accepts(run.port) }
        #expect(run.program.status == nil, "the gateway waits for the request in progress")
        run.program.send(SIGINT)
        #expect(try await run.program.end() == 130)
        try await place.everythingHasEnded()
        place.remove()
    }

    @Test func `sluice dev ends with the reason if its server ends`() async throws {
        let place = try DevelopmentPlace()
        let run = try await place.start()
        let main = try #require(place.mainProcess)
        kill(main, SIGKILL)
        #expect(try await run.program.end() == 1)
        #expect((run.screen + run.program.complaint).contains("PostgreSQL server has ended"), "\(run.screen)")
        place.remove()
    }

    @Test func `rejects a second run in the same folder and ports in use`() async throws {
        let place = try DevelopmentPlace()
        let first = try await place.start()
        let second = try place.program()
        #expect(try await second.end() == 1)
        #expect(second.complaint.hasPrefix("sluice: Another sluice dev runs in "), "\(second.complaint)")
        let third = try Program(["dev", "--port", "\(first.port)"], directory: place.path)
        #expect(try await third.end() == 1)
        #expect(third.complaint.contains("--port") && third.complaint.contains("make run PORT=9080"))
        let owner = "another sluice dev (process \(first.program.pid), in \(place.path)/.sluice)"
        #expect(third.complaint.contains("\(owner) listens at 127.0.0.1:\(first.port)"), "\(third.complaint)")
        #expect(try await first.paste("/v1/changes").changes.isEmpty, "the first run is not disturbed")
        #expect(try await first.end(with: SIGINT) == 0)
        place.remove()
    }

    @Test func `secret files are readable only by their owner`() async throws {
        let place = try DevelopmentPlace()
        let run = try await place.start()
        for name in ["jwt-secret", "operator-token"] {
            let file = "\(place.path)/.sluice/\(name)"
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            #expect((attributes[.posixPermissions] as? Int).map { $0 & 0o077 } == 0)
            let secret = try String(contentsOfFile: file, encoding: .utf8).trimmingCharacters(in: .newlines)
            #expect(secret.count == 64)
            // the console's token is printed for pasting
            #expect(run.screen.contains(secret) == (name == "operator-token"))
            if name == "operator-token" {
                let me = try await GatewayProcess.get(run.operations + "/admin/me", token: secret)
                #expect(me.json?["scope"]?.string == "admin")
                #expect(run.screen.contains("Console     \(run.operations)/console  sign in with \(secret)\n"))
            }
        }
        #expect(try String(contentsOfFile: "\(place.path)/.sluice/.gitignore", encoding: .utf8) == "*\n")
        #expect(try await run.organizations(place) == ["Demo"])
        #expect(try await run.end(with: SIGINT) == 0)
        place.remove()
    }

    @Test func `a demo upstream receives requests of a separate organization`() async throws {
        let place = try DevelopmentPlace()
        let first = try await place.start(["--demo-upstream"])
        let screen = try await first.screen(with: "/contacts'\n")
        let upstream = try #require(DevelopmentRun.word(after: "A small REST API: ", in: screen)).dropLast()
        #expect(upstream.hasPrefix("http://127.0.0.1:"))
        let token = try #require(DevelopmentRun.word(after: "export UPSTREAM_TOKEN='", in: screen)).dropLast()
        #expect(try await first.organizations(place) == ["Demo", "Demo upstream"])
        let path = "/admin/organizations/019bb000-de40-7000-8000-000000000001/upstream"
        let settings = try await first.operate(path, place)
        #expect(settings.json?["base_url"]?.string == String(upstream))
        let changes = try await GatewayProcess.get(first.address + "/v1/changes", token: String(token))
        #expect(changes.status == 200 && changes.changes.isEmpty)
        // one user has a failed mutation from the start
        let mutations = "/admin/organizations/019bb000-de40-7000-8000-000000000001/mutations"
        try await waitUntil("a failure and a conflict") {
            let stuck = try await first.operate(mutations, place).mutations.compactMap { $0["status"]?.string }
            return stuck.filter { $0 != "succeeded" }.sorted() == ["blocked", "conflict", "failed"]
                || stuck.filter { $0 != "succeeded" }.sorted() == ["conflict", "failed", "pending"]
        }
        // the colleague's edit belongs to the user who owns the expense
        let output = try await first.screen(with: "notified the gateway of expense 1, version 2")
        // the event is parked until the replay that created the expense is committed; the conflict shows that the event
        // was applied
        let results = ["applied", "parked"].filter {
            output.contains("notified the gateway of expense 1, version 2 → \($0)\n")
        }
        #expect(results.count == 1, "\(output)")
        #expect(!output.contains("refused"), "\(output)")
        // the built-in demo is unchanged
        #expect(try await first.paste("/v1/mutations").results.map { $0["status"]?.string } == Self.allSucceeded)

        let made = try await GatewayProcess.post(upstream + "/contacts", token: "", body: #"{"name":"Kari"}"#)
        #expect(made.status == 201)
        #expect(made.text == #"{"id":1,"name":"Kari"}"#)
        _ = try await first.screen(with: #"upstream: POST /contacts → 201 (id 1)  {"name":"Kari"}"#)
        #expect(try await first.end(with: SIGINT) == 0)

        let second = try await place.start()
        #expect(
            try await second.organizations(place) == ["Demo"],
            "the organization is deleted with the demo API's entities"
        )
        #expect(!second.screen.contains("UPSTREAM_TOKEN"))
        #expect(try await second.end(with: SIGINT) == 0)
        place.remove()
    }

    /// Runs the tutorial's commands: a phone receives the API's event within a second.
    @Test func `an edit in a colleague's browser arrives on the phone`() async throws {
        let place = try DevelopmentPlace()
        let run = try await place.start(["--demo-upstream"])
        let screen = try await run.screen(with: "/contacts'\n")
        let export = try #require(screen.components(separatedBy: "\n").first { $0.hasPrefix("export UPSTREAM_TOKEN=") })
        let replay = try #require(
            screen.components(separatedBy: "\n\n").first { $0.hasPrefix("curl ") && $0.contains("UPSTREAM_TOKEN") }
        )
        let push = try await run.paste(command: export + "\n" + replay)
        #expect(push.statuses == Self.allSucceeded, "\(push.text)")
        let shown = Self.commands(in: try Repository.text("docs/tutorial.md"), under: "A colleague's edit")
        #expect(shown.count == 1)
        let page = try await run.paste(command: export + "\n" + #require(shown.first))
        #expect(page.changes.count == 1, "\(page.text)")
        #expect(page.changes.first?["version"]?.int64 == 3)
        let document = page.changes.first?["document"]
        #expect(document?["city"]?.string == "Bergen" && document?["phone"]?.string == "+47 22 11 11 11")
        // the event is parked, and soon applied, if the gateway has not yet recognized the echo of the replay
        let output = try await run.screen(with: "upstream: notified the gateway of contact 1, version 3 → ")
        #expect(["applied", "parked"].contains { output.contains("contact 1, version 3 → \($0)\n") }, "\(output)")
        #expect(try await run.end(with: SIGINT) == 0)
        place.remove()
    }

    private static let allSucceeded: [String?] = ["succeeded", "succeeded", "succeeded"]

    /// The shell commands of a page, one text for each block; of one section, if it is named.
    private static func commands(in page: String, under heading: String? = nil) -> [String] {
        var text = page
        if let heading {
            text = page.components(separatedBy: "\n## ").first { $0.hasPrefix(heading + "\n") } ?? ""
        }
        return text.components(separatedBy: "```sh\n").dropFirst()
            .compactMap { $0.components(separatedBy: "```").first }
    }

    private static var version: String {
        get async throws { try await Program.run(["--version"]).output.components(separatedBy: " ")[0] }
    }
}

extension DevelopmentRun {
    /// The operations listener's response to the operator.
    fileprivate func operate(_ path: String, _ place: DevelopmentPlace) async throws -> Reply {
        let token = try String(contentsOfFile: "\(place.path)/.sluice/operator-token", encoding: .utf8)
        return try await GatewayProcess.get(operations + path, token: token.trimmingCharacters(in: .newlines))
    }

    /// The organizations' names.
    fileprivate func organizations(_ place: DevelopmentPlace) async throws -> [String?]? {
        try await operate("/admin/organizations", place).json?["organizations"]?.elements?.map { $0["name"]?.string }
    }

    /// The screen's content, once it contains a text.
    fileprivate func screen(with text: String) async throws -> String {
        try await waitUntil("'\(text)' on the screen: \(screen)", every: .milliseconds(10)) { screen.contains(text) }
        return screen
    }
}
