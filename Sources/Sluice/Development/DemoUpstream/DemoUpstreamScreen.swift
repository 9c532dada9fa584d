import SyncHTTP

/// The part of `sluice dev --demo-upstream`'s output below the rest: a replay, a retry and a conflict, ready to be
/// pasted.
enum DemoUpstreamScreen {
    static func text(public address: ListenAddress, upstream: ListenAddress, token: String) -> String {
        """
        A REST API to replay to: http://\(upstream), a small one in this process. It is the upstream of a second
        organization, \(DemoTenant.forwarded.name), and forgets everything when this ends; so does that organization.
        What reaches the API is shown here, in lines that begin with "upstream:". Who you are there:

        export UPSTREAM_TOKEN=\(quoted(token)) UPSTREAM=\(quoted("http://\(upstream)"))

        In the console, a second user has a failure and a conflict already, with an edit that waits for it: retry, edit,
        resolve or discard them there.

        A replay: a contact is created and edited, then visited. The API gets three requests in this order, and in each
        its own number for the contact, wherever the phone's id stood; so does the answer.

        \(push(DemoTour.replay, to: address))

        A retry: the API refuses a document that says "fail once" when it is first sent. The gateway sends it again
        after some four seconds; "attempt_count" in the answer is 2.

        \(push(DemoTour.retry, to: address))

        A conflict: a colleague edits the contact at the API, and then the phone does, which has not heard of it. The
        answer is "conflict", with the colleague's document as "current".

        curl -sS -w '\\n' -X PATCH 'http://\(upstream)\(DemoTour.contactPath)' -H 'Content-Type: application/json' \\
          --data \(quoted(DemoTour.colleaguesEdit))

        \(push(DemoTour.conflict, to: address))

        Nothing of this user runs until somebody has decided. Let the phone have its way, look at what became of it,
        and at what the API holds:

        curl -sS -w '\\n' 'http://\(address)/v1/mutations/\(DemoTour.conflicting)/resolve' \(authorization) \\
          -H 'Content-Type: application/json' --data '{"strategy": "client_wins"}'

        curl -sS -w '\\n' 'http://\(address)/v1/mutations/\(DemoTour.conflicting)?wait=10' \(authorization)

        curl -sS -w '\\n' 'http://\(upstream)/contacts'

        A colleague's edit: the phone waits for news, and somebody changes the contact in a browser, for which curl
        stands here. The API tells the gateway of it, and the phone has it within a second.

        \(colleague(address, upstream))

        """
    }

    /// Begins to wait at the feed's end, so that nothing but the edit is shown.
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
