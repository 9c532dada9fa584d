import Foundation
import Glibc

/// Any server program on a port of 127.0.0.1, with a separate directory. It stops, and the directory is removed, with
/// the last reference or with this process, for any reason.
package final class TestServer: Sendable {
    private let server: WatchedServer

    /// The directory of its files.
    package var directory: String { server.directory }
    /// The port on which it listens.
    package var port: Int { server.port }
    /// Its output.
    package var log: String { (try? String(contentsOfFile: "\(directory)/log", encoding: .utf8)) ?? "" }

    private init(_ server: WatchedServer) {
        self.server = server
    }

    /// Starts a server and waits until it accepts connections.
    ///
    /// - Parameter prepare: writes the server's files into the directory; returns the command.
    package static func start(
        _ prepare: (_ directory: String, _ port: Int) throws -> [String]
    ) async throws -> TestServer {
        TestServer(try await WatchedServer.start(prepare))
    }

    /// Stops it; connections break.
    package func end() async throws { try await server.end() }

    /// The prefix for a command that must not run as root; the directory is given to another user. Empty if this
    /// process is not root.
    package static func withoutRights(_ directory: String) throws -> [String] {
        guard geteuid() == 0, let entry = getpwnam("nobody") else { return [] }
        let (uid, gid) = (entry.pointee.pw_uid, entry.pointee.pw_gid)
        for file in [""] + (try FileManager.default.contentsOfDirectory(atPath: directory)) {
            guard chown("\(directory)/\(file)", uid, gid) == 0 else {
                throw TestCluster.Failure(description: "\(directory)/\(file) can't be given to nobody")
            }
        }
        return ["setpriv", "--reuid=\(uid)", "--regid=\(gid)", "--clear-groups"]
    }

    /// A program of the system; nil if it is not installed (scripts/bootstrap --tests).
    package static func program(_ name: String) -> String? {
        ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"].map { "\($0)/\(name)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}
