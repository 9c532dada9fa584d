import Foundation
import StoreSupport
import SyncModel
import TestSupport

@testable import SyncStore

extension RuleHistory {
    /// Runs a lane with several mutations in flight, whose answers come in any order.
    mutating func runConcurrently(
        _ tenant: Int,
        _ person: Int,
        by worker: UUID,
        isLeased: Bool,
        limit: Int
    ) async throws {
        let user = tenants[tenant].people[person].id
        var (step, progress) = (LaneStep.claim, LaneProgress())
        var flights: [(dispatch: Dispatch, mutation: RuleModel.Accepted)] = []
        var rest = Int.random(in: 1...20, using: &generator)
        while true {
            rest -= 1
            progress.flights = flights.map { LaneFlight(of: $0.dispatch) }
            let (made, state, releases) = (step, progress, rest < 0)
            let lane = tenants[tenant].lane(person)
            let store = gateway().store.lanes
            func make() async throws -> LaneAction {
                try await store.step(made, of: lane, worker: worker, releases: releases, progress: state)
            }
            var turn = try await make()
            // the answer is lost on its way, and the worker makes the step again
            if progress.step > 0, generator.oneIn(10), !turn.isReleased, !turn.isLost {
                story.append((tenant, "the answer to a step was lost"))
                turn = try await make()
            }
            progress.step += 1
            if case .apply(let dispatch) = step { try await learn(dispatch.mutation.id, tenant, person) }
            let waiting = startable(tenant, user)
            switch turn {
            case .run, .proceed: throw breach("the lane runs one mutation at a time")
            case .released:
                try expect(flights.isEmpty, "the lane was released with \(flights.count) in flight")
                return try expect(
                    waiting.isEmpty || rest < 0,
                    "\(name(waiting.first)) should run, but the lane was released"
                )
            case .lost:
                return try expect(
                    waiting.isEmpty || isLeased,
                    "\(name(waiting.first)) should run, but the lane is not ready"
                )
            case .start(let dispatches, let token, let unblocking, let isIncomplete, _):
                try expect(!isLeased, "a lane was claimed by two workers")
                let waitsForBatch = tenants[tenant].model.batch != nil && !flights.isEmpty
                try expect(!waitsForBatch || dispatches.isEmpty, "a batch began before the end of another")
                for dispatch in dispatches {
                    let mutation = startable(tenant, user).first { $0.entry.id == dispatch.mutation.id }
                    guard let mutation else { throw breach("\(dispatch.mutation.id) must not run now") }
                    tenants[tenant].model.fly(mutation)
                    flights.append((dispatch, mutation))
                }
                try expect(flights.count <= limit, "\(flights.count) in flight, of \(limit)")
                step = .proceed(token: token, unblocking: unblocking)
                if isIncomplete { continue }
                let idle = startable(tenant, user)
                // due mutations that wait for an entity in flight can hide others from the search for the next ones
                let due = tenants[tenant].model.users[user].map { tenants[tenant].model.due(of: $0, now: world.now) }
                let isFull = waitsForBatch || flights.count == limit || due?.count != idle.count
                try expect(
                    rest < 0 || isFull || idle.isEmpty,
                    "\(name(idle.first)) should run, in addition to \(flights.count)"
                )
                try expect(!flights.isEmpty, "the lane waits for nothing")
                if generator.oneIn(20) {
                    story.append((tenant, "its worker is lost with \(flights.count) in flight"))
                    tenants[tenant].people[person].flying =
                        (flights.map { $0.mutation.entry.id }, world.now.adding(seconds: 120))
                    return
                }
                let next = flights.remove(at: Int.random(in: 0..<flights.count, using: &generator))
                step = try await answer(next.dispatch, next.mutation, tenant, person)
                // outcomes of several requests may be written by one step
                while case .settle(let results) = step, generator.oneIn(3),
                    let place = flights.firstIndex(where: {
                        $0.dispatch.request != nil && $0.dispatch.mutation.hold == nil
                    })
                {
                    let other = flights.remove(at: place)
                    let more = try await answer(other.dispatch, other.mutation, tenant, person)
                    if case .settle(let others) = more { step = .settle(results + others) }
                }
            }
        }
    }

    private func startable(_ tenant: Int, _ user: UUID) -> [RuleModel.Accepted] {
        tenants[tenant].model.users[user].map { tenants[tenant].model.startable(of: $0, now: world.now) } ?? []
    }
}
