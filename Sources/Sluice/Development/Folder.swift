import Glibc

/// Folders and small files, created with the permissions they need.
enum Folder {
    /// Creates the folder and its parents if they are missing.
    static func make(_ path: String, mode: mode_t = 0o755) throws {
        if exists(path) { return }
        let parent = path.split(separator: "/").dropLast().joined(separator: "/")
        if !parent.isEmpty { try make("/" + parent) }
        guard mkdir(path, mode) == 0 || errno == EEXIST else {
            throw DevelopmentError.system("The folder \(path) cannot be created")
        }
    }

    /// Creates a folder for its owner alone, in a place where others may write, too; an existing one must be the
    /// owner's.
    static func makePrivate(_ path: String, owner: DatabaseUser?) throws {
        if mkdir(path, 0o700) != 0, errno != EEXIST {
            throw DevelopmentError.system("The folder \(path) cannot be created")
        }
        let expected = owner?.userID ?? geteuid()
        var found = stat()
        guard lstat(path, &found) == 0, found.st_mode & S_IFMT == S_IFDIR,
            found.st_uid == expected || found.st_uid == geteuid()
        else { throw DevelopmentError("\(path) belongs to another user; remove it, or choose another --directory.") }
        if let owner, chown(path, owner.userID, owner.groupID) != 0 {
            throw DevelopmentError.system("the owner of \(path) cannot be changed to \(owner.name)")
        }
        chmod(path, 0o700)
    }

    static func exists(_ path: String) -> Bool {
        var found = stat()
        return stat(path, &found) == 0
    }

    /// A short file's text without the line end, or the end of a long one; nil if it cannot be read.
    static func text(of path: String) -> String? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 16_384)
        // Fails if the file is shorter than that; then it is read from its start.
        lseek(file, -off_t(bytes.count), SEEK_END)
        let count = read(file, &bytes, bytes.count)
        guard count > 0 else { return nil }
        return String(String(decoding: bytes[..<count], as: UTF8.self).reversed().drop(while: \.isNewline).reversed())
    }

    static func write(_ text: String, to path: String, mode: mode_t) throws {
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard file >= 0 else { throw DevelopmentError.system("\(path) cannot be written") }
        defer { close(file) }
        let bytes = Array((text + "\n").utf8)
        guard Glibc.write(file, bytes, bytes.count) == bytes.count else {
            throw DevelopmentError.system("\(path) cannot be written")
        }
    }
}
