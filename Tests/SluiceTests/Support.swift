import Foundation

@testable import CommandSupport

/// Settings from an environment, and from a file if its text is given.
func load(_ environment: [String: String], file text: String? = nil) throws -> Settings {
    guard let text else { return try Settings.load(configFile: nil, environment: environment) }
    let file = try TextFile(text)
    return try Settings.load(configFile: file.path, environment: environment)
}

/// The problems of the settings, with `FILE` for the path of the file; empty without problems.
func problems(_ environment: [String: String], file text: String? = nil) throws -> [String] {
    let file = try text.map(TextFile.init)
    do throws(ConfigurationError) {
        _ = try Settings.load(configFile: file?.path, environment: environment)
        return []
    } catch {
        return error.problems.map { $0.replacingOccurrences(of: file?.path ?? "FILE", with: "FILE") }
    }
}

/// A file with a text, deleted with this object.
final class TextFile {
    let path = "/tmp/sluice-settings-\(UInt64.random(in: 0...(.max)))"

    convenience init(_ text: String) throws {
        try self.init(bytes: Array(text.utf8))
    }

    init(bytes: [UInt8]) throws {
        try Data(bytes).write(to: URL(filePath: path))
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }
}
