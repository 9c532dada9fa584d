import Foundation
import Testing

@testable import SyncModel

/// The check of the right to write before a request is sent (product rule 27).
@Suite struct CheckedChannelsTests {
    private static let read = "you may read the entity, but not write it"
    private static let hidden = "the entity does not exist, or you may not write it"
    private static let new = "you may not write to any channel of the new entity"

    private func decision(
        _ sample: Sample,
        _ role: ChannelRole?,
        in channel: String = "team/a",
        templates: [String] = ["team/{/team}"],
        checks: Bool = true
    ) throws -> DispatchPlanner.Decision {
        var surroundings = sample.surroundings
        surroundings.type.visibility = .channels
        surroundings.type.channels = ChannelRules(channels: try templates.map { try ChannelTemplate($0) })
        surroundings.type.checksChannels = checks
        if let role {
            let user = surroundings.lane.user
            surroundings.access.load(user, ChannelID(named: channel), role, from: GrantSource.operator.text)
        }
        let planner = DispatchPlanner(leaseSeconds: 120)
        return planner.decide(sample.mutation, surroundings, now: Sample.now, heldUntil: nil)
    }

    private func refusal(_ decision: DispatchPlanner.Decision) -> String? {
        guard case .fail(let outcome) = decision else { return nil }
        return outcome.code == "forbidden" && outcome.status == .failed && outcome.attemptCount == 0
            ? outcome.lastError : "another failure: \(outcome)"
    }

    private func isSent(_ decision: DispatchPlanner.Decision) -> Bool {
        guard case .run(let dispatch) = decision, case .upstream = dispatch.destination else { return false }
        return true
    }

    private func entity(_ channels: [String]?) -> EntityState {
        let writer = Writer(user: UUID(), device: UUID())
        var entity = EntityState.known(etag: nil, owner: writer.user, lastWriter: writer, version: 4, runBase: 3)
        entity.channels = channels?.map(ChannelID.init(named:))
        return entity
    }

    @Test(arguments: [SyncModel.Operation.update, .replace, .delete])
    func `a change is sent only if its user may write to the entity`(_ operation: SyncModel.Operation) throws {
        var sample = Sample.of(operation)
        sample.client = nil
        sample.entity = entity(["team/a", "team/b"])
        #expect(try isSent(decision(sample, .write)))
        #expect(try isSent(decision(sample, .write, in: "team/b")))
        #expect(try refusal(decision(sample, .read)) == Self.read)
        #expect(try refusal(decision(sample, .write, in: "team/c")) == Self.hidden)
        #expect(try refusal(decision(sample, nil)) == Self.hidden)
        #expect(try isSent(decision(sample, nil, checks: false)))
    }

    @Test func `a hidden entity and an entity that the feed lacks get the same answer`() throws {
        var sample = Sample.of(.update)
        sample.client = nil
        for found in [nil, entity(nil), entity([]), entity(["team/c"])] {
            sample.entity = found
            #expect(try refusal(decision(sample, .write)) == Self.hidden)
        }
    }

    @Test func `the creator changes an entity that the feed lacks`() throws {
        var sample = Sample.of(.update)
        #expect(try isSent(decision(sample, nil)))
        sample.entity = entity(["team/a"])
        #expect(try refusal(decision(sample, nil)) == Self.hidden)
    }

    @Test func `a create needs a channel that its payload gives`() throws {
        var sample = Sample.of(.create)
        sample.payload = #"{"team":["b","a"]}"#
        #expect(try isSent(decision(sample, .write)))
        for role in [ChannelRole.read, nil] { #expect(try refusal(decision(sample, role)) == Self.new) }
        #expect(try refusal(decision(sample, .write, in: "team/c")) == Self.new)
        sample.payload = #"{"team":null}"#
        #expect(try refusal(decision(sample, .write)) == Self.new)
        // every user may write to the user's own channel
        #expect(try isSent(decision(sample, nil, templates: ["user/{owner}"])))
    }

    /// The upstream assigns the id. A client id in its place could be the id of an existing entity.
    @Test func `a template with the id gives no channel before the id is assigned`() throws {
        var sample = Sample.of(.create)
        let held = "contact/\(Sample.local.uuidString.lowercased())"
        #expect(try refusal(decision(sample, .write, in: held, templates: ["contact/{id}"])) == Self.new)
        (sample.idSpace, sample.client, sample.serverID) = (.shared, nil, ServerID(7))
        #expect(try isSent(decision(sample, .write, in: "contact/7", templates: ["contact/{id}"])))
    }

    @Test func `the right is checked before the version`() throws {
        var sample = Sample.of(.update)
        (sample.client, sample.baseVersion, sample.entity) = (nil, 1, entity(["team/a"]))
        #expect(try refusal(decision(sample, .read)) == Self.read)
        guard case .conflict = try decision(sample, .write) else {
            Issue.record("a stale version is a conflict for a user who may write")
            return
        }
    }

    /// Only the upstream has the outcome of an attempt that may have taken effect.
    @Test func `nothing is checked after an attempt of unknown outcome`() throws {
        var sample = Sample.of(.update)
        (sample.client, sample.isOutcomeUnknown, sample.entity) = (nil, true, entity(["team/a"]))
        #expect(try isSent(decision(sample, nil)))
    }
}
