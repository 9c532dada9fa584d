import Foundation
import JSONText
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncStore

/// Mutations of one entity that run directly after each other. Each sees the entity as changed by its predecessor's
/// outcome, even if the transaction that writes this outcome also sends the next mutation.
@Suite struct OwnRunTests {
    /// How a mutation specifies the state on which it is based.
    enum Basis: String, CaseIterable {
        case nothing, version, ifMatch

        /// The members of an entry based on the entity's first version.
        var members: [String: String] {
            switch self {
            case .nothing: [:]
            case .version: ["base_version": "1"]
            case .ifMatch: ["headers": #"{"If-Match":"\"1\""}"#]
            }
        }

        /// The conditions of requests that are sent at these revisions.
        func conditions(_ revisions: Int...) -> [String?] {
            revisions.map { self == .nothing ? nil : "\"\($0)\"" }
        }
    }

    /// Counts each entity's revisions, which are its ETags, and refuses a request whose condition names another
    /// revision than the latest.
    private static func upstream(shows: Bool = false, hasETags: Bool = true) -> FakeUpstream {
        let revisions = Shared([String: Int]())
        return FakeUpstream { request, _ in
            revisions.change { revisions in
                let isNew = request.method == "POST"
                let id =
                    isNew ? "\(revisions.count + 1)" : request.path.split(separator: "/").last.map(String.init) ?? ""
                let current = revisions[id] ?? 0
                if let condition = request.condition, condition != "\"\(current)\"" {
                    return .status(412, #"{"id":\#(id)}"#, etag: "\"\(current)\"")
                }
                revisions[id] = current + 1
                let etag = hasETags && request.method != "DELETE" ? "\"\(current + 1)\"" : nil
                return switch request.method {
                case "POST": .status(201, #"{"id":\#(id)}"#, etag: etag)
                case "DELETE": .status(204)
                default: .status(200, shows ? #"{"id":\#(id),"revision":\#(current + 1)}"# : nil, etag: etag)
                }
            }
        }
    }

    /// An entity at its first version, created in a separate push.
    private func made(_ harness: DispatcherHarness) async throws -> UUID {
        let contact = UUID()
        let create = harness.create(local: contact)
        try await harness.phone.push([create])
        try await harness.mutation(create.id, is: .succeeded)
        return contact
    }

    /// Pushes all entries at once, and waits until each has succeeded; returns the conditions of their requests.
    private func conditions(_ harness: DispatcherHarness, _ entries: [Entry]) async throws -> [String?] {
        let before = harness.upstream.requests.count
        try await harness.phone.push(entries)
        for entry in entries {
            // if one has not succeeded, the others wait for it
            guard try await harness.settled(entry.id, .succeeded).status == "succeeded" else { break }
        }
        return harness.upstream.requests.dropFirst(before).map(\.condition)
    }

    @Test(arguments: Basis.allCases, [false, true])
    func `updates in one push do not conflict with each other`(_ basis: Basis, shows: Bool) async throws {
        let harness = try await DispatcherHarness(upstream: Self.upstream(shows: shows))
        let contact = try await made(harness)
        let updates = (1...3).map { _ in harness.change("update", local: contact, extra: basis.members) }
        #expect(try await conditions(harness, updates) == basis.conditions(1, 2, 3))
        // the same is true of edits under the server id, in a later push
        let more = ["update", "replace"].map { harness.change($0, server: "1", extra: basis.members) }
        #expect(try await conditions(harness, more) == basis.conditions(4, 5))
        #expect(try await harness.phone.pull().map { $0["version"]?.int64 } == [6])
    }

    @Test(arguments: Basis.allCases)
    func `an update and a delete in one push do not conflict with each other`(_ basis: Basis) async throws {
        let harness = try await DispatcherHarness(upstream: Self.upstream())
        let contact = try await made(harness)
        let entries = ["update", "delete"].map { harness.change($0, local: contact, extra: basis.members) }
        #expect(try await conditions(harness, entries) == basis.conditions(1, 2))
        #expect(try await harness.phone.pull().map { $0["deleted"]?.bool } == [true])
    }

    @Test(arguments: Basis.allCases)
    func `a create, update and delete in one push do not conflict`(_ basis: Basis) async throws {
        let harness = try await DispatcherHarness(upstream: Self.upstream())
        let contact = UUID()
        let entries =
            [harness.create(local: contact)]
            + ["update", "delete"].map { harness.change($0, local: contact, extra: basis.members) }
        #expect(try await conditions(harness, entries) == [nil] + basis.conditions(1, 2))
        #expect(harness.upstream.requests.map(\.line) == ["POST /contacts", "PATCH /contacts/1", "DELETE /contacts/1"])
    }

    /// If the upstream has no ETags, only the gateway can detect this.
    @Test(arguments: ["update", "delete"])
    func `does not overwrite a write that another device of the lane has just made`(_ operation: String) async throws {
        let harness = try await DispatcherHarness(upstream: Self.upstream(hasETags: false), isRunning: false)
        let other = Phone(harness.gateway, harness.organization, user: harness.phone.user)
        let create = harness.create()
        let first = harness.change(operation, server: "1", extra: Basis.version.members)
        let second = other.entry(
            "update",
            "contact",
            server: "1",
            extra: ["endpoint": #""/contacts/1""#].merging(Basis.version.members) { $1 }
        )
        // both mutations wait when the first one runs
        try await harness.phone.push([create, first])
        try await other.push([second])
        let helper = Helper(harness.gateway, harness.upstream)
        let conflict = try await harness.settled(second.id, .conflict)
        let detail = conflict["error"]?["detail"]?.string
        #expect(
            detail
                == (operation == "delete"
                    ? "another writer deleted the entity"
                    : "base_version is 1, but another writer changed the entity, which is at version 2")
        )
        #expect(conflict["error"]?["current"]?["version"]?.int64 == 2)
        #expect(conflict.attempts == 0 && harness.upstream.requests.count == 2)
        await helper.shutDown()
    }
}

extension UpstreamRequest {
    /// The If-Match of the request.
    fileprivate var condition: String? { ifMatch ?? headers["if-match"] }
}

extension DispatcherHarness {
    /// Waits until a mutation has reached a stable status, and checks it.
    @discardableResult
    fileprivate func settled(_ id: UUID, _ status: MutationStatus) async throws -> JSONValue {
        let ends = ["succeeded", "discarded", "failed", "conflict", "rejected"]
        let mutation = try await mutation(id, becomes: "settled") { ends.contains($0.status ?? "") }
        #expect(mutation.status == status.rawValue, "\(mutation.text)")
        return mutation
    }
}
