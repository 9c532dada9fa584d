import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport

@testable import SyncStore

extension RuleHistory {
    /// A person settles a mutation, usually a stuck one.
    mutating func settle(_ tenant: Int, _ person: Int) async throws {
        let user = tenants[tenant].people[person].id
        guard let lane = tenants[tenant].model.users[user]?.lane, !lane.isEmpty else { return }
        let still = lane.filter { $0.status == .failed || $0.status == .conflict }
        let mutation = generator.oneIn(4) || still.isEmpty ? generator.pick(lane) : generator.pick(still)
        let call = makeCall()
        story.append((tenant, "user \(person): \(call) of \(mutation.entry.id.lowercased)"))
        var refusal: RuleModel.Refusal?
        do throws(RuleModel.Refusal) {
            try tenants[tenant].model.settle(call, mutation, of: user)
        } catch {
            refusal = error
        }
        do {
            try await ask(call, mutation.entry.id, tenant, user)
            try expect(refusal == nil, "\(call) should be refused with \(refusal?.code ?? "")")
        } catch let problem as Problem {
            try expect(
                problem.code.rawValue == refusal?.code,
                "\(call) should be \(refusal?.code ?? "done"), not refused with \(problem)"
            )
        }
    }

    private mutating func makeCall() -> RuleModel.Call {
        switch Int.random(in: 0..<10, using: &generator) {
        case 0...3:
            let payload = generator.oneIn(3) ? Int.random(in: 0...99, using: &generator) : nil
            return .retry(payload: payload, isForced: generator.oneIn(3))
        case 4, 5: return .discard(.discard)
        case 6: return .discard(.keep)
        case 7: return .discard(nil)
        case 8: return .serverWins
        default: return .clientWins
        }
    }

    private mutating func ask(_ call: RuleModel.Call, _ id: UUID, _ tenant: Int, _ user: UUID) async throws {
        let settlement = gateway().store.settling
        let organization = tenants[tenant].organization
        switch call {
        case .retry(let payload, let isForced):
            let content = payload.map { #""payload":{"n":\#($0)},"# } ?? ""
            let body = #"{\#(content)"force":\#(isForced)}"#
            let request = try RetryRequest(body: Array(body.utf8), limits: IntakeLimits())
            _ = try await settlement.retry(id, request, organization: organization, user: user)
        case .discard(let choice):
            _ = try await settlement.discard(
                id,
                DiscardRequest(dependants: choice),
                organization: organization,
                user: user
            )
        case .serverWins, .clientWins:
            let isServer = if case .serverWins = call { true } else { false }
            let body = #"{"strategy":"\#(isServer ? "server_wins" : "client_wins")"}"#
            let request = try ResolveRequest(body: Array(body.utf8), limits: IntakeLimits())
            _ = try await settlement.resolve(id, request, organization: organization, user: user)
        }
    }
}
