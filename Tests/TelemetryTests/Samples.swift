import Foundation
import Logging
import Synchronization

@testable import Telemetry

/// The lines that log handlers write while `write` runs.
func captured(_ write: (LineWriter) -> Void) throws -> [String] {
    let file = try LogFile()
    write(LineWriter(fileDescriptor: file.descriptor))
    return try file.lines()
}

/// A file that goes with this object. No pipe: reading one blocks a thread that the writer may need.
final class LogFile {
    let descriptor: Int32

    init() throws {
        var template = Array("/tmp/sluice-tests-XXXXXX".utf8CString)
        descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw POSIXError(.EIO) }
        unlink(template)
    }

    deinit { close(descriptor) }

    func lines() throws -> [String] {
        var bytes = [UInt8](repeating: 0, count: Int(lseek(descriptor, 0, SEEK_END)))
        guard pread(descriptor, &bytes, bytes.count, 0) == bytes.count else { throw POSIXError(.EIO) }
        let text = String(decoding: bytes, as: UTF8.self)
        return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
    }
}

extension PrometheusRegistry {
    /// The scrape's sample lines of the metrics that begin with `prefix`.
    func samples(_ prefix: String) -> [String] {
        renderText().split(separator: "\n").map(String.init).filter { $0.hasPrefix(prefix) }
    }
}
