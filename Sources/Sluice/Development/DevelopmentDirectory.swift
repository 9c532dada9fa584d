import CommandSupport
import Glibc
import SyncHTTP

/// The folder `.sluice`: secrets, a lock, and the database's files or their places.
struct DevelopmentDirectory: Sendable {
    /// The absolute path.
    let path: String

    /// Creates missing files and acquires the lock, which the process holds until it ends in any way.
    init(_ path: String) throws {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        try Folder.make(path.hasPrefix("/") ? path : Self.workingDirectory + "/" + path)
        guard realpath(path, &buffer) != nil else { throw DevelopmentError.system("\(path) cannot be used") }
        self.path = String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        if access(self.path, W_OK) != 0 { throw DevelopmentError.system("\(self.path) cannot be written to") }
        try lock()
        // The content is private, so it must not be committed to a repository.
        if !Folder.exists(file(".gitignore")) { try Folder.write("*", to: file(".gitignore"), mode: 0o644) }
    }

    func file(_ name: String) -> String { path + "/" + name }

    /// A secret of 32 random bytes in hexadecimal, which is created once and readable only by this user.
    func secret(_ name: String) throws -> String {
        if let secret = Folder.text(of: file(name)) { return secret }
        let digits = Array("0123456789abcdef")
        let secret = String((0..<64).map { _ in digits[Int.random(in: 0..<16)] })
        unlink(file(name))
        try Folder.write(secret, to: file(name), mode: 0o600)
        return secret
    }

    /// A new name for files that cannot be inside the folder.
    ///
    /// The name is random, so that a new folder does not find the data of a removed folder.
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

    /// Creates a folder that only its owner can access, in a place where other users may write, too. If the folder
    /// exists, it must belong to the owner.
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

    /// The text of a short file without the line end, or the end of a long file; nil if the file cannot be read.
    static func text(of path: String) -> String? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 16_384)
        // If the file is shorter than the buffer, lseek fails, and the file is read from its start.
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

/// The settings of `sluice dev`: its own database, addresses and secrets, and all other settings of the environment.
enum DevelopmentSettings {
    /// Settings that `sluice dev` determines itself.
    private static let own: [Setting] = [
        .databaseURL, .publicAddress, .operationsAddress, .jwtSecret, .jwtKeysFile, .jwtJWKSURL, .jwtIssuersFile,
        .jwtIssuer, .jwtAudience, .jwtAudienceClaim, .jwtExclusiveKeys, .jwtUserClaim, .jwtUserIDs,
        .jwtOrganizationClaim, .jwtOrganizationKeys, .jwtOrganization, .jwtOrganizationIDs,
        .jwtChannelClaim, .jwtChannelPrefix, .jwtChannelRole, .operatorToken,
    ]

    /// Variables of the environment that have no effect in `sluice dev`.
    static func ignored(in environment: [String: String]) -> [String] {
        ownVariables.filter { environment[$0] != nil }
    }

    static func load(
        environment: [String: String],
        databaseURI: String,
        directory: DevelopmentDirectory,
        ports: (public: Int, operations: Int)
    ) async throws -> Settings {
        var variables = environment.filter { !ownVariables.contains($0.key) }
        variables[Setting.databaseURL.variable] = databaseURI
        variables[Setting.publicAddress.variable] = address(ports.public).description
        variables[Setting.operationsAddress.variable] = address(ports.operations).description
        variables[Setting.jwtSecret.variable] = try directory.secret("jwt-secret")
        variables[Setting.operatorToken.variable] = try directory.secret("operator-token")
        // For development, the log shows warnings, not every start-up detail.
        if variables[Setting.logLevel.variable] == nil { variables[Setting.logLevel.variable] = "notice" }
        if variables[Setting.logFormat.variable] == nil { variables[Setting.logFormat.variable] = "text" }
        return try await ConfigurationOptions.explained { () async throws(ConfigurationError) in
            try Settings.load(configFile: nil, environment: variables)
        }
    }

    static func address(_ port: Int) -> ListenAddress { ListenAddress(host: "127.0.0.1", port: port) }

    private static let ownVariables =
        own.map(\.variable) + own.compactMap(\.fileName).map(Setting.variable(for:))
        + [Setting.variable(for: Setting.configFile)]
}

/// The reason why `sluice dev` cannot continue, with an instruction.
struct DevelopmentError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }

    /// The error of the last system call.
    static func system(_ attempt: String) -> DevelopmentError {
        DevelopmentError("\(attempt): \(SystemError.current)")
    }
}

/// The error of this thread's last system call.
enum SystemError {
    /// The system's error message; read it immediately after the failure.
    static var current: String { String(cString: strerror(errno)) }
}
