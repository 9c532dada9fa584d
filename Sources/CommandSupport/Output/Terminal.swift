package import ArgumentParser
import Glibc
package import SyncModel
import Synchronization

/// Output and exit codes of commands.
package enum Terminal {
    /// The configuration is invalid (sysexits.h, EX_CONFIG).
    package static let badConfiguration = ExitCode(78)
    /// The database cannot be reached (sysexits.h, EX_UNAVAILABLE).
    package static let unavailable = ExitCode(69)

    /// Another process is doing the same work at the moment (sysexits.h, EX_TEMPFAIL).
    package static let tryAgain = ExitCode(75)

    /// The system's error code if a text did not reach standard output.
    private static let lostOutput = Mutex<Int32?>(nil)

    /// Prints a line on standard output immediately, without characters that control the terminal.
    package static func output(_ text: String, terminator: String = "\n") {
        guard let code = put(TerminalText.harmless(text) + terminator, to: STDOUT_FILENO) else { return }
        lostOutput.withLock { $0 = $0 ?? code }
    }

    /// Throws an error if a command completed its task but could not print all of its output.
    ///
    /// The lost output may contain a secret that is shown only once.
    package static func requireOutput() throws {
        guard let code = lostOutput.withLock(\.self) else { return }
        throw failure("standard output could not be written: \(String(cString: strerror(code)))")
    }

    /// Prints a line on standard error immediately.
    package static func printError(_ text: String, from program: String = "sluice: ") {
        put(program + TerminalText.harmless(text) + "\n", to: STDERR_FILENO)
    }

    /// Writes a text unchanged to standard error, which is a terminal.
    package static func draw(_ text: String) {
        put(text, to: STDERR_FILENO)
    }

    /// Prints the message, and returns the error that ends the command.
    package static func failure(_ text: String, _ code: ExitCode = .failure) -> any Error {
        printError(text)
        return code
    }

    /// - Returns: the system's error code; nil if the whole text was written.
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

/// Makes untrusted text, such as a token's claims, safe for a terminal.
package enum TerminalText {
    /// The maximum number of characters of a text that are shown.
    package static let maximum = 300

    /// Returns the text with control characters escaped as `\u{…}`, truncated if it is long.
    ///
    /// Characters that reverse or hide adjacent characters are escaped, too.
    package static func of(_ text: some StringProtocol, upTo maximum: Int = maximum) -> String {
        var shown = ""
        for scalar in text.unicodeScalars.prefix(maximum) {
            switch scalar.properties.generalCategory {
            case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator:
                shown += "\\u{" + String(scalar.value, radix: 16) + "}"
            default: shown.unicodeScalars.append(scalar)
            }
        }
        return text.unicodeScalars.count > maximum ? shown + "…" : shown
    }

    package static func of(_ text: ByteExactString) -> String { of(text.string) }

    /// Returns a whole output, such as lines or JSON, without characters that would control a terminal.
    ///
    /// This function escapes characters that reverse a line, and all control characters except line ends and tabs. It
    /// replaces carriage returns with spaces. JSON keeps its meaning: outside of strings, it can contain only one of
    /// these characters, the carriage return, which is white space.
    static func harmless(_ output: String) -> String {
        if output.utf8.allSatisfy({ (0x20..<0x7f).contains($0) || $0 == 0x0a || $0 == 0x09 }) { return output }
        var shown = ""
        for scalar in output.unicodeScalars {
            switch scalar.value {
            case 0x09, 0x0a: shown.unicodeScalars.append(scalar)
            case 0x0d: shown += " "
            case ..<0x20, 0x7f...0x9f, 0x061c, 0x200e, 0x200f, 0x2028...0x202e, 0x2066...0x2069:
                let digits = String(scalar.value, radix: 16)
                shown += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: shown.unicodeScalars.append(scalar)
            }
        }
        return shown
    }
}
