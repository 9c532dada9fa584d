import CommandSupport
import Glibc
import NIOPosix

/// A file, or standard input, that is read part by part.
final class InputFile: Sendable {
    private static let partBytes = 262_144

    private let descriptor: Int32
    /// In bytes; nil unless it is a regular file.
    let size: Int64?
    /// Identifies the file under any name.
    private let identity: (dev_t, ino_t)

    /// - Parameter path: `-` for standard input.
    init(_ path: String) throws {
        descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Terminal.failure("\(path) cannot be read: \(Self.lastError)") }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else {
            throw Terminal.failure("\(path) cannot be read: \(Self.lastError)")
        }
        guard facts.st_mode & S_IFMT != S_IFDIR else { throw Terminal.failure("\(path) is a directory") }
        identity = (facts.st_dev, facts.st_ino)
        size = facts.st_mode & S_IFMT == S_IFREG ? Int64(facts.st_size) : nil
    }

    deinit { close(descriptor) }

    /// Whether this is the regular file that a descriptor is of.
    func isSame(as other: Int32) -> Bool {
        var facts = stat()
        return size != nil && fstat(other, &facts) == 0 && identity == (facts.st_dev, facts.st_ino)
    }

    /// Returns the next bytes; nil at the end. Reading a pipe may block, so a thread of the pool does it.
    func next() async throws -> [UInt8]? {
        let descriptor = descriptor
        return try await NIOThreadPool.singleton.runIfActive {
            while true {
                var count = 0
                let part = [UInt8](unsafeUninitializedCapacity: Self.partBytes) { buffer, filled in
                    count = read(descriptor, buffer.baseAddress, buffer.count)
                    filled = max(0, count)
                }
                if count >= 0 { return part.isEmpty ? nil : part }
                guard errno == EINTR else { throw FileFailure("the input cannot be read: \(Self.lastError)") }
            }
        }
    }

    static var lastError: String { String(cString: strerror(errno)) }
}

/// Why a file cannot be read or written, for people.
struct FileFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
