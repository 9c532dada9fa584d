import Foundation
import JSONText
import SyncModel
import SyncStore
import Tokens

/// A tenant and a user to try things with. All ids are fixed, so that a push that is pasted twice is the same push.
enum Demo {
    static let organization = uuid(0xde_30, 0x01)
    static let user = uuid(0xde_30, 0x02)
    static let tokenSeconds: Int64 = 7 * 86_400

    /// Makes organization and user where they are missing.
    static func prepare(_ settings: Settings) async throws {
        let store = Wiring.store(settings, logger: Wiring.commandLogger())
        do throws(Problem) {
            let name = AdministrationOptions.body { $0.member("name", "Demo") }
            if try await store.administration.organization(organization) == nil {
                _ = try await store.administration.put(organization, body: name)
            }
            _ = try await store.administration.putUser(user, in: organization)
            await store.close()
        } catch {
            await store.close()
            throw DevelopmentError("The demo organization cannot be made: \(error.detail)")
        }
    }

    static func token(_ settings: Settings) async throws -> String {
        let issuer = try await TokenIssuer(configuration: try settings.tokenConfiguration())
        let now = SystemClock.now().seconds
        return try await issuer.issue(organization: organization, user: user, ttlSeconds: tokenSeconds, now: now)
    }

    /// What a phone that was offline has gathered: a contact, an activity with that contact, and an expense of that
    /// activity, each naming the other by the id that the phone gave it. Free of quotes that a shell would see.
    static let push = """
        {
          "device_id": "\(uuid(0xde_71, 0x01).lowercased)",
          "mutations": [
            {"id": "\(id(1))", "idempotency_key": "\(key(1))", "sequence_number": 1,
             "operation": "create", "entity_type": "contact", "local_id": "\(contact)",
             "payload": {"name": "Kari Nordmann", "phone": "+47 22 00 00 00"},
             "created_at": "2026-01-15T08:00:00.000Z"},
            {"id": "\(id(2))", "idempotency_key": "\(key(2))", "sequence_number": 2,
             "operation": "create", "entity_type": "activity", "local_id": "\(activity)",
             "payload": {"title": "Visit", "contact_id": "\(contact)"},
             "created_at": "2026-01-15T08:05:00.000Z"},
            {"id": "\(id(3))", "idempotency_key": "\(key(3))", "sequence_number": 3,
             "operation": "create", "entity_type": "expense", "local_id": "\(expense)",
             "payload": {"text": "Lunch", "amount": 249.90, "activity_id": "\(activity)"},
             "dependency_ids": ["\(activity)"],
             "created_at": "2026-01-15T12:30:00.000Z"}
          ]
        }
        """

    private static let contact = uuid(0xc0, 0x01).lowercased
    private static let activity = uuid(0xac, 0x01).lowercased
    private static let expense = uuid(0xe0, 0x01).lowercased

    private static func id(_ number: UInt8) -> String { uuid(0x1d, number).lowercased }

    private static func key(_ number: UInt8) -> String { uuid(0xd0, number, version: 4).lowercased }

    private static func uuid(_ kind: UInt16, _ number: UInt8, version: UInt8 = 7) -> UUID {
        let (high, low) = (UInt8(kind >> 8), UInt8(kind & 0xff))
        return UUID(uuid: (1, 0x9b, 0xb0, 0, high, low, version << 4, 0, 0x80, 0, 0, 0, 0, 0, 0, number))
    }
}
