import CommandSupport
import JSONText

/// A push for a first try. All ids are fixed, so that a push that is pasted twice is the same push.
enum DemoPush {
    /// The push of a device that was offline.
    ///
    /// It creates a contact, an activity with this contact, and an expense of this activity. They refer to each other
    /// by client ids. The text contains no quotes that a shell would interpret.
    static let text = """
        {
          "device_id": "\(DemoTenant.id(0xde_71, 0x01).lowercased)",
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

    private static let contact = DemoTenant.id(0xc0, 0x01).lowercased
    private static let activity = DemoTenant.id(0xac, 0x01).lowercased
    private static let expense = DemoTenant.id(0xe0, 0x01).lowercased

    private static func id(_ number: UInt8) -> String { DemoTenant.id(0x1d, number).lowercased }

    private static func key(_ number: UInt8) -> String { DemoTenant.id(0xd0, number, version: 4).lowercased }
}
