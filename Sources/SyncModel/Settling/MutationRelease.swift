public import Foundation

/// A mutation whose dependencies change because others are settled.
public struct MutationRelease: Sendable {
    /// The mutation before the change.
    public let node: DependencyNode
    /// The mutations that it still waits for.
    public let dependsOn: [UUID]
    /// The problem with which it fails; nil where it does not.
    public var problem: Problem?

    /// Its new status: one that waited, and has no more to wait for, runs.
    public var status: MutationStatus? {
        guard node.status == .blocked || node.status == .pending else { return node.status }
        return node.status.moved(to: problem != nil ? .failed : dependsOn.isEmpty ? .pending : .blocked)
    }
}
