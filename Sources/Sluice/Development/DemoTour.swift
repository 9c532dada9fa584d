import CommandSupport
import JSONText
import SyncHTTP

/// Pushes that demonstrate the replay of mutations to a REST API.
///
/// All ids are fixed. The texts contain no quotes that a shell would interpret.
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

    /// The path of the contact at the API, which is the API's first contact.
    static let contactPath = "/contacts/1"

    /// A colleague's change at the API.
    static let colleaguesEdit = #"{"phone": "+47 23 00 00 00", "city": "Bergen"}"#

    /// Another change, which is made in a browser.
    static let browsersEdit = #"{"title": "Head of purchasing"}"#

    /// Another edit of the contact, based on its second version.
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

/// The last part of the output of `sluice dev --demo-upstream`: a replay, a retry and a conflict, as commands to paste.
enum DemoUpstreamScreen {
    static func text(public address: ListenAddress, upstream: ListenAddress, token: String) -> String {
        """
        A small REST API: http://\(upstream), the upstream of a second organization,
        \(DemoTenant.forwarded.name). The data of both is deleted when this process ends.
        Requests to the API are shown here, in lines that begin with "upstream:". Its token and address:

        export UPSTREAM_TOKEN=\(quoted(token)) UPSTREAM=\(quoted("http://\(upstream)"))

        In the console, a second user has a failure and a conflict, with an edit that waits for it: retry, edit,
        resolve or discard them there.

        A replay: a contact is created, edited and visited. The API receives three requests in this order. They and
        the response contain the API's number of the contact in place of the phone's id.

        \(push(DemoTour.replay, to: address))

        A retry: the API rejects a document that contains "fail once" on the first attempt. The gateway retries it
        after about four seconds; "attempt_count" in the response is 2.

        \(push(DemoTour.retry, to: address))

        A conflict: a colleague edits the contact at the API, then the phone edits its outdated copy. The result is
        "conflict", with the colleague's document as "current".

        curl -sS -w '\\n' -X PATCH 'http://\(upstream)\(DemoTour.contactPath)' -H 'Content-Type: application/json' \\
          --data \(quoted(DemoTour.colleaguesEdit))

        \(push(DemoTour.conflict, to: address))

        Other mutations of this user wait until the conflict is resolved. Apply the phone's edit, then show the
        outcome and the API's documents:

        curl -sS -w '\\n' 'http://\(address)/v1/mutations/\(DemoTour.conflicting)/resolve' \(authorization) \\
          -H 'Content-Type: application/json' --data '{"strategy": "client_wins"}'

        curl -sS -w '\\n' 'http://\(address)/v1/mutations/\(DemoTour.conflicting)?wait=10' \(authorization)

        curl -sS -w '\\n' 'http://\(upstream)/contacts'

        A colleague's edit: while the phone waits for changes, a colleague edits the contact in a browser, simulated
        by curl. The API notifies the gateway, and the phone receives the change within a second.

        \(colleague(address, upstream))

        """
    }

    /// The commands that make a colleague's edit. These commands pull from the feed's end, so that the output contains
    /// only the edit.
    private static func colleague(_ address: ListenAddress, _ upstream: ListenAddress) -> String {
        """
        SINCE=$(curl -sS 'http://\(address)/v1/changes' \(authorization) | sed 's/.*"next":"\\([^"]*\\)".*/\\1/')
        curl -sS -w '\\n' "http://\(address)/v1/changes?wait=10&since=$SINCE" \(authorization) &
        sleep 1
        curl -sS -o /dev/null -X PATCH 'http://\(upstream)\(DemoTour.contactPath)' \\
          -H 'Content-Type: application/json' --data \(quoted(DemoTour.browsersEdit))
        wait
        """
    }

    private static let authorization = #"-H "Authorization: Bearer $UPSTREAM_TOKEN""#

    private static func push(_ body: String, to address: ListenAddress) -> String {
        """
        curl -sS -w '\\n' 'http://\(address)/v1/mutations' \(authorization) \\
          -H 'Content-Type: application/json' -H 'Prefer: wait=10' --data \(quoted(body))
        """
    }

    private static func quoted(_ text: String) -> String { DevelopmentScreen.quoted(text) }
}
