import Foundation

/// A program of `Tests/OpenAPI`, and the interpreter that runs it: of the environment that `scripts/bootstrap --tests`
/// makes.
package enum PythonProgram {
    /// The interpreter and the program's file.
    package static func command(_ name: String) throws -> [String] {
        [try WatchedServer.python(), "\(folder)/\(name)"]
    }

    /// Where the programs lie.
    package static var folder: String {
        URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../OpenAPI").standardized.path
    }
}
