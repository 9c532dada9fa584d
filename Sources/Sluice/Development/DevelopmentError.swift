/// Why `sluice dev` cannot continue, with an instruction.
struct DevelopmentError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }

    /// The error of the last system call.
    static func system(_ attempt: String) -> DevelopmentError {
        DevelopmentError("\(attempt): \(SystemError.current)")
    }
}
