import ArgumentParser
import Glibc

/// Output and exit codes of commands.
enum Terminal {
    /// The configuration is wrong (sysexits.h, EX_CONFIG).
    static let badConfiguration = ExitCode(78)
    /// The database cannot be reached (sysexits.h, EX_UNAVAILABLE).
    static let unavailable = ExitCode(69)

    /// Another process is at it just now (sysexits.h, EX_TEMPFAIL).
    static let tryAgain = ExitCode(75)

    /// A line on standard output, at once; nothing in it commands the terminal.
    static func say(_ text: String, terminator: String = "\n") {
        put(ShownText.harmless(text) + terminator, to: STDOUT_FILENO)
    }

    /// A line on standard error, at once.
    static func complain(_ text: String, from program: String = "sluice: ") {
        put(program + ShownText.harmless(text) + "\n", to: STDERR_FILENO)
    }

    /// Something on standard error as it is, for a terminal there.
    static func draw(_ text: String) {
        put(text, to: STDERR_FILENO)
    }

    /// Complains, and ends the command.
    static func failure(_ text: String, _ code: ExitCode = .failure) -> any Error {
        complain(text)
        return code
    }

    private static func put(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let written = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if written > 0 { bytes = bytes.dropFirst(written) } else if errno != EINTR, errno != EAGAIN { return }
        }
    }
}
