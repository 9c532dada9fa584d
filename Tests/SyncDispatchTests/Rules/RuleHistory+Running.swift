import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport

@testable import SyncStore

extension RuleHistory {
    /// Runs a lane as a dispatcher does, until it is released, or its worker is lost with a mutation in flight.
    mutating func run(_ tenant: Int, _ person: Int) async throws {
        let user = tenants[tenant].people[person].id
        guard tenants[tenant].model.users[user] != nil else { return }
        if let flying = tenants[tenant].people[person].flying, flying.until <= world.now {
            tenants[tenant].people[person].flying = nil
            try change(tenant, user) { model, state in
                for mutation in state.lane where flying.mutations.contains(mutation.entry.id) {
                    model.lose(mutation, of: &state)
                }
            }
        }
        let isLeased = tenants[tenant].people[person].flying != nil
        story.append((tenant, "user \(person): its lane runs\(isLeased ? ", which another worker has" : "")"))
        let worker = generator.uuid()
        if let limit = tenants[tenant].model.inFlight {
            let most = tenants[tenant].model.batch ?? limit
            return try await runConcurrently(tenant, person, by: worker, isLeased: isLeased, limit: most)
        }
        var step = LaneStep.claim
        var rest = Int.random(in: 1...12, using: &generator)
        while true {
            rest -= 1
            let turn = try await gateway().store.lanes.step(
                step,
                of: tenants[tenant].lane(person),
                worker: worker,
                heldUntil: nil,
                releases: rest < 0
            )
            if case .apply(let dispatch) = step { try await learn(dispatch.mutation.id, tenant, person) }
            let next = tenants[tenant].model.users[user].flatMap { tenants[tenant].model.next(of: $0, now: world.now) }
            switch turn {
            case .proceed(let token, let unblocking): step = .proceed(token: token, unblocking: unblocking)
            case .released:
                return try expect(next == nil || rest < 0, "\(name(next)) should run, but the lane was released")
            case .start: throw breach("several mutations run in the order of the lane")
            case .lost: return try expect(next == nil || isLeased, "\(name(next)) should run, the lane is not ready")
            case .run(let dispatch):
                try expect(!isLeased, "a lane was claimed by two workers")
                try expect(
                    next?.entry.id == dispatch.mutation.id,
                    "\(name(next)) should run, not \(dispatch.mutation.id)"
                )
                guard let next else { return }
                tenants[tenant].model.fly(next)
                if generator.oneIn(15) {
                    story.append((tenant, "its worker is lost with \(next.entry.id.lowercased)"))
                    tenants[tenant].people[person].flying = ([next.entry.id], world.now.adding(seconds: 120))
                    return
                }
                step = try await answer(dispatch, next, tenant, person)
            }
        }
    }

    private mutating func change(
        _ tenant: Int,
        _ user: UUID,
        _ body: (inout RuleModel, inout RuleModel.User) throws -> Void
    ) throws {
        guard var state = tenants[tenant].model.users[user] else { return }
        try body(&tenants[tenant].model, &state)
        tenants[tenant].model.users[user] = state
    }

    /// Answers as the built-in store or the upstream.
    mutating func answer(
        _ dispatch: Dispatch,
        _ mutation: RuleModel.Accepted,
        _ tenant: Int,
        _ person: Int
    ) async throws -> LaneStep {
        let user = tenants[tenant].people[person].id
        guard case .upstream(let request, _) = dispatch.destination else {
            try expect(!mutation.entry.type.isForwarded, "\(name(mutation)) is forwarded, and was not sent")
            try change(tenant, user) { model, state in model.apply(mutation, of: &state) }
            return .apply(dispatch)
        }
        try checkRequest(request, mutation, tenant, person)
        let answer = makeAnswer(mutation, tenant)
        story.append((tenant, "upstream answers \(mutation.entry.id.lowercased) with \(answer)"))
        let now = world.now
        tenants[tenant].model.now = now
        try change(tenant, user) { model, state in model.take(answer, to: mutation, of: &state) }
        var othersSucceeded = false
        if case .trouble = answer, let hold = dispatch.mutation.hold {
            othersSucceeded = try await gateway().store.lanes.hasSucceeded(
                in: tenants[tenant].organization.id,
                since: hold.since,
                timeout: request.timeout
            )
        }
        let isPart = tenants[tenant].model.batch != nil
        let outcome = OutcomePlanner(policy: RetryPolicy()).outcome(
            of: isPart ? answer.answer(now, to: request).asPart(of: request, now) : answer.answer(now, to: request),
            to: dispatch,
            othersSucceeded: othersSucceeded,
            now: now,
            jitter: 0
        )
        return .settle(dispatch, outcome)
    }

    private mutating func makeAnswer(_ mutation: RuleModel.Accepted, _ tenant: Int) -> RuleModel.Answer {
        tenants[tenant].nextID += 1
        let id = generator.oneIn(3) ? #""c-\#(tenants[tenant].nextID)""# : "\(tenants[tenant].nextID)"
        let isCreate = mutation.entry.operation == .create
        switch Int.random(in: 0..<20, using: &generator) {
        case 0: return .refusal(status: generator.pick([400, 404, 410, 422]))
        case 1, 2:
            let known = isCreate ? (generator.oneIn(2) ? id : nil) : mutation.serverID
            return .conflict(status: generator.pick([409, 412]), id: known, isRetryable: generator.oneIn(4))
        case 3: return .serverError
        case 4: return .timeOut
        case 5: return .notReached
        case 6: return .tooMany
        case 7: return .trouble(status: generator.pick([401, 407, 301, 308]))
        default:
            if isCreate { return .success(id: generator.oneIn(15) ? nil : id) }
            return .success(id: generator.oneIn(2) ? mutation.serverID : nil)
        }
    }

    /// A sent request contains server ids, and has a separate key for each revision.
    private mutating func checkRequest(
        _ request: UpstreamRequest,
        _ mutation: RuleModel.Accepted,
        _ tenant: Int,
        _ person: Int
    ) throws {
        let revision = "\(mutation.entry.id) \(mutation.revision)"
        let known = tenants[tenant].people[person].keys
        if let key = known[revision] {
            try expect(key == request.idempotencyKey, "the key of \(revision) changed")
        } else {
            try expect(!known.values.contains(request.idempotencyKey), "a key was used twice: \(revision)")
            tenants[tenant].people[person].keys[revision] = request.idempotencyKey
        }
        guard !mutation.overrides, let state = tenants[tenant].model.users[tenants[tenant].people[person].id] else {
            return
        }
        let model = tenants[tenant].model
        let path = (mutation.entry.endpoint ?? []).map { segment in
            if case .text(let text) = segment { return "/" + text }
            return "/" + model.permanent(segment, of: mutation, state).trimmingCharacters(in: ["\""])
        }.joined()
        try expect(request.path == path, "\(name(mutation)) is sent to \(request.path), not \(path)")
        let body = mutation.payload.map { payload in
            RuleEntry.json(payload.map { ($0.name, .text(model.permanent($0.value, of: mutation, state))) })
        }
        let text = request.body.map { String(decoding: $0, as: UTF8.self) }
        try expect(text == body, "\(name(mutation)) is sent as \(text ?? "nothing"), not \(body ?? "nothing")")
    }

    mutating func learn(_ id: UUID, _ tenant: Int, _ person: Int) async throws {
        guard let mutation = tenants[tenant].model.users[tenants[tenant].people[person].id]?.mutation(id),
            mutation.status == .succeeded
        else { return }
        try learn(mutation, try await read(id, tenant, person), tenant)
    }

    func read(_ id: UUID, _ tenant: Int, _ person: Int) async throws -> JSONValue {
        let found = try await world.replicas.base.store.mutations.mutation(
            id,
            organization: tenants[tenant].organization,
            user: tenants[tenant].people[person].id,
            wait: .zero
        )
        guard let found else { throw breach("mutation \(id) is not there") }
        return try JSONTree(parsing: found.json()).root
    }
}

func name(_ mutation: RuleModel.Accepted?) -> String { mutation?.entry.id.lowercased ?? "nothing" }

extension UpstreamAnswer {
    /// The answer as the gateway reads it from the answer to a batch.
    fileprivate func asPart(of request: UpstreamRequest, _ now: Timestamp) -> UpstreamAnswer {
        guard case .response(let response) = self else { return self }
        let body = response.json.map { #","body":\#(String(decoding: $0, as: UTF8.self))"# } ?? ""
        let fields = [
            response.retryAt.map { _ in #""Retry-After":"0""# }, response.location.map { #""Location":"\#($0)""# },
        ]
        let headers = #","headers":{\#(fields.compactMap { $0 }.joined(separator: ","))}"#
        let part = #"{"id":"1","status":\#(response.status)\#(headers)\#(body)}"#
        let whole = UpstreamAnswer.status(200, #"{"responses":[\#(part)]}"#)
        guard case .parts(let parts) = BatchAnswer(whole, to: BatchRequest([request]), now: now) else { return self }
        return parts[0]
    }
}

extension RuleModel.Answer {
    /// The answer in the form in which the gateway receives it.
    func answer(_ now: Timestamp, to request: UpstreamRequest) -> UpstreamAnswer {
        switch self {
        case .success(let id): .status(id == nil ? 204 : 200, id.map { #"{"id":\#($0)}"# })
        case .refusal(let status): .status(status)
        case .conflict(let status, let id, let isRetryable):
            .status(
                status,
                id.map { #"{"id":\#($0),"by":"another"}"# },
                retryAt: isRetryable ? now : nil,
                location: id.map { request.path + "/" + $0.filter { $0 != "\"" } }
            )
        case .serverError: .status(500)
        case .timeOut: .unknown("it took too long")
        case .notReached: .notSent("nobody listens")
        case .tooMany: .status(429)
        case .trouble(let status): .status(status)
        }
    }
}
