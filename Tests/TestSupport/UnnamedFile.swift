import Glibc

/// A file without a name, to write to and read back, removed with this object.
///
/// It is not a pipe: reading one blocks a thread that the writer may need, and another child may hold its end open.
package final class UnnamedFile: Sendable {
    /// Open for reading and appending; closed in children unless they are given it.
    package let descriptor: Int32

    /// Creates an empty file.
    package init() throws {
        let path = "/tmp/sluice-test-\(UInt64.random(in: 0...(.max)))"
        descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw TestCluster.Failure(description: "no temporary file") }
        unlink(path)
    }

    deinit { close(descriptor) }

    /// The text written so far.
    package var text: String {
        var found = stat()
        guard fstat(descriptor, &found) == 0 else { return "" }
        var bytes = [UInt8](repeating: 0, count: Int(found.st_size))
        let count = pread(descriptor, &bytes, bytes.count, 0)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }
}
