import FoundationEssentials
import JSONText
import SyncModel

/// Explains in sentences why a user's write has not arrived.
///
/// The checks are in the order in which an operator would search. The explanation depends only on the snapshot.
package struct Explanation: Sendable {
    /// The time in seconds without contact after which a device counts as silent.
    static let silence: Double = 86_400
    /// The maximum number of devices that findings mention.
    static let devices = 20

    /// The findings, worst first. Findings of the same severity are in this order: the organization, the user, the
    /// mutation and the entity that the operator asked about, the lane, the devices.
    package let findings: [Finding]

    package init(of snapshot: UserSnapshot) {
        var findings = Self.organization(snapshot) + Self.access(snapshot)
        if snapshot.access == .itself {
            if let question = snapshot.mutation { findings += Self.mutation(question, snapshot) }
            if let question = snapshot.entity { findings.append(question.finding) }
            findings += Self.lane(snapshot)
            findings += Self.devices(snapshot)
        }
        let order: [Finding.Severity] = [.problem, .warning, .info]
        self.findings = order.flatMap { severity in findings.filter { $0.severity == severity } }
    }

    // MARK: - The user's access

    private static func organization(_ snapshot: UserSnapshot) -> [Finding] {
        switch snapshot.organization {
        case .active: []
        case .suspended:
            [
                Finding(
                    .problem,
                    .organizationSuspended,
                    "The organization is suspended: its requests are rejected, and its lanes do not run.",
                    do: "Activate it again; its lanes then continue automatically."
                )
            ]
        case .purging:
            [
                Finding(
                    .problem,
                    .organizationPurging,
                    "The organization is being purged: its data is being deleted, and requests are rejected.",
                    do: "Repeat the purge until it is done. Deleted data cannot be restored."
                )
            ]
        }
    }

    private static func access(_ snapshot: UserSnapshot) -> [Finding] {
        switch snapshot.access {
        case .itself where !snapshot.isLetIn:
            [
                Finding(
                    .problem,
                    .userNotLetIn,
                    "The user was not added, or was removed: the organization's provisioning is explicit, and the "
                        + "user's requests are rejected.",
                    do: "If the user should have access, add the user (sluice users add, or PUT of the user)."
                )
            ]
        case .itself where !snapshot.isKnown:
            [
                Finding(
                    .info,
                    .userUnknown,
                    "No push and no device of this user was ever received.",
                    do: "Compare the user's id with the one in the app's token (sluice token explain)."
                )
            ]
        case .itself: []
        case .part(let target):
            [
                Finding(
                    .info,
                    .userJoined,
                    "The user was merged into \(target.lowercased), which has all of the data.",
                    do: "Check that user."
                )
            ]
        case .joining:
            [
                Finding(
                    .warning,
                    .userJoining,
                    "The user is being merged with another user; until then, requests are rejected.",
                    do: "If the merge does not end within a minute, repeat it."
                )
            ]
        case .erased:
            [
                Finding(
                    .problem,
                    .userErased,
                    "The user was erased: requests with this id are rejected.",
                    do: "The person needs another account."
                )
            ]
        }
    }

    // MARK: - The lane

    private static func lane(_ snapshot: UserSnapshot) -> [Finding] {
        let (backlog, now) = (snapshot.backlog, snapshot.now)
        let waiting = backlog.counts[.pending] + backlog.counts[.inFlight] + backlog.counts[.blocked]
        let stuck = backlog.counts[.failed] + backlog.counts[.conflict]
        guard waiting + stuck > 0 else {
            return snapshot.isKnown
                ? [Finding(.info, .nothingWaits, "No mutation waits: all accepted mutations of this user are done.")]
                : []
        }
        var findings: [Finding] = []
        if let blocker = backlog.blocker {
            findings.append(finding(blocker, backlog, now))
        } else if snapshot.lane?.inFlight != nil || backlog.counts[.inFlight] > 0 {
            let end = snapshot.lane?.readyAt
            findings.append(
                Finding(
                    .info,
                    .sending,
                    "A gateway is processing the lane; \(Words.mutations(waiting, backlog.isTruncated)) remaining.",
                    mutation: snapshot.lane?.inFlight ?? backlog.head?.id,
                    until: end
                )
            )
        } else if waiting > 0 {
            findings.append(
                Finding(
                    .info,
                    .due,
                    "\(Words.mutations(waiting, backlog.isTruncated)) remaining, and the next is due: a gateway will "
                        + "process it within seconds.",
                    do: "If this persists, check whether gateways run, and check sluice_lanes_running.",
                    mutation: backlog.head?.id
                )
            )
        }
        if stuck > 0, !(backlog.blocker.map { [.conflict, .failure].contains($0.reason) } ?? false) {
            let kinds = [
                Words.someOrNone(backlog.counts[.failed], "failed mutation"),
                Words.someOrNone(backlog.counts[.conflict], "mutation").map { $0 + " in conflict" },
            ]
            let what = kinds.compactMap { $0 }.joined(separator: " and ")
            findings.append(
                Finding(
                    .problem,
                    .stuck,
                    "\(what) \(stuck == 1 ? "waits" : "wait") for a person; mutations that do not depend on "
                        + "\(stuck == 1 ? "it" : "them") continue.",
                    do: "Retry, resolve or discard each of them."
                )
            )
        }
        return findings
    }

    private static func finding(_ blocker: LaneBlocker, _ backlog: Backlog, _ now: Timestamp) -> Finding {
        let first = blocker.mutationIDs.first
        switch blocker.reason {
        case .conflict, .failure:
            let what = blocker.reason == .conflict ? "met a conflict" : "failed"
            return Finding(
                .problem,
                .laneHalted,
                "The lane is halted: mutation \(first?.lowercased ?? "-") \(what), and the organization's settings "
                    + "do not allow later mutations to run before it is settled.",
                do: "Retry, resolve or discard that mutation.",
                mutation: first
            )
        case .backOff:
            let tries = backlog.head?.attemptCount ?? 0
            return Finding(
                .warning,
                .backOff,
                "The last attempt at mutation \(backlog.head?.id.lowercased ?? "-") failed (it is at \(tries)), and "
                    + "the next one is due \(Words.moment(blocker.until)).",
                do: "Check its attempts. It is retried automatically, or within seconds of a change of the upstream's "
                    + "settings (sluice upstream resume).",
                mutation: backlog.head?.id,
                until: blocker.until
            )
        case .circuitOpen: return circuitOpen(blocker, backlog)
        case .noUpstream:
            return Finding(
                .problem,
                .noUpstream,
                "Mutations of type '\(backlog.head?.entityType ?? "-")' are forwarded, and the organization has no "
                    + "upstream.",
                do: "Set the organization's upstream, or make the type a built-in one.",
                mutation: backlog.head?.id
            )
        case .rateLimited:
            return Finding(
                .info,
                .rateLimited,
                "The lane is due, and waits until the organization's upstream may get another request.",
                do: "Wait, or raise the upstream's requests_per_second.",
                mutation: backlog.head?.id
            )
        case .upstreamPaused: return paused(blocker, backlog)
        case .blocked:
            let needed = Words.count(Int64(blocker.mutationIDs.count), "mutation")
            let isCut = blocker.mutationIDs.count == WorkBounds.heldBy
            return Finding(
                .problem,
                .blocked,
                "The next mutation waits for \(isCut ? "at least " : "")\(needed) that did not succeed, "
                    + "the first of them \(first?.lowercased ?? "-").",
                do: "Settle that mutation; mutations that wait for it then continue.",
                mutation: first
            )
        }
    }

    private static func circuitOpen(_ blocker: LaneBlocker, _ backlog: Backlog) -> Finding {
        Finding(
            .warning,
            .circuitOpen,
            "No request is sent to the organization's upstream until \(Words.moment(blocker.until)): it failed too "
                + "often, or the organization was suspended or had no upstream at the last check.",
            do: "Check it under Failing upstreams. Sending resumes automatically.",
            mutation: backlog.head?.id,
            until: blocker.until
        )
    }

    private static func paused(_ blocker: LaneBlocker, _ backlog: Backlog) -> Finding {
        let end = blocker.until.map { "until \(Words.moment($0))" } ?? "until an operator resumes it"
        return Finding(
            .warning,
            .upstreamPaused,
            "The organization's upstream is paused \(end), so nothing is sent to it.",
            do: "Resume it by setting its status to active.",
            mutation: backlog.head?.id,
            until: blocker.until
        )
    }

    // MARK: - The mutation of the question

    private static func mutation(_ question: UserSnapshot.Question, _ snapshot: UserSnapshot) -> [Finding] {
        let id = question.id
        guard let record = question.record else {
            return [
                Finding(
                    .problem,
                    .mutationUnknown,
                    "The user has no mutation \(id.lowercased): it was never received, was rejected, or was deleted "
                        + "by retention.",
                    do: "Check the phone's outbox and the response to its last push.",
                    mutation: id
                )
            ]
        }
        let rule = question.rule.map { " The outcome rule \($0) decided the last attempt." } ?? ""
        switch record.status {
        case .succeeded:
            let version = record.version.map { " as version \($0) of its entity" } ?? ""
            return [
                Finding(
                    .info,
                    .mutationSucceeded,
                    "The mutation succeeded\(Words.at(record.syncedAt))\(version): devices see it with their next "
                        + "pull.\(rule)",
                    mutation: id
                )
            ]
        case .discarded:
            return [
                Finding(
                    .warning,
                    .mutationDiscarded,
                    "The mutation was discarded\(Words.at(record.syncedAt)) and has no effect.\(rule)",
                    mutation: id
                )
            ]
        case .failed, .conflict:
            let reason = record.error.flatMap { StoredProblem($0).detail } ?? "its problem is not readable"
            return [
                Finding(
                    .problem,
                    .mutationStuck,
                    "The mutation \(record.status == .failed ? "failed" : "met a conflict"): \(reason).\(rule)",
                    do: "Retry, resolve or discard it.",
                    mutation: id
                )
            ]
        case .pending, .blocked, .inFlight, .rejected: return [waiting(record, question, rule)]
        }
    }

    private static func waiting(
        _ record: MutationRecord,
        _ question: UserSnapshot.Question,
        _ rule: String
    ) -> Finding {
        let ahead = question.ahead
        let isNext = ahead.count == 0 && !ahead.isMore
        let comes = ahead.count == 1 && !ahead.isMore ? "comes" : "come"
        let place =
            isNext
            ? "; it is the first of the lane"
            : "; \(Words.mutations(ahead.count, ahead.isMore)) of the lane \(comes) before it"
        let needed = Words.someOrNone(Int64(record.dependsOn.count), "mutation")
        let waits = needed.map { ", and it waits for " + $0 } ?? ""
        return Finding(
            record.status == .blocked ? .problem : .warning,
            .mutationWaits,
            "The mutation is \(record.status.rawValue)\(place)\(waits).\(rule)",
            do: record.status == .blocked ? "Settle the mutation for which it waits." : nil,
            mutation: record.dependsOn.first ?? question.id,
            until: record.nextRetryAt
        )
    }

    // MARK: - The devices

    private static func devices(_ snapshot: UserSnapshot) -> [Finding] {
        let all = snapshot.backlog.devices
        guard let wanted = snapshot.device else {
            if all.isEmpty, snapshot.isKnown {
                return [
                    Finding(
                        .info,
                        .noDevices,
                        "No device of this user has pushed or registered.",
                        do: "Check the app's token and its address of the gateway."
                    )
                ]
            }
            return all.prefix(devices).flatMap { device($0, snapshot.now) }
        }
        guard let found = all.first(where: { $0.id == wanted }) else {
            return [
                Finding(
                    .problem,
                    .deviceUnknown,
                    "The user has no device \(wanted.lowercased): it has never pushed or registered.",
                    do: "Check whether the app signs in as this user and reaches this gateway."
                )
            ]
        }
        return device(found, snapshot.now)
    }

    private static func device(_ device: Backlog.Device, _ now: Timestamp) -> [Finding] {
        let name = device.id.lowercased
        var findings: [Finding] = []
        let seen = device.lastSeenAt
        if seen.adding(seconds: silence) < now {
            findings.append(
                Finding(
                    .warning,
                    .deviceSilent,
                    "Device \(name) last sent a request \(Words.moment(seen)): later edits exist only on the device.",
                    do: "Open the app on the device while it is online."
                )
            )
        }
        if let oldest = device.oldestPending {
            findings.append(
                Finding(
                    .info,
                    .deviceBehind,
                    "All mutations of device \(name) up to number \(device.acceptedSequence) were received; number "
                        + "\(oldest.sequenceNumber) is the first that is not done, accepted "
                        + "\(Words.moment(oldest.acceptedAt)).",
                    mutation: oldest.id
                )
            )
        }
        return findings
    }
}

/// Numbers and times in sentences.
private enum Words {
    static func count(_ number: Int64, _ noun: String) -> String {
        number == 1 ? "1 \(noun)" : "\(number) \(noun)s"
    }

    /// Returns the number with its noun. Returns nil for zero, because sentences do not mention a number of zero.
    static func someOrNone(_ number: Int64, _ noun: String) -> String? {
        number > 0 ? count(number, noun) : nil
    }

    static func mutations(_ number: Int64, _ isMore: Bool) -> String {
        isMore ? "more than \(number) mutations" : count(number, "mutation")
    }

    static func moment(_ moment: Timestamp?) -> String {
        moment.map { "at \($0.rfc3339)" } ?? "at an unknown time"
    }

    static func at(_ moment: Timestamp?) -> String { moment.map { " at \($0.rfc3339)" } ?? "" }
}
