import Glibc
import Logging
import UnixSignals

/// A second Ctrl-C during shutdown ends the gateway without waiting for work in hand.
enum SecondInterrupt {
    /// What a shell reports of a program that Ctrl-C has ended.
    private static let exitCode: Int32 = 128 + SIGINT

    /// Watches signals until it is cancelled: the first one asks for the end, a SIGINT after it ends the process.
    static func watch(logger: Logger) async {
        var isEnding = false
        for await signal in await UnixSignalsSequence(trapping: [.sigterm, .sigint]) {
            if isEnding, signal == .sigint {
                logger.warning("Interrupted again; what was in hand was given up")
                _exit(exitCode)
            }
            isEnding = true
        }
    }
}
