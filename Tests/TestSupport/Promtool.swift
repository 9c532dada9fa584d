import Foundation

/// Prometheus's own checker of scrapes.
package enum Promtool {
    /// Its path; nil if it is not installed (scripts/bootstrap --tests).
    package static let path = ["/usr/bin/promtool", "/usr/local/bin/promtool"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    /// Its remarks on a page of metrics; empty if the page is valid.
    ///
    /// It uses files: a pipe's end that another child inherits stays open, and reading one blocks a thread that the
    /// child's end may need.
    package static func remarks(on page: [UInt8]) async throws -> String {
        guard let path else { throw TestCluster.Failure(description: "promtool is not installed") }
        let folder = FileManager.default.temporaryDirectory.appending(path: "promtool-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (input, output) = (folder.appending(path: "input"), folder.appending(path: "output"))
        try Data(page).write(to: input)
        let script = #"exec "$1" check metrics <"$2" >"$3" 2>&1"#
        do {
            try await ChildProcess.run(["/bin/sh", "-c", script, "sh", path, input.path, output.path])
        } catch {
            return "\(error)\n" + String(decoding: try Data(contentsOf: output), as: UTF8.self)
        }
        return String(decoding: try Data(contentsOf: output), as: UTF8.self)
    }
}
