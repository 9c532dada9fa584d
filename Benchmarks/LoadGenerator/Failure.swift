import Glibc

/// The reason why the run is impossible or cannot continue.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// The text for `errno`.
    static var systemText: String { String(cString: strerror(errno)) }
}
