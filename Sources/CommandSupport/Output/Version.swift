import CBuild

/// The version of the program, with the sources and the compiler from which it was built.
package enum Version {
    /// The semantic version. Before 1.0, a minor version may change the contract.
    package static let current = "0.1.0"
    /// The commit of the sources, or `unknown`.
    package static let commit = String(cString: build_commit())
    /// The minor release of Swift that compiled the program.
    package static let swift = {
        #if compiler(>=6.4)
            "6.4 or later"
        #elseif compiler(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }()
    /// The output of `--version`.
    package static let summary = "\(current) (commit \(commit), Swift \(swift))"
}
