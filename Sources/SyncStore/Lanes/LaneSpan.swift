import JSONText
import Spans
import SyncModel

/// The spans of a lane's step: one for the mutation whose outcome it writes, and one for each mutation that it starts.
///
/// They are children of the mutations' pushes, which may have been recorded by another gateway, long ago.
struct LaneSpan {
    /// The span of the mutation whose outcome is written; nil if it is not recorded.
    let settling: GatewaySpan?
    private let start = Spans.Moment.now

    init(_ step: LaneStep) {
        settling = Spans.child("lane step", of: step.dispatch?.mutation.trace)
        guard let settling, let dispatch = step.dispatch else { return }
        Self.describe(settling, dispatch)
        if case .settle(_, let outcome) = step {
            settling.set(.step, "settle")
            settling.set(.outcome, outcome.kind.rawValue)
            settling.set(.mutationStatus, outcome.status.rawValue)
        } else {
            settling.set(.step, "apply")
        }
    }

    /// Ends the spans with the step's result.
    func end(_ action: LaneAction) {
        settling?.end()
        guard let start else { return }
        for dispatch in action.dispatches {
            let span = Spans.child("lane step", of: dispatch.mutation.trace, since: start)
            guard let span else { continue }
            Self.describe(span, dispatch)
            span.set(.step, "start")
            span.end()
        }
    }

    /// Ends the spans of a step that was not written.
    func fail(_ problem: Problem) {
        settling?.fail(problem)
        settling?.end()
    }

    private static func describe(_ span: GatewaySpan, _ dispatch: Dispatch) {
        span.set(organization: dispatch.lane.organization)
        span.set(.mutationID, dispatch.mutation.id.lowercased)
        span.set(.entityType, "\(dispatch.mutation.entity.type)")
        span.set(.attempt, Int(dispatch.attempts))
    }
}
