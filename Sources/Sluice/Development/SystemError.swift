import Glibc

/// The error of this thread's last system call.
enum SystemError {
    /// The system's error message; read it immediately after the failure.
    static var current: String { String(cString: strerror(errno)) }
}
