import Glibc
import Subprocess

/// The places of a private cluster's files.
struct ClusterLayout: Sendable {
    /// Holds data, log and, if its path is short enough, the socket.
    let base: String
    let socketFolder: String
    let user: DatabaseUser?

    var data: String { base + "/data" }
    var log: String { base + "/postgres.log" }
    var pidFile: String { data + "/postmaster.pid" }

    /// A URI for one of its databases.
    func uri(database: String) -> String {
        let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/".utf8)
        let host = socketFolder.utf8.map { byte in
            if plain.contains(byte) { return String(Unicode.Scalar(byte)) }
            let digits = String(byte, radix: 16, uppercase: true)
            return "%" + (digits.count < 2 ? "0" : "") + digits
        }
        return "postgresql:///\(database)?host=\(host.joined())&port=\(Self.port)&user=\(Self.superuser)"
    }

    static let superuser = "sluice"
    /// Only in the socket's name: the server listens on no network.
    static let port = 5432
    static let socketName = ".s.PGSQL.\(port)"
    /// The longest path of a Unix socket, in bytes.
    static let longestSocketPath = 107

    /// Finds the places used before, or chooses and records them.
    ///
    /// Data is in the folder itself, or under /var/tmp if the database's user cannot access the folder (for example in
    /// root's home). The socket is next to it, or under TMPDIR if its path gets too long.
    static func settle(
        in directory: DevelopmentDirectory,
        user: DatabaseUser?,
        temporary: String
    ) async throws -> ClusterLayout {
        let base = try await remembered("data-location", in: directory) {
            let inside = directory.file("postgres")
            try Folder.makePrivate(inside, owner: user)
            if await isReachable(inside, by: user) { return inside }
            rmdir(inside)
            return "/var/tmp/" + DevelopmentDirectory.uniqueName()
        }
        try Folder.makePrivate(base, owner: user)
        let socketFolder = try await remembered("socket-location", in: directory) {
            let isShort = "\(base)/\(socketName)".utf8.count <= longestSocketPath
            if isShort { return base }
            let name = DevelopmentDirectory.uniqueName()
            let fits = "\(temporary)/\(name)/\(socketName)".utf8.count <= longestSocketPath
            return (fits ? temporary : "/tmp") + "/" + name
        }
        try Folder.makePrivate(socketFolder, owner: user)
        return ClusterLayout(base: base, socketFolder: socketFolder, user: user)
    }

    /// A place that is recorded when it lies outside of the folder.
    private static func remembered(
        _ name: String,
        in directory: DevelopmentDirectory,
        choose: () async throws -> String
    ) async throws -> String {
        let note = directory.file(name)
        if let place = Folder.text(of: note), place.hasPrefix("/") { return place }
        let place = try await choose()
        if !place.hasPrefix(directory.path + "/") { try Folder.write(place, to: note, mode: 0o644) }
        return place
    }

    private static func isReachable(_ folder: String, by user: DatabaseUser?) async -> Bool {
        guard user != nil else { return true }
        let result = try? await run(
            UserShell.executable,
            arguments: UserShell.arguments("cd \"$1\" && touch .probe && rm .probe", ["sh", folder], as: user),
            output: .discarded
        )
        return result?.terminationStatus.isSuccess ?? false
    }
}
