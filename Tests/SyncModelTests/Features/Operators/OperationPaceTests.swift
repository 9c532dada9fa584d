import Testing

@testable import OperatorsFeature
@testable import SyncModel

@Suite struct OperationPaceTests {
    @Test func `a step is at most a second's work and at most a batch`() {
        #expect(OperationPace(perSecond: 1).limit == 1)
        #expect(OperationPace(perSecond: 20).limit == 20)
        #expect(OperationPace(perSecond: 1_000).limit == OperationPace.batch)
        #expect(OperationPace(perSecond: 0).limit == 1)
    }

    @Test func `steps and pauses together keep the rate`() {
        let pace = OperationPace(perSecond: 50)
        #expect(pace.pause(after: 50, in: 0.25) == 0.75)
        #expect(pace.pause(after: 10, in: 0.1) == 0.1)
        #expect(pace.pause(after: 0, in: 0.1) == 0, "a step without results needs no pause")
    }

    @Test func `does not catch up after a slow step`() {
        #expect(OperationPace(perSecond: 50).pause(after: 50, in: 30) == 0)
    }

    @Test func `a tally contains the reasons`() {
        var tally = OperationTally()
        tally.done = 2
        tally.skip(.notFound)
        tally.skip(.notFound, 2)
        tally.skip(.validationFailed, 0)
        var part = OperationTally()
        part.fail(.internalError, 4)
        part.skip(.notFound)
        tally.add(part)
        #expect(tally.done == 2 && tally.skipped == 4 && tally.failed == 4)
        #expect(tally.reasons == ["not_found": 4, "internal_error": 4])
        let json = OperationTally.json(of: tally.reasons)
        #expect(String(decoding: json, as: UTF8.self) == #"{"internal_error":4,"not_found":4}"#)
        #expect(OperationTally.reasons(stored: json) == tally.reasons)
        #expect(OperationTally.reasons(stored: Array("[".utf8)) == [:])
    }
}
