import Foundation
import GRDB
import SluiceClient

// Records as any GRDB app has them. The only addition is `sync`, which maps columns to members of documents.

/// A customer.
struct Contact: Codable, Hashable, Identifiable, Sendable, FetchableRecord, PersistableRecord, Syncable {
    /// Created on this device, also offline, and never changed. The library maps it to the server's id.
    var id = UUID.timeOrdered()
    var name: String
    var phone: String?

    static let sync = EntitySync(
        "contact",
        table: "contact",
        key: .uuid("id"),
        columns: [.text("name"), .text("phone")]
    )
}

/// A visit to a customer.
struct Visit: Codable, Hashable, Identifiable, Sendable, FetchableRecord, PersistableRecord, Syncable {
    var id = UUID.timeOrdered()
    var contactID: UUID
    var title: String
    var startsAt: Date
    var note: String?
    /// The technician who sees the visit, and its contact, because of it.
    var assigneeID: UUID?

    static let sync = EntitySync(
        "visit",
        table: "visit",
        key: .uuid("id"),
        columns: [
            // a local key on the phone, the contact's server id in documents
            .reference("contactID", as: "contact_id", to: "contact"),
            .text("title"),
            .date("startsAt", as: "starts_at"),
            .text("note"),
            .uuid("assigneeID", as: "assignee_id"),
        ]
    )
}

/// An expense of a visit.
struct Expense: Codable, Hashable, Identifiable, Sendable, FetchableRecord, PersistableRecord, Syncable {
    var id = UUID.timeOrdered()
    var visitID: UUID
    var text: String
    var amount: Decimal

    static let sync = EntitySync(
        "expense",
        table: "expense",
        key: .uuid("id"),
        columns: [
            .reference("visitID", as: "visit_id", to: "visit"),
            .text("text"),
            .decimal("amount"),
        ],
        // forwarded to accounting's REST API; contacts and visits stay in the gateway's built-in store
        endpoint: "/expenses"
    )

    /// Limits an expense to one attempt.
    ///
    /// A user who enters an expense learns immediately that accounting rejects it. With the gateway's default of ten
    /// attempts the error would arrive half an hour later.
    static var options: Write.Options {
        var options = Write.Options()
        options.maxAttempts = 1
        return options
    }
}
