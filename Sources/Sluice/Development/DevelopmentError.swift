/// Why `sluice dev` cannot go on; the text says what to do.
struct DevelopmentError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }

    /// What a system call has just refused to do.
    static func system(_ attempt: String) -> DevelopmentError {
        DevelopmentError("\(attempt): \(SystemError.current)")
    }
}
