import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import RetentionFeature
@testable import SyncStore

/// How settling changes devices' own ids, as stored in the rows.
@Suite struct LocalIDSettlingTests {
    /// A phone with device ids for folders and tasks, a relation from task to folder, and no upstream yet, so that
    /// mutations wait.
    private func forwarding() async throws -> Phone {
        let phone = try await Phone.forwarding()
        try await phone.execute(
            """
            DELETE FROM entity_types WHERE organization_id = '\(phone.organization.id)';
            INSERT INTO entity_types (
                organization_id, name, id_space, visibility, default_priority, is_forwarded, relations)
            VALUES ('\(phone.organization.id)', 'folder', 'device', 'organization', 0, true, '{}'),
                ('\(phone.organization.id)', 'task', 'device', 'organization', 0, true, '{"folderId":"folder"}')
            """
        )
        phone.gateway.store.catalog.invalidate(phone.organization.id)
        return phone
    }

    private func entry(_ phone: Phone, _ operation: String, _ type: String, _ number: Int64, _ payload: String = "{}")
        -> Entry
    {
        var entry = phone.numbered(operation, number, type, payload: payload)
        entry.extra["endpoint"] = #""/\#(type)s/{local_id}""#
        return entry
    }

    private func rows(_ phone: Phone) async throws -> [String] {
        try await phone.gateway.rows(
            """
            SELECT entity_type || ' ' || local_id || CASE WHEN client_id IS NULL THEN '' ELSE ' pinned' END
            FROM local_ids WHERE \(phone.owner) AND device_id = '\(phone.device)' ORDER BY entity_type, local_id
            """
        )
    }

    @Test func `retention and bulk calls free numbers as a user's call does`() async throws {
        let phone = try await forwarding()
        let bob = Phone(phone.gateway, phone.organization)
        func fail() async throws {
            let folder = entry(phone, "create", "folder", 23)
            #expect(try await phone.push([folder]).results[0].status == "pending")
            try await phone.leave(folder.id, "failed")
            #expect(try await rows(phone) == ["folder 23 pinned"])
        }
        try await bob.push([entry(bob, "create", "folder", 23)])
        try await fail()
        let body = #"{"filter":{"user_id":"\#(phone.user.lowercased)"}}"#
        let bulk = try BulkRequest(body: Array(body.utf8), limit: 65_536, for: .discard)
        let outcome = try await phone.gateway.store.settling.discard(bulk, organization: phone.organization)
        #expect(outcome.text == "1 matched, 1 settled")
        #expect(try await rows(phone) == [])
        try await fail()
        phone.gateway.clock.advance(seconds: 31 * Gateway.day)
        #expect(try await phone.gateway.retain()?.report[.unsettled] == 1)
        #expect(try await rows(phone) == [])
        try await fail()
        // other users' numbers are unchanged
        #expect(try await rows(bob) == ["folder 23 pinned"])
        #expect(try await phone.disorder() == [])
    }

    /// A number is resolved for the mutation's own device.
    @Test func `an edit references numbers of the mutation's device`() async throws {
        let phone = try await forwarding()
        let tablet = Phone(phone.gateway, phone.organization, user: phone.user)
        let eve = Phone(phone.gateway, phone.organization)
        let task = entry(phone, "create", "task", 1)
        try await phone.push([task])
        try await phone.leave(task.id, "failed")
        for (other, number) in [(tablet, Int64(23)), (eve, 24), (phone, 25)] {
            try await phone.execute(
                """
                INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id)
                VALUES ('\(other.organization.id)', '\(other.user)', '\(other.device)', 'folder', \(number), 's\(number)')
                """
            )
        }
        for number in [23, 24, 1] {
            let problem = try await refusal {
                try await phone.retry(task.id, #"{"payload":{"folderId":\#(number)}}"#)
            }
            #expect(problem?.summary == "validation_failed /payload/folderId entity_reference_must_exist")
        }
        #expect(try await phone.retry(task.id, #"{"payload":{"folderId":25}}"#)?.status == "pending")
        // the row of folder 25 is pinned, because the waiting mutation names it
        #expect(try await rows(phone) == ["folder 25 pinned", "task 1 pinned"])
        #expect(try await rows(tablet) == ["folder 23"])
        let pinned = LocalID(entityType: "folder", number: 25).clientID(on: phone.device)
        #expect(try await phone.column("reference_ids", of: task.id) == "{\(pinned.lowercased)}")
    }

    @Test func `an edited mutation can wait for the create of another entity, but not for itself`() async throws {
        let phone = try await forwarding()
        let (folder, task) = (entry(phone, "create", "folder", 23), entry(phone, "create", "task", 1))
        try await phone.push([folder, task])
        try await phone.leave(task.id, "failed")
        let retried = try await phone.retry(task.id, #"{"payload":{"folderId":23}}"#)
        #expect(retried?.status == "blocked" && retried?.blockedBy == [folder.id])
        #expect(try await phone.disorder() == [])
        // discarding the create of the folder also discards the edited mutation that waits for it
        let gone = try await phone.discard(folder.id, .discard)
        #expect(gone?.discardedIDs == [folder.id, task.id])
        #expect(try await rows(phone) == [])
    }
}
