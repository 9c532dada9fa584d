import CommandSupport
import FoundationEssentials
import Glibc
import SyncHTTP

/// Checks whether an address is free, or has a listener.
enum PortProbe {
    enum Finding: Equatable {
        case free
        case taken
        /// The address cannot be used; the value is the system's error message.
        case unusable(String)
    }

    /// Returns whether a server could listen at an address. To check this, the probe listens at the address for a
    /// moment.
    static func check(at address: ListenAddress) -> Finding {
        withSocket(address) { descriptor, target, length in
            var yes: Int32 = 1
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
            if bind(descriptor, target, length) == 0, listen(descriptor, 1) == 0 { return .free }
            return errno == EADDRINUSE ? .taken : .unusable(String(cString: strerror(errno)))
        }
    }

    private static func withSocket(
        _ address: ListenAddress,
        _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Finding
    ) -> Finding {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(address.host, String(address.port), &hints, &list)
        defer { if let list { freeaddrinfo(list) } }
        guard code == 0, let first = list?.pointee, let target = first.ai_addr else {
            return .unusable(code == 0 ? "no such host" : String(cString: gai_strerror(code)))
        }
        let descriptor = socket(first.ai_family, first.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), first.ai_protocol)
        guard descriptor >= 0 else { return .unusable(String(cString: strerror(errno))) }
        defer { close(descriptor) }
        return body(descriptor, target, first.ai_addrlen)
    }
}

/// The process that listens at a TCP port of this machine, if it is visible to this user.
struct PortOwner: Sendable, Equatable {
    let process: Int
    /// The program's name, without its folder.
    let program: String
    let arguments: [String]
    /// The process's working directory; empty if it is not shown.
    let directory: String

    /// A description for an error: `another sluice dev (process 4711, in /home/me/sluice/.sluice)`.
    ///
    /// Nil if the process is not visible, for example because it belongs to another user.
    static func userMessage(of port: Int) -> String? { of(port)?.userMessage }

    var userMessage: String {
        if isDevelopment { return "another sluice dev (process \(process), in \(TerminalText.of(developmentFolder)))" }
        if program == "sluice" { return "another Sluice gateway (process \(process))" }
        return "another program (\(TerminalText.of(program, upTo: 40)), process \(process))"
    }

    private var isDevelopment: Bool { program == "sluice" && arguments.first == "dev" }

    /// The value of `--directory`, or its default.
    private var developmentFolder: String {
        var folder = ".sluice"
        for (index, argument) in arguments.enumerated() {
            if argument == "--directory", index + 1 < arguments.count { folder = arguments[index + 1] }
            if argument.hasPrefix("--directory=") { folder = String(argument.dropFirst("--directory=".count)) }
        }
        if folder.hasPrefix("/") { return folder }
        while folder.hasPrefix("./") { folder.removeFirst(2) }
        return directory.isEmpty ? folder : directory + "/" + folder
    }

    /// The listener at a port, over either version of IP.
    static func of(_ port: Int) -> PortOwner? {
        let sockets = Set(["tcp", "tcp6"].flatMap { listeners(in: text(of: "/proc/net/\($0)"), at: port) })
        guard !sockets.isEmpty else { return nil }
        let links = Set(sockets.map { "socket:[\($0)]" })
        let processes = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        for process in processes.compactMap({ Int($0) }) {
            let folder = "/proc/\(process)/fd"
            let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            let holds = descriptors.contains { descriptor in
                let link = try? FileManager.default.destinationOfSymbolicLink(atPath: folder + "/" + descriptor)
                return links.contains(link ?? "")
            }
            if holds { return PortOwner(process) }
        }
        return nil
    }

    private init?(_ process: Int) {
        let words = Self.text(of: "/proc/\(process)/cmdline").split(
            separator: "\0",
            omittingEmptySubsequences: false
        )
        .map(String.init)
        guard let first = words.first, !first.isEmpty else { return nil }
        self.process = process
        program = URL(filePath: first).lastPathComponent
        arguments = words.dropFirst().filter { !$0.isEmpty }
        directory = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(process)/cwd")) ?? ""
    }

    /// The inodes of the listening sockets at a port in a table of `/proc/net`.
    static func listeners(in table: String, at port: Int) -> [Substring] {
        table.split(separator: "\n").dropFirst().compactMap { line in
            let columns = line.split(separator: " ", omittingEmptySubsequences: true)
            // 0A: LISTEN
            guard columns.count > 9, columns[3] == "0A", let colon = columns[1].lastIndex(of: ":") else { return nil }
            return Int(columns[1][columns[1].index(after: colon)...], radix: 16) == port ? columns[9] : nil
        }
    }

    /// Reads a file of `/proc`. Foundation's functions stop after a read that does not fill their buffer. A read of
    /// such a file returns only whole lines, so even the first read may not fill the buffer.
    static func text(of file: String) -> String {
        guard let stream = fopen(file, "r") else { return "" }
        defer { fclose(stream) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while case let count = fread(&buffer, 1, buffer.count, stream), count > 0 { bytes += buffer[..<count] }
        return String(decoding: bytes, as: UTF8.self)
    }
}
