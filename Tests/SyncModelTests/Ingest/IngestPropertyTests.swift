import Foundation
import SyncModel
import TestSupport
import Testing

/// Random edits of one entity at an API, some of them by phones. They are reported late, twice and in any order. In the
/// end the feed has the API's state.
@Suite struct IngestPropertyTests {
    @Test(arguments: 0..<40)
    func `for any order of events, the feed ends with the API's state`(_ round: Int) {
        let seed =
            ProcessInfo.processInfo.environment["SLUICE_TEST_SEED"].flatMap(UInt64.init) ?? .random(in: 1 ... .max)
        var random = SeededRandom(seed &+ UInt64(round))
        let hasKeys = Bool.random(using: &random)
        let planner = IngestSamples.planner()
        var state = IngestState()
        var events: [IngestEvent] = []
        var document = ""
        for version in 1...Int64.random(in: 2...12, using: &random) {
            document = #"{"n":\#(Int.random(in: 0...3, using: &random)),"v":\#(version)}"#
            let isOwn = version > 1 && Bool.random(using: &random)
            let key = UUID()
            if isOwn, let stored = state.entities[IngestSamples.contact] {
                // the API's answer reports the phone's edit, before or after earlier events
                var next = EntityState(
                    isIntegerID: true,
                    version: stored.version + 1,
                    isDeleted: false,
                    document: Array(document.utf8),
                    owner: stored.owner,
                    clientID: nil,
                    lastWriter: IngestSamples.ada,
                    runBase: stored.version
                )
                next.isStored = true
                state.entities.write(IngestSamples.contact, next)
                state.add(IngestSamples.request(key, left: document))
            }
            events.append(
                IngestSamples.event("e\(version)", version: version, document, key: isOwn && hasKeys ? key : nil)
            )
            if Bool.random(using: &random) { deliver(&events, planner, &state, &random) }
        }
        while !events.isEmpty { deliver(&events, planner, &state, &random) }
        #expect(state.entities[IngestSamples.contact]?.text == document, "SLUICE_TEST_SEED=\(seed), round \(round)")
    }

    private func deliver(
        _ events: inout [IngestEvent],
        _ planner: IngestPlanner,
        _ state: inout IngestState,
        _ random: inout SeededRandom
    ) {
        guard let index = events.indices.randomElement(using: &random) else { return }
        _ = planner.judge(events.remove(at: index), in: &state)
    }
}
