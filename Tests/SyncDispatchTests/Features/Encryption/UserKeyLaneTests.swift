import Foundation
import JSONText
import Postgres
import ServiceLifecycle
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// Lanes of users with their own data keys.
@Suite struct UserKeyLaneTests {
    private static let settings = #"{"user_keys":true}"#

    @Test func `seals answers with the key of the lane's user`() async throws {
        let upstream = FakeUpstream { _, _ in .status(201, #"{"id":1,"title":"geheimnis"}"#) }
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let harness = try await DispatcherHarness(settings: Self.settings, gateway: gateway, upstream: upstream)
        let create = harness.create(payload: #"{"title":"geheimnis"}"#)
        try await harness.phone.push([create])
        let created = try await harness.mutation(create.id, is: .succeeded)
        #expect(created.value(at: "/response/body/title")?.string == "geheimnis")
        #expect(try await gateway.database.mentions(of: "geheimnis") == [:])
        let beginning = SealedText.beginning(number: 1, user: harness.phone.user, isJSON: false)
        #expect(try await gateway.database.mentions(of: beginning).keys.contains("mutations"))
    }

    /// A restore can leave rows whose user's key does not exist.
    @Test func `a head whose key was destroyed fails and the lane continues`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let harness = try await DispatcherHarness(settings: Self.settings, gateway: gateway, isRunning: false)
        let (lost, next) = (harness.create(), harness.create(payload: #"{"title":"next"}"#))
        try await harness.phone.push([lost])
        let connection = try await gateway.database.connect()
        try await connection.execute(script: "DELETE FROM user_keys")
        await connection.closeAndWait()
        let fresh = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.first)
        let phone = harness.phone.signedIn(as: harness.phone.user, through: fresh)
        try await phone.push([next])
        let (dispatcher, group) = DispatcherHarness.dispatcher(fresh, harness.upstream, pollInterval: 0.05)
        _ = dispatcher
        let service = Task { try? await group.run() }
        defer { service.cancel() }
        try await harness.mutation(next.id, is: .succeeded)
        let found = try await fresh.store.mutations.mutation(
            lost.id,
            organization: harness.organization,
            user: phone.user,
            wait: .zero
        )
        let failed = try JSONTree(parsing: #require(found).json()).root
        #expect(failed.status == "failed" && failed["attempt_count"]?.int64 == 0)
        #expect(failed["last_error"]?.string?.contains("cannot be decrypted (payload)") == true)
        #expect(failed["unreadable"]?.text == #"["payload"]"#)
        #expect(harness.upstream.effects.count == 1)
    }
}
