import Foundation
import Logging
import Synchronization

@testable import Telemetry

/// The lines that a log handler wrote to a pipe.
func captured(_ write: (LineWriter) -> Void) throws -> [String] {
    let pipe = Pipe()
    write(LineWriter(fileDescriptor: pipe.fileHandleForWriting.fileDescriptor))
    try pipe.fileHandleForWriting.close()
    let text = String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
    return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
}

extension PrometheusRegistry {
    /// The scrape's sample lines of the metrics that begin with `prefix`.
    func samples(_ prefix: String) -> [String] {
        renderText().split(separator: "\n").map(String.init).filter { $0.hasPrefix(prefix) }
    }
}
