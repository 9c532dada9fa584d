import Foundation
import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `GET /admin/organizations/{id}/users/{user}/mutations/{mutation}`: the story of one mutation.
///
/// What its user and the upstream wrote is shown to who asks for it, and that is noted before.
struct MutationHistoryEndpoint: Sendable {
    let store: Store

    func read(_ exchange: Exchange) async throws -> Answer {
        let showsPayload = try URLQuery(of: exchange, allowing: ["payload"]).flag("payload")
        if showsPayload, let token = exchange.operatorToken { try OperatorAuthenticator.require(.settle, of: token) }
        let (organization, user) = try await store.catalog.owner(of: exchange)
        let id = try exchange.uuid(at: 2)
        try await exchange.hold.acquire(ResponseMemoryLease.mutation)
        let json = try await BlockingWork.run {
            guard
                let mutationHistory = try await store.stories.mutationHistory(
                    of: id,
                    organization: organization,
                    user: user
                )
            else {
                throw Refusal.notFound
            }
            if showsPayload {
                let target: KeyValuePairs = ["mutation": id.lowercased]
                try await exchange.audit?.recordingRead("lookAtPayload", of: organization.id, user: user, target)
            }
            let names = try await store.administration.subjects(of: [user], in: organization.id)
            return MutationHistoryAnswer(
                mutationHistory: mutationHistory,
                subjects: names[user] ?? [],
                showsPayload: showsPayload
            ).json()
        }
        return Answer(.ok, json: json)
    }
}
