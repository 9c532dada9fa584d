package enum Version {
    /// Semantic versioning; before 1.0, a minor version may change the contract.
    package static let current = "0.1.0"
}
