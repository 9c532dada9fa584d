import FoundationEssentials
import Glibc

/// A file that a command reads, or standard input.
package struct InputFile {
    package static let standardInput = InputFile("-")

    private let path: String

    /// - Parameter path: the path of the file; `-` for standard input.
    package init(_ path: String) { self.path = path }

    /// Returns the first bytes of the file, up to the given number.
    ///
    /// Later bytes are not read, because a device or a pipe can be endless.
    ///
    /// - Throws: a failure of the command with the path and the system's reason.
    package func bytes(upTo maximum: Int) throws -> [UInt8] {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw unreadable(errno) }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        var bytes: [UInt8] = []
        while bytes.count < maximum {
            var failure: Int32 = 0
            let part = [UInt8](unsafeUninitializedCapacity: min(65_536, maximum - bytes.count)) { buffer, count in
                let read = read(descriptor, buffer.baseAddress, buffer.count)
                failure = read < 0 ? errno : 0
                count = max(0, read)
            }
            if failure == EINTR { continue }
            guard failure == 0 else { throw unreadable(failure) }
            guard !part.isEmpty else { break }
            bytes += part
        }
        return bytes
    }

    private func unreadable(_ code: Int32) -> any Error {
        let name = path == "-" ? "standard input" : path
        return Terminal.failure("\(name) cannot be read: \(String(cString: strerror(code)))")
    }
}
