import Glibc

/// The error of this thread's last system call.
enum SystemError {
    /// In the system's words; read it at once.
    static var current: String { String(cString: strerror(errno)) }
}
