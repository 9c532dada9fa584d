import Foundation
import JSONText
import Testing

@testable import SyncModel

/// The check of the right to write before a request is sent (product rule 27).
@Suite struct CheckedChannelsTests {
    private static let read = "you may read the entity, but not write it"
    private static let hidden = "the entity does not exist, or you may not write it"
    private static let new = "you may not write to any channel of the new entity"

    private static let routes = #"""
        {"create":{"method":"POST","path":"/contacts"},"update":{"method":"PATCH","path":"/contacts/{id}"},
         "replace":{"method":"PUT","path":"/contacts/{id}"},"delete":{"method":"DELETE","path":"/contacts/{id}"}}
        """#

    private func decision(
        _ sample: Sample,
        _ role: ChannelRole?,
        in channel: String = "team/a",
        templates: [String] = ["team/{/team}"],
        checks: Bool = true,
        routes: String = Self.routes
    ) throws -> DispatchPlanner.Decision {
        var surroundings = sample.surroundings
        surroundings.type.visibility = .channels
        surroundings.type.channels = ChannelRules(channels: try templates.map { try ChannelTemplate($0) })
        surroundings.type.checksChannels = checks
        surroundings.type.routes = EntityRoutes(stored: try JSONTree(parsing: Array(routes.utf8)).root)
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

    /// A client id can also name an entity that its user did not create, after `server_wins` of a create.
    @Test func `a client id of an entity that the feed lacks does not replace the check`() throws {
        #expect(try refusal(decision(Sample.of(.update), .write)) == Self.hidden)
    }

    @Test(arguments: [SyncModel.Operation.create, .update, .replace, .delete])
    func `requests are sent by routes, and never to the endpoint of the mutation`(_ operation: SyncModel.Operation)
        throws
    {
        var sample = Sample.of(operation)
        (sample.endpoint, sample.entity) = ("/contacts/8", entity(["team/a"]))
        if operation != .delete { sample.payload = #"{"team":"a"}"# }
        guard case .run(let dispatch) = try decision(sample, .write),
            case .upstream(let request, _) = dispatch.destination
        else {
            Issue.record("it is sent")
            return
        }
        #expect(request.path == (operation == .create ? "/contacts" : "/contacts/7"))
        // the routes lack this operation
        let routes = #"{"\#(operation == .create ? "update" : "create")":{"method":"POST","path":"/contacts"}}"#
        guard case .fail(let outcome) = try decision(sample, .write, routes: routes) else {
            Issue.record("it is not sent")
            return
        }
        #expect(outcome.code == "validation_failed")
    }

    @Test func `a create does not overwrite an existing entity`() throws {
        var sample = Sample.of(.create)
        sample.payload = #"{"team":"a"}"#
        sample.serverID = ServerID(text: "8", isInteger: true)
        sample.override = SentRequest(method: "PUT", endpoint: nil, payload: Array(#"{"team":"a"}"#.utf8))
        #expect(try refusal(decision(sample, .write)) == "the entity exists")
    }

    @Test func `only the first channels of a new entity count`() throws {
        var sample = Sample.of(.create)
        let others = (1...ChannelName.limitOfEntity).map { "\"x\($0)\"" }
        sample.payload = #"{"team":[\#(others.dropFirst().joined(separator: ",")),"a"]}"#
        #expect(try isSent(decision(sample, .write)))
        sample.payload = #"{"team":[\#(others.joined(separator: ",")),"a"]}"#
        #expect(try refusal(decision(sample, .write)) == Self.new)
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
        let sample = Sample.of(.create)
        let held = "contact/\(Sample.local.uuidString.lowercased())"
        #expect(try refusal(decision(sample, .write, in: held, templates: ["contact/{id}"])) == Self.new)
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
