public import Foundation

/// A mutation whose dependencies change because others are settled.
public struct MutationRelease: Sendable {
    /// The mutation as it stood.
    public let node: DependencyNode
    /// What it waits for now.
    public let dependsOn: [UUID]
    /// What it fails with; nil where it does not.
    public var problem: Problem?

    /// Where it stands now: one that waited, and has nothing more to wait for, runs.
    public var status: MutationStatus? {
        guard node.status == .blocked || node.status == .pending else { return node.status }
        return node.status.moved(to: problem != nil ? .failed : dependsOn.isEmpty ? .pending : .blocked)
    }
}
