import Foundation
import GatewaySupport
import Glibc
import JSONText
import SyncModel
import Synchronization
import TestSupport

/// A headless browser, controlled by the DevTools protocol over two pipes. It ends with the last reference.
final class Chromium: Sendable {
    /// The state of the protocol: bytes of an incomplete message, answers by id, and events.
    private struct Talk {
        var lastID = 0
        var session: String?
        var unread: [UInt8] = []
        var answers: [Int: JSONValue] = [:]
        var events: [JSONValue] = []
    }

    private let program: Program
    private let folder: URL
    /// Named pipes. This process has both ends open, so that neither opening nor writing waits for the browser.
    private let (input, output): (Int32, Int32)
    private let talk = Mutex(Talk())

    /// Starts a browser with an empty page.
    init() async throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "chromium-\(UUID().lowercased)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let names = ["in", "out"].map { [folder] in folder.appending(path: $0).path }
        for name in names where mkfifo(name, 0o600) != 0 { throw Program.Failure("no pipe \(name)") }
        (input, output) = (open(names[0], O_RDWR | O_CLOEXEC), open(names[1], O_RDWR | O_NONBLOCK | O_CLOEXEC))
        program = try Program(
            shell: """
                exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \\
                    --disable-background-networking --disable-component-update --hide-scrollbars \\
                    --force-color-profile=srgb --remote-debugging-pipe --user-data-dir="$FOLDER/profile" \\
                    about:blank 3<"$FOLDER/in" 4>"$FOLDER/out"
                """,
            environment: ["FOLDER": folder.path]
        )
        let targets = try await call("Target.getTargets")["targetInfos"]?.elements.map(Array.init) ?? []
        guard let page = targets.first(where: { $0["type"]?.string == "page" })?["targetId"]?.string else {
            throw Program.Failure("the browser has no page")
        }
        let session = try await call("Target.attachToTarget", #"{"targetId":"\#(page)","flatten":true}"#)["sessionId"]
        talk.withLock { $0.session = session?.string }
        for domain in ["Page", "Runtime", "Log", "Network"] { _ = try await call("\(domain).enable") }
    }

    deinit {
        program.send(SIGKILL)
        close(input)
        close(output)
        try? FileManager.default.removeItem(at: folder)
    }

    /// Calls a method of the protocol and returns the result.
    ///
    /// - Parameter parameters: the parameters as JSON text.
    @discardableResult
    func call(_ method: String, _ parameters: String = "{}") async throws -> JSONValue {
        let (id, session) = talk.withLock { talk in
            talk.lastID += 1
            return (talk.lastID, talk.session)
        }
        let place = session.map { #","sessionId":"\#($0)""# } ?? ""
        try write(#"{"id":\#(id),"method":"\#(method)","params":\#(parameters)\#(place)}"#)
        try await waitUntil("the browser answers \(method)") {
            try read()
            guard program.status == nil else { throw Program.Failure("the browser ended: \(program.complaint)") }
            return talk.withLock { $0.answers[id] != nil }
        }
        guard let answer = talk.withLock({ $0.answers.removeValue(forKey: id) }), let result = answer["result"] else {
            throw Program.Failure("\(method) was refused")
        }
        return result
    }

    /// The events of a method that the page has sent since the last call.
    func events(of method: String) throws -> [JSONValue] {
        try read()
        return talk.withLock { talk in
            defer { talk.events.removeAll { $0["method"]?.string == method } }
            return talk.events.filter { $0["method"]?.string == method }.compactMap { $0["params"] }
        }
    }

    private func write(_ message: String) throws {
        var rest = Array(message.utf8) + [0]
        while !rest.isEmpty {
            let count = Glibc.write(input, rest, rest.count)
            guard count > 0 else { throw Program.Failure("the browser does not listen") }
            rest.removeFirst(count)
        }
    }

    /// Reads the browser's available messages, each of which ends with a zero byte.
    private func read() throws {
        try talk.withLock { talk in
            var buffer = [UInt8](repeating: 0, count: 1 << 16)
            while true {
                let count = Glibc.read(output, &buffer, buffer.count)
                guard count > 0 else { break }
                talk.unread += buffer[..<count]
            }
            while let end = talk.unread.firstIndex(of: 0) {
                let limits = JSONLimits(maximumBytes: 64 << 20)
                let message = try JSONTree(parsing: Array(talk.unread[..<end]), limits: limits).root
                talk.unread.removeSubrange(...end)
                if let id = message["id"]?.int64 {
                    talk.answers[Int(id)] = message
                } else {
                    talk.events.append(message)
                }
            }
        }
    }
}
