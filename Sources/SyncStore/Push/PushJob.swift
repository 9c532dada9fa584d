import Foundation
import GroupCommit
import SyncModel

/// A push on its way through a committer, with the reply to its caller.
struct PushJob: GroupJob {
    let push: PushRequest
    let organization: Organization
    let user: UUID
    let isStrict: Bool
    let traceparent: String?
    let enqueuedAt = ContinuousClock.now
    let reply: JobCompletion<PushAnswer>

    var lane: LaneKey { LaneKey(organization: organization.id, user: user) }
    var device: DeviceKey { DeviceKey(lane: lane, id: push.deviceID) }

    /// - Parameter type: the organization's entity types, by name.
    func input(_ type: (String) -> EntityType?) -> PushInput {
        PushInput(
            push: push,
            lane: lane,
            quota: organization.settings.mutationQuota,
            localIDs: PushLocalIDs(push, type: type)
        )
    }

    var weight: Int { max(1, push.entries.count) }
    var bytes: Int { push.bodyBytes }
    var isAnswered: Bool { reply.isSent }

    func refuse(_ problem: Problem) {
        reply.send(.failure(problem))
    }
}
