import ArgumentParser
import CommandSupport
import Glibc

/// Where lines are written to: a file that only its owner may read, or standard output.
final class OutputFile {
    /// The maximum length of a last line.
    private static let tailBytes: Int64 = 8_388_608

    private let descriptor: Int32
    private let name: String

    /// - Parameters:
    ///   - path: nil or `-` for standard output.
    ///   - isContinued: whether a file that is there is written on, behind its last whole line; otherwise none may be
    ///     there.
    init(_ path: String?, isContinued: Bool) throws {
        guard let path, path != "-" else {
            (descriptor, name) = (STDOUT_FILENO, "standard output")
            return
        }
        name = path
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (isContinued ? 0 : O_EXCL), 0o600)
        guard descriptor >= 0 else {
            if errno == EEXIST { throw Terminal.failure("\(path) already exists; use --resume to continue it") }
            throw Terminal.failure("\(path) cannot be written: \(InputFile.lastError)")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw Terminal.failure("\(path) is being written by another process", Terminal.tryAgain)
        }
        // the file's creator may have permitted others to read it
        guard fchmod(descriptor, 0o600) == 0 else {
            throw Terminal.failure("the permissions of \(path) cannot be restricted: \(InputFile.lastError)")
        }
    }

    /// Opens a file for errors, and replaces its content.
    ///
    /// - Parameter input: the file that is read at the same time; it must not be the same file under any name.
    init(replacing path: String, excluding input: InputFile) throws {
        name = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Terminal.failure("\(path) cannot be written: \(InputFile.lastError)") }
        guard !input.isSame(as: descriptor) else {
            throw Terminal.failure("\(path) is the input; choose another for the errors", ExitCode.validationFailure)
        }
        // pipes and terminals have no length
        guard ftruncate(descriptor, 0) == 0 || errno == EINVAL else {
            throw Terminal.failure("\(path) cannot be written: \(InputFile.lastError)")
        }
    }

    deinit {
        if descriptor != STDOUT_FILENO { close(descriptor) }
    }

    /// Returns the last complete line, nil for an empty file, and where it ends.
    ///
    /// - Parameter beginning: the beginning of a first line that was cut off: no other file is continued.
    func lastLine(beginning: [UInt8]) throws -> (line: [UInt8]?, end: Int64) {
        let size = Int64(lseek(descriptor, 0, SEEK_END))
        let start = max(0, size - Self.tailBytes)
        let tail = try read(from: start, Int(size - start))
        guard let end = tail.lastIndex(of: 0x0a) else {
            guard start == 0 else { throw Terminal.failure("\(name) has no complete line near its end") }
            guard zip(tail, beginning).allSatisfy(==) else {
                throw Terminal.failure("\(name) is not an interrupted export; it is unchanged")
            }
            return (nil, 0)
        }
        let begin = tail[..<end].lastIndex(of: 0x0a).map { $0 + 1 }
        guard let begin = begin ?? (start == 0 ? 0 : nil) else {
            throw Terminal.failure("\(name) has no complete line near its end")
        }
        return (Array(tail[begin..<end]), start + Int64(end) + 1)
    }

    private func read(from start: Int64, _ count: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let missing = count - bytes.count
            let place = off_t(start) + off_t(bytes.count)
            var got = 0
            bytes += [UInt8](unsafeUninitializedCapacity: missing) { buffer, filled in
                got = pread(descriptor, buffer.baseAddress, missing, place)
                filled = max(0, got)
            }
            if got == 0 { break }
            if got < 0, errno != EINTR { throw Terminal.failure("\(name) cannot be read: \(InputFile.lastError)") }
        }
        return bytes
    }

    /// Continues at a place: everything after it is cut off.
    func cut(at size: Int64) throws {
        guard ftruncate(descriptor, off_t(size)) == 0, lseek(descriptor, 0, SEEK_END) >= 0 else {
            throw Terminal.failure("\(name) cannot be written: \(InputFile.lastError)")
        }
    }

    func write(_ bytes: [UInt8]) throws(FileFailure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written > 0 {
                rest = rest.dropFirst(written)
            } else if errno != EINTR, errno != EAGAIN {
                throw FileFailure("\(name) cannot be written: \(InputFile.lastError)")
            }
        }
    }

    /// Waits until a file is on the disk.
    func finish() throws(FileFailure) {
        guard descriptor != STDOUT_FILENO else { return }
        guard fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS else {
            throw FileFailure("\(name) cannot be written: \(InputFile.lastError)")
        }
    }
}
