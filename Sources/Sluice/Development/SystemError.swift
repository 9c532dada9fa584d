import Glibc

/// What the last system call of this thread met with.
enum SystemError {
    /// In the system's words; read it at once.
    static var current: String { String(cString: strerror(errno)) }
}
