import Foundation
import Glibc

/// Any server program on a port of 127.0.0.1, with a directory of its own. It ends, and the directory goes, with the last
/// reference or with this process, however that ends.
package final class TestServer: Sendable {
    private let server: WatchedServer

    /// Where its files are.
    package var directory: String { server.directory }
    /// Where it listens.
    package var port: Int { server.port }
    /// What it has said.
    package var log: String { (try? String(contentsOfFile: "\(directory)/log", encoding: .utf8)) ?? "" }

    private init(_ server: WatchedServer) {
        self.server = server
    }

    /// Starts a server and waits until it takes connections.
    ///
    /// - Parameter prepare: writes what the server needs into the directory; answers the command.
    package static func start(
        _ prepare: (_ directory: String, _ port: Int) throws -> [String]
    ) async throws -> TestServer {
        TestServer(try await WatchedServer.start(prepare))
    }

    /// Ends it; connections break.
    package func end() async throws { try await server.end() }

    /// What stands before a command that must not run as root; the directory is handed over. Nothing for who is not root.
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

    /// A program of the system's; nil where it is not installed (scripts/bootstrap --tests).
    package static func program(_ name: String) -> String? {
        ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"].map { "\($0)/\(name)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }
}
