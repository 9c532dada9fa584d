package import Testing

extension Trait where Self == ConditionTrait {
    /// For tests that a cluster cannot pass: they test plain PostgreSQL, or a server that they stop.
    ///
    /// - Parameter reason: the part that applies to one server.
    package static func onOneServer(_ reason: Comment) -> Self { .enabled(if: TestCluster.citusURI == nil, reason) }
}
