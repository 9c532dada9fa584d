import Foundation
import GatewaySupport

/// Files of this repository.
enum Repository {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..").standardized

    static func path(_ path: String) -> String { root.appending(path: path).path }

    static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }
}

/// A folder that is deleted with its last reference.
final class TemporaryFolder: Sendable {
    let path = "/tmp/sluice-folder-\(UInt64.random(in: 0...(.max)))"

    init() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }
}

extension String {
    /// Replaces texts, each of which must be present.
    func replacing(all words: [String: String]) throws -> String {
        var text = self
        for (word, other) in words {
            guard text.contains(word) else { throw Program.Failure("'\(word)' is missing") }
            text = text.replacingOccurrences(of: word, with: other)
        }
        return text
    }
}
