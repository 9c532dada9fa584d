import Foundation
import JSONText
import Testing

@testable import OperatorsFeature
@testable import SyncModel
@testable import UsersFeature

@Suite struct ExplanationTests {
    private static let now = Timestamp(microseconds: 1_795_000_000_000_000)
    private static let soon = now.adding(seconds: 30)

    private static func snapshot(_ change: (inout UserSnapshot) -> Void = { _ in }) -> UserSnapshot {
        var snapshot = UserSnapshot(organization: .active, access: .itself, isKnown: true, now: now)
        snapshot.backlog.devices = [Backlog.Device(id: Sample.device, acceptedSequence: 9, lastSeenAt: now)]
        change(&snapshot)
        return snapshot
    }

    private static func codes(_ change: (inout UserSnapshot) -> Void = { _ in }) -> [Finding.Code] {
        Explanation(of: snapshot(change)).findings.map(\.code)
    }

    private static func finding(_ code: Finding.Code, _ change: (inout UserSnapshot) -> Void) throws -> Finding {
        try #require(Explanation(of: snapshot(change)).findings.first { $0.code == code })
    }

    private static func mutation(_ status: MutationStatus, attempts: Int16 = 0) -> Backlog.Mutation {
        var mutation = Backlog.Mutation(
            id: Sample.id,
            deviceID: Sample.device,
            sequenceNumber: 8,
            position: 1,
            status: status,
            operation: .create,
            entityType: "contact",
            acceptedAt: now
        )
        mutation.attemptCount = attempts
        return mutation
    }

    private static func waits(_ blocker: LaneBlocker?, _ status: MutationStatus = .pending) -> (inout UserSnapshot) ->
        Void
    {
        { snapshot in
            snapshot.backlog.counts.add(3, of: status)
            snapshot.backlog.head = mutation(status, attempts: 2)
            snapshot.backlog.blocker = blocker
        }
    }

    @Test func `reports that a user has no waiting mutation`() {
        let findings = Explanation(of: Self.snapshot()).findings
        #expect(findings.map(\.code) == [.nothingWaits] && findings[0].severity == .info)
    }

    @Test func `reports an unknown user`() {
        let codes = Self.codes { snapshot in
            snapshot.isKnown = false
            snapshot.backlog.devices = []
        }
        #expect(codes == [.userUnknown])
    }

    @Test func `reports missing access in addition to other findings`() {
        #expect(Self.codes { $0.isLetIn = false } == [.userNotLetIn, .nothingWaits])
        let stranger = Self.codes { snapshot in
            (snapshot.isLetIn, snapshot.isKnown, snapshot.backlog.devices) = (false, false, [])
        }
        #expect(stranger == [.userNotLetIn])
    }

    @Test func `reports a known user without a device`() {
        #expect(Self.codes { $0.backlog.devices = [] } == [.nothingWaits, .noDevices])
    }

    @Test func `reports only the reason why a user is not served`() {
        let target = UUID()
        #expect(Self.codes { $0.access = .erased } == [.userErased])
        #expect(Self.codes { $0.access = .joining } == [.userJoining])
        #expect(Self.codes { $0.access = .part(of: target) } == [.userJoined])
        let sentence = try? Self.finding(.userJoined) { $0.access = .part(of: target) }.sentence
        #expect(sentence?.contains(target.lowercased) == true)
        #expect(Self.codes { $0.organization = .suspended }.first == .organizationSuspended)
        #expect(Self.codes { $0.organization = .purging }.first == .organizationPurging)
    }

    @Test(arguments: [
        (LaneBlocker(.conflict, mutationIDs: [Sample.id]), Finding.Code.laneHalted, Finding.Severity.problem),
        (LaneBlocker(.failure, mutationIDs: [Sample.id]), .laneHalted, .problem),
        (LaneBlocker(.backOff, until: soon), .backOff, .warning),
        (LaneBlocker(.circuitOpen, until: soon), .circuitOpen, .warning),
        (LaneBlocker(.noUpstream), .noUpstream, .problem),
        (LaneBlocker(.upstreamPaused, until: soon), .upstreamPaused, .warning),
        (LaneBlocker(.upstreamPaused), .upstreamPaused, .warning),
        (LaneBlocker(.rateLimited), .rateLimited, .info),
        (LaneBlocker(.blocked, mutationIDs: [Sample.id]), .blocked, .problem),
    ])
    func `reports the lane's blocker and a remedy`(blocker: LaneBlocker, code: Finding.Code, severity: Finding.Severity)
        throws
    {
        let finding = try Self.finding(code, Self.waits(blocker))
        #expect(finding.severity == severity && finding.until == blocker.until)
        #expect(finding.mutation == Sample.id && finding.action?.isEmpty == false)
        if let until = blocker.until { #expect(finding.sentence.contains(until.rfc3339)) }
    }

    @Test func `a lane that runs or is due is no problem`() throws {
        #expect(Self.codes(Self.waits(nil)) == [.due])
        #expect(Self.codes(Self.waits(nil, .inFlight)) == [.sending])
        let sending = try Self.finding(.sending) { snapshot in
            Self.waits(nil)(&snapshot)
            snapshot.backlog.isTruncated = true
            snapshot.lane = LaneState(readyAt: Self.soon, inFlight: Sample.local)
        }
        #expect(sending.mutation == Sample.local && sending.until == Self.soon)
        #expect(sending.sentence.contains("more than 3 mutations"))
    }

    @Test func `reports stuck mutations in addition to a running lane`() throws {
        let both: (inout UserSnapshot) -> Void = { snapshot in
            Self.waits(nil)(&snapshot)
            snapshot.backlog.counts.add(1, of: .failed)
            snapshot.backlog.counts.add(2, of: .conflict)
        }
        #expect(Self.codes(both) == [.stuck, .due])
        let sentence = try Self.finding(.stuck, both).sentence
        #expect(sentence.hasPrefix("1 failed mutation and 2 mutations in conflict wait for a person; "))
        let one = try Self.finding(.stuck) { snapshot in
            Self.waits(nil)(&snapshot)
            snapshot.backlog.counts.add(1, of: .conflict)
        }
        #expect(
            one.sentence == "1 mutation in conflict waits for a person; mutations that do not depend on it continue."
        )
        let failed = try Self.finding(.stuck) { snapshot in
            Self.waits(nil)(&snapshot)
            snapshot.backlog.counts.add(2, of: .failed)
        }
        #expect(failed.sentence.hasPrefix("2 failed mutations wait for a person; "))
        let halted: (inout UserSnapshot) -> Void = { snapshot in
            both(&snapshot)
            snapshot.backlog.blocker = LaneBlocker(.failure, mutationIDs: [Sample.id])
        }
        #expect(Self.codes(halted) == [.laneHalted], "the halt is not reported twice")
    }

    // MARK: - A requested mutation

    private static func record(_ status: MutationStatus, error: String? = nil, needs: [UUID] = []) -> MutationRecord {
        MutationRecord.sample(status, id: Sample.id, device: Sample.device, acceptedAt: now) {
            $0.state.dependsOn = needs
            $0.response.error = error.map { Array($0.utf8) }
        }
    }

    private static func asked(_ record: MutationRecord?, ahead: Int64 = 0) -> (inout UserSnapshot) -> Void {
        { $0.mutation = UserSnapshot.Question(id: Sample.id, record: record, ahead: BoundedCount(found: ahead)) }
    }

    @Test(arguments: MutationStatus.allCases.filter { $0 != .rejected })
    func `the finding about the requested mutation comes before others of the same severity`(status: MutationStatus) {
        let code: Finding.Code =
            switch status {
            case .succeeded: .mutationSucceeded
            case .discarded: .mutationDiscarded
            case .failed, .conflict: .mutationStuck
            default: .mutationWaits
            }
        let findings = Explanation(of: Self.snapshot(Self.asked(Self.record(status)))).findings
        #expect(findings.first?.code == code && findings.first?.mutation == Sample.id)
    }

    @Test func `reports a mutation that never arrived`() throws {
        let finding = try Self.finding(.mutationUnknown, Self.asked(nil))
        #expect(finding.severity == .problem && finding.sentence.contains(Sample.id.lowercased))
    }

    @Test func `reports the reason why a mutation waits or failed`() throws {
        let blocked = try Self.finding(
            .mutationWaits,
            Self.asked(Self.record(.blocked, needs: [Sample.local]), ahead: 10_001)
        )
        #expect(blocked.severity == .problem && blocked.mutation == Sample.local)
        #expect(blocked.sentence.contains("more than 10000 mutations"))
        #expect(blocked.sentence.contains("waits for 1 mutation"))
        let next = try Self.finding(.mutationWaits, Self.asked(Self.record(.pending)))
        #expect(next.sentence == "The mutation is pending; it is the first of the lane.")
        let second = try Self.finding(.mutationWaits, Self.asked(Self.record(.pending), ahead: 1))
        #expect(second.sentence == "The mutation is pending; 1 mutation of the lane comes before it.")
        let failed = try Self.finding(
            .mutationStuck,
            Self.asked(Self.record(.failed, error: #"{"detail":"no such zip"}"#))
        )
        #expect(failed.sentence.contains("no such zip"))
        for status in [MutationStatus.pending, .failed, .conflict, .discarded, .succeeded] {
            let findings = Explanation(
                of: Self.snapshot { snapshot in
                    Self.asked(Self.record(status))(&snapshot)
                    snapshot.mutation?.rule = "/outcomes/3"
                }
            ).findings
            let sentence = try #require(findings.first { $0.mutation == Sample.id }).sentence
            #expect(sentence.hasSuffix(". The outcome rule /outcomes/3 decided the last attempt."), "\(sentence)")
        }
    }

    // MARK: - Devices

    @Test func `reports a device that has been silent for a day`() throws {
        let silent: (Double) -> (inout UserSnapshot) -> Void = { seconds in
            { $0.backlog.devices[0].lastSeenAt = Self.now.adding(seconds: -seconds) }
        }
        #expect(!Self.codes(silent(Explanation.silence)).contains(.deviceSilent))
        #expect(Self.codes(silent(Explanation.silence + 1)) == [.deviceSilent, .nothingWaits])
    }

    @Test func `names a device's first unfinished mutation`() throws {
        let finding = try Self.finding(.deviceBehind) { $0.backlog.devices[0].oldestPending = Self.mutation(.pending) }
        #expect(finding.sentence.contains("number 9") && finding.sentence.contains("number 8"))
        #expect(finding.mutation == Sample.id)
    }

    @Test func `reports only the requested device`() {
        let other = Backlog.Device(id: UUID(), acceptedSequence: 1, lastSeenAt: Timestamp(microseconds: 0))
        #expect(
            !Self.codes {
                $0.backlog.devices.append(other); $0.device = Sample.device
            }.contains(.deviceSilent)
        )
        #expect(
            Self.codes {
                $0.backlog.devices.append(other); $0.device = other.id
            }.contains(.deviceSilent)
        )
        #expect(Self.codes { $0.device = UUID() }.first == .deviceUnknown)
    }

    @Test func `a thousand devices do not cause a thousand sentences`() {
        let findings = Explanation(
            of: Self.snapshot { snapshot in
                snapshot.backlog.devices = (0..<1_000).map { _ in
                    Backlog.Device(id: UUID(), acceptedSequence: 1, lastSeenAt: Timestamp(microseconds: 0))
                }
            }
        ).findings
        #expect(findings.filter { $0.code == .deviceSilent }.count == Explanation.devices)
    }

    @Test func `problems come before warnings, and warnings before information`() {
        let codes = Self.codes { snapshot in
            Self.waits(LaneBlocker(.backOff, until: Self.soon))(&snapshot)
            Self.asked(Self.record(.failed))(&snapshot)
            snapshot.backlog.devices[0].oldestPending = Self.mutation(.pending)
            snapshot.organization = .suspended
        }
        #expect(codes == [.organizationSuspended, .mutationStuck, .backOff, .deviceBehind])
    }
}
