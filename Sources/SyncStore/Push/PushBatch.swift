import Foundation
import SyncModel

/// The pushes of a group, with the inputs of their plans.
///
/// All lists have one element a push.
struct PushBatch {
    private(set) var jobs: [PushJob] = []
    private(set) var contexts: [PushPlanner.Context] = []
    private(set) var inputs: [PushInput] = []

    var isEmpty: Bool { jobs.isEmpty }

    mutating func add(_ job: PushJob, _ context: PushPlanner.Context, _ input: PushInput) {
        jobs.append(job)
        contexts.append(context)
        inputs.append(input)
    }

    /// The pushes at some places.
    subscript(places: [Int]) -> PushBatch {
        var part = PushBatch()
        for place in places { part.add(jobs[place], contexts[place], inputs[place]) }
        return part
    }
}
