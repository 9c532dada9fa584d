import Glibc

/// The folder `.sluice`: secrets, a lock, and the database's files or their places.
struct DevelopmentDirectory: Sendable {
    /// Absolute.
    let path: String

    /// Creates missing files and takes the lock, which the process keeps until it ends in any way.
    init(_ path: String) throws {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        try Folder.make(path.hasPrefix("/") ? path : Self.workingDirectory + "/" + path)
        guard realpath(path, &buffer) != nil else { throw DevelopmentError.system("\(path) cannot be used") }
        self.path = String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        if access(self.path, W_OK) != 0 { throw DevelopmentError.system("\(self.path) cannot be written to") }
        try lock()
        // The content is private; it belongs least of all in a repository.
        if !Folder.exists(file(".gitignore")) { try Folder.write("*", to: file(".gitignore"), mode: 0o644) }
    }

    func file(_ name: String) -> String { path + "/" + name }

    /// A secret of 32 random bytes in hexadecimal, made once and readable by this user only.
    func secret(_ name: String) throws -> String {
        if let secret = Folder.text(of: file(name)) { return secret }
        let digits = Array("0123456789abcdef")
        let secret = String((0..<64).map { _ in digits[Int.random(in: 0..<16)] })
        unlink(file(name))
        try Folder.write(secret, to: file(name), mode: 0o600)
        return secret
    }

    /// A new name for files that cannot lie inside the folder.
    ///
    /// Random, so that a new folder does not find the data of a removed one.
    static func uniqueName() -> String {
        "sluice-" + String(UInt64.random(in: .min ... .max), radix: 16)
    }

    private func lock() throws {
        let descriptor = open(file("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw DevelopmentError.system("\(file("lock")) cannot be opened") }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            throw DevelopmentError("Another sluice dev runs in \(path). Stop it, or choose another --directory.")
        }
    }

    private static var workingDirectory: String {
        guard let text = getcwd(nil, 0) else { return "." }
        defer { free(text) }
        return String(cString: text)
    }
}
