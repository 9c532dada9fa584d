import Foundation
import Logging
import TestSupport

@testable import Telemetry

/// The lines that log handlers write while `write` runs.
func captured(_ write: (LineWriter) -> Void) throws -> [String] {
    let file = try UnnamedFile()
    write(LineWriter(fileDescriptor: file.descriptor))
    return file.lines
}

extension UnnamedFile {
    /// The complete lines that were written.
    var lines: [String] {
        text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
    }
}

extension PrometheusRegistry {
    /// The scrape's sample lines of the metrics that begin with `prefix`.
    func samples(_ prefix: String) -> [String] {
        renderText().split(separator: "\n").map(String.init).filter { $0.hasPrefix(prefix) }
    }
}
