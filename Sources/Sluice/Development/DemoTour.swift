import CommandSupport
import JSONText

/// Pushes that show mutations replayed against a REST API.
///
/// All ids are fixed. Free of quotes that a shell would interpret.
enum DemoTour {
    /// A contact, an edit of it, and a visit to it.
    static let replay = push(
        """
            {"id": "\(id(1))", "idempotency_key": "\(key(1))", "sequence_number": 1,
             "operation": "create", "entity_type": "contact", "local_id": "\(contact)", "endpoint": "/contacts",
             "payload": {"name": "Kari Nordmann", "phone": "+47 22 00 00 00"},
             "created_at": "2026-01-15T08:00:00.000Z"},
            {"id": "\(id(2))", "idempotency_key": "\(key(2))", "sequence_number": 2,
             "operation": "update", "entity_type": "contact", "local_id": "\(contact)",
             "endpoint": "/contacts/{local_id}", "payload": {"phone": "+47 22 11 11 11"},
             "created_at": "2026-01-15T08:02:00.000Z"},
            {"id": "\(id(3))", "idempotency_key": "\(key(3))", "sequence_number": 3,
             "operation": "create", "entity_type": "activity", "local_id": "\(visit)", "endpoint": "/activities",
             "payload": {"title": "Visit", "contact_id": "\(contact)"},
             "created_at": "2026-01-15T08:05:00.000Z"}
        """
    )

    /// Another visit, which the API refuses at first.
    static let retry = push(
        """
            {"id": "\(id(4))", "idempotency_key": "\(key(4))", "sequence_number": 4,
             "operation": "create", "entity_type": "activity", "local_id": "\(secondVisit)",
             "endpoint": "/activities", "payload": {"title": "fail once", "contact_id": "\(contact)"},
             "created_at": "2026-01-15T09:00:00.000Z"}
        """
    )

    /// The contact's path at the API, whose first it is.
    static let contactPath = "/contacts/1"

    /// A colleague's change at the API.
    static let colleaguesEdit = #"{"phone": "+47 23 00 00 00", "city": "Bergen"}"#

    /// Another one, made in a browser.
    static let browsersEdit = #"{"title": "Head of purchasing"}"#

    /// Another edit of the contact, made on the second version of it.
    static let conflict = push(
        """
            {"id": "\(conflicting)", "idempotency_key": "\(key(5))", "sequence_number": 5,
             "operation": "update", "entity_type": "contact", "local_id": "\(contact)",
             "endpoint": "/contacts/{local_id}", "headers": {"if-match": "\\"2\\""},
             "payload": {"phone": "+47 22 22 22 22"}, "created_at": "2026-01-15T10:00:00.000Z"}
        """
    )

    static let conflicting = id(5)

    private static let contact = DemoTenant.id(0xc0, 0x11).lowercased
    private static let visit = DemoTenant.id(0xac, 0x11).lowercased
    private static let secondVisit = DemoTenant.id(0xac, 0x12).lowercased

    private static func push(_ mutations: String) -> String {
        """
        {
          "device_id": "\(DemoTenant.id(0xde_71, 0x11).lowercased)",
          "mutations": [
        \(mutations)
          ]
        }
        """
    }

    private static func id(_ number: UInt8) -> String { DemoTenant.id(0x1d, 0x10 + number).lowercased }

    private static func key(_ number: UInt8) -> String { DemoTenant.id(0xd0, 0x10 + number, version: 4).lowercased }
}
