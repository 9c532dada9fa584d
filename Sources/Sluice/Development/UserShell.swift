import Subprocess

/// A script of the shell, run as a database's user.
enum UserShell {
    static let executable = Executable.name("sh")

    /// The shell's arguments.
    ///
    /// A separate program, setpriv(1), changes the user. It must not happen between fork and exec: there the C library
    /// would wait for threads that the child does not have, sometimes without end.
    ///
    /// - Parameters:
    ///   - userMessage: `$0`, `$1` and so on.
    ///   - user: nil for the user of this process.
    static func arguments(_ script: String, _ userMessage: [String], as user: DatabaseUser?) -> Arguments {
        let shell = ["-c", script] + userMessage
        guard let user else { return Arguments(shell) }
        let change = "exec setpriv --reuid=\(user.userID) --regid=\(user.groupID) --clear-groups sh \"$@\""
        return Arguments(["-c", change, "sh"] + shell)
    }
}
