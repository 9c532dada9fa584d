import Glibc

/// Why the run can't be made or go on.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// What `errno` says.
    static var systemText: String { String(cString: strerror(errno)) }
}
