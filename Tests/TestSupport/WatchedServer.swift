import Foundation
import Glibc

/// A server on a port of 127.0.0.1 with a separate directory. It stops, and the directory is removed, with the last
/// reference or with this process, for any reason.
final class WatchedServer: Sendable {
    let directory: String
    let port: Int
    private let watchdog: ChildProcess

    /// Starts a server and waits until it accepts connections.
    ///
    /// - Parameters:
    ///   - port: the port on which it listens; nil for a free port.
    ///   - prepare: writes the server's files into the directory; returns the command.
    static func start(
        port: Int? = nil,
        _ prepare: (_ directory: String, _ port: Int) throws -> [String]
    ) async throws -> WatchedServer {
        var server: WatchedServer
        var attempts = 0
        repeat {
            attempts += 1
            server = try WatchedServer(port, prepare)
            // a program outside the tests may have taken the port since
        } while try await !server.isReady() && attempts < 3
        return server
    }

    private init(_ port: Int?, _ prepare: (String, Int) throws -> [String]) throws {
        directory = try TestFolder.make("sluice-test")
        self.port = try port ?? LoopbackPort.reserve()
        let command = try prepare(directory, self.port)
        watchdog = try ChildProcess(["/bin/sh", "-c", Self.script, "watchdog", directory] + command)
    }

    /// Stops the server and removes its directory.
    func end() async throws {
        watchdog.closePipe()
        try await watchdog.waitForEnd()
    }

    /// The Python of the environment that `scripts/bootstrap --tests` creates.
    static func python() throws -> String {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized.path
        let python = "\(root)/.build-python/bin/python"
        guard FileManager.default.isExecutableFile(atPath: python) else {
            throw TestCluster.Failure(description: "no \(python); run scripts/bootstrap --tests")
        }
        return python
    }

    /// Runs the server. The end of this process closes the script's input; then the script kills the server.
    private static let script = """
        directory=$1; shift
        exec 2>/dev/null
        trap '' INT TERM HUP PIPE
        run() {
            (trap - INT TERM HUP PIPE; exec "$@" </dev/null >"$directory/log" 2>&1) &
            echo $! >"$directory/pid"
            wait $!
            touch "$directory/ended"
        }
        run "$@" &
        while read -r line; do :; done
        until [ -e "$directory/ended" ]; do kill -9 "$(cat "$directory/pid")"; sleep 0.05; done
        until rm -rf "$directory"; do sleep 0.1; done
        """

    private func isReady() async throws -> Bool {
        let deadline = ContinuousClock.now + Waiting.limit
        while ContinuousClock.now < deadline {
            if LoopbackPort.accepts(port) { return true }
            if FileManager.default.fileExists(atPath: "\(directory)/ended") { break }
            try await Task.sleep(for: .milliseconds(20))
        }
        let log = (try? String(contentsOfFile: "\(directory)/log", encoding: .utf8)) ?? ""
        if log.contains("in use") { return false }
        throw TestCluster.Failure(description: "a server does not start: \(log)")
    }
}
