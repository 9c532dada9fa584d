import Foundation

/// A program of `Tests/OpenAPI`, and its interpreter in the environment that `scripts/bootstrap --tests` creates.
package enum PythonProgram {
    /// The interpreter and the program's file.
    package static func command(_ name: String) throws -> [String] {
        [try WatchedServer.python(), "\(folder)/\(name)"]
    }

    /// The same for a program of another folder of `Tests`.
    package static func command(_ name: String, in other: String) throws -> [String] {
        [try WatchedServer.python(), "\(folder)/../\(other)/\(name)"]
    }

    /// The folder of the programs.
    package static var folder: String {
        URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../OpenAPI").standardized.path
    }
}
