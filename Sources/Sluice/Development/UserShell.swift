import Subprocess

/// A script of the shell, run as a database's user.
enum UserShell {
    static let executable = Executable.name("sh")

    /// The shell's arguments.
    ///
    /// The user is changed by setpriv(1), in a program of its own. It must not happen between fork and exec: the C
    /// library would wait there for threads that the child does not have, now and then for ever.
    ///
    /// - Parameters:
    ///   - words: `$0`, `$1` and so on.
    ///   - user: nil stands for the user of this process.
    static func arguments(_ script: String, _ words: [String], as user: DatabaseUser?) -> Arguments {
        let shell = ["-c", script] + words
        guard let user else { return Arguments(shell) }
        let change = "exec setpriv --reuid=\(user.userID) --regid=\(user.groupID) --clear-groups sh \"$@\""
        return Arguments(["-c", change, "sh"] + shell)
    }
}
