import Foundation
import JSONText
import SyncModel

/// Explains in sentences why a user's write has not arrived.
///
/// The order is that of an operator's manual search. Pure.
package struct Explanation: Sendable {
    /// Seconds after which a device counts as silent.
    static let silence: Double = 86_400
    /// Devices that are spoken of.
    static let devices = 20

    /// The worst first; of the same severity, the organization before the user, the lane before devices.
    package let findings: [Finding]

    package init(of snapshot: UserSnapshot) {
        var findings = Self.standing(snapshot)
        if snapshot.standing == .itself {
            if let question = snapshot.mutation { findings += Self.mutation(question, snapshot) }
            findings += Self.lane(snapshot)
            findings += Self.devices(snapshot)
        }
        let order: [Finding.Severity] = [.problem, .warning, .info]
        self.findings = order.flatMap { severity in findings.filter { $0.severity == severity } }
    }

    // MARK: - The user's access

    private static func standing(_ snapshot: UserSnapshot) -> [Finding] {
        var findings: [Finding] = []
        switch snapshot.organization {
        case .active: break
        case .suspended:
            findings.append(
                Finding(
                    .problem,
                    .organizationSuspended,
                    "The organization is suspended: its requests are refused, and none of its lanes runs.",
                    do: "Make it active again, and everything that waits goes on by itself."
                )
            )
        case .purging:
            findings.append(
                Finding(
                    .problem,
                    .organizationPurging,
                    "The organization is being purged: what it had is being deleted, and nothing new is taken.",
                    do: "Call the purge again until it is done; what was deleted does not come back."
                )
            )
        }
        switch snapshot.standing {
        case .itself:
            if !snapshot.isLetIn {
                findings.append(
                    Finding(
                        .problem,
                        .userNotLetIn,
                        "The user is not let in, or was shut out again: the organization's provisioning is explicit, and "
                            + "the user's requests are refused.",
                        do: "Let the user in, if that is meant (sluice users add, or PUT of the user)."
                    )
                )
            } else if !snapshot.isKnown {
                findings.append(
                    Finding(
                        .info,
                        .userUnknown,
                        "Nothing ever came from this user: no push, no device.",
                        do: "Compare the user's id with the one in the app's token (sluice token explain)."
                    )
                )
            }
        case .part(let target):
            findings.append(
                Finding(
                    .info,
                    .userJoined,
                    "The user was joined into \(target.lowercased): everything is that user's now.",
                    do: "Look at that user."
                )
            )
        case .joining:
            findings.append(
                Finding(
                    .warning,
                    .userJoining,
                    "The user is being joined with another, and is not served meanwhile.",
                    do: "Repeat the join if it does not come to its end within a minute."
                )
            )
        case .erased:
            findings.append(
                Finding(
                    .problem,
                    .userErased,
                    "The user was erased: nobody is served under this id any more.",
                    do: "The person needs another account."
                )
            )
        }
        return findings
    }

    // MARK: - The lane

    private static func lane(_ snapshot: UserSnapshot) -> [Finding] {
        let (backlog, now) = (snapshot.backlog, snapshot.now)
        let waiting = backlog.counts[.pending] + backlog.counts[.inFlight] + backlog.counts[.blocked]
        let stuck = backlog.counts[.failed] + backlog.counts[.conflict]
        guard waiting + stuck > 0 else {
            return snapshot.isKnown
                ? [Finding(.info, .nothingWaits, "Nothing waits: everything that was accepted of this user is done.")]
                : []
        }
        var findings: [Finding] = []
        if let hold = backlog.hold {
            findings.append(finding(hold, backlog, now))
        } else if snapshot.lane?.inFlight != nil || backlog.counts[.inFlight] > 0 {
            let end = snapshot.lane?.readyAt
            findings.append(
                Finding(
                    .info,
                    .sending,
                    "A gateway works on the lane just now; \(Words.mutations(waiting, backlog.isTruncated)) to go.",
                    mutation: snapshot.lane?.inFlight ?? backlog.head?.id,
                    until: end
                )
            )
        } else if waiting > 0 {
            findings.append(
                Finding(
                    .info,
                    .due,
                    "\(Words.mutations(waiting, backlog.isTruncated)) to go, and the next is due: a gateway takes it "
                        + "within seconds.",
                    do: "If it stays so, look whether gateways run, and at sluice_lanes_running.",
                    mutation: backlog.head?.id
                )
            )
        }
        if stuck > 0, !(backlog.hold.map { [.conflict, .failure].contains($0.reason) } ?? false) {
            let kinds = [
                Words.someOrNone(backlog.counts[.failed], "failed mutation"),
                Words.someOrNone(backlog.counts[.conflict], "mutation").map { $0 + " in conflict" },
            ]
            let what = kinds.compactMap { $0 }.joined(separator: " and ")
            findings.append(
                Finding(
                    .problem,
                    .stuck,
                    "\(what) \(stuck == 1 ? "waits" : "wait") for a person; what does not depend on "
                        + "\(stuck == 1 ? "it" : "them") goes on.",
                    do: "Look at each: retry, resolve or discard it."
                )
            )
        }
        return findings
    }

    private static func finding(_ hold: LaneHold, _ backlog: Backlog, _ now: Timestamp) -> Finding {
        let first = hold.mutationIDs.first
        switch hold.reason {
        case .conflict, .failure:
            let what = hold.reason == .conflict ? "met a conflict" : "failed"
            return Finding(
                .problem,
                .laneHalted,
                "The lane stands still: mutation \(first?.lowercased ?? "-") \(what), and the organization's settings let "
                    + "nothing behind it run before somebody settles it.",
                do: "Retry, resolve or discard that mutation.",
                mutation: first
            )
        case .backOff:
            let tries = backlog.head?.attemptCount ?? 0
            return Finding(
                .warning,
                .backOff,
                "The last attempt at mutation \(backlog.head?.id.lowercased ?? "-") failed (it is at \(tries)), and the next "
                    + "one is due \(Words.moment(hold.until)).",
                do: "Look at its attempts; it is tried again by itself.",
                mutation: backlog.head?.id,
                until: hold.until
            )
        case .circuitOpen:
            return Finding(
                .warning,
                .circuitOpen,
                "Nothing is sent to the organization's upstream until \(Words.moment(hold.until)): it failed too often, or "
                    + "the organization was suspended, or without one, when the lane was looked at last.",
                do: "Look under Upstreams that fail whether it is well; sending begins again by itself.",
                mutation: backlog.head?.id,
                until: hold.until
            )
        case .noUpstream:
            return Finding(
                .problem,
                .noUpstream,
                "Mutations of type '\(backlog.head?.entityType ?? "-")' are forwarded, and the organization has no upstream.",
                do: "Set the organization's upstream, or make the type a built-in one.",
                mutation: backlog.head?.id
            )
        case .blocked:
            return Finding(
                .problem,
                .blocked,
                "What is next waits for \(Words.count(Int64(hold.mutationIDs.count), "mutation")) that did not succeed, "
                    + "the first of them \(first?.lowercased ?? "-").",
                do: "Settle that mutation; what waits for it goes on then.",
                mutation: first
            )
        }
    }

    // MARK: - The mutation that is asked about

    private static func mutation(_ question: UserSnapshot.Question, _ snapshot: UserSnapshot) -> [Finding] {
        let id = question.id
        guard let record = question.record else {
            return [
                Finding(
                    .problem,
                    .mutationUnknown,
                    "The user has no mutation \(id.lowercased): it never came, was refused, or is past its retention.",
                    do: "Look into the phone's outbox, and at its last push's answer.",
                    mutation: id
                )
            ]
        }
        switch record.status {
        case .succeeded:
            let version = record.version.map { " as version \($0) of its entity" } ?? ""
            return [
                Finding(
                    .info,
                    .mutationSucceeded,
                    "The mutation succeeded\(Words.at(record.syncedAt))\(version): devices see it with their next pull.",
                    mutation: id
                )
            ]
        case .discarded:
            return [
                Finding(
                    .warning,
                    .mutationDiscarded,
                    "The mutation was discarded\(Words.at(record.syncedAt)): it had no effect, and never will.",
                    mutation: id
                )
            ]
        case .failed, .conflict:
            let reason = record.error.flatMap { StoredProblem($0).detail } ?? "its problem cannot be read here"
            return [
                Finding(
                    .problem,
                    .mutationStuck,
                    "The mutation \(record.status == .failed ? "failed" : "met a conflict"): \(reason).",
                    do: "Retry, resolve or discard it.",
                    mutation: id
                )
            ]
        case .pending, .blocked, .inFlight, .rejected:
            let ahead = question.ahead
            let isNext = ahead.count == 0 && !ahead.isMore
            let comes = ahead.count == 1 && !ahead.isMore ? "comes" : "come"
            let place =
                isNext
                ? "; nothing of the lane comes before it"
                : "; \(Words.mutations(ahead.count, ahead.isMore)) of the lane \(comes) before it"
            let needed = Words.someOrNone(Int64(record.dependsOn.count), "mutation")
            let waits = needed.map { ", and it waits for " + $0 } ?? ""
            return [
                Finding(
                    record.status == .blocked ? .problem : .warning,
                    .mutationWaits,
                    "The mutation is \(record.status.rawValue)\(place)\(waits).",
                    do: record.status == .blocked ? "Settle what it waits for." : nil,
                    mutation: record.dependsOn.first ?? id,
                    until: record.nextRetryAt
                )
            ]
        }
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
                        do: "The app never came so far: look at its token and its address of the gateway."
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
                    "The user has no device \(wanted.lowercased): it has never pushed or registered here.",
                    do: "Look whether the app signs in as this user, and reaches this gateway."
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
                    "Device \(name) was last heard of \(Words.moment(seen)): what was written on it since is on it alone.",
                    do: "Open the app there, with a connection."
                )
            )
        }
        if let oldest = device.oldestPending {
            findings.append(
                Finding(
                    .info,
                    .deviceBehind,
                    "Of device \(name) everything up to number \(device.acceptedSequence) is here; number "
                        + "\(oldest.sequenceNumber) is the first that is not done, accepted \(Words.moment(oldest.acceptedAt)).",
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

    /// Returns nil for zero, which is not mentioned.
    static func someOrNone(_ number: Int64, _ noun: String) -> String? {
        number > 0 ? count(number, noun) : nil
    }

    static func mutations(_ number: Int64, _ isMore: Bool) -> String {
        isMore ? "more than \(number) mutations" : count(number, "mutation")
    }

    static func moment(_ moment: Timestamp?) -> String {
        moment.map { "at \($0.rfc3339)" } ?? "at a time that is not known"
    }

    static func at(_ moment: Timestamp?) -> String { moment.map { " at \($0.rfc3339)" } ?? "" }
}
