package import ArgumentParser
import Glibc
import Synchronization

/// Output and exit codes of commands.
package enum Terminal {
    /// The configuration is wrong (sysexits.h, EX_CONFIG).
    package static let badConfiguration = ExitCode(78)
    /// The database cannot be reached (sysexits.h, EX_UNAVAILABLE).
    package static let unavailable = ExitCode(69)

    /// Another process is at it just now (sysexits.h, EX_TEMPFAIL).
    package static let tryAgain = ExitCode(75)

    /// The system's error code if a text did not reach standard output.
    private static let lostOutput = Mutex<Int32?>(nil)

    /// Prints a line on standard output immediately, without characters that control the terminal.
    package static func output(_ text: String, terminator: String = "\n") {
        guard let code = put(TerminalText.harmless(text) + terminator, to: STDOUT_FILENO) else { return }
        lostOutput.withLock { $0 = $0 ?? code }
    }

    /// Ends a command that completed its task but could not print all of its output: a secret that is shown once may be
    /// lost.
    package static func requireOutput() throws {
        guard let code = lostOutput.withLock(\.self) else { return }
        throw failure("standard output could not be written: \(String(cString: strerror(code)))")
    }

    /// Prints a line on standard error immediately.
    package static func printError(_ text: String, from program: String = "sluice: ") {
        put(program + TerminalText.harmless(text) + "\n", to: STDERR_FILENO)
    }

    /// Something on standard error as it is, for a terminal there.
    package static func draw(_ text: String) {
        put(text, to: STDERR_FILENO)
    }

    /// Complains, and ends the command.
    package static func failure(_ text: String, _ code: ExitCode = .failure) -> any Error {
        printError(text)
        return code
    }

    /// - Returns: the error's number where not all was written.
    @discardableResult
    private static func put(_ text: String, to descriptor: Int32) -> Int32? {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let written = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if written > 0 {
                bytes = bytes.dropFirst(written)
            } else if errno == EAGAIN {
                var wait = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = poll(&wait, 1, -1)
            } else if errno != EINTR {
                return errno
            }
        }
        return nil
    }
}
