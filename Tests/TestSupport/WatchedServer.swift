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
            // another program may have taken the port since
        } while try await !server.isReady() && attempts < 3
        return server
    }

    private init(_ port: Int?, _ prepare: (String, Int) throws -> [String]) throws {
        directory = try TestFolder.make("sluice-test")
        self.port = try port ?? Self.freePort()
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
            if Self.accepts(port) { return true }
            if FileManager.default.fileExists(atPath: "\(directory)/ended") { break }
            try await Task.sleep(for: .milliseconds(20))
        }
        let log = (try? String(contentsOfFile: "\(directory)/log", encoding: .utf8)) ?? ""
        if log.contains("in use") { return false }
        throw TestCluster.Failure(description: "a server does not start: \(log)")
    }

    private static func address(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        return address
    }

    private static func accepts(_ port: Int) -> Bool {
        withSocket { socket in
            withAddress(address(port)) { connect(socket, $0, $1) } == 0
        }
    }

    /// A port that was free a moment ago.
    static func freePort() throws -> Int {
        let port = withSocket { socket -> Int in
            guard withAddress(address(0), { bind(socket, $0, $1) }) == 0 else { return 0 }
            var bound = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let result = withUnsafeMutablePointer(to: &bound) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) }
            }
            return result == 0 ? Int(in_port_t(bigEndian: bound.sin_port)) : 0
        }
        guard port > 0 else { throw TestCluster.Failure(description: "no free port") }
        return port
    }

    private static func withSocket<Result>(_ body: (Int32) -> Result) -> Result {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { _ = close(socket) }
        return body(socket)
    }

    private static func withAddress(
        _ address: sockaddr_in,
        _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
