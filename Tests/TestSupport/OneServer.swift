package import Testing

extension Trait where Self == ConditionTrait {
    /// For tests that a cluster cannot pass: they are of what plain PostgreSQL does, or of a server that they stop.
    ///
    /// - Parameter reason: what is of one server.
    package static func onOneServer(_ reason: Comment) -> Self { .enabled(if: TestCluster.citusURI == nil, reason) }
}
